"""Programs of others, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "peer.py"


def environment_of(name: str, *packages: str) -> Path:
    """Return the folder of an environment that has these packages; made when it is not there."""
    made = subprocess.run(
        [sys.executable, str(SCRIPT), name, *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, f"{name} could not be installed: {made.stderr}"
    return Path(made.stdout.strip())
