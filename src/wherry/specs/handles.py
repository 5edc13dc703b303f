"""The name of an app: ``scheduler://session/app_id``."""

from __future__ import annotations

from dataclasses import dataclass

from wherry.errors import InvalidHandleError

_FORM = "scheduler://session/app_id"
_SHOWN = 120


@dataclass(frozen=True)
class AppHandle:
    """An app's name, good from any process and on any day.

    Args:
        scheduler: the scheduler's name, such as ``local_cwd``.
        session: the session that submitted the app; may be empty.
        app_id: the app's id at its scheduler; may contain ``/``.

    Raises:
        InvalidHandleError: a part that the text form could not hold.
    """

    scheduler: str
    session: str
    app_id: str

    def __post_init__(self) -> None:
        if not _is_word(self.scheduler):
            raise InvalidHandleError(
                f"{_shown(self)} has no scheduler's name before '://': expected {_FORM}"
            )
        if "/" in self.session:
            raise InvalidHandleError(f"{_shown(self)}: a session's name has no '/' in it")
        if not self.app_id:
            raise InvalidHandleError(f"{_shown(self)} has no app id: expected {_FORM}")
        if any(c.isspace() or not c.isprintable() for c in self.session + self.app_id):
            raise InvalidHandleError(f"{_shown(self)} has white space in it: expected {_FORM}")

    def __str__(self) -> str:
        return f"{self.scheduler}://{self.session}/{self.app_id}"


def parse_app_handle(text: str) -> AppHandle:
    """Read an app handle.

    Args:
        text: such as ``"local_cwd://wherry/echo-0abc"``.

    Returns:
        Its three parts.

    Raises:
        InvalidHandleError: the text is not of that form.

    >>> parse_app_handle("local_cwd://wherry/echo-1").app_id
    'echo-1'
    """
    scheduler, mark, rest = text.partition("://") if isinstance(text, str) else ("", "", "")
    if not mark:
        raise InvalidHandleError(
            f"{_shown(text)} is not an app handle: expected {_FORM}; `wherry list` shows them"
        )
    session, _, app_id = rest.partition("/")
    return AppHandle(scheduler, session, app_id)


def make_app_handle(scheduler: str, session: str, app_id: str) -> str:
    """Write an app handle; the reverse of `parse_app_handle`."""
    return str(AppHandle(scheduler, session, app_id))


def _is_word(text: str) -> bool:
    return text.replace("_", "a").replace("-", "a").isalnum() and text.isascii()


def _shown(handle: object) -> str:
    text = repr(handle if isinstance(handle, str) else str(handle))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
