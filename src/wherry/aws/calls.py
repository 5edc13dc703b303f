"""The one place where a client of AWS is asked to do something.

Throttled calls are repeated, and failed ones where that does no harm; both with jitter, at a rate
that all users of the same account share, and not for ever. What is not safe to repeat is never
repeated unless it is known that it was not carried out.
"""

from __future__ import annotations

import random
import re
import threading
import time as _time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wherry.aws import failures
from wherry.aws.documents import Client, Document
from wherry.aws.failures import FATE_UNKNOWN, Failure, Kind
from wherry.aws.pacing import Chance, Clock, Lane, Limiter, Seconds, backoff

PATIENCE: Seconds = 120.0
"""How long after its first failure a call is given up."""

Renew = Callable[[Client], Client | None]
"""Gives a client with newer credentials in place of one whose credentials have expired."""

Explain = Callable[[Failure], str]
"""Words a failure for people; empty where it knows nothing better than AWS's own words."""


@dataclass(frozen=True)
class _Again:
    """How a kind of failure is repeated.

    Args:
        attempts: how many there are at most, the first included.
        base: the longest first wait.
    """

    attempts: int
    base: Seconds


_AGAIN = {
    Kind.THROTTLED: _Again(10_000, 0.5),
    Kind.FAILED: _Again(8, 0.25),
    Kind.BROKEN: _Again(6, 0.25),
    Kind.UNREACHABLE: _Again(4, 0.5),
    Kind.EXPIRED: _Again(2, 0.0),
}

# What makes one thing more each time. All else that Batch and its neighbours offer may be asked
# for twice: it reads, it ends what may have ended, it sets what may be set.
_NOT_TWICE = re.compile(r"Submit|Create|Register|Put|Run|Start|Send|Publish|Invoke")
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
_SERVICES = {
    "batch": "AWS Batch",
    "logs": "CloudWatch Logs",
    "sts": "AWS STS",
    "ec2": "Amazon EC2",
    "ecr": "Amazon ECR",
    "ecs": "Amazon ECS",
    "iam": "AWS IAM",
    "s3": "Amazon S3",
}


class Calls:
    """Calls of one service through one client. All methods may be called from any thread.

    Args:
        client: a boto3 client; best one that does not retry by itself, as `Session` makes them.
        service: its service, by boto3's name.
        limiter: shared with all others who ask the same service of the same account.
        renew: gives a client with newer credentials, if there are such.
        explain: words failures.
        patience: how long after its first failure a call is given up.
        time: tells how time passes, in seconds.
        sleep: lets it pass.
        chance: gives numbers from 0 to 1.
    """

    def __init__(
        self,
        client: Client,
        *,
        service: str = "batch",
        limiter: Limiter | None = None,
        renew: Renew | None = None,
        explain: Explain | None = None,
        patience: Seconds = PATIENCE,
        time: Clock = _time.monotonic,
        sleep: Callable[[Seconds], object] = _time.sleep,
        chance: Chance = random.random,
    ) -> None:
        self._client = client
        self.service = service
        self._limiter = limiter or Limiter(time=time)
        self._renew = renew or _never
        self._explain = explain or _nothing
        self._patience = patience
        self.time = time
        self.sleep = sleep
        self._chance = chance
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @property
    def client(self) -> Client:
        """The client that is asked at present."""
        return self._client

    @property
    def counts(self) -> dict[str, int]:
        """How often each operation was asked for, repetitions included."""
        with self._lock:
            return dict(self._counts)

    @property
    def limiter(self) -> Limiter:
        """What holds the calls back."""
        return self._limiter

    def has(self, operation: str) -> bool:
        """Tell whether the client knows an operation; older ones lack newer operations."""
        return hasattr(self._client, method_of(operation))

    def call(
        self, operation: str, /, *, patience: Seconds | None = None, **params: object
    ) -> Document:
        """Carry out an operation; repeat it as long as that is safe and of use.

        Args:
            operation: AWS's name for it, such as ``DescribeJobs``.
            patience: how long after its first failure it is given up.
            params: as AWS has them, such as ``jobs=[…]``.

        Returns:
            AWS's answer.

        Raises:
            AwsError: AWS refused it, or failed at it again and again; ThrottledError,
                CredentialsError, UnreachableError and LostReply say more.
            UsageError: botocore saw that AWS would refuse it.
        """
        safe = _NOT_TWICE.match(operation) is None
        return self._repeat(operation, params, safe, patience)

    def once(
        self, operation: str, /, *, patience: Seconds | None = None, **params: object
    ) -> Document:
        """Carry out an operation at most once.

        It is repeated only when it is known not to have been carried out.

        Raises:
            LostReply: it was sent, and nobody knows whether it was carried out.
            AwsError, UsageError: as for `call`.
        """
        return self._repeat(operation, params, False, patience)

    def pages(
        self, operation: str, key: str, /, *, patience: Seconds | None = None, **params: object
    ) -> Iterator[Document]:
        """Yield the items of a list, page by page, as they are wanted.

        Args:
            operation: AWS's name for it, such as ``ListJobs``.
            key: the member of the answer that has the items, such as ``jobSummaryList``.
            patience: how long after its first failure a page is given up.
            params: as AWS has them.

        Raises:
            AwsError, UsageError: as for `call`.
        """
        token: Document = {}
        while True:
            answer = self.call(operation, patience=patience, **{**params, **token})
            yield from answer.get(key) or ()
            following = next_page(answer)
            if not following or following == token:
                return
            token = following

    # -- one call, and again --------------------------------------------------------------------

    def _repeat(
        self, operation: str, params: Document, safe: bool, patience: Seconds | None
    ) -> Document:
        lane = self._limiter.lane(operation)
        failed: Counter[Kind] = Counter()
        give_up = float("inf")
        while True:
            self._take_place(lane)
            client = self._client
            try:
                answer = self._ask(client, operation, params)
            except failures.client_errors() as error:
                failure, cause = failures.read(error), error
            else:
                lane.succeeded()
                return answer
            self._tell(lane, failure)
            if not safe and failure.kind in FATE_UNKNOWN:
                raise failures.lost(failure, self._name(), operation) from cause
            failed[failure.kind] += 1
            if give_up == float("inf"):
                give_up = self.time() + (self._patience if patience is None else patience)
            pause = self._pause(failure, failed[failure.kind], client)
            if pause is None or self.time() + pause > give_up:
                raise self._error(failure, operation) from cause
            self.sleep(pause)

    def _take_place(self, lane: Lane) -> None:
        pause = lane.reserve()
        if pause > 0:
            self.sleep(pause)

    def _ask(self, client: Client, operation: str, params: Document) -> Document:
        with self._lock:
            self._counts[operation] += 1
        answer: Document = getattr(client, method_of(operation))(**params)
        return answer

    def _tell(self, lane: Lane, failure: Failure) -> None:
        if failure.kind is Kind.THROTTLED:
            lane.throttled()

    def _pause(self, failure: Failure, times: int, client: Client) -> Seconds | None:
        """Return how long to wait before the next attempt; ``None`` to make none."""
        again = _AGAIN.get(failure.kind)
        if again is None or times >= again.attempts:
            return None
        if failure.kind is Kind.EXPIRED and not self._renewed(client):
            return None
        return max(failure.retry_after, backoff(times, self._chance, base=again.base))

    def _renewed(self, stale: Client) -> bool:
        """Have a client with newer credentials, unless another thread has seen to it."""
        with self._lock:
            if self._client is not stale:
                return True
            fresh = self._renew(stale)
            if fresh is None:
                return False
            self._client = fresh
            return True

    def _error(self, failure: Failure, operation: str) -> Exception:
        words = self._explain(failure)
        return failures.error_of(failure, self._name(), operation, words=words)

    def _name(self) -> str:
        return _SERVICES.get(self.service, self.service)


def method_of(operation: str) -> str:
    """Return the name that a client's method has.

    >>> method_of("DescribeJobs")
    'describe_jobs'
    """
    return _WORDS.sub("_", operation).lower()


def next_page(answer: Document) -> Document:
    """Return the parameter that asks for the page after an answer; empty after the last."""
    for name in ("nextToken", "NextToken"):
        if answer.get(name):
            return {name: answer[name]}
    return {}


def _never(_stale: Client) -> Client | None:
    return None


def _nothing(_failure: Failure) -> str:
    return ""
