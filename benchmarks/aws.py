"""Wherry and TorchX 0.7.0 beside each other on one emulated AWS Batch: calls and seconds.

Apps of 1, 10, 100 and 1,000 replicas, which say hello and sleep some seconds, are submitted,
watched to their end, and all their logs are read. Calls are counted by the emulator, so both are
counted in the same way. TorchX can only run a gang; Wherry runs the same as a gang and, as one
would, as an array.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local import torchx_environment
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

HERE = Path(__file__).resolve().parent
SIZES = (1, 10, 100, 1_000)
PHASES = ("submit", "watch", "logs")
QUEUE = "wide"
REQUESTS = "wherry.emulator.requests"


class Counter(logging.Handler):
    """Counts the requests that the emulator answers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of one request, unless it came from inside a job."""
        self.calls += "/_wherry/" not in record.getMessage()


@dataclass(frozen=True)
class Phases:
    """What one client took for one app, by phase."""

    calls: dict[str, int]
    seconds: dict[str, float]


def main(argv: Sequence[str] | None = None) -> None:
    """Run all sizes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args(argv)
    counter = Counter()
    requests = logging.getLogger(REQUESTS)
    requests.setLevel(logging.INFO)
    requests.addHandler(counter)
    requests.propagate = False
    lines = ["| replicas | | " + " | ".join(f"{p}: calls, s" for p in PHASES) + " | all |"]
    lines.append("| --- " * (len(PHASES) + 3) + "|")
    with (
        tempfile.TemporaryDirectory() as folder,
        Emulator(Settings(port=0, engine="process", vcpus=4096)) as emulator,
    ):
        env = os.environ | emulator.environment() | {"WHERRY_HOME": f"{folder}/home"}
        os.environ.update(emulator.environment())
        make_queue()
        for size in words.sizes:
            for name, command in clients(size):
                found = run(command, env, counter, size)
                lines.append(row(size, name, found))
                print(lines[-1], flush=True)
    print("\n".join(lines))
    if words.write:
        Path(words.write).write_text("\n".join(lines) + "\n")


def make_queue() -> None:
    """Make a queue that has room for a gang of 1,000, each node on an instance of its own."""
    import boto3

    batch = boto3.client("batch")
    batch.create_compute_environment(
        computeEnvironmentName=QUEUE,
        type="MANAGED",
        computeResources={
            "type": "EC2",
            "minvCpus": 0,
            "maxvCpus": 4096,
            "instanceTypes": ["m5.large"],
            "instanceRole": "ecsInstanceRole",
            "subnets": ["subnet-1"],
            "securityGroupIds": ["sg-1"],
        },
    )
    batch.create_job_queue(
        jobQueueName=QUEUE,
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": QUEUE}],
    )


def clients(size: int) -> list[tuple[str, list[str]]]:
    """Return who runs an app of this size, and how."""
    ours = [sys.executable, str(HERE / "ours" / "aws.py"), str(size), QUEUE]
    theirs = [str(torchx_environment() / "bin" / "python"), str(HERE / "torchx_070" / "aws.py")]
    return [
        ("Wherry, array", [*ours, "array"]),
        ("Wherry, gang", [*ours, "gang"]),
        ("TorchX 0.7.0", [*theirs, str(size), QUEUE]),
    ]


def run(command: list[str], env: dict[str, str], counter: Counter, size: int) -> Phases:
    """Run one client, and count the calls of each phase."""
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    calls: dict[str, int] = {}
    seconds: dict[str, float] = {}
    before = counter.calls
    result = ""
    for line in process.stdout:
        phase, _, value = line.strip().partition(" ")
        if phase == "result":
            result = value
        elif phase in (*PHASES, "ready"):
            calls[phase], before = counter.calls - before, counter.calls
            seconds[phase] = float(value)
            process.stdin.write("\n")
            process.stdin.flush()
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{errors}")
    if result != str(size):
        print(f"{' '.join(command)} read {result} lines of {size}", file=sys.stderr)
    return Phases(calls, seconds)


def row(size: int, name: str, found: Phases) -> str:
    """Return one line of the table."""
    cells = [f"{found.calls[p]:,}, {found.seconds[p]:.2f}" for p in PHASES]
    calls = sum(found.calls[p] for p in PHASES)
    seconds = sum(found.seconds[p] for p in PHASES)
    return f"| {size:,} | {name} | {' | '.join(cells)} | {calls:,}, {seconds:.2f} |"


if __name__ == "__main__":
    main()
