"""Maps on emulated AWS Batch: calls and seconds to submit, to watch, and to fetch.

A map of 100, 1,000 and 10,000 trivial items is submitted by `AWSBatchExecutor`, watched to its end,
and its values are fetched; a child for each item, but for the largest one, where ten share a child
(each child is a Python of its own, and the machine has few cores). Calls are counted by the
emulator, those of the client alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aws import REQUESTS
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

SIZES = (100, 1_000, 10_000)
QUEUE = "main"
CHUNKS = {10_000: 10}
BUCKET = "calls"


class Client(logging.Handler):
    """Counts the requests of this process's clients; the jobs' own client has no name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.kinds: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of one request."""
        if getattr(record, "client", ""):
            self.calls += 1
            self.kinds[" ".join(record.getMessage().split()[:2])] += 1


def main(argv: Sequence[str] | None = None) -> None:
    """Run all sizes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args(argv)
    lines = [
        "| items | submit: calls, s | watch: calls, s | fetch: calls, s | all s |",
        "| --- | --- | --- | --- | --- |",
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Emulator(Settings(port=0, engine="process", vcpus=8)) as emulator,
    ):
        os.environ.update(emulator.environment())
        os.environ.update(WHERRY_HOME=f"{folder}/home", WHERRY_RUNTIME_DIR=f"{folder}/run")
        client = Client()
        requests = logging.getLogger(REQUESTS)
        requests.setLevel(logging.INFO)
        requests.addHandler(client)
        requests.propagate = False
        prepare()
        for size in words.sizes:
            lines.append(row(size, client))
            print(lines[-1], flush=True)
    print("\n".join(lines))
    if words.write:
        Path(words.write).write_text("\n".join(lines) + "\n")


def prepare() -> None:
    """Make the queue and the bucket, and run one call so that the client is warm."""
    import boto3

    import wherry

    boto3.client("s3").create_bucket(Bucket=BUCKET)
    executor: Any = wherry.AWSBatchExecutor(s3_bucket_name=BUCKET, batch_queue=QUEUE)
    executor.submit(abs, -1).result()


def row(size: int, client: Client) -> str:
    """Run one map and describe it."""
    import wherry

    executor: Any = wherry.AWSBatchExecutor(
        s3_bucket_name=BUCKET, batch_queue=QUEUE, vcpu=1, memory=1
    )
    marks = Marks(client)
    runs = executor.map_array(double, range(size), chunksize=CHUNKS.get(size, 1))
    found = [marks.next()]
    runs.exception()
    found.append(marks.next())
    assert list(runs.results()) == [2 * number for number in range(size)]
    found.append(marks.next())
    cells = [f"{calls:,}, {seconds:.1f}" for calls, seconds in found]
    return f"| {size:,} | {' | '.join(cells)} | {sum(seconds for _, seconds in found):.1f} |"


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


class Marks:
    """Calls and seconds since the last mark."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = client.calls
        self._at = time.perf_counter()

    def next(self) -> tuple[int, float]:
        """Return them, and begin anew."""
        calls, now = self._client.calls, time.perf_counter()
        passed = calls - self._calls, now - self._at
        self._calls, self._at = calls, now
        if os.environ.get("WHERRY_BENCH_KINDS"):
            print(dict(self._client.kinds))
        self._client.kinds.clear()
        return passed


if __name__ == "__main__":
    main()
