"""The programs of utils.copy and utils.booth run in an image that has Python alone."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from wherry.components import build, find
from wherry.specs import macros

CONTENT = bytes(range(256)) * 5000


def run(name: str, *argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a component's command with a Python that sees no installed package but those in path."""
    role = macros.Values("", "app-1", "0", "RANK0").apply_to_role(build(find(name), argv).roles[0])
    assert role.entrypoint == "python"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-S", *role.args],
        capture_output=True,
        text=True,
        env={**env, "PYTHONPATH": path} if path else env,
        check=False,
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in put.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def website(tmp_path, source):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["utils.copy --src=a --dst=b", "utils.booth --x1=1 --x2=2"])
def test_a_program_fits_into_a_command_and_meets_no_macro(name):
    component, *argv = name.split()
    text = build(find(component), argv).roles[0].args[1]
    assert len(text) < 4096
    assert "$" not in text
    assert "wherry" not in text


# copy


def test_a_file_is_copied_into_a_folder_that_is_made(source, tmp_path):
    done = run("utils.copy", "--src", str(source), "--dst", f"{tmp_path}/new/er/out")
    assert (done.returncode, done.stdout) == (0, "copied\n")
    assert (tmp_path / "new/er/out").read_bytes() == CONTENT


def test_file_urls_are_paths(source, tmp_path):
    run("utils.copy", f"--src={source.as_uri()}", f"--dst={tmp_path.as_uri()}/out%20put")
    assert (tmp_path / "out put").read_bytes() == CONTENT


def test_a_web_page_is_copied(website, tmp_path):
    done = run("utils.copy", f"--src={website}/in%20put.bin", f"--dst={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_a_page_that_is_not_there_is_one_line(website, tmp_path):
    done = run("utils.copy", f"--src={website}/none", f"--dst={tmp_path}/out")
    assert (done.returncode, done.stderr) == (1, "copy: HTTP Error 404: File not found\n")
    assert not (tmp_path / "out").exists()


def test_a_connection_that_is_lost_is_a_failure(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_in_part() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nonly this")

        thread = threading.Thread(target=answer_in_part)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        done = run("utils.copy", f"--src={url}", f"--dst={tmp_path}/out")
        thread.join()
    assert done.returncode == 1
    assert "the connection was lost" in done.stderr


def test_writing_to_the_web_is_refused(source):
    done = run("utils.copy", f"--src={source}", "--dst=https://example.invalid/x")
    assert (done.returncode, done.stderr) == (1, "copy: cannot write to https://; only read\n")


def test_a_missing_source_is_one_line_and_makes_nothing(tmp_path):
    done = run("utils.copy", f"--src={tmp_path}/none", f"--dst={tmp_path}/new/out")
    assert done.returncode == 1
    assert done.stderr == (f"copy: [Errno 2] No such file or directory: '{tmp_path}/none'\n")
    assert not (tmp_path / "new").exists()


def test_a_file_is_not_copied_onto_itself(source, tmp_path):
    (tmp_path / "link").symlink_to(source)
    done = run("utils.copy", f"--src={source}", f"--dst={tmp_path}/link")
    assert "the same file" in done.stderr
    assert source.read_bytes() == CONTENT


def test_another_url_without_fsspec_says_what_is_needed(source):
    done = run("utils.copy", f"--src={source}", "--dst=s3://bucket/key")
    assert done.returncode == 1
    assert done.stderr.startswith("copy: s3:// needs fsspec")


def test_another_url_is_handed_to_fsspec(source, tmp_path):
    # A stand-in with fsspec's one function that is used; it keeps a bucket in a folder.
    (tmp_path / "fsspec.py").write_text(
        "import os\n"
        "class open:\n"
        "    def __init__(self, url, mode):\n"
        "        self.path = os.path.join(os.path.dirname(__file__), url.replace('://', '-'))\n"
        "        self.mode = mode\n"
        "    def open(self):\n"
        "        import io\n"
        "        return io.open(self.path, self.mode)\n"
    )
    there = run("utils.copy", f"--src={source}", "--dst=s3://key", path=str(tmp_path))
    assert there.returncode == 0, there.stderr
    run("utils.copy", "--src=s3://key", f"--dst={tmp_path}/back", path=str(tmp_path))
    assert (tmp_path / "s3-key").read_bytes() == (tmp_path / "back").read_bytes() == CONTENT


# booth


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_booth_prints_its_value_and_writes_it(tmp_path, prefix):
    argv = ["--x1=-1", "--x2", "2.5", "--trial-idx=7", f"--tracker-base={prefix}{tmp_path}/trials"]
    done = run("utils.booth", *argv)
    assert (done.returncode, done.stdout) == (0, "29.25\n")
    assert json.loads((tmp_path / "trials/7.json").read_text()) == {"booth_eval": 29.25}


def test_booth_is_least_at_one_and_three(tmp_path):
    done = run("utils.booth", "--x1=1", "--x2=3", f"--tracker-base={tmp_path}")
    assert done.stdout == "0.0\n"
