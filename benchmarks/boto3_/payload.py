"""The same array as an object: sent and fetched twice by boto3's transfer manager.

Twice, since a job fetches what its client has sent and sends what its client fetches.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import time

import boto3
import numpy as np


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    size, bucket = int(sys.argv[1]), sys.argv[2].removeprefix("s3://").partition("/")[0]
    s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"])
    s3.upload_fileobj(io.BytesIO(b"first"), bucket, "first")
    before = peak()
    array = np.random.default_rng(7).integers(0, 255, size, dtype=np.uint8)
    began = time.perf_counter()
    sent = 0.0
    for key in ("there", "back"):
        s3.upload_fileobj(io.BytesIO(array.data), bucket, key)
        sent = sent or time.perf_counter() - began
        target = io.BytesIO()
        s3.download_fileobj(bucket, key, target)
        back = np.frombuffer(target.getbuffer(), dtype=np.uint8)
    seconds = time.perf_counter() - began
    assert (back == array).all()
    told = {"seconds": seconds, "sent": sent, "client": (peak() - before) * 1024 / size}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
