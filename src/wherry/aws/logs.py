"""Reading one stream of CloudWatch Logs to its end, as often as it has one, and losing nothing.

GetLogEvents gives pages and tokens. The end is where a page brings back the token that it was asked
with, not where a page is empty: empty pages before the end are usual. A token stands for a place
behind an event, so that what is written later follows; it is good for 24 hours. What reaches
CloudWatch late lies before that place, and is found by reading the last stretch again (`again`).

Source: the API model, GetLogEvents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from wherry.aws.documents import Document
from wherry.aws.log_events import Event, Milliseconds, Recent, event_of
from wherry.aws.pacing import Seconds
from wherry.errors import AwsError, LostReply, ThrottledError, UnreachableError

WINDOW: Milliseconds = 60_000
"""How far back `StreamReader.again` looks from the newest event."""

_MOST_EMPTY = 100
"""How many empty pages in a row are an end. Streams whose events have expired have no other: each
page is empty, and each token a new one (boto/boto3#4591)."""

GROUP, STREAM = "group", "stream"


class Call(Protocol):
    """Carries out an operation of CloudWatch Logs; `Calls.call` does."""

    def __call__(
        self, operation: str, /, *, patience: Seconds | None = None, **params: object
    ) -> Document:
        """Return AWS's answer."""


class StreamReader:
    """Reads one stream, from its first event on, or from a time.

    Args:
        call: asks CloudWatch Logs.
        group: the log group.
        stream: the stream.
        since: only events at this time or later.
        until: only events before this time.
    """

    def __init__(
        self,
        call: Call,
        group: str,
        stream: str,
        *,
        since: Milliseconds | None = None,
        until: Milliseconds | None = None,
    ) -> None:
        self.group = group
        self.stream = stream
        self._call = call
        self._since = since
        self._until = until
        self._token = ""
        self._recent = Recent(WINDOW)
        self._is_new: Callable[[Event], bool] | None = None
        self._empty = 0
        self.at_end = False
        """Whether nothing followed the last page when it was read."""
        self.heard_at: Seconds | None = None
        """When CloudWatch Logs answered last, by the clock of AWS; seconds since the epoch."""

    def page(self) -> list[Event]:
        """Return the next events, perhaps none: see `at_end`.

        Raises:
            AwsError: AWS refused, or does not answer; `missing` tells whether the stream is
                not there. The next page is the one that has failed.
        """
        try:
            answer = self._ask(self._token)
        except AwsError as error:
            if not self._token or not _is_about_token(error):
                raise
            self._begin_again()
            answer = self._ask("")
        self.heard_at = answered_at(answer)
        events = [event_of(each) for each in answer.get("events") or ()]
        token = str(answer.get("nextForwardToken") or "")
        self._empty = 0 if events else self._empty + 1
        self.at_end = not token or token == self._token or self._empty >= _MOST_EMPTY
        self._token = token or self._token
        if self._is_new is not None:
            events = [event for event in events if self._is_new(event)]
            if self.at_end:
                self._is_new = None
        for event in events:
            self._recent.add(event)
        return events

    def read(self) -> Iterator[Event]:
        """Yield what there is now and was not read yet, to the end.

        Raises:
            AwsError: as for `page`.
        """
        self._empty = 0
        while True:
            yield from self.page()
            if self.at_end:
                return

    def again(self) -> Iterator[Event]:
        """Yield what is new to the end, late events of the last minute included.

        Raises:
            AwsError: as for `page`.
        """
        self._begin_again()
        yield from self.read()

    def _begin_again(self) -> None:
        """Forget the token; pages start a little before the newest event that was read."""
        self._token = ""
        self._is_new = self._recent.comparison()

    def _ask(self, token: str) -> Document:
        params: Document = {
            "logGroupName": self.group,
            "logStreamName": self.stream,
            "startFromHead": True,
        }
        start = self._since
        if self._is_new is not None:
            start = max(start or 0, self._recent.since or 0) or None
        if start is not None:
            params["startTime"] = start
        if self._until is not None:
            params["endTime"] = self._until
        if token:
            params["nextToken"] = token
        return self._call("GetLogEvents", **params)


def missing(error: Exception) -> str:
    """Tell whether what was asked for is not there: `GROUP`, `STREAM`, or nothing."""
    if not isinstance(error, AwsError) or error.code != "ResourceNotFoundException":
        return ""
    return GROUP if "log group" in str(error) else STREAM


def passes(error: Exception) -> bool:
    """Tell whether trouble may pass by itself."""
    if isinstance(error, (ThrottledError, UnreachableError, LostReply)):
        return True
    return isinstance(error, AwsError) and error.status >= 500


def answered_at(answer: Document) -> Seconds | None:
    """Return when AWS gave an answer, by its own clock; ``None`` where it does not say."""
    from email.utils import parsedate_to_datetime

    headers = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    try:
        return parsedate_to_datetime(str(headers["date"])).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _is_about_token(error: AwsError) -> bool:
    return error.code == "InvalidParameterException" and "token" in str(error).lower()
