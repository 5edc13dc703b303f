"""One run of one command: its process tree, its output, its end.

The tree is everything that descends from the process that was started, whatever group or session
it has moved to. A process whose parents are gone becomes a child of the supervisor, which is a
subreaper; it is told apart by its session, or by a variable in its environment.
"""

from __future__ import annotations

import os
import time

from wherry.engine import processes
from wherry.engine.loop import HANGUP
from wherry.engine.output import STDERR, STDOUT, OutputPipe
from wherry.engine.signals import SIGKILL, SIGTERM
from wherry.engine.spawn import Forked, StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from wherry.engine.loop import Loop, Timer
    from wherry.engine.spawn import Command

    class Log(Protocol):
        """Where output goes: to files (`wherry.engine.output.AttemptLog`), or to another process.

        Attributes:
            problem: what is in the way while it is blocked.
        """

        problem: str

        @property
        def blocked(self) -> bool:
            """Whether it holds bytes that it cannot pass on yet."""

        def write(self, stream: str, chunks: list[bytes]) -> None:
            """Take what was read from one stream."""

        def retry(self) -> bool:
            """Try again to pass on what it holds; tells whether more may come."""

        def discard(self) -> None:
            """Give up on what it holds and on all that follows."""

        def close(self) -> None:
            """Take note that nothing more comes."""


LINGER_SECONDS = 0.5
"""How long processes that outlive the program may go on, say to write their last lines."""

_FRESH_SECONDS = 0.02
_STRAY_GRACE = 1.0
_KILL_AGAIN = 0.05
_GIVE_UP = 10.0
_DRAIN_ROUNDS = 4
_DISK_RETRY = 0.25


class Family:
    """All processes below this one, which must be a subreaper.

    A look at the whole process table takes milliseconds, so that attempts which are told to stop
    together share one.

    Attributes:
        programs: the attempts whose program lives, by its pid.
        leaving: the attempts whose program has ended, and which are not over yet.
        staff: children that serve this process and are part of no attempt.
    """

    def __init__(self) -> None:
        self.programs: dict[int, Attempt] = {}
        self.leaving: list[Attempt] = []
        self.staff: set[int] = set()
        self._table: processes.Table | None = None
        self._seen_at = 0.0

    def has_orphans(self) -> bool:
        """Tell whether there may be children that are no attempt's program."""
        children = processes.own_children()
        return children is None or not self.programs.keys() >= set(children) - self.staff

    def members(self, attempt: Attempt, *, fresh: bool = False) -> list[int]:
        """List the living processes of an attempt."""
        table = self._look(fresh=fresh)
        roots = [
            pid
            for pid in table.children.get(os.getpid(), ())
            if pid not in self.programs
            and pid not in self.staff
            and (table.sessions.get(pid) == attempt.pid or self._is_marked(pid, attempt))
        ]
        if attempt.pid in self.programs:
            roots.insert(0, attempt.pid)
        return table.tree(*roots)

    def _is_marked(self, pid: int, attempt: Attempt) -> bool:
        # With one program left or just gone, whatever is here can only be its own.
        is_alone = not self.programs.keys() - {attempt.pid} and all(
            other is attempt for other in self.leaving
        )
        return (
            is_alone
            or processes.is_marked(pid, attempt.marker)
            or processes.is_inside(pid, attempt.own_folder)
        )

    def _look(self, *, fresh: bool) -> processes.Table:
        now = time.monotonic()
        if self._table is None or fresh or now - self._seen_at > _FRESH_SECONDS:
            self._table = processes.Table()
            self._seen_at = time.monotonic()
        return self._table


class Attempt:
    """Runs one command under a loop.

    Args:
        loop: what calls back.
        family: the processes below this one.
        command: what to run.
        log: where its output goes.
        marker: ``NAME=value`` in its environment, as bytes, that no other attempt has.
        disk_patience: seconds that the program is held back while the disk takes no more of its
            log, before it is ended.
        on_end: called once, after the last byte of output is in the files and no process is left.
        contained: whether it behaves like a container: SIGTERM goes to the program alone, what it
            leaves behind is killed at once, and its working directory is nobody else's.

    Attributes:
        marker: as given.
        own_folder: the folder that only its processes are in; empty when there is none.
        pid: the program's process, its session and its group.
        status: the program's wait status, once it has ended.
        stop_reason: why it was told to stop; empty when it was not.
        cpu_seconds, max_rss_kib: what the program used.
    """

    def __init__(
        self,
        loop: Loop,
        family: Family,
        command: Command,
        log: Log,
        marker: bytes,
        disk_patience: float,
        on_end: Callable[[Attempt], None],
        *,
        contained: bool = False,
    ) -> None:
        self._loop = loop
        self._family = family
        self._command = command
        self._log = log
        self.marker = marker
        self._disk_patience = disk_patience
        self._on_end = on_end
        self._contained = contained
        self.own_folder = command.cwd if contained else ""
        self._pipes: dict[str, OutputPipe] = {}
        self._timers: dict[str, Timer] = {}
        self.pid = 0
        self.status: int | None = None
        self.stop_reason = ""
        self.cpu_seconds = 0.0
        self.max_rss_kib = 0
        self.ended = False
        self._finishing = False

    def prepare(self) -> None:
        """Make its pipes; `set_off` and then `confirm` have to follow.

        Raises:
            OSError: there are no descriptors left.
        """
        try:
            for name in (STDOUT, STDERR):
                self._pipes[name] = OutputPipe(self._deliver)
        except BaseException:
            self._close()
            raise

    def set_off(self, stdin: int) -> None:
        """Begin to start the program.

        Raises:
            StartError: there can be no more processes.
        """
        write_ends = [self._pipes[name].write_end for name in (STDOUT, STDERR)]
        try:
            self._spawned = self._command.start(stdin, *write_ends)
        except Forked:
            raise
        except BaseException:
            self._close()
            raise
        self.pid = self._spawned.pid
        for pipe in self._pipes.values():
            pipe.started()

    def abandon(self) -> None:
        """Let go of what `prepare` made."""
        self.ended = True
        self._close()

    def confirm(self) -> None:
        """Wait until the program runs, and begin to read its output.

        Raises:
            StartError: it could not be started; nothing is left of it.
        """
        try:
            self._spawned.confirm()
        except StartError:
            self._close()
            raise
        self._family.programs[self.pid] = self
        for pipe in self._pipes.values():
            self._loop.add(pipe.read_end, self._reader(pipe), edge=True)

    def stop(self, reason: str, grace: float) -> None:
        """Ask the whole tree to end, and kill what is left of it after the grace.

        Args:
            reason: kept, unless an earlier one was given.
            grace: seconds between SIGTERM and SIGKILL; 0 kills at once.
        """
        if self.ended:
            return
        self.stop_reason = self.stop_reason or reason
        if grace > 0:
            if "kill" not in self._timers:
                self._ask_to_end()
                self._later("kill", grace, self._kill)
        else:
            self._kill()

    def program_ended(self, status: int, cpu_seconds: float, max_rss_kib: int) -> None:
        """Take note of how the program ended; what it left behind is dealt with by `settle`."""
        self._family.programs.pop(self.pid, None)
        self._family.leaving.append(self)
        self.status = status
        self.cpu_seconds = cpu_seconds
        self.max_rss_kib = max_rss_kib

    def settle(self) -> None:
        """Finish, if the program and all that it started are gone; else see that they go."""
        if self.status is None or self.ended:
            return
        if not self._family.has_orphans() or not self._family.members(self, fresh=True):
            self._finish()
        elif self._contained:
            self._kill()
        elif not self._timers.keys() & {"linger", "kill"}:
            self._later("linger", LINGER_SECONDS, self._stop_strays)

    def drain(self) -> None:
        """Read at once what has been written so far."""
        for pipe in self._pipes.values():
            if pipe.read_end >= 0:
                self._drain(pipe)

    def resume(self) -> None:
        """Read on, now that the log has room again."""
        timer = self._timers.pop("disk", None)
        if timer is None:
            return
        timer.cancel()
        self._read_what_came()
        if self._finishing:
            self._finish()

    def _ask_to_end(self) -> None:
        if self._contained:
            processes.send([self.pid] if self.status is None else [], SIGTERM)
        else:
            self._send(SIGTERM)

    def _stop_strays(self) -> None:
        self._send(SIGTERM)
        self._later("kill", _STRAY_GRACE, self._kill)

    def _send(self, number: int) -> None:
        processes.send(self._family.members(self), number)

    def _kill(self, tried: float = 0.0) -> None:
        """Kill what is left, again and again: a tree may grow while it is being cut."""
        self._send(SIGKILL)
        if tried < _GIVE_UP:
            self._later("kill", _KILL_AGAIN, lambda: self._kill(tried + _KILL_AGAIN))
        elif self.status is not None:
            self._finish()  # What is left sits inside a kernel call and cannot be killed.

    def _later(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        previous = self._timers.get(name)
        if previous is not None:
            previous.cancel()
        self._timers[name] = self._loop.call_later(seconds, action)

    def _reader(self, pipe: OutputPipe) -> Callable[[int], None]:
        def on_event(events: int) -> None:
            if pipe.read_end < 0:
                return
            if not self._log.blocked and pipe.read(all_of_it=bool(events & HANGUP)):
                self._loop.call_later(0, lambda: on_event(events))
            if pipe.at_end:
                self._loop.remove(pipe.read_end)

        return on_event

    def _deliver(self, pipe: OutputPipe, chunks: list[bytes]) -> None:
        stream = STDOUT if pipe is self._pipes[STDOUT] else STDERR
        for other in self._pipes.values():
            if other is not pipe:
                other.interrupt()
        self._log.write(stream, chunks)
        if self._log.blocked and "disk" not in self._timers:
            self._wait_for_disk(0.0)

    def _wait_for_disk(self, waited: float) -> None:
        """Read no more until there is room, so that no line is lost; but not for ever."""
        if waited >= self._disk_patience:
            reason = f"could not write its log for {waited:g} s: {self._log.problem}"
            self._log.discard()
            self.stop(reason, _STRAY_GRACE)
        self._later("disk", _DISK_RETRY, lambda: self._wait_for_disk(waited + _DISK_RETRY))
        if self._log.retry():
            self.resume()

    def _read_what_came(self) -> None:
        """Read what came while nothing was read; its announcements have been used up."""
        for pipe in self._pipes.values():
            if pipe.read_end >= 0 and not pipe.at_end:
                self._reader(pipe)(HANGUP)

    def _finish(self) -> None:
        """Read what is left, close everything, and say that it is over."""
        if self.ended:
            return
        for pipe in self._pipes.values():
            self._drain(pipe)
        self._finishing = True
        if self._log.blocked:
            return  # `_wait_for_disk` comes back here.
        self.ended = True
        self._family.leaving.remove(self)
        self._close()
        self._on_end(self)

    def _drain(self, pipe: OutputPipe) -> None:
        # A pipe holds a megabyte at most; more can only come from somebody who still writes.
        for _ in range(_DRAIN_ROUNDS):
            if pipe.at_end or self._log.blocked or not pipe.read(all_of_it=True):
                return

    def _close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for pipe in self._pipes.values():
            if pipe.read_end >= 0:
                self._loop.remove(pipe.read_end)
            pipe.close()
        self._log.close()
