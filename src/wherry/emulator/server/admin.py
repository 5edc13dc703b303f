"""The admin path ``/_wherry/``: what is not AWS, for the command line and tests in any language.

A table from method and path to what is done. Everything is JSON; what is refused comes with status
400 and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Protocol

from wherry.emulator.batch.errors import BatchError
from wherry.emulator.batch.ports import Document
from wherry.emulator.clock import Clock
from wherry.emulator.faults import Fault, Faults
from wherry.errors import UsageError, WherryError, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.batch.service import BatchService

Handler = Callable[["Admin", Document, Document, str], Document]
"""Query, body, the rest of the path."""


class Emulated(Protocol):
    """What the admin path needs of the emulator."""

    @property
    def faults(self) -> Faults:
        """What goes wrong on purpose."""

    @property
    def clock(self) -> Clock:
        """The emulated time."""

    def service(self, region: str | None = None) -> BatchService:
        """Return Batch in a region."""

    def status(self) -> Document:
        """Return what runs."""

    def reset(self) -> None:
        """Forget everything."""


class Admin:
    """Answers requests to the admin path.

    Args:
        emulated: the emulator.
    """

    def __init__(self, emulated: Emulated) -> None:
        self.emulated = emulated

    def __call__(
        self, method: str, path: str, query: Document, body: Document
    ) -> tuple[int, Document]:
        """Do what is asked for.

        Args:
            method: the HTTP method.
            path: what follows ``/_wherry/``.
            query: of the URL; ``region`` says whose jobs are meant.
            body: a JSON object.

        Returns:
            The HTTP status and the answer.
        """
        head, _, rest = path.partition("/")
        handler = _ROUTES.get((method, head))
        if handler is None:
            return 404, _error(unknown("path", f"{method} {head}", map(" ".join, _ROUTES)))
        try:
            return 200, handler(self, query, body, rest)
        except (WherryError, BatchError, LookupError, TypeError, ValueError) as error:
            return 400, _error(str(error))

    # -- what is done ---------------------------------------------------------------------------

    def health(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Say that it answers."""
        return {"status": "ok"}

    def status(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Return what runs."""
        return self.emulated.status()

    def faults(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Return the faults that are on."""
        return {"faults": faults_of(self.emulated.faults)}

    def add_fault(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Turn one on."""
        return {"number": self.emulated.faults.add(fault_of(body))}

    def clear_faults(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Turn one off, or all."""
        if rest:
            self.emulated.faults.remove(_number(rest))
        else:
            self.emulated.faults.clear()
        return {}

    def act(self, query: Document, body: Document, rest: str) -> Document:
        """Let something happen once."""
        action = _ACTIONS.get(rest)
        if action is None:
            raise UsageError(unknown("action", rest, _ACTIONS))
        return action(self.emulated, query.get("region"), body)

    def clock(self, query: Document, body: Document, rest: str) -> Document:  # noqa: ARG002
        """Return the emulated time."""
        return {"now": self.emulated.clock.now(), "scale": self.emulated.clock.scale}

    def set_clock(self, query: Document, body: Document, rest: str) -> Document:
        """Change its pace, or jump ahead, or both."""
        _only(body, ("scale", "advance"))
        if body.get("scale") is not None:
            self.emulated.clock.set_scale(float(body["scale"]))
        if body.get("advance") is not None:
            self.emulated.clock.advance(float(body["advance"]))
        return self.clock(query, body, rest)


def fault_of(body: Mapping[str, object]) -> Fault:
    """Make a fault of a JSON object.

    Raises:
        UsageError: it has something that a fault does not have.
    """
    _only(body, tuple(field.name for field in fields(Fault)))
    given: Document = {name: _typed(name, value) for name, value in body.items()}
    if "kind" not in given:
        raise UsageError("a fault has a kind; got none")
    return Fault(**given)


def _typed(name: str, value: object) -> object:
    """Take a value that has the type of the field: numbers for numbers, text for the rest."""
    number = _NUMBERS.get(name)
    if number is None:
        return value if isinstance(value, str) else str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"a fault's {name} is a number; got {value!r}")
    return number(value)


_NUMBERS: dict[str, Callable[[float], float]] = {"rate": float, "every": int, "times": int}


def faults_of(faults: Faults) -> list[Document]:
    """Return the faults that are on, as JSON objects with ``number`` and ``struck``."""
    return [
        {"number": number, **asdict(fault), "struck": struck}
        for number, fault, struck in faults.active()
    ]


def _reclaim(emulated: Emulated, region: str | None, body: Document) -> Document:
    return {"jobs": emulated.service(region).reclaim(_given(body, "target"))}


def _lose_agent(emulated: Emulated, region: str | None, body: Document) -> Document:
    emulated.service(region).lose_agent(_given(body, "job"))
    return {}


def _expire(emulated: Emulated, region: str | None, body: Document) -> Document:
    _only(body, ("job",))
    return {"expired": emulated.service(region).expire(body.get("job"))}


def _reset(emulated: Emulated, region: str | None, body: Document) -> Document:  # noqa: ARG001
    emulated.reset()
    return {}


_ACTIONS: dict[str, Callable[[Emulated, str | None, Document], Document]] = {
    "reclaim": _reclaim,
    "lose-agent": _lose_agent,
    "expire": _expire,
    "reset": _reset,
}

_ROUTES: dict[tuple[str, str], Handler] = {
    ("GET", "health"): Admin.health,
    ("GET", "status"): Admin.status,
    ("GET", "faults"): Admin.faults,
    ("POST", "faults"): Admin.add_fault,
    ("DELETE", "faults"): Admin.clear_faults,
    ("POST", "actions"): Admin.act,
    ("GET", "clock"): Admin.clock,
    ("POST", "clock"): Admin.set_clock,
}


def _given(body: Document, name: str) -> str:
    _only(body, (name,))
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"expected {name!r}, a text; got {value!r}")
    return value


def _only(body: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in body:
        if name not in known:
            raise UsageError(unknown("member", name, known))


def _number(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"faults have numbers; got {text!r}")
    return int(text)


def _error(message: str) -> Document:
    return {"error": message, "message": message}
