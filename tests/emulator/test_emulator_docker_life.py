"""What becomes of containers when an emulator or the Docker Engine ends, well or not."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import bench, container, fresh_name, image, left, require_engine
from support.waiting import until
from wherry.emulator.engines.api import ContainerEnd, TaskEnded
from wherry.emulator.engines.docker import DockerEngine
from wherry.errors import LaunchError

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def leave_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the credentials' address to other tests."""
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/host")


def test_close_ends_what_runs_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with bench(tmp_path) as docker:
        runs = docker.start(container("sh", "-c", "trap '' TERM; sleep 100"))
        node = docker.start(container("sleep", "100"), network="job")
        docker.started(runs)
        docker.started(node)
        starting = docker.start(container("sleep", "100"))

        docker.engine.close()

        assert left(docker.name) == []
        for each in (runs, node, starting):
            ends = [event for event in docker.events(each) if isinstance(event, TaskEnded)]
            assert [end.containers for end in ends] == [{"default": ContainerEnd(None)}]
    assert set(threading.enumerate()) <= before


def test_close_without_open_and_twice_is_harmless(tmp_path: Path) -> None:
    engine = DockerEngine(lambda event: None, lambda *args: None, fresh_name(), str(tmp_path))

    engine.close()
    engine.close()


def test_an_engine_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    engine = DockerEngine(lambda event: None, lambda *args: None, fresh_name(), str(tmp_path))

    with pytest.raises(LaunchError, match="no Docker Engine answers"):
        engine.open()


def test_an_engine_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.9:2375")
    engine = DockerEngine(lambda event: None, lambda *args: None, fresh_name(), str(tmp_path))

    with pytest.raises(LaunchError, match="tcp://192"):
        engine.open()


EMULATOR = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.engine import Bench, container
docker = Bench({name!r}, Path({state!r}))
docker.engine.open()
task = docker.start(container("sleep", "1000"), network="job")
docker.started(task)
print(docker.engine._watchdog.pid if {keep!r} else 0, flush=True)
if not {keep!r}:
    os.kill(docker.engine._watchdog.pid, 9)
    print("watchdog gone", flush=True)
threading.Event().wait()
"""


def _emulator(name: str, state: Path, *, keep: bool) -> tuple[subprocess.Popen[bytes], int]:
    """Run an emulator's engine in a process of its own, with a container in it."""
    image("busybox")
    code = EMULATOR.format(tests=TESTS, name=name, state=str(state), keep=keep)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    watchdog = int(process.stdout.readline())
    if not keep:
        process.stdout.readline()
    process.stdout.close()
    return process, watchdog


def test_a_killed_emulator_leaves_no_container_and_no_process(tmp_path: Path) -> None:
    require_engine()
    name = fresh_name()
    process, watchdog = _emulator(name, tmp_path, keep=True)
    assert len(left(name)) == 3  # the container and two networks

    process.send_signal(signal.SIGKILL)
    process.wait()

    until(lambda: not left(name), "the watchdog to remove everything")
    until(lambda: not os.path.exists(f"/proc/{watchdog}"), "the watchdog to end")


def test_the_next_emulator_removes_what_even_the_watchdog_could_not(tmp_path: Path) -> None:
    require_engine()
    name = fresh_name()
    process, _ = _emulator(name, tmp_path, keep=False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(left(name)) == 3

    with bench(tmp_path, name) as docker:
        assert left(name) == [f"wherry-{name}"]
        assert docker.run("true")[0] == ContainerEnd(0)


# The Engine is restarted.


class Daemon:
    """A Docker daemon of this test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / "docker.sock"
        self._log = (folder / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                # A daemon without a bridge removes that of the machine's own.
                *("unshare", "--net", "dockerd"),
                f"--host=unix://{self.socket}",
                f"--data-root={self._folder}/data",
                f"--exec-root={self._folder}/exec",
                f"--pidfile={self._folder}/pid",
                "--bridge=none",
                # Not where the machine's own daemon may have networks.
                "--default-address-pool=base=100.80.0.0/16,size=24",
                "--iptables=false",
                "--ip-masq=false",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        until(self._answers, "the daemon to answer", 60)

    def _answers(self) -> bool:
        asked = ["docker", "-H", f"unix://{self.socket}", "version"]
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "log").read_text()[-500:]
            pytest.skip(f"a second Docker daemon does not run here: {log}")
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None
        if number == signal.SIGKILL:
            # Its containerd goes on, and the next one would wait for it in vain.
            containerd = self._folder / "exec/containerd/containerd.pid"
            os.kill(int(containerd.read_text()), signal.SIGKILL)
            containerd.unlink()

    def close(self) -> None:
        """End it for good, and take away what one that was killed has mounted."""
        self.end()
        self._log.close()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted(mounts, reverse=True):
            if mount.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self._folder)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    require_engine()
    name = image("busybox")
    if os.getuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("only root can run a second Docker daemon")
    # The path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="dockerd-", dir="/tmp"))
    made = Daemon(folder)
    try:
        made.start()
        saved = folder / "image.tar"
        subprocess.run(["docker", "save", "-o", saved, name], check=True)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{made.socket}")
        subprocess.run(["docker", "load", "-i", saved], check=True, capture_output=True)
        yield made
    finally:
        made.close()
        # Calls that find nobody leave a socket behind in the `docker` package.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart_of_the_engine_the_state_is_right(
    daemon: Daemon, tmp_path: Path, number: int
) -> None:
    with bench(tmp_path) as docker:
        made = docker.start(container("sh", "-c", "echo before; sleep 100"))
        docker.started(made)
        docker.says(made, b"before")

        daemon.end(number)
        daemon.start()

        end = docker.end(made)
        assert end.exit_code not in (None, 0)
        assert docker.output(made) == b"before\n"
        assert docker.run("echo", "after") == (ContainerEnd(0), "after\n")
