"""store.py BUCKET payload BYTES | gather COUNT: boto3's seconds for the same, as JSON."""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config


def client() -> Any:
    # rclone sends an object's checksum along with a part of it, which boto3 would refuse.
    settings = Config(max_pool_connections=16, response_checksum_validation="when_required")
    return boto3.client("s3", config=settings)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def payload(bucket: str, size: int) -> dict[str, float]:
    data = io.BytesIO()
    block = os.urandom(1 << 20)
    for _ in range(size >> 20):
        data.write(block)
    data.seek(0)
    s3 = client()
    begin = time.perf_counter()
    s3.upload_fileobj(data, bucket, "theirs/payload")
    sent = time.perf_counter()
    back = io.BytesIO()
    s3.download_fileobj(bucket, "theirs/payload", back)
    end = time.perf_counter()
    return {"up": sent - begin, "down": end - sent, "extra": peak() - 2 * size / 2**20}


def gather(bucket: str, count: int) -> dict[str, float]:
    s3 = client()

    def one(number: int) -> bytes:
        data: bytes = s3.get_object(Bucket=bucket, Key=f"small/{number}")["Body"].read()
        return data

    one(0)
    begin = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        found = sum(1 for data in pool.map(one, range(count)) if data)
    seconds = time.perf_counter() - begin
    if found != count:
        sys.exit(f"{found} objects came of {count}")
    return {"gather": seconds}


WORKS = {"payload": payload, "gather": gather}

if __name__ == "__main__":
    _, name, work, amount = sys.argv
    print(json.dumps(WORKS[work](name, int(amount))))
