"""Going on while AWS does not answer, for as long as that makes sense."""

from __future__ import annotations

from wherry.aws.logs import passes
from wherry.aws.pacing import Clock, Seconds
from wherry.errors import AwsError
from wherry.schedulers.aws_batch.log_notices import Notices

PATIENCE: Seconds = 900.0
"""How long a tail goes on without an answer."""

_FIRST_PAUSE: Seconds = 2.0
_LONGEST_PAUSE: Seconds = 30.0


class Trouble:
    """What a tail has had to bear since it last had an answer.

    Args:
        notices: told about it, once.
        time: tells how time passes, in seconds.
    """

    def __init__(self, notices: Notices, time: Clock) -> None:
        self._notices = notices
        self._time = time
        self._since: Seconds | None = None
        self._pause = _FIRST_PAUSE

    def bear(self, error: AwsError) -> Seconds:
        """Take note of a failure that may pass.

        Returns:
            How long to wait before the next attempt.

        Raises:
            AwsError: it will not pass, or has lasted too long.
        """
        now = self._time()
        self._since = now if self._since is None else self._since
        if not passes(error) or now - self._since > PATIENCE:
            raise error
        self._notices.say(f"the log is late: {error}; trying on")
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, self._pause * 2)
        return pause

    def over(self) -> None:
        """Take note of an answer."""
        self._since, self._pause = None, _FIRST_PAUSE
