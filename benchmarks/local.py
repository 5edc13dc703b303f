"""Wherry and TorchX 0.7.0 beside each other on this machine; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCHX = ("torchx==0.7.0", "boto3")


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Args:
        row: what was done.
        ours: our median, in the row's unit.
        peer: the peer's; ``None`` where the goal is absolute.
        unit: of both.
        goal: the most that the ratio (with a peer) or our figure (without) may be; for rates
            (``at_least``), the least.
        at_least: whether more is better.
    """

    row: str
    ours: float
    peer: float | None
    unit: str
    goal: float
    at_least: bool = False

    @property
    def measure(self) -> float:
        """What the goal is about."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.measure >= self.goal if self.at_least else self.measure <= self.goal

    def cells(self) -> list[str]:
        """Return the line as words."""
        sign = "≥" if self.at_least else "≤"
        peer = "" if self.peer is None else f"{self.peer:,.1f}"
        ratio = "" if self.peer is None else f"{self.measure:.2f}×"
        goal = f"{sign} {self.goal:g}" + ("×" if self.peer is not None else f" {self.unit}")
        verdict = "yes" if self.met else "NO"
        return [self.row, f"{self.ours:,.1f} {self.unit}", peer, ratio, goal, verdict]


class Bench:
    """Runs rows in a home of its own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        self.env |= {"WHERRY_HOME": f"{folder}/home", "WHERRY_RUNTIME_DIR": f"{folder}/run"}
        self.wherry = str(Path(sys.executable).with_name("wherry"))
        peer = torchx_environment() / "bin"
        self.torchx_python, self.torchx = str(peer / "python"), str(peer / "torchx")

    def wall(self, command: Sequence[str]) -> float:
        """Return the seconds that a whole process takes."""
        begin = time.perf_counter()
        self.run(command)
        return time.perf_counter() - begin

    def run(self, command: Sequence[str]) -> str:
        """Run a command; return what it printed."""
        answer = subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{answer.stderr}")
        return answer.stdout

    def ours(self, script: str, *words: object) -> str:
        """Run one of our scripts."""
        return self.run([sys.executable, str(HERE / "ours" / script), *map(str, words)])

    def theirs(self, script: str, *words: object) -> str:
        """Run one of TorchX's scripts."""
        return self.run([self.torchx_python, str(HERE / "torchx_070" / script), *map(str, words)])


_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def torchx_environment() -> Path:
    """Return TorchX's environment, made once from its registry package."""
    script = HERE.parent / "scripts" / "peer.py"
    answer = subprocess.run(
        [sys.executable, str(script), "torchx", *TORCHX], capture_output=True, text=True, check=True
    )
    return Path(answer.stdout.strip())


def paired(bench: Bench, ours: Sequence[str], theirs: Sequence[str], times: int) -> list[float]:
    """Run two commands by turns; return the medians of both in milliseconds."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for place, command in zip(seconds, (ours, theirs), strict=True):
            place.append(bench.wall(command))
    return [statistics.median(place) * 1000 for place in seconds]


def import_time(bench: Bench) -> list[Figure]:
    """``import wherry`` over bare Python."""
    python = sys.executable
    ours, bare = paired(bench, [python, "-c", "import wherry"], [python, "-c", "pass"], 21)
    return [Figure("import wherry, over bare Python", ours - bare, None, "ms", 15)]


def help_time(bench: Bench) -> list[Figure]:
    """``wherry --help``, the whole process."""
    ours, theirs = paired(bench, [bench.wherry, "--help"], [bench.torchx, "--help"], 11)
    del theirs
    return [Figure("wherry --help", ours, None, "ms", 120)]


def echo(bench: Bench) -> list[Figure]:
    """``run utils.echo`` on this machine, the whole process."""
    words = ["run", "-s", "local_cwd", "utils.echo", "--msg", "hello"]
    ours, theirs = paired(bench, [bench.wherry, *words], [bench.torchx, *words], 11)
    return [Figure("run utils.echo, whole process", ours, theirs, "ms", 0.4)]


def replicas(bench: Bench) -> list[Figure]:
    """Apps of 1, 10 and 100 replicas of /bin/true."""
    figures = []
    for count, times, goal in ((1, 15, 0.5), (10, 11, 0.5), (100, 5, 0.25)):
        ours, theirs = (
            statistics.median(json.loads(run("replicas.py", count, times))) * 1000
            for run in (bench.ours, bench.theirs)
        )
        figures.append(Figure(f"app of {count} × /bin/true to its end", ours, theirs, "ms", goal))
    return figures


def array(bench: Bench) -> list[Figure]:
    """1,000 replicas of /bin/true at two at a time."""
    answer = json.loads(bench.ours("array_of_true.py", 1000))
    return [
        Figure("array of 1,000 × /bin/true, 2 at a time", answer["seconds"], None, "s", 4),
        Figure("… memory of its supervisor", answer["rss"] / 2**20, None, "MB", 40),
        Figure("… file descriptors of its supervisor", answer["fds"], None, "", 40),
        Figure("… threads of its supervisor", answer["threads"], None, "", 1),
    ]


def listing(bench: Bench) -> list[Figure]:
    """``wherry list`` over 10,000 finished apps."""
    bench.ours("many.py", 10_000)
    command = [bench.wherry, "list", "--limit", "0", "--json"]
    first = bench.wall(command) * 1000
    listed = len(json.loads(bench.run(command)))
    if listed < 10_000:
        sys.exit(f"the list has {listed} apps, not 10,000")
    again = statistics.median(bench.wall(command) for _ in range(5)) * 1000
    return [
        Figure("list of 10,000 finished apps", again, None, "ms", 300),
        Figure("… with a lost ledger to make anew", first, None, "ms", 5000),
    ]


def log(bench: Bench) -> list[Figure]:
    """``wherry log`` of 1 GB, and the memory that it takes."""
    megabytes = 1024
    handle = bench.ours("long_log.py", megabytes).strip()
    figures = []
    with open(f"{bench.folder}/out", "wb") as out:
        rates = []
        for _ in range(3):
            out.seek(0)
            begin = time.perf_counter()
            process = subprocess.Popen([bench.wherry, "log", handle], stdout=out, env=bench.env)
            _, status, usage = os.wait4(process.pid, 0)
            rates.append(out.tell() / 1e6 / (time.perf_counter() - begin))
            if status:
                sys.exit(f"wherry log failed: {status}")
        figures += [
            Figure("log of 1 GB", statistics.median(rates), None, "MB/s", 200, at_least=True),
            Figure("… memory", usage.ru_maxrss / 1024, None, "MB", 60),
        ]
    return figures


ROWS: dict[str, Callable[[Bench], list[Figure]]] = {
    "import": import_time,
    "help": help_time,
    "echo": echo,
    "replicas": replicas,
    "array": array,
    "list": listing,
    "log": log,
}


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    head = ["work", "Wherry", "TorchX 0.7.0", "ratio", "goal", "met"]
    lines = [head, ["---"] * len(head), *(figure.cells() for figure in figures)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Run the rows, print the table, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(ROWS), action="append", help="run this row only")
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="wherry-bench-")
    try:
        bench = Bench(folder)
        figures: list[Figure] = []
        for name in words.only or ROWS:
            print(f"… {name}", file=sys.stderr, flush=True)
            figures += ROWS[name](bench)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(figures))
    if words.write:
        Path(words.write).write_text(f"# Figures\n\n{table(figures)}\n")
    missed = [figure.row for figure in figures if not figure.met]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
