"""One run of one command in a container: it is made, read, started, told to stop, and seen to end.

The order matters. Its output is asked for before it is started, so that no byte is missed; its end
is the end of that output, after which the Engine is asked how it ended. When the Engine itself goes
away, so does the output: then it is waited for, and what it has kept of the output is read from
where it was cut.
"""

from __future__ import annotations

from wherry.engine.docker.ending import (
    Ended,
    NotStartedError,
    ended,
    first_file,
    not_started,
    seconds,
)
from wherry.engine.docker.frames import STDERR_NUMBER, Frames
from wherry.engine.output import STDERR, STDOUT
from wherry.engine.signals import SIGKILL, SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from wherry.engine.attempt import Log
    from wherry.engine.docker.calls import Calls, Reply, Tap
    from wherry.engine.docker.http import Params
    from wherry.engine.loop import Timer

    Started = Callable[["NotStartedError | None"], None]

REMOVED = "its container was removed"
RESTARTED = "the Docker Engine was restarted, and its container ended with it"
_UNREACHABLE = "the Docker Engine cannot be reached; its container may still run"

_ENGINE_RETRY = 0.25
_SILENCE = 2.0
_KILL_AGAIN = 5.0
_GIVE_UP = 30.0
_ENGINE_ENDS = 1.0
_EVENTS_PATIENCE = 5.0
_SENT_BY_ENGINE = frozenset((SIGTERM, SIGKILL))
_DISK_RETRY = 0.25
_ERROR_FILE_MOST = 1 << 16
_STRAY_GRACE = 1.0
_GONE, _CONFLICT, _NOT_MODIFIED = 404, 409, 304

# Where it stands. A step may be taken only from the one before.
NEW, CREATING, READY, STARTING, RUNNING, OVER = range(6)


class Container:
    """What to run.

    Args:
        name: of the container.
        create: the body of ``POST /containers/create``.
        stop_signal: what asks the program to end.
        error_file: where inside it the program may leave word of what went wrong.
    """

    __slots__ = ("create", "error_file", "name", "stop_signal")

    def __init__(
        self, name: str, create: dict[str, Any], stop_signal: str, error_file: str = ""
    ) -> None:
        self.name = name
        self.create = create
        self.stop_signal = stop_signal
        self.error_file = error_file


class ContainerAttempt:
    """Runs one container.

    Args:
        calls: the Engine.
        container: what to run.
        log: where its output goes.
        disk_patience: seconds that the program is held back while the disk takes no more of its
            log, before it is ended.
        on_trouble: told in words what is waited for, and with nothing once it is over.
        on_end: called once, after the last byte of output is in the files.
        patient: whether it waits for an Engine that is not there to make the container.

    Attributes:
        pid: 0; the process is the Engine's.
        container_id: the Engine's name for it; empty before it is made.
        stop_reason: why it was told to stop; empty when it was not.
        ended: whether it is over.
        end: how it ended, once it has.
    """

    def __init__(
        self,
        calls: Calls,
        container: Container,
        log: Log,
        disk_patience: float,
        on_trouble: Callable[[str], None],
        on_end: Callable[[ContainerAttempt], None],
        *,
        patient: bool = False,
    ) -> None:
        self._patient = patient
        self._calls = calls
        self._loop = calls.loop
        self._container = container
        self._log = log
        self._disk_patience = disk_patience
        self._on_trouble = on_trouble
        self._on_end = on_end
        self._on_step: Started = lambda _: None
        self._phase = NEW
        self._tap: Tap | None = None
        self._frames = Frames()
        self._read: dict[int, int] = {}
        self._skip: dict[int, int] = {}
        self._timers: dict[str, Timer] = {}
        self._hung_up = False
        self._waiting = False
        self._silence = _SILENCE
        self._lost = False
        self._engine_away = False
        self._finishing: Ended | None = None
        self.pid = 0
        self.container_id = ""
        self.stop_reason = ""
        self.ended = False
        self.end = Ended(None)

    # From nothing to a running program.

    def prepare(self, on_ready: Started) -> None:
        """Have the container made and its output listened to; `set_off` has to follow.

        Args:
            on_ready: told that this is done, or why it could not be.
        """
        self._on_step = on_ready
        self._phase = CREATING
        self._create()

    def _create(self) -> None:
        params = {"name": self._container.name}
        self._calls.ask("POST", "/containers/create", self._created, params, self._container.create)

    def set_off(self, on_start: Started) -> None:
        """Have the program started.

        Args:
            on_start: told that it runs, or why it does not.
        """
        self._on_step = on_start
        self._phase = STARTING
        self._calls.ask("POST", f"{self._path}/start", self._started)

    def abandon(self) -> None:
        """Let go of what `prepare` made."""
        if self._phase < STARTING:
            self._fail(NotStartedError("never started"), tell=False)

    @property
    def _path(self) -> str:
        return f"/containers/{self.container_id}"

    def _created(self, reply: Reply) -> None:
        if reply.ok:
            self.container_id = reply.document["Id"]
        elif reply.status == _CONFLICT and self._lost:
            self.container_id = self._container.name  # The request that got no answer made it.
        if not reply.lost:
            self._engine_back()
        if self.ended:
            self._remove()
        elif reply.lost and self._patient and not self.stop_reason:
            self._engine_lost(self._create)
        elif self.container_id:
            self._created_or_found()
        else:
            # A lost answer may have made it: it is found by its name.
            self.container_id = self._container.name if reply.lost else ""
            self._fail(not_started(reply.words, lost=reply.lost))

    def _created_or_found(self) -> None:
        self._lost = False
        if self.stop_reason:
            self._fail(NotStartedError(self.stop_reason))
        else:
            self._attach()

    def _attach(self) -> None:
        params = {"stream": True, "stdout": True, "stderr": True}
        self._tap = self._calls.open(
            "POST", f"{self._path}/attach", self._attached, self._received, self._cut, params
        )

    def _attached(self, reply: Reply) -> None:
        if self.ended:
            return
        if not reply.ok:
            self._fail(not_started(reply.words, lost=reply.lost))
        elif self.stop_reason:
            self._fail(NotStartedError(self.stop_reason))
        else:
            self._phase = READY
            self._on_step(None)

    def _started(self, reply: Reply) -> None:
        if self.ended:
            self._remove()
        elif reply.ok:
            self._runs()
        elif reply.lost:
            self._engine_lost()  # It may run or not; the Engine will say, once it is back.
        else:
            self._fail(not_started(reply.words))

    def _runs(self) -> None:
        self._phase = RUNNING
        self._on_step(None)
        if self.stop_reason:
            self._kill()
        if self._hung_up:
            self._ask_how_it_ended()

    def _fail(self, problem: NotStartedError, *, tell: bool = True) -> None:
        """Leave nothing behind of what did not start."""
        self.ended, self._phase = True, OVER
        self._close()
        if self.container_id:
            self._remove()
        if tell:
            self._on_step(problem)

    def _remove(self) -> None:
        self._calls.ask(
            "DELETE", self._path, lambda _: None, {"force": True, "v": True}, urgent=True
        )

    # Stopping.

    def stop(self, reason: str, grace: float) -> None:
        """Ask the program to end, and kill it after the grace.

        Args:
            reason: kept, unless an earlier one was given.
            grace: seconds between the stop signal and SIGKILL; 0 kills at once.
        """
        if self.ended:
            return
        self.stop_reason = self.stop_reason or reason
        if self._phase == READY:
            self._fail(NotStartedError(self.stop_reason))
        elif self._phase < RUNNING:
            # The answer that is waited for decides (`_created`, `_runs`), if it comes.
            self._later("kill", _GIVE_UP, self._give_up_starting)
        elif grace <= 0:
            self._kill()
        elif "kill" not in self._timers:
            self._signal(self._container.stop_signal)
            self._later("kill", grace, self._kill)

    def _give_up_starting(self) -> None:
        if self._phase < RUNNING and not self.ended:
            self._fail(NotStartedError(self.stop_reason))

    def _kill(self, tried: float = 0.0) -> None:
        if tried >= _GIVE_UP:
            self._finish(Ended(None, _UNREACHABLE))
            return
        self._signal("SIGKILL")
        self._later("kill", _KILL_AGAIN, lambda: self._kill(tried + _KILL_AGAIN))

    def _signal(self, name: str) -> None:
        self._calls.ask(
            "POST", f"{self._path}/kill", self._signalled, {"signal": name}, urgent=True
        )

    def _signalled(self, reply: Reply) -> None:
        # 404 and 409: it is gone or has ended; if the end of its output was missed, look now.
        if not self.ended and reply.status in (_GONE, _CONFLICT) and self._tap is None:
            self._ask_how_it_ended()

    # Output.

    def _received(self, data: bytes) -> None:
        stream, chunks = "", list[bytes]()
        for number, payload in self._frames.feed(data):
            skipped = self._skip.get(number, 0)
            if skipped:
                self._skip[number] = max(0, skipped - len(payload))
                payload = payload[skipped:]
            if not payload:
                continue
            self._read[number] = self._read.get(number, 0) + len(payload)
            name = STDERR if number == STDERR_NUMBER else STDOUT
            if name != stream and chunks:
                self._log.write(stream, chunks)
                chunks = []
            stream = name
            chunks.append(payload)
        if chunks:
            self._log.write(stream, chunks)
        if self._log.blocked:
            self._wait_for_disk(0.0)

    def _wait_for_disk(self, waited: float) -> None:
        """Read no more until there is room, so that no line is lost; but not for ever."""
        if self._tap is not None:
            self._tap.pause()
        if waited >= self._disk_patience:
            reason = f"could not write its log for {waited:g} s: {self._log.problem}"
            self._log.discard()
            self.stop(reason, _STRAY_GRACE)
        if self._log.retry():
            self._timers.pop("disk", None)
            self._resume()
        else:
            self._later("disk", _DISK_RETRY, lambda: self._wait_for_disk(waited + _DISK_RETRY))

    def _resume(self) -> None:
        if self._tap is not None:
            self._tap.resume()
        if self._finishing is not None:
            self._finish(self._finishing)

    def _cut(self) -> None:
        """The output is at its end: the program's, or that of the Engine."""
        self._tap = None
        self._hung_up = True
        if self._phase == RUNNING:
            self._ask_how_it_ended()

    # The end.

    def _ask_how_it_ended(self) -> None:
        if self.ended or self._finishing is not None:
            return
        if not self._waiting:
            self._waiting = True
            self._calls.ask("POST", f"{self._path}/wait", self._waited, patience=None, urgent=True)
        # A program may close its output and go on; and so may a proxy, or an Engine that keeps
        # its containers. Then what it has written since is in the Engine's own log.
        self._later("silence", self._silence, self._read_on)
        self._silence *= 2

    def _waited(self, reply: Reply) -> None:
        self._waiting = False
        self._take_back("silence")
        if self.ended or self._finishing is not None:
            return
        if reply.lost:
            self._engine_lost()
        elif reply.status == _GONE:
            self._finish(Ended(None, REMOVED))
        elif not reply.ok:
            self._later("look", _ENGINE_RETRY, self._ask_how_it_ended)
        elif reply.document.get("StatusCode") == 0 and not self._needs_reading:
            self._finish(Ended(0))
        else:
            self._look()

    def _look(self) -> None:
        self._calls.ask("GET", f"{self._path}/json", self._looked, urgent=True)

    def _looked(self, reply: Reply) -> None:
        if self.ended or self._finishing is not None:
            return
        if reply.lost or (not reply.ok and reply.status != _GONE):
            self._engine_lost()
            return
        self._engine_back()
        if reply.status == _GONE:
            self._finish(Ended(None, REMOVED))
            return
        state = reply.document["State"]
        if self._phase == STARTING:
            self._settle_start(state)
        elif state.get("Running") or state.get("Paused"):
            self._read_on()
        else:
            memory = int(reply.document.get("HostConfig", {}).get("Memory") or 0)
            self._judge(ended(state, memory), state)

    def _judge(self, end: Ended, state: dict[str, Any]) -> None:
        """Find out whether it ended by itself, or together with the Engine."""
        if self.stop_reason or end.out_of_memory:
            self._ask_for_error(end)
        elif self._lost and end.exit_code:
            self._ask_for_error(_ended_with_engine(end))
        elif self._lost:
            self._ask_whether_containers_outlive_engine(end)
        elif end.signal in _SENT_BY_ENGINE:
            self._ask_who_ended_it(end, state)
        else:
            self._ask_for_error(end)

    def _ask_whether_containers_outlive_engine(self, end: Ended) -> None:
        """Believe a success in the Engine's absence only where the Engine ends no containers."""

        def on_reply(reply: Reply) -> None:
            if self.ended or self._finishing is not None:
                return
            outlives = reply.ok and reply.document.get("LiveRestoreEnabled")
            self._ask_for_error(end if outlives else _ended_with_engine(end))

        self._calls.ask("GET", "/info", on_reply, urgent=True)

    def _ask_who_ended_it(self, end: Ended, state: dict[str, Any]) -> None:
        """Tell a signal that came through the Engine from the program's own end.

        An Engine that is told to end stops its containers first, and answers until then.
        """

        def on_reply(reply: Reply) -> None:
            if self.ended or self._finishing is not None:
                return
            if reply.lost:
                self._engine_lost()
                return
            if not reply.ok or not reply.document:
                self._ask_for_error(end)
                return
            end.why += ", which came through the Docker Engine"
            self._later("look", _ENGINE_ENDS, lambda: self._look_once_more(end))

        filters = {"container": [self.container_id], "event": ["kill"]}
        since, until = seconds(state["StartedAt"]), seconds(state["FinishedAt"])
        params: Params = {"since": int(since), "until": int(until) + 1, "filters": filters}
        self._calls.ask("GET", "/events", on_reply, params, patience=_EVENTS_PATIENCE, urgent=True)

    def _look_once_more(self, end: Ended) -> None:
        """See whether the Engine went away after it, or somebody removed it."""

        def on_reply(reply: Reply) -> None:
            if self.ended or self._finishing is not None:
                return
            if reply.lost:
                self._engine_lost()
            elif reply.status == _GONE:
                self._finish(Ended(None, REMOVED))
            else:
                self._ask_for_error(end)

        path = f"{self._path}/json"
        self._calls.ask("GET", path, on_reply, patience=_EVENTS_PATIENCE, urgent=True)

    def _ask_for_error(self, end: Ended) -> None:
        """Fetch what a program that failed has left in its error file."""
        if not end.why or not self._container.error_file:
            self._catch_up(end)
            return

        def on_reply(reply: Reply) -> None:
            if reply.ok and isinstance(reply.document, bytes):
                end.error = first_file(reply.document, _ERROR_FILE_MOST)
            if not self.ended and self._finishing is None:
                self._catch_up(end)

        params = {"path": self._container.error_file}
        self._calls.ask("GET", f"{self._path}/archive", on_reply, params, urgent=True)

    def _settle_start(self, state: dict[str, Any]) -> None:
        """Learn what became of a start whose answer was lost."""
        if state.get("Running") or not str(state.get("StartedAt", "0001")).startswith("0001"):
            self._runs()
            if self._tap is None:
                self._look()
        else:
            words = state.get("Error") or "the Docker Engine was restarted before it could start"
            self._fail(not_started(words))

    # When the Engine, or the connection to it, was lost.

    @property
    def _needs_reading(self) -> bool:
        """Whether the Engine may have kept output that was not received."""
        return self._lost

    def _engine_lost(self, ask_again: Callable[[], None] | None = None) -> None:
        if not self._engine_away:
            self._engine_away = self._lost = True
            self._on_trouble("waits for the Docker Engine, which cannot be reached")
        self._later("look", _ENGINE_RETRY, ask_again or self._look)

    def _engine_back(self) -> None:
        if self._engine_away:
            self._engine_away = False
            self._on_trouble("")

    def _read_on(self) -> None:
        """Follow the Engine's own log, from where the output was cut."""
        if self._tap is not None or self.ended:
            return
        self._lost = False
        self._open_log(follow=True, on_end=self._cut)

    def _catch_up(self, end: Ended) -> None:
        """Read what is left in the Engine's own log, and finish."""
        if not self._needs_reading:
            self._finish(end)
            return
        self._open_log(follow=False, on_end=lambda: self._caught_up(end))

    def _caught_up(self, end: Ended) -> None:
        self._tap = None
        self._finish(end)

    def _open_log(self, *, follow: bool, on_end: Callable[[], None]) -> None:
        self._frames = Frames()
        self._skip = dict(self._read)
        params = {"stdout": True, "stderr": True, "follow": follow}

        def on_open(reply: Reply) -> None:
            if not reply.ok:
                self._tap = None
                on_end()

        self._tap = self._calls.open(
            "GET", f"{self._path}/logs", on_open, self._received, on_end, params
        )

    def _finish(self, end: Ended) -> None:
        self._finishing = end
        if self.ended or self._log.blocked:
            return  # `_wait_for_disk` comes back here.
        self.ended, self._phase = True, OVER
        self.end = end
        self._engine_back()
        self._close()
        self._on_end(self)

    def _close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if self._tap is not None:
            self._tap.close()
        self._tap = None
        self._log.close()

    def _later(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._take_back(name)
        self._timers[name] = self._loop.call_later(seconds, action)

    def _take_back(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def _ended_with_engine(end: Ended) -> Ended:
    how = end.why or "exited with code 0"
    end.why = f"{RESTARTED} ({how})"
    return end
