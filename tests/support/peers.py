"""Programs of others, each in an environment of its own, made once from its registry package."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / ".peers"


def environment_of(name: str, *packages: str) -> Path:
    """Return the folder of an environment that has these packages; two may ask at once."""
    place = PEERS / name
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / ".installed"
        if not done.exists() or done.read_text() != " ".join(packages):
            _install(place, packages)
            done.write_text(" ".join(packages))
    return place


def _install(place: Path, packages: tuple[str, ...]) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    python = str(place / "bin" / "python")
    if uv:
        steps = [
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)],
            [uv, "pip", "install", "--quiet", "--python", python, *packages],
        ]
    else:
        steps = [
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [python, "-m", "pip", "install", "-qqq", *packages],
        ]
    for step in steps:
        subprocess.run(step, check=True)
