"""An array sent to a job, changed there, and fetched: seconds, and the memory that it took."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np

import wherry


def change(array):
    """Change an array in place, and return it: the job holds it once."""
    array[::4096] += 1
    return array


def peak() -> int:
    """Return the most KiB that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    size, store = int(sys.argv[1]), sys.argv[2]
    ex = wherry.LocalExecutor(store=store)
    first = ex.submit(change, np.zeros(8192, dtype=np.uint8))
    first.result()
    before, below = peak(), first.outcome().peak_memory >> 10
    array = np.random.default_rng(7).integers(0, 255, size, dtype=np.uint8)
    began = time.perf_counter()
    job = ex.submit(change, array)
    sent = time.perf_counter() - began
    back = job.result()
    seconds = time.perf_counter() - began
    most = peak()
    assert back.nbytes == size
    assert int(back[0]) == (int(array[0]) + 1) % 256
    assert (back[1:4096] == array[1:4096]).all()
    header = _header(ex, job)
    told = {"seconds": seconds, "sent": sent, "client": (most - before) * 1024 / size}
    told["job"] = (header["peak_kib"] - below) * 1024 / size
    print(json.dumps({**told, **header["phases"]}))


def _header(ex: wherry.LocalExecutor, job: wherry.Job) -> dict[str, Any]:
    """Return what the job says of itself, from the head of its outcome alone."""
    from wherry.worker.formats import OUTCOME_MAGIC, out_key

    head = ex.store.read(out_key(job.id, 0), 0, 1 << 16)
    start = len(OUTCOME_MAGIC) + 8
    length = int.from_bytes(head[start - 8 : start], "little")
    header: dict[str, Any] = json.loads(head[start : start + length])
    return header


if __name__ == "__main__":
    main()
