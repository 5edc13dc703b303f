"""What is told to a person about logs that are not there: one line for each cause.

It is told beside the log, never in it. Words only; what they are told through is given.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from wherry.aws.log_places import Place

Notice = Callable[[str], object]
"""Takes one line of text for a person."""

FORGOTTEN = "AWS Batch does not know the job any more, and nobody noted where its log is"

_NAMED = 3
_NUMBER = re.compile(r"(\d+)", re.ASCII)
_LONGEST = 200


def tell(text: str) -> None:
    """Tell by the log of the program; without any settings Python writes it to stderr."""
    logging.getLogger("wherry").warning(text)


def never_ran(reason: str) -> str:
    """Say why there is no log of what was never started."""
    text = " ".join(reason.split())
    shown = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return f"it never ran ({shown})" if shown else "it never ran"


def no_stream(place: Place) -> str:
    """Say that a stream is not there."""
    return (
        f"AWS Batch names the stream {place.stream!r} in the log group {place.group!r}, "
        "and it does not exist"
    )


def no_group(place: Place) -> str:
    """Say that a log group is not there."""
    return f"the log group {place.group!r} does not exist"


def elsewhere(driver: str) -> str:
    """Say that output goes where nobody reads it here."""
    return f"its output goes to the log driver {driver!r}, and not to CloudWatch Logs"


class Notices:
    """Tells of each cause once, with those that it concerns.

    Args:
        notice: takes what is told.
    """

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._said: set[str] = set()
        self._known: set[tuple[str, str]] = set()
        self._gathered: dict[str, list[tuple[str, str]]] = {}

    def say(self, text: str) -> None:
        """Tell something at once, the first time only."""
        if text not in self._said:
            self._said.add(text)
            self._notice(text)

    def no_log(self, who: str, cause: str) -> None:
        """Tell at once why there is no log of a replica."""
        self.say(f"no log of {who}: {cause}")

    def gather(self, kind: str, who: str, cause: str) -> None:
        """Keep for later why there is no log of a replica; the first time only.

        Args:
            kind: what belongs on one line.
            who: the replica.
            cause: why; that of the first one is told.
        """
        if (kind, who) not in self._known:
            self._known.add((kind, who))
            self._gathered.setdefault(kind, []).append((who, cause))

    def tell_gathered(self) -> None:
        """Tell what was kept."""
        gathered, self._gathered = self._gathered, {}
        for found in gathered.values():
            found.sort(key=lambda each: _natural(each[0]))
            names = [who for who, _ in found]
            more = len(names) - _NAMED
            whom = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
            first = f"{names[0]}: " if len(names) > 1 else ""
            self.say(f"no log of {whom}: {first}{found[0][1]}")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts names with numbers as people do."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in _NUMBER.split(name)]
