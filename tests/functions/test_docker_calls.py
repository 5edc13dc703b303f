"""Calls in containers of a real Docker Engine."""

from __future__ import annotations

import os
import signal

import pytest

import wherry
from support import engine
from wherry import AppState, DockerExecutor
from wherry.errors import JobCancelledError, JobError, JobKilledError, JobMemoryError

SECONDS = 90


@pytest.fixture
def ex():
    executor = DockerExecutor(engine.image("python"), docker={"grace": 1.0})
    yield executor
    clean(executor)


def clean(executor):
    """Let nothing of the executor's jobs stay at the Engine."""
    executor.shutdown(cancel_futures=True)
    for job in executor.jobs():
        try:
            job.exception(SECONDS)
        except JobCancelledError:
            pass
        job.delete()


def test_a_call_runs_in_a_container(ex):
    def where(x):
        print("inside")
        return x * 2, os.path.exists("/.dockerenv")

    job = ex.submit(where, 21)

    assert job.result(SECONDS) == (42, True)
    assert job.environment == "docker"
    assert job.outcome().stdout == "inside\n"
    assert wherry.job(job.id).result(SECONDS) == (42, True)
    assert job.log() == "inside\n"


def test_an_exception_comes_back(ex):
    job = ex.submit(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        job.result(SECONDS)
    assert job.status is AppState.FAILED
    assert job.exit_code == 1


def test_a_map_has_a_container_for_each_item(ex):
    runs = ex.map_array(lambda x: (x, os.uname().nodename), range(3))
    found = runs.result(SECONDS)

    assert [x for x, _ in found] == [0, 1, 2]
    assert len({name for _, name in found}) == 3


def test_signals_and_memory_are_told_apart(ex, one_out_of_memory):
    killed = ex.submit(lambda: os.kill(os.getpid(), signal.SIGKILL))
    greedy = ex.options(memory=0.0625).submit(lambda: len(bytearray(1 << 30)))

    with pytest.raises(JobKilledError):
        killed.result(SECONDS)
    with pytest.raises(JobMemoryError, match="memory="):
        greedy.result(SECONDS)


def test_the_users_own_modules_go_along(ex, tmp_path, monkeypatch):
    package = tmp_path / "project" / "own_tools"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "thirds.py").write_text("from own_tools import other\ndef f(x): return other.g(x)\n")
    (package / "other.py").write_text("def g(x): return x / 3\n")
    monkeypatch.syspath_prepend(tmp_path / "project")
    from own_tools import thirds

    assert ex.submit(thirds.f, 6).result(SECONDS) == 2


def test_a_module_goes_along_by_value(ex, tmp_path, monkeypatch):
    (tmp_path / "by_value_tools.py").write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import by_value_tools

    job = ex.options(deps=wherry.Deps(modules=[by_value_tools]), code=None).submit(
        by_value_tools.f, 1
    )

    assert job.result(SECONDS) == 2


def test_an_image_without_python_is_told():
    ex = DockerExecutor(engine.image("busybox"))

    with pytest.raises(JobError, match=r"no Python in the image; use one with Python 3\.9"):
        ex.submit(len, "abc").result(SECONDS)
    clean(ex)


def test_a_gang_finds_its_main_node(ex):
    def meet():
        import socket
        import time

        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            with socket.create_server(("", place[1])) as server:
                with server.accept()[0] as line:
                    return line.recv(100).decode()
        for _ in range(500):
            try:
                with socket.create_connection(place) as line:
                    line.sendall(b"hello from node 1")
                    return "sent"
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("node 0 does not listen")

    job = ex.options(nodes=2).submit(meet)

    assert job.result(SECONDS) == "hello from node 1"
    assert job.children[1].result(SECONDS) == "sent"
