"""Wherry and TorchX 0.7.0 beside each other on this machine's Docker Engine; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from local import HERE, Figure, table

IMAGE = "wherry-test/busybox"
TORCHX = ("torchx==0.7.0", "docker")
LINE = "x" * 99
LONG, SHORT = 1_000_000, 50_000
PATIENCE = 180.0
RUNS = ((1, 5), (10, 3), (50, 2))


class Bench:
    """Runs the scripts of both in a home of its own."""

    def __init__(self, folder: str) -> None:
        self._env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._env |= {"WHERRY_HOME": f"{folder}/home", "WHERRY_RUNTIME_DIR": f"{folder}/run"}
        self._folder = folder
        script = HERE.parent / "scripts" / "peer.py"
        made = subprocess.run(
            [sys.executable, str(script), "torchx-docker", *TORCHX],
            capture_output=True,
            text=True,
            check=True,
        )
        self._pythons = {
            "ours": sys.executable,
            "torchx_070": f"{made.stdout.strip()}/bin/python",
        }

    def run(self, whose: str, script: str, *words: object) -> list[list[float]]:
        """Run a script of one of them; return what it printed.

        Raises:
            TimeoutExpired: it took longer than we wait.
        """
        command = [self._pythons[whose], str(HERE / whose / script), *map(str, words)]
        made = subprocess.run(
            command,
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if made.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{made.stderr}")
        found: list[list[float]] = json.loads(made.stdout)
        return found


def starts(bench: Bench, replicas: int, times: int) -> list[Figure]:
    """From ``run`` to the first line of the log, and to the end; each side's turn in turn."""
    found: dict[str, list[list[float]]] = {"ours": [], "torchx_070": []}
    for _ in range(times):
        for whose, seconds in found.items():
            seconds += bench.run(whose, "docker_run.py", IMAGE, replicas, 1)
    figures = []
    for column, what in enumerate(("its first log line", "its end")):
        ours, theirs = (
            statistics.median(row[column] for row in rows) * 1000 for rows in found.values()
        )
        figures.append(Figure(f"{replicas} × echo, from run to {what}", ours, theirs, "ms", 1))
    return figures


def log(bench: Bench, lines: int) -> list[Figure]:
    """All lines of a log, one after the other."""
    megabytes = lines * (len(LINE) + 1) / 1e6
    words = ("docker_log.py", IMAGE, LINE, lines)
    ours = float(str(bench.run("ours", *words)))
    what = f"reading a log of {megabytes:.0f} MB"
    try:
        theirs = float(str(bench.run("torchx_070", *words)))
    except subprocess.TimeoutExpired:
        theirs = PATIENCE
        what += f" (TorchX was stopped after {PATIENCE:g} s)"
        _remove_peers_containers()
    return [
        Figure(what, ours * 1000, theirs * 1000, "ms", 1),
        Figure("… rate", megabytes / ours, None, "MB/s", 50, at_least=True),
    ]


def _remove_peers_containers() -> None:
    chosen = ["--filter", "label=torchx.pytorch.org/app-id"]
    ids = subprocess.check_output(["docker", "ps", "-aq", *chosen], text=True).split()
    if ids:
        subprocess.run(["docker", "rm", "-f", *ids], check=True, capture_output=True)


def figures(bench: Bench, only: Sequence[str]) -> list[Figure]:
    """Run the rows."""
    found: list[Figure] = []
    for replicas, times in RUNS:
        if not only or str(replicas) in only:
            print(f"… {replicas}", file=sys.stderr, flush=True)
            found += starts(bench, replicas, times)
    if not only or "log" in only:
        for lines in (SHORT, LONG):
            print(f"… log of {lines} lines", file=sys.stderr, flush=True)
            found += log(bench, lines)
    return found


def main() -> None:
    """Run the rows, print the table, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    choices = [*(str(replicas) for replicas, _ in RUNS), "log"]
    parser.add_argument("--only", choices=choices, action="append", default=[])
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="wherry-bench-")
    try:
        found = figures(Bench(folder), words.only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(found))
    if words.write:
        Path(words.write).write_text(f"# Figures: containers\n\n{table(found)}\n")
    missed = [figure.row for figure in found if not figure.met]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
