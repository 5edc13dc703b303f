"""All revisions of all job definitions, found by name, oldest deregistration first when they go.

Numbers count up for each name and are never given again, whatever has become of a revision.
"""

from __future__ import annotations

from collections.abc import Iterator

from wherry.emulator.batch.records import JobDefinition


class Revisions:
    """The revisions that there are, and the highest number that each name ever had."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, JobDefinition]] = {}
        self._highest: dict[str, int] = {}
        self._deregistered: dict[str, JobDefinition] = {}  # by ARN, the oldest first

    def highest(self, name: str) -> int:
        """Return the highest number that a name ever had, 0 for a new one."""
        return self._highest.get(name, 0)

    def reach(self, name: str, number: int) -> bool:
        """Take note of a number; tells whether it is the highest so far."""
        is_higher = number > self.highest(name)
        if is_higher:
            self._highest[name] = number
        return is_higher

    def keep(self, definition: JobDefinition) -> None:
        """Add a revision, or take note that it has changed."""
        self._of.setdefault(definition.name, {})[definition.revision] = definition
        if definition.status != "ACTIVE":
            self._deregistered[definition.arn] = definition

    def find(self, name: str, number: int) -> JobDefinition | None:
        """Return a revision, active or not."""
        return self._of.get(name, {}).get(number)

    def latest_active(self, name: str) -> JobDefinition | None:
        """Return the active revision of a name with the highest number."""
        newest_first = (self.find(name, number) for number in range(self.highest(name), 0, -1))
        return next((one for one in newest_first if one and one.status == "ACTIVE"), None)

    def all(self, name: str | None = None) -> Iterator[JobDefinition]:
        """Return all revisions of one name, or of all, names in order and newest first."""
        for each in sorted(self._of) if name is None else (name,):
            of_name = self._of.get(each, {})
            for number in sorted(of_name, reverse=True):
                yield of_name[number]

    def sort(self) -> None:
        """Put those that are deregistered in order, after they were added in any other."""
        oldest_first = sorted(self._deregistered.values(), key=_left)
        self._deregistered = {one.arn: one for one in oldest_first}

    def forget_before(self, moment: float) -> list[JobDefinition]:
        """Drop those that were deregistered before a moment, and return them."""
        gone = []
        for old in self._deregistered.values():
            if _left(old) > moment:
                break
            gone.append(old)
        for old in gone:
            del self._deregistered[old.arn]
            of_name = self._of[old.name]
            del of_name[old.revision]
            if not of_name:
                del self._of[old.name]
        return gone


def _left(definition: JobDefinition) -> float:
    return definition.deregistered_at or 0.0
