"""The zip and the command that starts it: same bytes each time, in images of all kinds."""

from __future__ import annotations

import ast
import base64
import operator
import os
import re
import subprocess
import sys
import zlib

import pytest

from support.engine import client, image
from wherry.worker import boot_text, shipping


def test_the_zip_is_the_same_in_every_process(bench, tmp_path):
    code = "from wherry.worker import shipping; print(shipping.worker_zip()[1])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "WHERRY_HOME": str(tmp_path / seed), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert digests == {shipping.worker_zip()[1]}


def test_the_zip_is_small(bench):
    assert len(shipping.worker_zip()[0]) < 400_000


def test_nothing_but_the_worker_and_cloudpickle_is_in_the_zip(bench):
    import io
    import zipfile

    names = zipfile.ZipFile(io.BytesIO(shipping.worker_zip()[0])).namelist()

    assert {name.split("/")[0] for name in names} == {
        "__main__.py",
        "_wherry_worker",
        "cloudpickle",
    }
    assert not [name for name in names if re.search("shipping|boot", name)]


def test_the_boot_text_is_what_the_module_says():
    packed = re.search(r"b85decode\('(.*)'\)\)", boot_text.BOOT)[1]
    sent = zlib.decompress(base64.b85decode(packed)).decode()
    fresh = re.search(r"b85decode\('(.*)'\)\)", shipping.boot_text())[1]

    assert len(boot_text.BOOT) <= 4096
    assert ast.dump(ast.parse(sent)) == ast.dump(
        ast.parse(zlib.decompress(base64.b85decode(fresh)).decode())
    ), "run python -m wherry.worker.shipping"


def booted(bench, url, *, bare=False, **more):
    data, digest = shipping.worker_zip()
    bench.blob([data])
    command = shipping.boot_command(bench.url, digest, ["call", url], bare=bare)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize("bare", [True, False])
def test_the_boot_command_runs_a_call(bench, bare):
    url = bench.call(operator.add, 20, 3)
    ran = booted(bench, url, bare=bare)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert bench.outcome(url).value() == 23


def test_the_boot_command_is_not_led_astray_by_the_users_modules(bench, tmp_path):
    for name in ("json", "hashlib", "http", "zlib", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    url = bench.call(operator.add, 20, 3)
    ran = booted(bench, url, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})

    assert ran.returncode == 0, ran.stderr


def test_a_damaged_zip_is_never_run(bench):
    data, digest = shipping.worker_zip()
    bench.write(f"blobs/{digest[:2]}/{digest}", data[:-1] + b"!")
    command = shipping.boot_command(bench.url, digest, ["call", "x"])
    ran = subprocess.run(command, capture_output=True, text=True)

    assert ran.returncode == 1
    assert "SHA-256" in ran.stderr


def test_a_zip_that_is_gone_is_told(bench):
    command = shipping.boot_command(bench.url, "0" * 64, ["call", "x"])
    ran = subprocess.run(command, capture_output=True, text=True)

    assert ran.returncode == 1
    assert ran.stderr.startswith("wherry: the worker could not be fetched from")
    assert ran.stderr.count("\n") == 1


def test_an_older_python_says_what_it_needs():
    code = boot_text.BOOT.replace("(3,9)", "(9,9)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ran.returncode == 1
    assert "a function needs Python 3.9 or newer; this is 3." in ran.stderr


def in_container(name, command, store, **environ):
    with client() as docker:
        made = docker.create_container(
            image(name),
            command,
            environment=environ,
            entrypoint=[],
            host_config=docker.create_host_config(binds={store: {"bind": store, "mode": "rw"}}),
        )
        try:
            docker.start(made)
            code = docker.wait(made, timeout=60)["StatusCode"]
            streams = docker.logs(made, stdout=True, stderr=False), docker.logs(made, stdout=False)
            return code, streams[0].decode(), streams[1].decode()
        finally:
            docker.remove_container(made, force=True)


def test_a_container_runs_a_call_by_the_boot_command(bench):
    def looks(word):
        print("inside", os.getpid())
        return word.upper(), list(sys.version_info[:2])

    data, digest = shipping.worker_zip()
    bench.blob([data])
    function = "len" if sys.version_info[:2] != (3, 11) else looks
    url = bench.call(len if function == "len" else looks, "word")
    command = shipping.boot_command(bench.url, digest, ["call", url])
    code, out, err = in_container("python", command, str(bench.root))

    assert code == 0, err
    if function != "len":
        assert out.startswith("inside ")
        assert bench.outcome(url).value()[0] == "WORD"


def test_a_function_killed_in_a_container_gives_the_code_of_its_signal(bench):
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, and this function goes by value")

    def dies():
        os.write(1, b"last words")
        os.kill(os.getpid(), 9)

    data, digest = shipping.worker_zip()
    bench.blob([data])
    url = bench.call(dies)
    command = shipping.boot_command(bench.url, digest, ["call", url])
    code, out, _ = in_container("python", command, str(bench.root))

    assert (code, out) == (137, "last words")


def test_an_image_without_python_ends_with_127_and_a_line(bench):
    command = shipping.boot_command(bench.url, "0" * 64, ["call", "x"])
    code, _, err = in_container("busybox", command, str(bench.root))

    assert code == 127
    assert (
        err == "wherry: this image has no Python: a function needs one with Python 3.9 or newer\n"
    )
