"""store.py BUCKET payload BYTES | fill COUNT | gather COUNT: seconds of the store's, as JSON."""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from wherry.store.opening import open_store


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def payload(bucket: str, size: int) -> dict[str, float]:
    data = mmap.mmap(-1, size)
    block = os.urandom(1 << 20)
    for at in range(0, size, len(block)):
        data[at : at + len(block)] = block
    store = open_store(f"s3://{bucket}/ours")
    store.head("payload")  # loaded, as boto3 is
    begin = time.perf_counter()
    store.write("payload", [memoryview(data)])
    sent = time.perf_counter()
    back = mmap.mmap(-1, size)
    store.read_into("payload", 0, memoryview(back))
    end = time.perf_counter()
    extra = peak() - 2 * size / 2**20
    if back[-1000:] != data[-1000:] or back[:1000] != data[:1000]:
        sys.exit("what came back is not what was sent")
    return {"up": sent - begin, "down": end - sent, "extra": extra}


def fill(bucket: str, count: int) -> dict[str, float]:
    store = open_store(f"s3://{bucket}/small")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: store.write(str(number), [b"x" * 1000]), range(count)))
    return {}


def gather(bucket: str, count: int) -> dict[str, float]:
    store = open_store(f"s3://{bucket}/small")
    store.read("0")  # loaded, as boto3 is
    begin = time.perf_counter()
    found = sum(1 for _, data in store.read_many(map(str, range(count))) if data)
    seconds = time.perf_counter() - begin
    if found != count:
        sys.exit(f"{found} objects came of {count}")
    return {"gather": seconds}


WORKS = {"payload": payload, "fill": fill, "gather": gather}

if __name__ == "__main__":
    _, name, work, amount = sys.argv
    print(json.dumps(WORKS[work](name, int(amount))))
