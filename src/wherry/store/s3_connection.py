"""The way to a bucket: which client is used, and what is asked again of which.

A request is repeated where the bucket proves to be in another region, where the credentials have
expired and there may be others by now, and where an answer broke off. After a fork the other client
is used.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from wherry.store.s3_access import Access
from wherry.store.s3_failures import Kind, S3Failure
from wherry.store.s3_words import error_of

if TYPE_CHECKING:
    from wherry.store.s3_botocore import BotocoreWire
    from wherry.store.s3_wire import Wire

Answer = TypeVar("Answer")

_MOST_BROKEN = 6

_used_by = 0  # the process in which obstore's threads run


class Connection:
    """Clients of one bucket, made when they are needed. All methods may be called from any thread.

    Args:
        url: the store's, for messages.
        access: who we are, and where the bucket is.
    """

    def __init__(self, url: str, access: Access) -> None:
        self.access = access
        self._url = url
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._wire: Wire | None = None
        self._other: BotocoreWire | None = None
        self._left: list[object] = []

    def close(self) -> None:
        """Let go of the clients; others are made when they are needed again."""
        with self._lock:
            if self._other is not None:
                self._other.close()
            self._wire = self._other = None

    def ask(
        self, doing: str, key: str, ask: Callable[[Wire], Answer], *, raw: bool = False
    ) -> Answer:
        """Carry out a request, and again where that is of use.

        Args:
            doing: ``read``, ``look at``, ``write``, ``list`` or ``delete``, for messages.
            key: the object's key, or the beginning of keys, for messages.
            ask: makes the request by a client.
            raw: whether the caller wants to see the failure, and to repeat for itself.

        Raises:
            StoreError, CredentialsError: it cannot be done.
            S3Failure: the same, when ``raw``.
        """
        renewed = moved = False
        broken = 0
        while True:
            wire = self._first(doing, key)
            try:
                return ask(wire)
            except S3Failure as failure:
                if failure.kind is Kind.REGION and not moved and self._moved(wire, failure):
                    moved = True
                elif failure.kind in (Kind.EXPIRED, Kind.CREDENTIALS) and not renewed:
                    renewed = True
                    self._renew(wire)
                elif failure.kind is Kind.BROKEN and broken < _MOST_BROKEN and not raw:
                    # obstore repeats requests, and not what breaks off in the middle.
                    broken += 1
                    time.sleep(random.uniform(0, 0.1 * 2**broken))  # noqa: S311 — jitter
                elif raw:
                    raise
                else:
                    raise self.error(failure, doing, key) from failure

    def _first(self, doing: str, key: str) -> Wire:
        if self._pid != os.getpid():
            self._forked()
        with self._lock:
            if self._wire is None:
                try:
                    self.access.check()
                    self._wire = self._made()
                except S3Failure as failure:
                    raise self.error(failure, doing, key) from failure
            return self._wire

    def _made(self) -> Wire:
        global _used_by
        if _used_by not in (0, os.getpid()):
            return self.second()
        from wherry.store.s3_obstore import ObstoreWire

        _used_by = os.getpid()
        return ObstoreWire(self.access)

    def second(self) -> BotocoreWire:
        """Return the client for what the first one cannot do."""
        from wherry.store.s3_botocore import BotocoreWire

        with self._lock:
            if self._other is None:
                self._other = BotocoreWire(self.access)
            return self._other

    def _forked(self) -> None:
        """Begin anew in a child: locks may be held, and threads are gone, where it came from."""
        self._left.append((self._wire, self._other))  # their ends would wait for those threads
        self.access = self.access.again()
        self._lock = threading.RLock()
        self._wire = self._other = None
        self._pid = os.getpid()

    def _renew(self, stale: Wire) -> None:
        with self._lock:
            if self._wire is stale:
                self.access.renew()
                self._wire = self._other = None

    def _moved(self, stale: Wire, failure: S3Failure) -> bool:
        with self._lock:
            if self._wire is not stale:
                return True
            news = self.access.moved(failure.region or self.access.found_region())
            if news:
                self._wire = self._other = None
            return news

    def error(self, failure: S3Failure, doing: str, key: str) -> Exception:
        """Make an error of a failure, for people."""
        return error_of(failure, doing, self._url, key, self.access, self._buckets)

    def _buckets(self) -> list[str]:
        try:
            return self.second().buckets()
        except S3Failure:
            return []
