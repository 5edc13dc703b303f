"""An outcome while it comes together, and how it is stored."""

from __future__ import annotations

import os
import resource
import sys
import time

from . import digests
from .failures import plain
from .faults import StoreFault
from .formats import FORMAT, outcome_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .formats import Buffer, Failure, Header, Item
    from .objects import Objects


class Outcome:
    """What is going to be stored of a child.

    Attributes:
        header: the outcome's header; `store` completes it.
    """

    def __init__(self, job: str, child: int, attempt: int) -> None:
        self._began = time.time()
        self._parts: list[Buffer] = []
        self._phase = ""
        self._phase_began = time.monotonic()
        self.header: Header = {
            "version": FORMAT,
            "job": job,
            "child": child,
            "attempt": attempt,
            "python": ".".join(str(number) for number in sys.version_info[:3]),
            "host": os.uname().nodename,
            "started": self._began,
            "phases": {},
            "items": [],
            "exit": 1,
        }

    def enter(self, phase: str) -> None:
        """Begin a phase, and take note of how long the one before it took."""
        now = time.monotonic()
        if self._phase:
            phases = self.header["phases"]
            spent = phases.get(self._phase, 0.0) + now - self._phase_began
            phases[self._phase] = round(spent, 6)
        self._phase, self._phase_began = phase, now

    def add(self, *parts: Buffer) -> int:
        """Add parts; return the number of the first."""
        self._parts += parts
        return len(self._parts) - len(parts)

    def add_item(self, item: Item, parts: list[Buffer]) -> None:
        """Add what came of an item, and the record that belongs to it."""
        if parts:
            first = self.add(*parts)
            if item["ok"]:
                item["value"], item["parts"] = first, len(parts)
            else:
                item["error"]["exception"] = self.add(b"".join(parts))
        self.header["items"].append(item)

    def fail(self, error: Failure, parts: list[Buffer] | None = None) -> None:
        """Say why nothing ran."""
        if parts:
            error["exception"] = self.add(b"".join(parts))
        self.header["error"] = error

    def store(self, objects: Objects, key: str) -> bool:
        """Store the outcome; without its values when there is no room for them.

        Returns:
            Whether it was stored as it was.

        Raises:
            StoreFault: not even what went wrong can be stored.
        """
        self._complete()
        try:
            objects.write(key, [outcome_head(self.header), *self._parts])
            return True
        except StoreFault as fault:
            self._drop_values(str(fault))
            objects.write(key, [outcome_head(self.header), *self._parts])
            return False

    def _complete(self) -> None:
        own = resource.getrusage(resource.RUSAGE_SELF)
        below = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
        self.enter("")
        self.header["ended"] = time.time()
        self.header["cpu"] = round(cpu, 6)
        self.header["peak_kib"] = max(own.ru_maxrss, below.ru_maxrss)
        pickling = sys.modules.get("cloudpickle")
        if pickling is not None:
            self.header["cloudpickle"] = pickling.__version__
        self._measure()

    def _measure(self) -> None:
        self.header["parts"] = [memoryview(part).nbytes for part in self._parts]
        self.header["digest"] = digests.digest_of(self._parts)

    def _drop_values(self, why: str) -> None:
        size = sum(memoryview(part).nbytes for part in self._parts)
        said = plain("store", f"The outcome ({size:,} bytes) could not be stored. {why}")
        kept: list[Buffer] = []
        if "stdout" in self.header:
            kept.append(self._parts[self.header["stdout"]])
            self.header["stdout"] = len(kept) - 1
        if "stderr" in self.header:
            kept.append(self._parts[self.header["stderr"]])
            self.header["stderr"] = len(kept) - 1
        for item in self.header["items"]:
            if item["ok"]:
                item["ok"] = False
                item["error"] = said
                del item["value"], item["parts"]
            item["error"].pop("exception", None)
        if "error" in self.header:
            self.header["error"].pop("exception", None)
        self.header["exit"] = self.header["exit"] or 1
        self._parts = kept
        self._measure()
