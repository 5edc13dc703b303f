"""``wherry map``: functions, items and executors as a person at a shell names them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support import engine
from support.waiting import until


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


WORK = """
import os, sys, time, threading

def square(x):
    return int(x) ** 2

def odd_fails(x):
    if int(x) % 2:
        raise ValueError(f"{x} is odd")
    return x

def add(a, b=1):
    return a + b

def same(x):
    return x

def talk(x):
    print("said", x)
    return {"x": x, "both": (1, 2)}

def lock(x):
    return threading.Lock()

def pid(x):
    return os.getpid()

def wait_for(path):
    open(path + ".begun", "w").close()
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"

class Odd:
    def __repr__(self):
        raise RuntimeError("no")

def odd_value(x):
    return Odd()

limit = 3
"""


@pytest.fixture(autouse=True)
def work() -> None:
    Path("work.py").write_text(WORK)
    Path("lines.txt").write_text("0\n1\n2\n3\n")


@pytest.fixture
def wherry(wherry: Callable) -> Callable:
    """Run the command, with words on its standard input where there are some."""

    def run(*words: str, input: str | bytes | None = None) -> Result:
        if input is None:
            return wherry(*words)
        data = input if isinstance(input, bytes) else input.encode()
        done = subprocess.run(
            [sys.executable, "-m", "wherry.cli", *words],
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def test_values_are_printed_in_the_order_of_the_items(wherry: Callable) -> None:
    done = wherry("map", "work.py:square", "--each-line", "lines.txt")

    assert (done.code, done.out) == (0, "0\n1\n4\n9\n")
    assert done.err.startswith("square-")
    assert done.err.endswith(": 4 items\n")


def test_failures_are_told_with_their_items_and_how_to_run_them_again(wherry: Callable) -> None:
    done = wherry("map", "work.py:odd_fails", "--each-line", "lines.txt")

    job = done.err.partition(":")[0]
    assert (done.code, done.out) == (1, '"0"\n"2"\n')
    assert done.err.splitlines()[1:] == [
        "item 1: ValueError: 1 is odd",
        "item 3: ValueError: 3 is odd",
        "2 of 4 items have no value",
        f"`wherry retry {job}` runs again what has failed",
    ]


def test_values_that_json_has_no_word_for_are_shown_as_python_does(wherry: Callable) -> None:
    shown = wherry("map", "work.py:talk", "--each-line", "lines.txt")
    broken = wherry("map", "work.py:odd_value", "--from-json", "-", input="[1]")
    refused = wherry("map", "work.py:lock", "--from-json", "-", input="[1]")

    assert shown.out.splitlines()[0] == "{'x': '0', 'both': (1, 2)}"
    assert broken.out == "<Odd: its __repr__ raised RuntimeError>\n"
    assert refused.code == 1
    assert "item 0: ResultError: " in refused.err
    assert "cannot be pickled" in refused.err


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("[1, 2]", "1\n2\n"),
        ('{"a": 1}\n\n[2]\n', '{"a": 1}\n[2]\n'),
        ('{"a": 1}\n', '{"a": 1}\n'),
        ("7", "7\n"),
        ('["\\u2028 \\u0085 ä"]', '"\\u2028 \\u0085 \\u00e4"\n'),
    ],
)
def test_json_is_a_list_or_lines(wherry: Callable, text: str, printed: str) -> None:
    assert wherry("map", "work.py:same", "--from-json", "-", input=text).out == printed


def test_lines_end_where_lines_end(wherry: Callable) -> None:
    data = "\ufeffone\u2028still one\r\n\ntwo\x0c".encode()

    done = wherry("map", "work.py:same", "--each-line", "-", input=data)

    assert done.out == '"one\\u2028still one"\n""\n"two\\f"\n'


def test_a_pipe_is_a_file(wherry: Callable) -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["sh", "-c", "printf '5\\n6\\n' > pipe"]):
        assert wherry("map", "work.py:square", "--each-line", "pipe").out == "25\n36\n"


def test_spread_gives_a_function_its_arguments(wherry: Callable) -> None:
    text = '[1, 2]\n{"a": 5}\n'
    done = wherry("map", "work.py:add", "--from-json", "-", "--spread", input=text)
    refused = wherry("map", "work.py:add", "--from-json", "-", "--spread", input="[1]")

    assert done.out == "3\n6\n"
    assert (refused.code, refused.err) == (
        2,
        "wherry: error: --spread takes lists and objects; item 0 is 1\n",
    )


def test_items_of_a_chunk_share_a_process(wherry: Callable) -> None:
    words = ("map", "work.py:pid", "--each-line", "lines.txt", "--chunksize", "4")

    done = wherry(*words, "--set", "vcpu=1", "--name", "together")

    assert done.err.startswith("together-")
    assert len(done.out.splitlines()) == 4
    assert len(set(done.out.splitlines())) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("map work.py:sqare --each-line lines.txt", "did you mean 'square'?"),
        ("map work.py:limit --each-line lines.txt", "is no function: its type is int"),
        ("map work.py --each-line lines.txt", "write file.py:name or package.module:name"),
        ("map .:x --each-line lines.txt", "'.' is a folder"),
        ("map wrk.py:square --each-line lines.txt", "did you mean 'work.py'?"),
        ("map no/work.py:square --each-line lines.txt", "does not exist"),
        ("map wrk:square --each-line lines.txt", "there is no module 'wrk'"),
        ("map work:square --each-line lins.txt", "did you mean 'lines.txt'?"),
        ("map work:square --each-line .", "is a folder; name a file"),
        ("map work:square --each-line empty", "has no items; there is nothing to run"),
        ("map work:square --each-line bytes", "bytes, line 2: byte 0xff is not UTF-8"),
        ("map work:square --from-json broken", "line 3: not JSON"),
        ("map work:square --from-json cut", "neither a JSON list nor lines of JSON"),
        ("map work:square --from-json document", "is one object of 3 lines"),
        ("map work:square", "--each-line --from-json is required"),
        ("map fails.py:f --each-line lines.txt", "line 2 of fails.py, cannot be loaded: KeyError"),
        ("map leaves.py:f --each-line lines.txt", "(exit code 4)"),
        ("map needs.py:f --each-line lines.txt", "No module named 'missing_one'"),
        ("map work:square --each-line lines.txt --set vcp=2", "did you mean 'vcpu'?"),
        ("map work:square --each-line lines.txt --set vcpu", "takes KEY=VALUE"),
        ("map work:square --each-line lines.txt --set kind=docker", "with -e docker"),
        ("map work:square --each-line lines.txt -e dokcer", "did you mean 'docker'?"),
        ("map work:square --each-line lines.txt -e docker", "needs image: --set image=VALUE"),
        ("map work:square --each-line lines.txt -e aws_batch", "needs a job queue"),
        ("map work:square --each-line lines.txt --chunksize 0", "from 1 on"),
    ],
)
def test_mistakes_are_told_before_anything_runs(wherry: Callable, words: str, told: str) -> None:
    Path("empty").touch()
    Path("bytes").write_bytes(b"a\n\xff\n")
    Path("broken").write_text("1\n2\nx\n")
    Path("cut").write_text("[1,\n2,\n")
    Path("document").write_text('{\n"a": 1\n}\n')
    Path("fails.py").write_text("\n{}['x']\n")
    Path("leaves.py").write_text("import sys\nsys.exit(4)\n")
    Path("needs.py").write_text("import missing_one\n")

    done = wherry(*words.split())

    assert done.code == 2, done
    assert told in done.err
    assert "Traceback" not in done.err
    assert wherry("jobs").out == ""


def test_files_of_any_name_and_in_packages_are_found(wherry: Callable) -> None:
    Path("my-work.v2.py").write_text("def f(x): return 'v2 ' + x\n")
    Path("sub").mkdir()
    Path("sub/json.py").write_text("def f(x): return 'mine ' + x\n")
    Path("pack/inner").mkdir(parents=True)
    Path("pack/__init__.py").touch()
    Path("pack/inner/__init__.py").touch()
    Path("pack/base.py").write_text("def f(x): return 'packed ' + x\n")
    Path("pack/inner/mod.py").write_text("from ..base import f\n")
    Path("one").write_text("1\n")

    said = {
        place: wherry("map", f"{place}:f", "--each-line", "one").out
        for place in ("my-work.v2.py", "sub/json.py", "pack/inner/mod.py", "pack.inner.mod")
    }

    assert said == {
        "my-work.v2.py": '"v2 1"\n',
        "sub/json.py": '"mine 1"\n',
        "pack/inner/mod.py": '"packed 1"\n',
        "pack.inner.mod": '"packed 1"\n',
    }


def test_a_file_that_no_path_leads_to_goes_along_when_it_is_spread(wherry: Callable) -> None:
    Path("my-work.py").write_text("def f(a, b): return a - b\n")

    done = wherry("map", "my-work.py:f", "--from-json", "-", "--spread", input="[[5, 2]]")

    assert done.out == "3\n"


def test_a_detached_map_prints_its_id(wherry: Callable) -> None:
    words = ("map", "work.py:square", "--each-line", "lines.txt", "--detach")

    done = wherry(*words)
    bounded = wherry(*words, "--max-failures", "1")

    assert wherry("result", done.out.strip()).out == "0\n1\n4\n9\n"
    assert done.err == ""
    assert "--max-failures is kept by whoever waits" in bounded.err


def test_more_failures_than_allowed_end_the_rest(wherry: Callable) -> None:
    text = '["no such folder/x", "never"]'
    words = ("--max-failures", "0", "--set", "max_parallel=2")

    done = wherry("map", "work.py:wait_for", "--from-json", "-", *words, input=text)

    assert done.code == 1
    assert "item 0: FileNotFoundError" in done.err
    assert "item 1: JobCancelledError" in done.err


def test_ctrl_c_leaves_the_job_and_says_so(
    terminal: Callable, wherry: Callable, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    Path("gate.json").write_text(f'["{gate}"]')
    shell = terminal("map", "work.py:wait_for", "--from-json", "gate.json")
    shell.wait_for("1 item")
    until(lambda: gate.with_name("gate.begun").exists(), "the function's beginning")

    shell.press(b"\x03")

    shell.wait_for("goes on; `wherry result wait_for-")
    assert shell.end() == 130
    job = shell.shown.partition(":")[0]
    late = wherry("result", job, "--timeout", "0.01")
    assert late.code == 124
    assert f"`wherry result {job}` waits again" in late.err
    gate.touch()
    assert wherry("result", job).out == '"done"\n'


def test_a_reader_who_goes_away_leaves_the_job(wherry: Callable) -> None:
    Path("many").write_text("".join(f"{n}\n" for n in range(200)))
    command = "-m wherry.cli map work.py:square --each-line many --chunksize 50 | head -1"

    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} {command}"], capture_output=True, timeout=60, check=False
    )

    assert done.stdout == b"0\n"
    job = done.stderr.decode().partition(":")[0]
    assert len(wherry("result", job).out.splitlines()) == 200


def test_the_configured_executor_is_used_with_changes(wherry: Callable, tmp_path: Path) -> None:
    store = tmp_path / "elsewhere"
    Path("wherry.toml").write_text(f'[executor]\nkind = "local"\nstore = "{store}"\n')

    plain = wherry("map", "work.py:square", "--each-line", "lines.txt")
    changed = wherry("map", "work.py:square", "--each-line", "lines.txt", "--set", "retries=1")

    assert plain.out == changed.out == "0\n1\n4\n9\n"
    assert len(list((store / "jobs").iterdir())) == 2


def test_a_map_in_containers(wherry: Callable) -> None:
    image = f"image={engine.image('python')}"

    done = wherry(
        "map", "work.py:square", "--each-line", "lines.txt", "-e", "docker", "--set", image
    )

    assert (done.code, done.out) == (0, "0\n1\n4\n9\n"), done.err
    job = done.err.partition(":")[0]
    assert "docker" in wherry("jobs").out
    assert wherry("prune", "--all").code == 0
    assert wherry("result", job).code == 2


def test_a_map_on_aws_batch(wherry: Callable, wherry_aws: object) -> None:
    import boto3

    boto3.client("s3").create_bucket(Bucket="calls")
    words = ("map", "work.py:talk", "--each-line", "lines.txt", "-e", "aws_batch")
    options = ("batch_queue=main", "s3_bucket_name=calls", "vcpu=1", "memory=0.25")

    done = wherry(*words, *(word for option in options for word in ("--set", option)))

    assert (done.code, len(done.out.splitlines())) == (0, 4), done.err
    job = done.err.partition(":")[0]
    assert wherry("result", f"{job}:2").out == "{'x': '2', 'both': (1, 2)}\n"
    until(lambda: wherry("log", f"{job}:2").out == "said 2\n", "the log")
    assert f"main:{job}" in wherry("status", job).out
    assert "SUCCEEDED" in wherry("why", job).out
