"""One line at the bottom of a terminal: how many replicas are in which state, and since when."""

from __future__ import annotations

import os
import sys
import threading
import time

from wherry.cli.output import Paint
from wherry.cli.session import place_of
from wherry.cli.times import show_duration
from wherry.errors import WherryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.runner import Runner
    from wherry.specs.states import AppState

_QUIET_SECONDS = 0.1
_LOOK_SECONDS = 0.1
_CLEAR = "\r\x1b[K"


class Progress:
    """The line, and the thread that keeps its numbers fresh.

    Whoever writes to the same terminal calls `hide` before and `wrote` after; between the two the
    line is not drawn. It comes back once the terminal has been quiet for a moment.

    Args:
        runner: knows the app.
        handle: the app.
    """

    def __init__(self, runner: Runner, handle: str) -> None:
        self._runner = runner
        self._handle = handle
        self._scheduler, self._app_id = place_of(runner, handle)
        self._paint = Paint(sys.stderr)
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._last_output = 0.0
        self._at_line_start = True
        self._counts: dict[AppState, int] = {}
        self._shown = ""
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to look at the app."""
        threading.Thread(target=self._look, daemon=True).start()

    def stop(self) -> None:
        """Stop looking, and clear the line."""
        self._stopped.set()
        with self._lock:
            self._clear()

    def hide(self) -> None:
        """Clear the line and keep it away until `wrote` is called."""
        self._lock.acquire()
        self._clear()

    def wrote(self, whole_line: bool) -> None:
        """Let the line come back; over a part of a line it does not."""
        self._at_line_start = whole_line
        self._last_output = time.monotonic()
        self._lock.release()

    def draw(self) -> None:
        """Draw the line if its text is new and nobody else has just written."""
        with self._lock:
            quiet = time.monotonic() - self._last_output >= _QUIET_SECONDS
            if not (quiet and self._at_line_start and self._counts) or self._stopped.is_set():
                return
            text = self._text()
            if text != self._shown:
                self._shown = text
                sys.stderr.write(_CLEAR + text)
                sys.stderr.flush()

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _text(self) -> str:
        seconds = int(time.monotonic() - self._began)
        elapsed = f"{seconds} s" if seconds < 10 else show_duration(seconds)
        words = [f"{count} {state.name.lower()}" for state, count in sorted(self._counts.items())]
        return self._paint(f"{'  '.join(words)}  {elapsed}"[: _columns() - 1], "dim")

    def _look(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                status = self._runner.status(self._handle)
                if status is None or status.is_terminal():
                    return
                self._counts = status.counts()
                # An app of thousands takes a while to look at; look the less often.
                cost = time.monotonic() - began
                self._stopped.wait(max(_LOOK_SECONDS, 10 * cost))
                self._scheduler.wait_for_change(self._app_id, 1.0)
            except (WherryError, OSError):
                return  # a decoration is not worth failing for; the logs will tell


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
