"""Calls on this machine: values, exceptions, what is known of a job, and the future's surface."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import sys
import threading
import time
import warnings

import pytest

import wherry
from support.waiting import until
from wherry import AppState
from wherry.errors import (
    JobCancelledError,
    JobExitError,
    JobKilledError,
    JobTimeoutError,
    MissingObjectError,
    RemoteError,
    ResultError,
    StateError,
    UnknownAppError,
    UsageError,
)
from wherry.functions import RemoteTraceback

SECONDS = 60


def double(x, plus=0):
    return 2 * x + plus


def fail(word):
    raise LookupError(f"no {word}")


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "seen"


def test_a_call_gives_its_value(ex):
    job = ex.submit(double, 20, plus=2)

    assert job.result(SECONDS) == 42
    assert job.done()
    assert job.exception() is None


def test_every_keyword_is_the_functions_own(ex):
    def words(**kwargs):
        return kwargs

    assert ex.submit(words, name="a", timeout=3, fn=1, self=2).result(SECONDS) == {
        "name": "a",
        "timeout": 3,
        "fn": 1,
        "self": 2,
    }


def test_a_call_runs_in_a_process_of_its_own(ex):
    assert ex.submit(os.getpid).result(SECONDS) != os.getpid()


def test_closures_and_lambdas_go_along(ex):
    base = 40

    assert ex.submit(lambda x: base + x, 2).result(SECONDS) == 42


def test_an_exception_has_its_type_and_the_remote_traceback(ex):
    job = ex.submit(fail, "bread")

    with pytest.raises(LookupError, match="no bread") as caught:
        job.result(SECONDS)

    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fail" in str(caught.value.__cause__)
    assert job.status is AppState.FAILED
    assert job.exit_code == 1


def test_an_exception_whose_class_cannot_be_had_is_told_by_its_name(ex):
    def raises():
        class Odd(Exception):  # noqa: N818
            def __init__(self, a, b):
                super().__init__("an odd one")

        raise Odd(1, 2)

    with pytest.raises(RemoteError, match="Odd: an odd one"):
        ex.submit(raises).result(SECONDS)


def test_what_is_known_of_a_job(ex):
    def talk():
        print("to stdout")
        print("to stderr", file=sys.stderr)
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return 7

    job = ex.options(name="talk").submit(talk)
    outcome = job.outcome(SECONDS)

    assert (outcome.value, outcome.error, outcome.ok) == (7, None, True)
    assert outcome.stdout == "to stdout\n"
    assert "to stderr" in outcome.stderr
    assert [one["message"] for one in outcome.warnings] == ["mind the gap"]
    assert outcome.peak_memory > 1 << 20
    assert outcome.wall >= 0
    assert job.name == "talk"
    assert job.kind == "single"
    assert job.environment == "local"
    assert job.id.startswith("talk-")
    assert job.provider_id == job.id
    assert job.status is AppState.SUCCEEDED
    assert "to stdout\n" in job.log()
    until(lambda: job.attempts[0].exit_code == 0, "the end of its process")
    assert job.exit_code == 0


def test_a_running_job_is_followed_line_by_line(ex, tmp_path):
    def talk(path):
        print("first", flush=True)
        wait_for(path)
        print("second", flush=True)

    job = ex.submit(talk, str(tmp_path / "go"))
    lines = job.log(follow=True)
    assert next(lines) == "first\n"
    assert job.running()
    (tmp_path / "go").touch()

    assert list(lines) == ["second\n"]
    job.result(SECONDS)


def test_a_result_that_is_not_there_in_time_is_a_timeout_and_the_job_goes_on(ex, tmp_path):
    job = ex.submit(wait_for, str(tmp_path / "go"))

    with pytest.raises(concurrent.futures.TimeoutError, match="goes on"):
        job.result(timeout=0.2)

    (tmp_path / "go").touch()
    assert job.result(SECONDS) == "seen"


def test_a_cancelled_job_says_so_and_keeps_the_reason(ex, tmp_path):
    job = ex.submit(wait_for, str(tmp_path / "never"))
    until(job.running, "the job to run")

    assert job.cancel("not needed any more")
    with pytest.raises(JobCancelledError, match="not needed any more"):
        job.result(SECONDS)
    with pytest.raises(concurrent.futures.CancelledError):
        job.exception(SECONDS)
    assert job.cancelled()
    assert job.status is AppState.CANCELLED
    assert not job.cancel()


def leave(code):
    os._exit(code)


def kill(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("fn", "value", "error", "words"),
    [
        (leave, 3, JobExitError, "exit code 3"),
        (leave, 0, ResultError, "left no result"),
        (sys.exit, 4, JobExitError, "exit code 4"),
        (kill, signal.SIGSEGV, JobKilledError, "SIGSEGV"),
        (kill, signal.SIGKILL, JobKilledError, "SIGKILL"),
    ],
)
def test_each_way_to_end_without_a_value_is_told_apart(ex, fn, value, error, words):
    with pytest.raises(error, match=words):
        ex.submit(fn, value).result(SECONDS)


def test_a_call_that_takes_too_long_is_ended(ex, tmp_path):
    job = ex.options(timeout=0.3).submit(wait_for, str(tmp_path / "never"))

    with pytest.raises(JobTimeoutError, match="timeout=") as caught:
        job.result(SECONDS)

    assert isinstance(caught.value, TimeoutError)


def test_memory_is_a_limit(ex):
    with pytest.raises(MemoryError):
        ex.options(memory=0.25).submit(lambda: len(bytearray(1 << 30))).result(SECONDS)


def test_a_value_that_cannot_be_pickled_is_named(ex):
    with pytest.raises(ResultError, match="lock"):
        ex.submit(lambda: {"model": threading.Lock()}).result(SECONDS)


def attempts_of(path):
    with open(path, "a") as file:
        file.write("x")
    with open(path) as file:
        return len(file.read())


def test_what_the_function_had_no_part_in_is_retried(ex, tmp_path):
    def killed_once(path):
        if attempts_of(path) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "well"

    job = ex.options(retries=2).submit(killed_once, str(tmp_path / "count"))

    assert job.result(SECONDS) == "well"
    assert job.outcome().attempt == 2


def test_an_exception_is_not_retried_unless_asked_for(ex, tmp_path):
    def fails_once(path):
        if attempts_of(path) == 1:
            raise ValueError("the first time")
        return "well"

    plain = ex.options(retries=2).submit(fails_once, str(tmp_path / "one"))
    asked = ex.options(retries=2, retry_exceptions=True).submit(fails_once, str(tmp_path / "two"))

    with pytest.raises(ValueError, match="the first time"):
        plain.result(SECONDS)
    assert asked.result(SECONDS) == "well"


def test_the_standard_library_waits_for_jobs(ex, tmp_path):
    slow = ex.submit(wait_for, str(tmp_path / "go"))
    quick = ex.submit(double, 1)

    first = concurrent.futures.wait([slow, quick], SECONDS, concurrent.futures.FIRST_COMPLETED)
    assert first.done == {quick}
    (tmp_path / "go").touch()
    ended = list(concurrent.futures.as_completed([slow, quick], SECONDS))
    assert {job.result() for job in ended} == {"seen", 2}
    failed = concurrent.futures.wait([ex.submit(fail, "x")], SECONDS, "FIRST_EXCEPTION")
    assert len(failed.done) == 1


def test_a_callback_is_called_with_the_job(ex):
    called = threading.Event()
    seen = []

    def note(job):
        seen.append(job.result())
        called.set()

    ex.submit(double, 4).add_done_callback(note)

    assert called.wait(SECONDS)
    assert seen == [8]


def test_a_callback_may_wait_for_another_job(ex):
    called = threading.Event()
    seen = []

    def again(job):
        seen.append(ex.submit(double, job.result()).result(SECONDS))
        called.set()

    ex.submit(double, 4).add_done_callback(again)

    assert called.wait(SECONDS)
    assert seen == [16]


def test_jobs_can_be_awaited(ex):
    async def both():
        return await asyncio.gather(ex.submit(double, 1), ex.submit(double, 2))

    assert asyncio.run(both()) == [2, 4]


def test_an_exception_can_be_awaited(ex):
    async def one():
        return await ex.submit(fail, "x")

    with pytest.raises(LookupError, match="no x"):
        asyncio.run(one())


def test_a_job_is_attached_by_its_id(ex):
    job = ex.submit(double, 21)

    again = wherry.LocalExecutor().attach(job.id)

    assert again.result(SECONDS) == 42
    assert again.kind == "single"


def test_an_unknown_id_says_where_to_look(ex):
    with pytest.raises(UnknownAppError, match="wherry jobs"):
        ex.attach("nobody-123")


def test_jobs_are_listed_newest_first_with_filters(ex):
    one = ex.submit(double, 1)
    two = ex.submit(fail, "x")
    many = ex.map_array(double, range(2))
    for job in (one, two, many):
        job.exception(SECONDS)

    assert [job.id for job in ex.jobs()] == [many.id, two.id, one.id]
    assert [job.id for job in ex.jobs(kind="array")] == [many.id]
    assert [job.id for job in ex.jobs(status="FAILED")] == [two.id]
    assert list(ex.jobs(since=time.time() + 1)) == []
    assert [job.id for job in wherry.jobs()] == [many.id, two.id, one.id]
    with pytest.raises(UsageError, match="did you mean 'array'"):
        list(ex.jobs(kind="arry"))


def test_a_deleted_job_leaves_nothing(ex):
    job = ex.submit(double, 1)
    job.result(SECONDS)
    until(lambda: job.attempts[0].exit_code == 0, "the end of its process")
    until(lambda: ex.scheduler.describe(job.id).state is AppState.SUCCEEDED, "the app's end")

    job.delete()

    assert list(ex.store.list(f"jobs/{job.id}/")) == []
    assert list(ex.jobs()) == []
    with pytest.raises(UnknownAppError):
        ex.attach(job.id)


def test_a_job_that_runs_is_not_deleted(ex, tmp_path):
    job = ex.submit(wait_for, str(tmp_path / "never"))

    with pytest.raises(StateError, match="cancel it first"):
        job.delete()


def test_an_outcome_that_was_removed_is_told(ex):
    job = ex.submit(double, 1)
    job.exception(SECONDS)
    until(lambda: job.exit_code == 0, "its end")
    ex.store.delete([f"jobs/{job.id}/out/0"])

    with pytest.raises((MissingObjectError, ResultError), match=r"result|gone"):
        ex.attach(job.id).result(SECONDS)


def test_an_outcome_that_was_changed_is_told(ex):
    job = ex.submit(lambda: b"x" * 1000)
    job.exception(SECONDS)
    key = f"jobs/{job.id}/out/0"
    data = bytearray(ex.store.read(key))
    data[-500] ^= 1
    ex.store.write(key, [data])

    with pytest.raises(wherry.errors.CorruptObjectError, match="SHA-256"):
        ex.attach(job.id).result(SECONDS)


def test_a_job_can_be_run_again(ex):
    job = ex.submit(double, 5)
    again = job.rerun()

    assert again.id != job.id
    assert again.result(SECONDS) == 10
    assert again.record.retry_of == job.id


def test_input_and_output_files(ex, tmp_path):
    def count():
        with open("data/words.txt") as file:
            words = file.read().split()
        with open("count.txt", "w") as file:
            file.write(str(len(words)))
        with open("twice.txt", "w") as file:
            with open("raw.bin") as raw:
                file.write(raw.read() * 2)

    (tmp_path / "words.txt").write_text("a b c")
    inputs = {"data/words.txt": tmp_path / "words.txt", "raw.bin": b"ab"}
    job = ex.options(inputs=inputs, outputs=["count.txt", "tw*.txt"]).submit(count)

    job.result(SECONDS)
    assert job.inputs == ("data/words.txt", "raw.bin")
    assert dict(job.outputs) == {"count.txt": b"3", "twice.txt": b"abab"}
    assert job.outputs.size("count.txt") == 1
    job.outputs.download(str(tmp_path / "out"))
    assert (tmp_path / "out" / "count.txt").read_text() == "3"


def test_variables_and_the_working_directory(ex, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    job = ex.options(env={"COLOUR": "green"}).submit(lambda: (os.environ["COLOUR"], os.getcwd()))

    assert job.result(SECONDS) == ("green", str(tmp_path))


def test_modules_beside_the_program_are_found(ex, monkeypatch, tmp_path):
    (tmp_path / "my_own_module.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import my_own_module

    assert ex.submit(my_own_module.triple, 3).result(SECONDS) == 9


def test_an_initializer_comes_first(ex):
    def start(word):
        os.environ["STARTED"] = word

    started = ex.options(initializer=start, initargs=("yes",))

    assert started.submit(lambda: os.environ["STARTED"]).result(SECONDS) == "yes"


def test_a_gang_knows_its_ranks(ex):
    def rank():
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    job = ex.options(nodes=3).submit(rank)

    assert job.kind == "gang"
    assert job.result(SECONDS) == (0, 3)
    assert [node.result(SECONDS) for node in job.children] == [(0, 3), (1, 3), (2, 3)]
    assert job.children[1].kind == "node"


def test_a_shut_down_executor_takes_no_more_and_leaves_jobs_alone(tmp_path):
    with wherry.LocalExecutor() as ex:
        job = ex.submit(wait_for, str(tmp_path / "go"))

    with pytest.raises(RuntimeError, match="after shutdown"):
        ex.submit(double, 1)
    (tmp_path / "go").touch()
    assert job.result(SECONDS) == "seen"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retires": 1}, "did you mean 'retries'"),
        ({"retries": -1}, "retries must be"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"memory": "2"}, "memory is GiB"),
        ({"deps": ["numpy"]}, r"deps is a Deps\("),
        ({"nodes": 0}, "nodes must be"),
    ],
)
def test_a_wrong_option_is_refused_by_name(ex, options, words):
    with pytest.raises(UsageError, match=words):
        ex.options(**options)


def test_options_leave_the_executor_as_it_was(ex):
    ex.options(env={"A": "1"}, name="other")

    assert ex.submit(lambda: os.environ.get("A")).result(SECONDS) is None


def test_the_default_executor_is_this_machine():
    job = wherry.submit(double, 3)

    assert job.environment == "local"
    assert job.result(SECONDS) == 6
    assert wherry.job(job.id).result(SECONDS) == 6
    assert list(wherry.map_array(double, [1, 2]).results(timeout=SECONDS)) == [2, 4]


def test_the_default_executor_is_chosen_by_a_block_and_by_the_configuration(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with wherry.using(wherry.DebugExecutor()):
        assert wherry.submit(os.getpid).result() == os.getpid()
    (tmp_path / "wherry.toml").write_text('[executor]\nkind = "debug"\n')
    assert wherry.submit(os.getpid).result() == os.getpid()
    monkeypatch.setenv("WHERRY_EXECUTOR", "loca")
    with pytest.raises(wherry.errors.ConfigError, match=r"WHERRY_EXECUTOR.*did you mean 'local'"):
        wherry.submit(os.getpid)
