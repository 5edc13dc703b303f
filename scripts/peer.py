"""Make an environment with another project's packages, once, and print its folder.

peer.py NAME PACKAGE…    for example: peer.py torchx torchx==0.7.0 boto3

Tests and benchmarks run the programs of others from such environments. Two may ask at once.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / ".peers"


def main(name: str, *packages: str) -> None:
    """Make the environment if it is not there."""
    place = PEERS / name
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / ".installed"
        if not done.exists() or done.read_text() != " ".join(packages):
            install(place, packages)
            done.write_text(" ".join(packages))
    print(place)


def install(place: Path, packages: tuple[str, ...]) -> None:
    """Make an environment anew, with uv where it is installed and with pip otherwise."""
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


if __name__ == "__main__":
    main(*sys.argv[1:])
