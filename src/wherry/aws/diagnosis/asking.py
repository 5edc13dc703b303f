"""Asking AWS without stumbling: what cannot be looked at is noted, and the diagnosis goes on.

Whoever asks says in words what the question is about; those words come back to the user when the
answer does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from wherry.aws.documents import Document
from wherry.errors import AwsError


class Calls(Protocol):
    """What carries out an operation of one service; `wherry.aws.calls.Calls` does."""

    def call(
        self, operation: str, /, *, patience: float | None = None, **params: object
    ) -> Document:
        """Carry out an operation, and repeat it for so many seconds where that may help.

        Raises:
            AwsError: AWS refused, or gave no answer.
        """


class Services(Protocol):
    """Calls by the service's name, such as ``batch``; a dict will do."""

    def __getitem__(self, service: str, /) -> Calls:
        """Return the calls of a service.

        Raises:
            LookupError: there are none of this service.
        """


class Giver(Protocol):
    """What hands out calls; `wherry.aws.session.Session` does."""

    def calls(self, service: str = ..., /) -> Calls:
        """Return the calls of a service."""


class SessionServices:
    """The services of a session, each made when it is first asked for.

    Args:
        session: hands out their calls.
    """

    def __init__(self, session: Giver) -> None:
        self._session = session

    def __getitem__(self, service: str, /) -> Calls:
        return self._session.calls(service)


@dataclass(frozen=True)
class Answer:
    """What came back.

    Args:
        document: the answer; empty when there is none.
        code: of the error that came instead; empty with an answer.
    """

    document: Document = field(default_factory=dict)
    code: str = ""

    @property
    def is_given(self) -> bool:
        """Whether AWS did answer."""
        return not self.code


_PATIENCE = 8.0
"""Seconds for which a question that is only of help is repeated; somebody waits for the answer."""

NOT_ASKED = "NotAsked"
"""The code of an answer to a question that nobody could be asked."""


class Asking:
    """Asks several services, and keeps what could not be looked at.

    Args:
        services: whom to ask.

    Attributes:
        unseen: a sentence for each thing that could not be looked at.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.unseen: list[str] = []

    def ask(
        self,
        service: str,
        operation: str,
        what: str,
        *,
        expected: Collection[str] = (),
        **params: object,
    ) -> Answer:
        """Ask once.

        Args:
            service: such as ``iam``.
            operation: such as ``GetRole``.
            what: what it is about, in words, for the note.
            expected: codes of errors that are answers, such as ``NoSuchEntity``.
            **params: of the operation.

        Returns:
            The answer, or the code of the error.
        """
        calls = _found(self._services, service)
        if calls is None:
            self.note(f"{what}: {service} is not asked here")
            return Answer(code=NOT_ASKED)
        try:
            return Answer(calls.call(operation, patience=_PATIENCE, **params))
        except AwsError as error:
            code = error.code or type(error).__name__
            if code not in expected:
                self.note(f"{what}: {_why(error, service, operation)}")
            return Answer(code=code)

    def note(self, sentence: str) -> None:
        """Keep that something could not be looked at."""
        if sentence not in self.unseen:
            self.unseen.append(sentence)


def _found(services: Services, service: str) -> Calls | None:
    try:
        return services[service]
    except LookupError:
        return None


def _why(error: AwsError, service: str, operation: str) -> str:
    if error.denied:
        return f"not permitted ({service}:{operation})"
    return f"{service}:{operation} failed ({error.code or type(error).__name__})"
