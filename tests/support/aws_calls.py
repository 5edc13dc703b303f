"""Calls of AWS Batch for tests: with a clock that is turned by hand, against an emulator."""

from __future__ import annotations

import threading
from typing import Any

from support.cloud import client
from support.waiting import until
from wherry.aws import lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.aws.pacing import Limiter
from wherry.emulator.server.emulator import Emulator


class HandClock:
    """Time that goes by only when somebody sleeps, and then at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds

    def turn(self, seconds: float) -> None:
        self.now += seconds


def calls_of(asked: Any, clock: HandClock | None = None, **options: Any) -> Calls:
    """Make calls of a client, or of an emulator's Batch, that nobody has to wait for."""
    clock = clock or HandClock()
    batch = client(asked, "batch") if isinstance(asked, Emulator) else asked
    given = {
        "limiter": Limiter(time=clock.time),
        "time": clock.time,
        "sleep": clock.sleep,
        "chance": lambda: 0.5,
    }
    return Calls(batch, **{**given, **options})


def define(calls: Calls, name: str, command: list[str], **more: Any) -> str:
    """Register a definition that runs a command; returns its ARN."""
    answer = calls.call(
        "RegisterJobDefinition", **definition(command), jobDefinitionName=name, **more
    )
    return str(answer["jobDefinitionArn"])


def definition(command: list[str], **container: Any) -> dict[str, Any]:
    """Return the parameters of a definition, without its name."""
    return {
        "type": "container",
        "containerProperties": {
            "image": "busybox",
            "command": command,
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "64"},
            ],
            **container,
        },
    }


def start(calls: Calls, definition: str, name: str = "job", **more: Any) -> str:
    """Submit a job to the queue ``main``; returns its id."""
    answer = calls.call(
        "SubmitJob", jobName=name, jobQueue="main", jobDefinition=definition, **more
    )
    return str(answer["jobId"])


def ended(calls: Calls, job_id: str) -> JobView:
    """Wait for the end of a job; return it."""

    def over() -> JobView | None:
        job = lookup.describe(calls, [job_id]).get(job_id)
        return job if job is not None and job.ended else None

    found = until(over, f"the end of {job_id}")
    assert found is not None
    return found


def refusal(code: str, status: int = 400, message: str = "no", **headers: str) -> Exception:
    """Make the exception that botocore raises for an answer of AWS."""
    from botocore.exceptions import ClientError

    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return ClientError(answer, "Operation")


class Script:
    """A client whose every call does what comes next in a script.

    An exception is raised, all else is returned. What was asked is kept.
    """

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def ask(**params: Any) -> Any:
            self.asked.append((method, params))
            step = self.steps.pop(0)
            if isinstance(step, Exception):
                raise step
            return step

        return ask
