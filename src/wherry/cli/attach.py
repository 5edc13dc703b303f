"""Staying with an app until it ends: its logs stream, and the terminal's keys reach it.

Threads copy the logs. The main thread sleeps on a pipe, into which the threads write when they
end and signal handlers when a key is pressed, so that nothing is ever called from a handler.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading

from wherry.cli.output import is_terminal, say
from wherry.cli.session import place_of
from wherry.cli.sinks import Sink, goes_to_same_place
from wherry.schedulers.api import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from wherry.cli.progress import Progress
    from wherry.runner import Runner
    from wherry.schedulers.api import LogChunk

    Handler = Callable[[int, Any], Any] | int | None

ENDED = "ended"
LEFT = "left"
DETACHED = "detached"
UNHEARD = "unheard"

_STREAM_ENDED, _PIPE_BROKE, _INTERRUPT, _STOP = b".", b"|", b"C", b"Z"
_KEYS = {signal.SIGINT: _INTERRUPT, signal.SIGTSTP: _STOP}
_REDRAW_SECONDS = 0.1


class Attachment:
    """One stay with one app.

    Args:
        runner: knows the app.
        handle: the app.
        replicas: how many it has.
        owned: whether Ctrl-C means the app's end, or only that nobody wants to watch any more.
        raw: whether a terminal gets the control sequences of others.
        logs_to_stderr: keep stdout free for something else.
    """

    def __init__(
        self,
        runner: Runner,
        handle: str,
        replicas: int,
        *,
        owned: bool,
        raw: bool = False,
        logs_to_stderr: bool = False,
    ) -> None:
        self.interrupts = 0
        self._runner = runner
        self._handle = handle
        self._scheduler, self._app_id = place_of(runner, handle)
        self._owned = owned
        self._errors: list[BaseException] = []
        self._stopped = False
        self._reader, self._writer = -1, -1
        self._progress = _progress(runner, handle) if replicas > 1 else None
        around = None if self._progress is None else (self._progress.hide, self._progress.wrote)

        def sink(file: Any) -> Sink:
            shared = around if is_terminal(file) else None
            return Sink(file, prefixed=replicas > 1, raw=raw, around=shared)

        if logs_to_stderr:
            self._streams = [(Stream.COMBINED, sink(sys.stderr))]
        elif goes_to_same_place(sys.stdout, sys.stderr):
            self._streams = [(Stream.COMBINED, sink(sys.stdout))]
        else:
            self._streams = [(Stream.STDOUT, sink(sys.stdout)), (Stream.STDERR, sink(sys.stderr))]

    def stay(self) -> str:
        """Stream the logs until the app has ended or somebody goes away.

        Returns:
            ``ENDED``; ``LEFT`` when Ctrl-C left an app that goes on; ``DETACHED`` after Ctrl-Z;
            ``UNHEARD`` when nobody reads stdout any more.
        """
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        earlier = {key: _take(key, self._tell) for key in _KEYS}
        try:
            self._start()
            return self._listen()
        finally:
            self._stopped = True
            for key, handler in earlier.items():
                if handler is not None:
                    signal.signal(key, handler)
            # The pipe stays open: a copying thread may still want to say that it ended.
            if self._progress is not None:
                self._progress.stop()

    def _tell(self, number: int, _frame: object) -> None:
        self._post(_KEYS[signal.Signals(number)])

    def _post(self, event: bytes) -> None:
        os.write(self._writer, event)

    def _start(self) -> None:
        for stream, sink in self._streams:
            threading.Thread(target=self._copy, args=(stream, sink), daemon=True).start()
        if self._progress is not None:
            self._progress.start()

    def _listen(self) -> str:
        copying = len(self._streams)
        while copying:
            for event in self._events():
                if event == _STREAM_ENDED:
                    copying -= 1
                elif event == _PIPE_BROKE and not self.interrupts:
                    return UNHEARD
                elif event == _STOP:
                    return self._detach()
                elif event == _INTERRUPT and not self._interrupt():
                    return LEFT
        if self._errors:
            raise self._errors[0]
        return ENDED

    def _events(self) -> list[bytes]:
        """Wait for events; a terminal's status line is redrawn meanwhile."""
        timeout = None if self._progress is None else _REDRAW_SECONDS
        ready, _, _ = select.select([self._reader], [], [], timeout)
        if self._progress is not None:
            self._progress.draw()
        return [bytes((code,)) for code in os.read(self._reader, 64)] if ready else []

    def _interrupt(self) -> bool:
        """Answer Ctrl-C; tells whether to stay."""
        self.interrupts += 1
        if not self._owned:
            self._say(f"no longer following; the app goes on. {self._how_to_follow()}")
            return False
        kill = self.interrupts > 1
        self._say("killing …" if kill else "cancelling … (Ctrl-C again to kill)")
        self._runner.cancel(self._handle, reason="interrupted", kill=kill)
        return True

    def _detach(self) -> str:
        self._runner.detach(self._handle)
        self._say(f"detached; the app goes on. {self._how_to_follow()}")
        return DETACHED

    def _how_to_follow(self) -> str:
        return f"Follow again: wherry log -f {self._handle}"

    def _say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.hide()
        # A terminal has just shown ^C or ^Z, and stands behind it.
        say(f"\n{text}" if is_terminal(sys.stderr) else text)
        if self._progress is not None:
            self._progress.wrote(True)

    def _copy(self, stream: Stream, sink: Sink) -> None:
        """Copy one stream to the end; what goes wrong is kept for the main thread."""
        try:
            self._copy_chunks(stream, sink)
        except Exception as error:  # noqa: BLE001 — raised again by the main thread
            self._errors.append(error)
        self._post(_STREAM_ENDED)

    def _copy_chunks(self, stream: Stream, sink: Sink) -> None:
        heard = True
        for chunk in self._chunks(stream):
            if self._stopped:
                return
            if heard:
                heard = self._heard(sink.write, chunk.role, chunk.replica, chunk.data)
        if heard and not self._stopped:
            self._heard(sink.finish)

    def _heard(self, write: Callable[..., None], *what: object) -> bool:
        """Write; tells whether anybody still reads."""
        try:
            write(*what)
        except BrokenPipeError:
            self._post(_PIPE_BROKE)
            return False
        return True

    def _chunks(self, stream: Stream) -> Iterator[LogChunk]:
        """Follow a stream; all output counts as stdout where a scheduler cannot tell them apart."""
        started = False
        try:
            for chunk in self._scheduler.follow(self._app_id, stream):
                started = True
                yield chunk
        except ValueError:
            if started or stream is Stream.COMBINED:
                raise
            if stream is Stream.STDOUT:
                yield from self._scheduler.follow(self._app_id, Stream.COMBINED)


def _take(number: signal.Signals, handler: Callable[[int, object], None]) -> Handler:
    """Install a handler and return the earlier one; a signal that is ignored stays ignored.

    Only the main thread may have handlers, and only a command line has a terminal's keys.
    """
    elsewhere = threading.current_thread() is not threading.main_thread()
    if elsewhere or signal.getsignal(number) is signal.SIG_IGN:
        return None
    return signal.signal(number, handler)


def _progress(runner: Runner, handle: str) -> Progress | None:
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        return None
    from wherry.cli.progress import Progress

    return Progress(runner, handle)
