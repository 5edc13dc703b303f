"""A thousand apps submitted to an emulated AWS Batch that fails: none may be lost, none doubled.

For each kind of trouble, apps are submitted from 16 threads while it strikes, and counted by name
when it is over. Ends with an error when a job is missing, is there twice, or ended wrongly.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import wherry.emulator
from wherry import AppDef, AppState, Resource, Role
from wherry.schedulers.aws_batch import AWSBatchScheduler

TROUBLES: dict[str, list[dict[str, Any]]] = {
    "every submission's reply lost": [{"kind": "lost-reply", "operation": "SubmitJob"}],
    "every 5th call a 500": [{"kind": "server-error", "every": 5}],
    "half of the submissions throttled": [
        {"kind": "throttle", "rate": 0.5, "operation": "SubmitJob"}
    ],
    "answers 2 s late": [{"kind": "latency", "value": "2"}],
}


def main() -> None:
    """Go through the troubles and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=1_000, help="for each (default: %(default)s)")
    parser.add_argument("--only", choices=TROUBLES, action="append")
    words = parser.parse_args()
    wrong = []
    for name in words.only or TROUBLES:
        begin = time.monotonic()
        complaint = endured(TROUBLES[name], words.apps)
        print(f"{name:<36}{time.monotonic() - begin:6.0f} s  {complaint or 'right'}", flush=True)
        wrong += [f"{name}: {complaint}"] * bool(complaint)
    sys.exit("; ".join(wrong) or None)


def endured(faults: list[dict[str, Any]], apps: int) -> str:
    """Submit the apps in trouble; returns what is wrong afterwards."""
    role = Role("main", "busybox", entrypoint="true", resource=Resource(cpu=1, memMB=64))
    with TemporaryDirectory() as home, wherry.emulator.running(engine="process") as aws:
        os.environ.update(aws.environment() | {"WHERRY_HOME": home})
        scheduler = AWSBatchScheduler("faults")
        with ExitStack() as going_wrong, ThreadPoolExecutor(16) as pool:
            for fault in faults:
                going_wrong.enter_context(aws.fault(**fault))
            ids = list(
                pool.map(
                    lambda _: scheduler.submit(AppDef("app", [role]), {"queue": "main"}),
                    range(apps),
                )
            )
        there = Counter(names(aws))
        wanted = Counter(app_id.partition(":")[2] for app_id in ids)
        ends = Counter(end(scheduler, app_id) for app_id in ids)
        scheduler.close()
    if there != wanted:
        return f"{len(wanted - there)} lost, {sum((there - wanted).values())} too many"
    return "" if ends == {AppState.SUCCEEDED: apps} else f"ends: {dict(ends)}"


def end(scheduler: AWSBatchScheduler, app_id: str) -> AppState:
    """Wait for an app's end."""
    while True:
        status = scheduler.statuses([app_id])[app_id]
        if status is None or status.is_terminal():
            return status.state if status is not None else AppState.UNKNOWN
        scheduler.wait_for_change(app_id, 5, until_end=True)


def names(aws: wherry.emulator.Running) -> list[str]:
    """Return the names of all jobs of the queue."""
    everything = [{"name": "AFTER_CREATED_AT", "values": ["1"]}]
    pages = aws.client("batch").get_paginator("list_jobs")
    found = pages.paginate(jobQueue="main", filters=everything)
    return [job["jobName"] for page in found for job in page["jobSummaryList"]]


if __name__ == "__main__":
    main()
