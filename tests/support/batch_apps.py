"""Apps on an emulated AWS Batch: what to run, waiting for it, and counting what AWS is asked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.waiting import until
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppDef, AppState, AppStatus, Resource, Role

SMALL = Resource(cpu=1, memMB=128)
MAIN = {"queue": "main"}
_REQUESTS = "wherry.emulator.requests"


def role(script: str, count: int = 1, name: str = "main", **fields: Any) -> Role:
    """Return a role that runs a script."""
    given: dict[str, Any] = {"image": "busybox", "resource": SMALL, **fields}
    return Role(name, entrypoint="sh", args=["-c", script], num_replicas=count, **given)


def app(script: str, count: int = 1, *, name: str = "job", **fields: Any) -> AppDef:
    """Return an app of one role that runs a script; one of several replicas is an array."""
    role_fields = {key: fields.pop(key) for key in ("max_retries", "env") if key in fields}
    fields.setdefault("array", count > 1)
    return AppDef(name, [role(script, count, **role_fields)], **fields)


def submitted(scheduler: AWSBatchScheduler, what: AppDef | str, **options: Any) -> str:
    """Submit an app, or a script as one; returns its id."""
    made = app(what) if isinstance(what, str) else what
    return scheduler.submit(made, {**MAIN, **options})


def ended(scheduler: AWSBatchScheduler, app_id: str) -> DescribeAppResponse:
    """Wait for the end of an app; returns all that is known of it."""
    while True:
        answer = described(scheduler, app_id)
        if answer.to_status().is_terminal():
            return answer
        scheduler.wait_for_change(app_id, 5, until_end=True)


def over(scheduler: AWSBatchScheduler, app_id: str) -> AppStatus:
    """Wait for the end of an app, as `Runner.wait` does; returns its status."""
    while True:
        status = scheduler.statuses([app_id])[app_id]
        assert status is not None
        if status.is_terminal():
            return status
        scheduler.wait_for_change(app_id, 5, until_end=True)


def described(scheduler: AWSBatchScheduler, app_id: str) -> DescribeAppResponse:
    """Return all that is known of an app that must exist."""
    answer = scheduler.describe(app_id)
    assert answer is not None, f"{app_id} is not known"
    return answer


def reached(
    scheduler: AWSBatchScheduler, app_id: str, raw: str, state: AppState | None = None
) -> DescribeAppResponse:
    """Wait until an app is in a state, in AWS's word and perhaps in ours."""

    def there() -> DescribeAppResponse | None:
        answer = described(scheduler, app_id)
        fits = answer.raw_state == raw and state in (None, answer.state)
        return answer if fits else None

    found = until(there, f"{app_id} to be {raw}")
    assert found is not None
    return found


def job_ids(scheduler: AWSBatchScheduler, app_id: str) -> list[str]:
    """Return AWS's ids of the jobs behind an app."""
    return described(scheduler, app_id).metadata["job_id"].split(", ")


class Asked(Counter[str]):
    """How often each operation was asked for, by any client of an emulator in this process."""

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(self.values())


@contextmanager
def counted() -> Iterator[Asked]:
    """Count what the emulators of this process are asked inside a block."""
    asked = Asked()

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            words = record.getMessage().split()
            operation = words[1].partition(":")[2] if len(words) > 1 else ""
            if operation:
                asked[operation] += 1

    logger, handler = logging.getLogger(_REQUESTS), Counting()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield asked
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class Meddling:
    """A client in which some calls are done by somebody else.

    Args:
        client: the real one.
        calls: method name → what is done instead; it is given the real method.
    """

    def __init__(self, client: Any, **calls: Callable[..., Any]) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        instead = self._calls.get(name)
        if instead is None:
            return real
        return lambda **params: instead(real, **params)
