"""A small event loop: readable descriptors, timers and signals, one thing at a time.

Descriptors that carry output are watched edge-triggered: the kernel then reports them in the order
in which they became readable, which is the order in which a program wrote to them.
"""

from __future__ import annotations

import os
import select
import time

from wherry.engine import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[int], None]

EDGE = select.EPOLLET
HANGUP = select.EPOLLHUP


class Timer:
    """Something to be done later; `cancel` takes it back."""

    __slots__ = ("action", "at")

    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Do not do it after all."""
        self.action = None


class Loop:
    """Waits for descriptors, timers and signals, and calls what was registered for each."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[Timer] = []
        self._signal_actions: dict[int, Callable[[], None]] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.add(self._wake_read, self._on_signal)

    def add(self, fd: int, handler: Handler, *, edge: bool = False) -> None:
        """Call ``handler(events)`` whenever a descriptor can be read or has hung up."""
        self._epoll.register(fd, select.EPOLLIN | (EDGE if edge else 0))
        self._handlers[fd] = handler

    def want_to_write(self, fd: int, wanted: bool) -> None:
        """Call a descriptor's handler also when it can be written to, or no longer so."""
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; must come before it is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Call an action once, after so many seconds of the monotonic clock."""
        timer = Timer(time.monotonic() + seconds, action)
        self._timers.append(timer)
        return timer

    def on_signal(self, number: int, action: Callable[[], None]) -> None:
        """Call an action, from the loop, after a signal has come."""
        if not self._signal_actions:
            signals.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._signal_actions[number] = action
        signals.handle(number, disregard)

    def run_until(self, done: Callable[[], bool], before_waiting: Callable[[], object]) -> None:
        """Serve until ``done()``, which is asked after each round.

        Args:
            done: whether to stop.
            before_waiting: called before each wait, to write down what has happened.
        """
        while not done():
            before_waiting()
            self._serve(self._next_timer())

    def _next_timer(self) -> float:
        """Drop the timers that were taken back; return the seconds to the next, or -1."""
        self._timers = [timer for timer in self._timers if timer.action]
        if not self._timers:
            return -1.0
        return max(0.0, min(timer.at for timer in self._timers) - time.monotonic())

    def _serve(self, timeout: float) -> None:
        for fd, events in self._epoll.poll(timeout):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        now = time.monotonic()
        for timer in [timer for timer in self._timers if timer.at <= now]:
            action = timer.action
            timer.cancel()
            if action is not None:
                action()

    def _on_signal(self, _: int) -> None:
        try:
            numbers = os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
        for number in set(numbers):
            action = self._signal_actions.get(number)
            if action is not None:
                action()


def disregard(*_: object) -> None:
    """Handle a signal by doing nothing.

    Unlike a signal that is ignored, one that is handled is not ignored by the programs that are
    started (execve(2)). Signals that count arrive through the wake-up descriptor.
    """
