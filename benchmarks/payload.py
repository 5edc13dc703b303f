"""A large array to a job and back through a real S3 server, beside boto3's transfer manager.

`python benchmarks/payload.py [--mib 1024] [--runs 3]`: seconds, and the most memory that was taken
besides the start, in sizes of the array. rclone serves S3 on this machine and checks signatures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from store import KEY, SECRET, rclone

HERE = Path(__file__).resolve().parent
CONTENDERS = {"wherry": "ours/payload.py", "boto3": "boto3_/payload.py"}


def taken(script: str, size: int, home: str) -> dict[str, float]:
    """Run a contender once, in a process of its own and an empty bucket."""
    with tempfile.TemporaryDirectory() as folder:
        with rclone(Path(folder)) as url:
            environ = {
                **os.environ,
                "AWS_ENDPOINT_URL_S3": url,
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_DEFAULT_REGION": "us-east-1",
                "WHERRY_HOME": home,
            }
            command = [sys.executable, str(HERE / script), str(size), "s3://bench/payload"]
            done = subprocess.run(
                command, env=environ, stdout=subprocess.PIPE, text=True, check=True
            )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(asked.runs):
            for name, script in CONTENDERS.items():
                figures[name].append(taken(script, asked.mib << 20, home))
    print(f"{asked.mib} MiB there and back, medians of {asked.runs}; load {os.getloadavg()[0]:.1f}")
    for name, runs in figures.items():
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        words = ", ".join(f"{key} {value:.2f}" for key, value in middle.items())
        print(f"{name}: {words}")


if __name__ == "__main__":
    main()
