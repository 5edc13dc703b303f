"""Pages of the documentation: their commands run in one shell, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

# Pages start it as people do; a test takes a port that nobody else has, and needs no Docker.
START = "wherry emulator start --detach"
QUIETLY = f"{START} --port 0 --engine process"
_CUT = "-- next --"


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a block with what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def check(pairs: list[tuple[str, str]], folder: Path) -> None:
    """Run commands one after the other in one shell, and compare what they print."""
    script = "\n".join(f"{command}\necho '{_CUT}'" for command, _ in pairs).replace(START, QUIETLY)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    answer = subprocess.run(
        ["sh", "-c", f"exec 2>&1\n{script}"],
        env={**env, "HOME": str(folder), "SHELL": "/bin/sh"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    printed = answer.stdout.split(f"{_CUT}\n")
    assert len(printed) == len(pairs) + 1, answer.stdout
    for (command, expected), found in zip(pairs, printed, strict=False):
        # The screen after the start is longer than its first line.
        shown = found.partition("\n")[0] if command == START else found.strip()
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, shown, re.DOTALL), (command, found)
