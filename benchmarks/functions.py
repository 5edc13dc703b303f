"""Calls of functions on this machine, Wherry and its peers beside each other; see README.md.

Each figure is the median of runs that take turns, each in a client process of its own that has
imported what it uses. Results of Wherry are durable: in files that outlive the client; the pools
keep nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What a client of each kind makes, by the name that `functions_client.py` knows it by.
PEERS = {
    "wherry": (),
    "process pool": (),
    "loky": ("loky",),
    "executorlib": ("executorlib",),
    "submitit": ("submitit",),
}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        name: what is done.
        work: its name in `functions_client.py`, and how often it is done there.
        goal: milliseconds.
        peers: who does the same.
        slow: peers that are measured once.
    """

    name: str
    work: str
    count: int
    goal: float
    peers: tuple[str, ...]
    slow: tuple[str, ...] = field(default=())


ROWS = (
    Row(
        "one trivial call in its own process, with start-up of the executor",
        "first",
        1,
        60,
        ("process pool", "loky", "executorlib", "submitit"),
        ("submitit",),
    ),
    Row("the next call of the same executor", "next", 20, 15, ("process pool", "loky")),
    Row(
        "`map` of 1,000 trivial calls, 2 warm workers",
        "map",
        1000,
        400,
        ("process pool", "loky", "executorlib"),
    ),
    Row(
        "`map_array` of 1,000, a process, log and exit code each",
        "array",
        1000,
        5000,
        (),
    ),
    Row("100 trivial calls one after another", "chain", 100, 1000, ("process pool", "loky")),
    Row(
        "50 calls, a process each (peers: executorlib one process each, submitit local)",
        "each",
        50,
        250,
        ("executorlib", "submitit"),
        ("executorlib", "submitit"),
    ),
)


def measured(kind: str, row: Row, times: int, home: str) -> float | None:
    """Return the median of a row in milliseconds for one kind of client."""
    if kind != "wherry" and kind not in row.peers:
        return None
    rounds = 1 if kind in row.slow else times
    return statistics.median(one_round(kind, row, home) for _ in range(rounds))


def one_round(kind: str, row: Row, home: str) -> float:
    """Run a client once."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"WHERRY_HOME": f"{home}/home", "WHERRY_RUNTIME_DIR": f"{home}/run"}
        script = str(HERE / "functions_client.py")
        answer = subprocess.run(
            [python_of(kind), script, kind, row.work, str(row.count)],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            sys.exit(f"{kind}, {row.name}:\n{answer.stderr}")
        return float(answer.stdout.split()[-1]) * 1000


def python_of(kind: str) -> str:
    """Return the interpreter that has a peer's packages; its environment is made once."""
    if not PEERS[kind]:
        return sys.executable
    script = str(HERE.parent / "scripts" / "peer.py")
    answer = subprocess.run(
        [sys.executable, script, kind, *PEERS[kind]], capture_output=True, text=True, check=True
    )
    return f"{answer.stdout.strip()}/bin/python"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="rounds of each row")
    parser.add_argument("--row", action="append", help="only rows of this work; may be repeated")
    chosen = parser.parse_args()
    kinds = list(PEERS)
    print("| work | goal, ms |", " | ".join(f"{kind}, ms" for kind in kinds), "| reached |")
    print("| --- |", " --- |" * (len(kinds) + 2))
    with tempfile.TemporaryDirectory() as home:
        one_round("wherry", ROWS[0], home)  # The worker's zip is made once for each home.
        print_rows(chosen, kinds, home)


def print_rows(chosen: argparse.Namespace, kinds: list[str], home: str) -> None:
    """Measure row by row."""
    for row in ROWS:
        if chosen.row and row.work not in chosen.row:
            continue
        found = [measured(kind, row, chosen.times, home) for kind in kinds]
        ours = found[0]
        cells = ["" if value is None else shown(value, ours) for value in found]
        verdict = "yes" if ours is not None and ours <= row.goal else "NO"
        print(f"| {row.name} | {row.goal:g} |", " | ".join(cells), f"| {verdict} |", flush=True)


def shown(value: float, ours: float | None) -> str:
    """Return a figure, and how many times ours it is."""
    return f"{value:,.0f}" if value == ours or not ours else f"{value:,.0f} ({value / ours:.1f}×)"


if __name__ == "__main__":
    main()
