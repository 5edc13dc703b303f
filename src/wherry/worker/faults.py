"""What can go wrong around a user's function: each fault has a kind of `formats.KINDS`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .formats import Failure


class Fault(Exception):  # noqa: N818 — what it is called in the formats' words
    """Something that is told to the client as the reason why a call has no value.

    Args:
        message: what happened, and what to do.
        kind: one of `formats.KINDS`.
        said: what is to be told, when it was put into words where it happened.
    """

    kind = "fetch"

    def __init__(self, message: str, kind: str = "", said: Failure | None = None) -> None:
        super().__init__(message)
        self.kind = kind or self.kind
        self.said = said


class StoreFault(Fault):
    """The store does not answer, or refuses."""


class MissingObject(StoreFault):
    """There is no such object."""


class CorruptObject(StoreFault):
    """An object is not what its name or its length promises."""
