"""A Docker Engine of a test's own, which it may kill and start again without harm to others.

It has a network namespace of its own: an Engine without a bridge removes that of the machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.engine import image
from support.waiting import until
from wherry.engine.docker.connection import Engine
from wherry.errors import DockerError

_PROGRAMS = ("dockerd", "containerd", "unshare")


class OwnEngine:
    """One Engine, with its containerd apart from it, as services have it.

    Args:
        folder: for all that it keeps.
        options: of dockerd, such as ``--live-restore``.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.address = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._options = options
        self._containerd = self._spawn("containerd", "--config", self._config())
        until((folder / "c.sock").exists, "containerd", 30)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = [
            f"--containerd={self._folder}/c.sock",
            f"--data-root={self._folder}/data",
            f"--exec-root={self._folder}/exec",
            f"--pidfile={self._folder}/pid",
            f"--host={self.address}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            "--ip-masq=false",
        ]
        self._dockerd = self._spawn("unshare", "--net", "dockerd", *flags, *self._options)
        until(self.answers, "the Engine", 60)

    def end(self, number: signal.Signals) -> None:
        """Send it a signal that ends it, and wait until it has."""
        self._dockerd.send_signal(number)
        self._dockerd.wait(60)

    def answers(self) -> bool:
        """Tell whether it answers."""
        try:
            with Engine(self.address) as engine:
                engine.request("GET", "/version", timeout=5)
        except DockerError:
            return False
        return True

    def load(self, name: str) -> None:
        """Give it an image of the machine's Engine."""
        with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "--host", self.address, "load"],
                stdin=saved.stdout,
                check=True,
                capture_output=True,
            )

    def close(self) -> None:
        """End it, and containerd."""
        if self._dockerd.poll() is None:
            self.end(signal.SIGTERM)
        self._containerd.terminate()
        self._containerd.wait(60)
        # What was mounted when it was killed still is.
        for line in Path("/proc/mounts").read_text().splitlines():
            place = line.split()[1]
            if place.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)

    def _config(self) -> str:
        path = self._folder / "containerd.toml"
        path.write_text(
            f'version = 2\nroot = "{self._folder}/root"\nstate = "{self._folder}/state"\n'
            f'[grpc]\naddress = "{self._folder}/c.sock"\n'
        )
        return str(path)

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)


@contextmanager
def own_engine(*options: str) -> Iterator[OwnEngine]:
    """Start an Engine with the small test image; skip where that cannot be."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"needs root, and {' '.join(_PROGRAMS)} (missing: {missing})")
    name = image("busybox")
    # A socket's path may have 107 letters; the folders of tests are longer.
    folder = Path(tempfile.mkdtemp(prefix="wherry-engine-", dir="/tmp"))
    made = OwnEngine(folder, *options)
    try:
        made.load(name)
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
