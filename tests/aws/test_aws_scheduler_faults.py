"""Apps are neither lost nor doubled while AWS throttles, fails, forgets to answer or is slow."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from support.batch_apps import app, over, submitted
from wherry.emulator import Running
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppState

MANY = 24

FAULTS = {
    "submissions throttled half of the time": [
        {"kind": "throttle", "rate": 0.5, "operation": "SubmitJob"}
    ],
    "every 5th call fails": [{"kind": "server-error", "every": 5}],
    "every 7th reply is lost": [{"kind": "lost-reply", "every": 7}],
    "all of it": [
        {"kind": "throttle", "rate": 0.3},
        {"kind": "server-error", "every": 5},
        {"kind": "lost-reply", "every": 7},
        {"kind": "latency", "value": "0.2", "every": 11},
    ],
}


def names_of(aws: Running) -> list[str]:
    """Return the names of all jobs of the queue."""
    pages = aws.client("batch").get_paginator("list_jobs")
    filters = [{"name": "BEFORE_CREATED_AT", "values": ["9999999999999"]}]
    return [
        job["jobName"]
        for page in pages.paginate(jobQueue="main", filters=filters)
        for job in page["jobSummaryList"]
    ]


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_each_app_has_one_job_and_the_right_end(wherry_aws, faults):
    scheduler = AWSBatchScheduler("tests")

    def run(number: int) -> tuple[str, AppState]:
        code = number % 3
        app_id = submitted(scheduler, app(f"exit {code}", name=f"app{number}"))
        return app_id, over(scheduler, app_id).state

    with ExitStack() as going_wrong, ThreadPoolExecutor(8) as pool:
        for fault in faults:
            going_wrong.enter_context(wherry_aws.fault(**fault))
        ends = list(pool.map(run, range(MANY)))

    names = names_of(wherry_aws)
    kept = Counter(app_id.partition(":")[2] for app_id, _ in ends)
    states = Counter(state for _, state in ends)
    twins = Counter(names) - kept
    assert set(names) == set(kept)
    assert states == {
        AppState.SUCCEEDED: len(range(0, MANY, 3)),
        AppState.FAILED: MANY - len(range(0, MANY, 3)),
    }
    assert twins == {}
    scheduler.close()


def test_an_app_that_is_forgotten_while_it_is_watched_is_told_as_it_was_last_seen(wherry_aws):
    scheduler = AWSBatchScheduler("tests")
    app_id = submitted(scheduler, "sleep 1")
    scheduler.wait_for_change(app_id, 30, until_end=True)
    wherry_aws.expire()

    assert over(scheduler, app_id).state is AppState.SUCCEEDED
    scheduler.close()


def test_credentials_that_expire_while_it_is_watched_are_renewed_or_told(wherry_aws):
    scheduler = AWSBatchScheduler("tests")
    app_id = submitted(scheduler, "sleep 1")

    with wherry_aws.fault("expired-token", operation="DescribeJobs", times=1):
        assert over(scheduler, app_id).state is AppState.SUCCEEDED
    scheduler.close()
