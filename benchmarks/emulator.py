"""The emulator under load: 10,000 jobs and an array of 10,000 through the process engine.

Prints how fast it takes jobs and answers while they run, and what is left when they have ended:
processes, threads, descriptors, memory. Ends with an error when anything was left or a goal missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS = 10_000
CLIENTS = 4
SUBMITS_A_SECOND = 200
DESCRIBE_MS = 20
GROWTH_MIB = 64
ENDED = ("SUCCEEDED", "FAILED")


class Server:
    """An emulator in a process of its own, watched from outside."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        env = os.environ | {"WHERRY_HOME": f"{folder}/home", "WHERRY_RUNTIME_DIR": f"{folder}/run"}
        os.makedirs(f"{folder}/run", mode=0o700)
        wherry = str(Path(sys.executable).with_name("wherry"))
        self._env = env
        self._wherry = wherry
        self._run("emulator", "start", "--detach", "--port", "0", "--engine", "process")
        self.variables = self._variables()
        self.pid = self._pid()

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [self._wherry, *words], env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"wherry {' '.join(words)} failed: {done.stderr}")
        return done.stdout

    def _variables(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self._run("emulator", "env", "--shell", "json"))
        return found

    def _pid(self) -> int:
        return int(json.loads(self._run("emulator", "status", "--json"))["pid"])

    def client(self) -> Any:
        """Make a boto3 client of AWS Batch, which is pointed at it by its environment."""
        import boto3
        from botocore.config import Config

        os.environ.update(self.variables)
        return boto3.client("batch", config=Config(max_pool_connections=CLIENTS))

    def left(self) -> dict[str, float]:
        """Count what the emulator holds now."""
        import psutil

        process = psutil.Process(self.pid)
        below = process.children(recursive=True)
        family = [process, *below]
        return {
            "processes": len(family),
            "threads": sum(member.num_threads() for member in family),
            "descriptors": sum(member.num_fds() for member in family),
            "MiB": sum(member.memory_info().rss for member in family) / 2**20,
        }

    def stop(self) -> None:
        """End it."""
        self._run("emulator", "stop")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the soak and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many (default: %(default)s)")
    jobs = parser.parse_args(argv).jobs
    with TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            wrong = _soak(server, jobs)
        finally:
            server.stop()
    sys.exit("; ".join(wrong) or None)


def _soak(server: Server, jobs: int) -> list[str]:
    client = server.client()
    definition = client.register_job_definition(
        jobDefinitionName="true",
        type="container",
        containerProperties={
            "image": "busybox",
            "command": ["true"],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "128"},
            ],
        },
    )["jobDefinitionArn"]
    _drained(client, _submit(client, definition, 200))  # whatever is made once is made now
    before = server.left()

    begin = time.perf_counter()
    with _Describing(server) as describing:
        ids = _submit(client, definition, jobs)
        submitted = jobs / (time.perf_counter() - begin)
        describing.ids = ids[:: max(1, jobs // 100)][:100]
        failed = _drained(client, ids)
        single = time.perf_counter() - begin
        begin = time.perf_counter()
        array = client.submit_job(
            jobName="array",
            jobQueue="main",
            jobDefinition=definition,
            arrayProperties={"size": min(jobs, 10_000)},
        )["jobId"]
        failed += _drained(client, [array], seconds=600)
        wide = time.perf_counter() - begin
    time.sleep(1)
    after = server.left()

    describe = statistics.median(describing.times) * 1000
    print(f"SubmitJob, {CLIENTS} clients        {submitted:,.0f}/s (goal {SUBMITS_A_SECOND})")
    print(f"DescribeJobs of 100 ids, median   {describe:.1f} ms (goal {DESCRIBE_MS})")
    print(f"{jobs:,} jobs to their end        {single:.1f} s, {jobs / single:,.0f}/s")
    print(f"an array of {min(jobs, 10_000):,}           {wide:.1f} s")
    for name, value in after.items():
        print(f"{name:<12}before {before[name]:,.0f}  after {value:,.0f}")
    grown = [
        name
        for name, value in after.items()
        if value > before[name] + (jobs * GROWTH_MIB / JOBS * 2 if name == "MiB" else 4)
    ]
    return [
        *([f"{failed} jobs failed"] if failed else []),
        *([f"submits: {submitted:.0f}/s"] if submitted < SUBMITS_A_SECOND else []),
        *([f"DescribeJobs: {describe:.1f} ms"] if describe > DESCRIBE_MS else []),
        *([f"more than before: {', '.join(grown)}"] if grown else []),
    ]


def _submit(client: Any, definition: str, count: int) -> list[str]:
    def one(number: int) -> str:
        answer = client.submit_job(
            jobName=f"soak-{number}", jobQueue="main", jobDefinition=definition
        )
        return str(answer["jobId"])

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(count)))


def _drained(client: Any, ids: list[str], seconds: float = 900) -> int:
    """Wait for the end of all; returns how many failed."""
    deadline = time.monotonic() + seconds
    waiting, failed = list(ids), 0
    while waiting:
        if time.monotonic() > deadline:
            sys.exit(f"{len(waiting)} jobs had not ended after {seconds:g} s")
        found = client.describe_jobs(jobs=waiting[:100])["jobs"]
        ended = {job["jobId"]: job["status"] for job in found if job["status"] in ENDED}
        failed += sum(status == "FAILED" for status in ended.values())
        waiting = [job for job in waiting if job not in ended]
        if len(ended) < len(found):
            time.sleep(0.2)
    return failed


class _Describing:
    """Asks for 100 jobs again and again, and notes how long each answer takes.

    Without boto3, whose parsing of the answer takes longer than the emulator took to make it.
    """

    def __init__(self, server: Server) -> None:
        host = server.variables["AWS_ENDPOINT_URL"].removeprefix("http://")
        self._connection = http.client.HTTPConnection(host)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.ids: list[str] = []
        self.times: list[float] = []

    def __enter__(self) -> _Describing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(0.25):
            if self.ids:
                body = json.dumps({"jobs": self.ids})
                begin = time.perf_counter()
                self._connection.request("POST", "/v1/describejobs", body)
                answer = self._connection.getresponse().read()
                self.times.append(time.perf_counter() - begin)
                if len(json.loads(answer)["jobs"]) != len(self.ids):
                    sys.exit(f"DescribeJobs of 100 ids answered {answer[:200]!r}")


if __name__ == "__main__":
    main()
