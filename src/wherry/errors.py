"""Everything that Wherry raises on purpose.

    WherryError
    ├── UsageError (ValueError)          the caller asked for something that cannot be
    │   ├── InvalidSpecError             a value inside an app definition
    │   ├── InvalidOptionError           a run option: unknown, missing or of the wrong type
    │   ├── InvalidHandleError           text that is not scheduler://session/app_id
    │   ├── ConfigError                  wherry.toml or a WHERRY_* variable
    │   ├── ComponentError               a component: not found, not loadable, wrong arguments
    │   ├── UnknownNameError             a scheduler, named resource, role or replica nobody knows
    │   ├── WorkspaceError               a folder of code that cannot be shipped as it is
    │   └── PayloadError                 a function or value that cannot be sent to a job
    ├── UnknownAppError (LookupError)    no record of this app
    ├── LaunchError                      the app was not started; nothing was left behind
    ├── StateError                       the app is not in a state that allows this
    ├── WaitTimeout (TimeoutError)       the app had not finished in the time given
    ├── AppFailedError                   the app finished, and not well
    │   └── JobError                     a job of a function ended without a value
    │       ├── JobCancelledError        somebody ended it
    │       ├── JobTimeoutError (TimeoutError)  it took longer than it may
    │       ├── JobMemoryError (MemoryError)    it needed more memory than it has
    │       ├── JobKilledError           a signal ended its process
    │       ├── JobExitError             its process left by itself (sys.exit, os._exit)
    │       ├── DepsError                what it needs could not be installed
    │       ├── ResultError              its value could not be stored, or not be read here
    │       └── RemoteError              its exception, where its own class cannot be had here
    ├── StoreError                       the store of payloads and results failed
    │   ├── MissingObjectError (LookupError)  an object is not there
    │   └── CorruptObjectError           an object is not what was stored
    ├── DockerError                      the Docker Engine is not there, or refuses
    ├── RegistryError                    a registry of images refuses, or does not answer
    ├── AwsError                         AWS refused a call, or failed at it
    │   ├── CredentialsError             there are none, or AWS does not take them
    │   ├── ThrottledError               AWS was asked too often, for longer than we wait
    │   ├── UnreachableError             the endpoint gave no answer
    │   └── LostReply                    sent, and nobody knows whether it was carried out
    └── PluginError                      an entry point of another package failed to load

A class's docstring is its documentation and its message when none is given.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class WherryError(Exception):
    """Something went wrong that Wherry knows about."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class UsageError(WherryError, ValueError):
    """The request cannot be carried out as it was made."""


class InvalidSpecError(UsageError):
    """A value in an app definition is not allowed."""


class InvalidOptionError(UsageError):
    """A run option is unknown, missing or of the wrong type."""


class InvalidHandleError(UsageError):
    """The text is not an app handle."""


class ConfigError(UsageError):
    """The configuration could not be understood."""


class ComponentError(UsageError):
    """The component could not be found, loaded or called."""


class UnknownNameError(UsageError):
    """Nothing is known by this name."""


class WorkspaceError(UsageError):
    """The folder of code cannot be shipped as it is."""


class PayloadError(UsageError):
    """The function or a value cannot be sent to a job."""


class UnknownAppError(WherryError, LookupError):
    """There is no record of this app."""


class LaunchError(WherryError):
    """The app could not be started; nothing was left behind."""


class StateError(WherryError):
    """The app is not in a state that allows this."""


class WaitTimeout(WherryError, TimeoutError):  # noqa: N818 — like `TimeoutError`, a time-out is what it is
    """The app had not finished in the time given; it goes on."""


class AppFailedError(WherryError):
    """The app finished without success."""


class JobError(AppFailedError):
    """The job ended without a value."""


class JobCancelledError(JobError):
    """Somebody ended the job."""


class JobTimeoutError(JobError, TimeoutError):
    """The job took longer than it may."""


class JobMemoryError(JobError, MemoryError):
    """The job needed more memory than it has."""


class JobKilledError(JobError):
    """A signal ended the job's process."""


class JobExitError(JobError):
    """The job's process left by itself, before it had a value."""


class DepsError(JobError):
    """What the job needs could not be installed."""


class ResultError(JobError):
    """The job's value could not be stored there, or cannot be read here."""


class RemoteError(JobError):
    """The job raised an exception whose own class cannot be had here."""


class StoreError(WherryError):
    """The store of payloads and results failed."""


class MissingObjectError(StoreError, LookupError):
    """The object is not in the store."""


class CorruptObjectError(StoreError):
    """The object is not what was stored."""


class DockerError(WherryError):
    """The Docker Engine is not there, or refuses.

    Args:
        message: what happened, with the Engine's own words.
        status: the HTTP status of its answer; 0 when there was none.
    """

    def __init__(self, message: str | None = None, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class RegistryError(WherryError):
    """The registry of images refuses, or does not answer."""


class AwsError(WherryError):
    """AWS did not do what it was asked to do.

    Args:
        message: what happened, with AWS's own words.
        code: AWS's name for the error, such as ``AccessDeniedException``; empty without one.
        operation: what was asked, such as ``SubmitJob``.
        status: the HTTP status; 0 when there was no answer.
        request_id: what AWS's support asks for.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str = "",
        operation: str = "",
        status: int = 0,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.operation = operation
        self.status = status
        self.request_id = request_id

    @property
    def denied(self) -> bool:
        """Whether the caller is known, and not allowed to do this."""
        return self.code.startswith(("AccessDenied", "UnauthorizedOperation", "NotAuthorized"))

    @property
    def passing(self) -> bool:
        """Whether it may pass by itself, so that it is worth asking again later."""
        return self.status >= 500 or isinstance(self, (ThrottledError, UnreachableError, LostReply))


class CredentialsError(AwsError):
    """There are no AWS credentials, or AWS does not take those that there are."""


class ThrottledError(AwsError):
    """AWS was asked too often, and went on saying so for longer than we wait."""


class UnreachableError(AwsError):
    """The endpoint of AWS gave no answer."""


class LostReply(AwsError):  # noqa: N818 — like a lost letter: what happened, not what is wrong
    """The call was sent, and nobody knows whether it was carried out."""


class PluginError(WherryError):
    """An entry point of an installed package could not be loaded."""


def nearest(value: str, allowed: Iterable[str]) -> str | None:
    """Name the allowed word closest to a misspelt one.

    Args:
        value: what was written.
        allowed: the words that would have been accepted.

    Returns:
        The closest word, or ``None`` when none is close.
    """
    import difflib

    words = list(allowed)
    lowered = {word.lower(): word for word in reversed(words)}
    close = difflib.get_close_matches(value.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def unknown(kind: str, value: str, allowed: Iterable[str], *, shown: int = 12) -> str:
    """Word the message for a name that is not known.

    Args:
        kind: what the name was meant to be, such as ``"scheduler"``.
        value: what was written.
        allowed: the names that exist.
        shown: how many of them to list when none is close.

    Returns:
        One sentence that names the value, the nearest match and the choices.
    """
    words = sorted(set(allowed))
    close = nearest(value, words)
    if close is not None:
        hint = f"did you mean {close!r}?"
        if len(words) <= shown:
            hint += f" Known: {', '.join(words)}."
        return f"unknown {kind} {value!r}; {hint}"
    if not words:
        return f"unknown {kind} {value!r}; there are none."
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return f"unknown {kind} {value!r}; known: {', '.join(words[:shown])}{more}."
