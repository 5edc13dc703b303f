"""Removes an emulator's containers when the emulator was killed.

A process of its own: ``python -m wherry.emulator.engines.docker_watchdog NAME LIFE``. It waits for
its standard input to end, which happens when the emulator is gone, however it went. The word
`DONE` says that the emulator has cleaned up itself. It never outlives the emulator for long.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

from wherry.emulator.engines import docker_labels

DONE = b"done\n"
LOOK_AGAIN = 2.0
PATIENCE = 60.0


class Watchdog:
    """Starts the process, and tells it that it is not needed.

    Args:
        name: of the emulator.
        life: of this life of it.
    """

    def __init__(self, name: str, life: str) -> None:
        self._command = [sys.executable, "-m", __name__, name, life]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process else None

    def open(self) -> None:
        """Start it; it does not hear the terminal's signals."""
        root = os.path.abspath(__file__).removesuffix(os.path.join(*__name__.split(".")) + ".py")
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )

    def close(self) -> None:
        """Let it end, without doing anything."""
        if self._process is None:
            return
        try:
            self._process.communicate(DONE, timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None


def main(life: str) -> None:
    """Wait for the emulator's end, and clean up after it where that is needed."""
    if _wait_for_end() == DONE:
        return
    import docker
    from docker.utils import kwargs_from_env

    from wherry.emulator.engines.docker_sweep import sweep

    deadline = time.monotonic() + PATIENCE
    clean = 0
    # What was being created when the emulator died may appear after a first look.
    while clean < 2 and time.monotonic() < deadline:
        try:
            client = docker.APIClient(**kwargs_from_env(), version="auto")
            clean = clean + 1 if sweep(client, docker_labels.LIFE, life, seconds=PATIENCE) else 0
        except Exception:  # noqa: BLE001 — the Engine may be restarting; there is nobody to tell
            clean = 0
        time.sleep(0.5)


def _wait_for_end() -> bytes:
    """Return what the emulator said last."""
    parent = os.getppid()
    said = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], LOOK_AGAIN)[0]:
            continue
        data = os.read(0, 64)
        if not data:
            break
        said += data
    return said


if __name__ == "__main__":
    main(sys.argv[2])  # the name before it is for who looks at the process list
