"""``wherry jobs``, ``result``, ``retry`` and ``task-ids``, on calls of a program."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wherry as package
from support.waiting import until
from wherry import LocalExecutor
from wherry.cli.items import read_numbers, show_numbers

SECONDS = 60


@pytest.fixture
def ex() -> Iterator[LocalExecutor]:
    executor = LocalExecutor()
    yield executor
    executor.shutdown(cancel_futures=True)


def odd_fails(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x


def odd_fails_once(x, folder):
    seen = Path(folder, str(x))
    if x % 2 and not seen.exists():
        seen.touch()
        raise ValueError(f"{x} is odd")
    return x


def talk():
    print("said")
    return [1, "two", None]


def test_jobs_are_listed_newest_first_and_chosen(ex: LocalExecutor, wherry: Callable) -> None:
    assert wherry("jobs").out == ""
    single = ex.options(name="one").submit(talk)
    runs = ex.options(name="many").map_array(odd_fails, range(3))
    single.result(SECONDS)
    runs.exception(SECONDS)
    until(lambda: wherry("jobs", "--state", "failed", "--json").out != "[]\n", "the map's end")

    lines = wherry("jobs").out.splitlines()
    told = json.loads(wherry("jobs", "--json").out)

    assert [line.split()[-1] for line in lines[1:]] == [runs.id, single.id]
    assert [line.split()[0] for line in lines] == ["STATE", "FAILED", "SUCCEEDED"]
    assert [job["id"] for job in told] == [runs.id, single.id]
    assert (told[0]["items"], told[0]["state"]) == (3, "FAILED")
    assert told[0]["handles"] == [f"local_cwd://wherry/{runs.id}"]
    assert [job["id"] for job in json.loads(wherry("jobs", "--kind", "single", "--json").out)] == [
        single.id
    ]
    limited = wherry("jobs", "--limit", "1")
    assert single.id not in limited.out
    assert "--limit 0 shows all" in limited.err
    assert "did you mean 'array'?" in wherry("jobs", "--kind", "arry").err


def test_a_job_that_cannot_be_read_is_named_and_the_rest_is_listed(
    ex: LocalExecutor, wherry: Callable, own_home: Path
) -> None:
    here, broken = ex.submit(talk), ex.submit(talk)
    here.result(SECONDS)
    broken.result(SECONDS)
    (own_home / "store" / "jobs" / broken.id / "job.json").write_text("{")

    listed = wherry("jobs")

    assert here.id in listed.out
    assert broken.id not in listed.out
    assert f"warning: job {broken.id} cannot be listed" in listed.err


def test_a_job_whose_objects_were_removed_is_no_longer_listed(
    ex: LocalExecutor, wherry: Callable, own_home: Path
) -> None:
    job = ex.submit(talk)
    job.result(SECONDS)
    shutil.rmtree(own_home / "store" / "jobs" / job.id)

    assert wherry("jobs").out == ""
    assert wherry("result", job.id).code == 2


def test_the_value_of_a_call(ex: LocalExecutor, wherry: Callable) -> None:
    job = ex.submit(talk)

    assert wherry("result", job.id).out == '[1, "two", null]\n'
    assert wherry("result", job.id[:8]).out == '[1, "two", null]\n'
    assert wherry("result", job.handle).out == '[1, "two", null]\n'
    told = json.loads(wherry("result", job.id, "--json").out)
    assert (told["value"], told["stdout"]) == ([1, "two", None], "said\n")
    assert wherry("result", job.id, "--pickle", "value").code == 0
    assert pickle.loads(Path("value").read_bytes()) == [1, "two", None]
    assert wherry("log", job.id).out == "said\n"


def test_an_exception_comes_with_its_traceback_and_no_other(
    ex: LocalExecutor, wherry: Callable
) -> None:
    job = ex.submit(odd_fails, 1)

    done = wherry("result", job.id)
    pickled = wherry("result", job.id, "--pickle", "value")
    told = json.loads(wherry("result", job.id, "--json").out)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("ValueError: 1 is odd\nTraceback (most recent call last):\n")
    assert done.err.count("Traceback") == 1
    assert 'raise ValueError(f"{x} is odd")' in done.err
    assert (pickled.code, pickled.err) == (1, done.err)
    assert not Path("value").exists()
    assert told["error"] == {"type": "ValueError", "message": "1 is odd"}


def test_a_job_that_somebody_ended_says_so(ex: LocalExecutor, wherry: Callable) -> None:
    job = ex.submit(__import__("time").sleep, 600)
    job.cancel("not needed")

    done = wherry("result", job.id)

    assert done.code == 1
    assert done.err.startswith("JobCancelledError: ")
    assert "not needed" in done.err


def test_the_values_of_a_map_and_of_one_item(ex: LocalExecutor, wherry: Callable) -> None:
    runs = ex.map_array(odd_fails, range(4))

    done = wherry("result", runs.id)
    told = json.loads(wherry("result", runs.id, "--json").out)

    assert (done.code, done.out) == (1, "0\n2\n")
    assert done.err == (
        "item 1: ValueError: 1 is odd\nitem 3: ValueError: 3 is odd\n2 of 4 items have no value\n"
    )
    assert [one.get("value") for one in told] == [0, None, 2, None]
    assert wherry("result", f"{runs.id}:2").out == "2\n"
    assert wherry("result", f"{runs.id}:3").err.startswith("ValueError: 3 is odd\n")
    assert "Traceback" in wherry("log", f"{runs.id}:3").out
    assert wherry("log", f"{runs.id}:2").out == ""


def test_jobs_and_items_that_there_are_not(ex: LocalExecutor, wherry: Callable) -> None:
    runs = ex.options(name="alike").map_array(odd_fails, range(2))
    single = ex.options(name="alike").submit(talk)
    runs.exception(SECONDS)

    said = {
        text: wherry("result", text)
        for text in (
            "alike",
            "alik-1",
            f"{runs.id}:2",
            f"{runs.id}:x",
            f"{runs.id}:",
            single.id + ":0",
        )
    }

    assert {done.code for done in said.values()} == {2}
    errors = [done.err for done in said.values()]
    assert "begins the ids of 2 jobs" in errors[0]
    assert "unknown job 'alik-1'" in errors[1]
    assert "has items 0 to 1; there is no 2" in errors[2]
    assert "after the colon comes the number of an item" in errors[3]
    assert "after the colon comes the number of an item" in errors[4]
    assert "is a single call" in errors[5]
    assert wherry("log", f"{runs.id}:7").code == 2


def test_what_failed_is_run_again(ex: LocalExecutor, wherry: Callable, tmp_path: Path) -> None:
    runs = ex.map_array(odd_fails_once, range(5), [str(tmp_path)] * 5)
    runs.exception(SECONDS)

    again = wherry("retry", runs.id)

    assert again.code == 0
    assert wherry("result", again.out.strip()).out == "1\n3\n"
    assert wherry("retry", again.out.strip()).err.endswith("there is nothing to run again\n")


def test_the_numbers_of_items_feed_a_rerun(ex: LocalExecutor, wherry: Callable) -> None:
    runs = ex.map_array(odd_fails, range(6))
    runs.exception(SECONDS)

    failed = wherry("task-ids", runs.id, "--failed")
    command = f"{sys.executable} -m wherry.cli"
    piped = subprocess.run(
        [
            "sh",
            "-c",
            f"{command} task-ids {runs.id} --failed | {command} retry {runs.id} --items - --json",
        ],
        capture_output=True,
        timeout=60,
        check=True,
    )
    again = json.loads(piped.stdout)["id"]

    assert failed.out == "1,3,5\n"
    assert wherry("task-ids", runs.id, "--succeeded", "--json").out.split() == [
        "[",
        "0,",
        "2,",
        "4",
        "]",
    ]
    assert wherry("task-ids", runs.id).out == "0-5\n"
    assert wherry("task-ids", runs.id, "--failed", "--succeeded").out == "0-5\n"
    assert wherry("task-ids", runs.id, "--running", "--pending", "--cancelled").out == "\n"
    assert "item 2: ValueError: 5 is odd" in wherry("result", again).err
    # A rerun counts its own items; those of a rerun of it are found all the same.
    third = wherry("retry", again, "--items", "2").out.strip()
    assert "ValueError: 5 is odd" in wherry("result", third).err


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("", "the list of items is empty"),
        ("9", "has items 0 to 1; there is no 9"),
        ("1-0", "write 4-7, not 7-4"),
        ("one", "is no list of items"),
    ],
)
def test_lists_of_items_that_make_no_sense(
    ex: LocalExecutor, wherry: Callable, items: str, told: str
) -> None:
    runs = ex.map_array(odd_fails, range(2))

    done = wherry("retry", runs.id, "--items", items)

    assert done.code == 2
    assert told in done.err


def test_single_calls_have_no_items(ex: LocalExecutor, wherry: Callable) -> None:
    job = ex.submit(talk)

    assert "only maps have items" in wherry("task-ids", job.id).err
    assert "--items is for maps" in wherry("retry", job.id, "--items", "0").err
    again = wherry("retry", job.id).out.strip()
    assert wherry("result", again).out == '[1, "two", null]\n'


def test_one_item_is_run_again_by_its_number(ex: LocalExecutor, wherry: Callable) -> None:
    runs = ex.map_array(odd_fails, range(2))

    done = wherry("retry", f"{runs.id}:1")

    assert done.code == 2
    assert f"`wherry retry {runs.id} --items 1`" in done.err


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_are_read_as_they_are_written(numbers: set[int]) -> None:
    assert read_numbers(show_numbers(numbers)) == sorted(numbers)


def test_a_shell_completes_ids_and_functions_files(ex: LocalExecutor, tmp_path: Path) -> None:
    from wherry.cli.completion import line_parser
    from wherry.runner import get_runner

    job = ex.submit(talk)
    Path("work.py").touch()

    def offered(command: str, argument: str, prefix: str) -> list[str]:
        parser = line_parser([command], get_runner)
        choices = parser._subparsers._group_actions[0].choices[command]._actions
        action = next(action for action in choices if action.dest == argument)
        found: list[str] = vars(action)["completer"](prefix)
        return found

    assert offered("result", "job", "ta") == [job.id]
    assert offered("map", "function", "wo") == ["work.py:"]
    assert package.job(job.id).result(SECONDS) == [1, "two", None]


def test_help_imports_no_functions() -> None:
    code = (
        "import sys\nfrom wherry.cli.main import main\nmain(['--help'])\n"
        "main(['map', '--help'])\nmain(['jobs', '--help'])\n"
        "print([name for name in sys.modules if name.startswith('wherry.functions')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
