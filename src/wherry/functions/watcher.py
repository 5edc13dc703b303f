"""One thread for the whole process that waits for jobs, while somebody wants to know.

Jobs of this machine are waited for with inotify on their event logs, and on the folder where the
outcome of a single call arrives; those of other places are asked for, many at once, at the pace
that their scheduler wants. A job that nobody waits for costs nothing.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from wherry.errors import WherryError
from wherry.home import home
from wherry.worker.formats import out_key

if TYPE_CHECKING:
    from wherry.engine.kernel import Watch
    from wherry.functions.progress import Progress

_HEALTH = 1.0
"""Seconds after which jobs of this machine are looked at although nothing was written."""
_CHECKED_AT_ONCE = 50
_EVENTS = "events.jsonl"
_FINISHED = b'{"e":"finished"'
_LAST_LINE = 4096
_UNFINISHED = ".part"


class _Signs(NamedTuple):
    """What differs when there is something new; ``None`` for what is not there.

    Args:
        logs: the size of each event log.
        arrived: how many outcomes are in each folder.
    """

    logs: tuple[int | None, ...]
    arrived: tuple[int | None, ...]


class Watcher:
    """Looks at jobs when they may have changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, Progress] = {}
        self._local: dict[int, _Signs] = {}
        self._new: list[Progress] = []
        self._thread: threading.Thread | None = None
        self._bell = self._rung = -1
        self._due: dict[str, float] = {}

    def watch(self, progress: Progress) -> None:
        """Look at a job until it has ended or nobody listens any more."""
        with self._lock:
            if id(progress) in self._watched:
                return
            self._watched[id(progress)] = progress
            self._new.append(progress)
            if self._thread is None:
                self._rung, self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._thread = threading.Thread(
                    target=self._run, name="wherry-watcher", daemon=True
                )
                self._thread.start()
            else:
                self._ring()

    @property
    def is_here(self) -> bool:
        """Whether this very thread is the watcher's."""
        return threading.current_thread() is self._thread

    def _ring(self) -> None:
        try:
            os.write(self._bell, b"!")
        except BlockingIOError:
            pass  # It is ringing already.

    def _run(self) -> None:
        import select

        from wherry.engine.kernel import Watch

        watch = Watch(())
        poll = select.poll()
        poll.register(watch.fd, select.POLLIN)
        poll.register(self._rung, select.POLLIN)
        health = time.monotonic() + _HEALTH
        while True:
            for progress in self._take_new():
                self._begin(progress, watch)
            now = time.monotonic()
            if now >= health:
                health = now + _HEALTH
                self._check_local()
            self._ask_others(now)
            self._look_at_changed(now, watch)
            self._let_go()
            if poll.poll(self._pause(health)):
                watch.clear()
                self._silence()

    def _take_new(self) -> list[Progress]:
        with self._lock:
            new, self._new = self._new, []
            return new

    def _begin(self, progress: Progress, watch: object) -> None:
        from wherry.engine.kernel import Watch

        if _is_local(progress) and isinstance(watch, Watch):
            for path in _event_logs(progress):
                watch.add(path)
            _watch_outcomes(progress, watch)
            self._local[id(progress)] = _signs(progress)
        progress.look()

    def _look_at_changed(self, now: float, watch: Watch) -> None:
        for key, before in list(self._local.items()):
            progress = self._watched.get(key)
            if progress is None:
                continue
            signs = _signs(progress)
            if signs == before:
                continue
            if None in before.arrived and signs.arrived != before.arrived:
                _watch_outcomes(progress, watch)
                signs = _signs(progress)
            has_arrived = any(signs.arrived) and signs.arrived != before.arrived
            if has_arrived or progress.not_before <= now or _is_over(progress):
                self._local[key] = signs
                progress.look()

    def _check_local(self) -> None:
        """Look at some, in turn: where supervisor and guard were killed, nothing is written."""
        keys = list(self._local)[:_CHECKED_AT_ONCE]
        for key in keys:
            self._local[key] = self._local.pop(key)
            progress = self._watched.get(key)
            if progress is not None and progress.not_before <= time.monotonic():
                progress.look()

    def _ask_others(self, now: float) -> None:
        groups: dict[int, list[Progress]] = {}
        for key, progress in list(self._watched.items()):
            if key not in self._local and progress not in self._new:
                groups.setdefault(id(progress.scheduler), []).append(progress)
        for group in groups.values():
            scheduler = group[0].scheduler
            due = self._due.get(scheduler.backend, 0.0)
            if now < due:
                continue
            _look_at_all(group)
            self._due[scheduler.backend] = time.monotonic() + scheduler.poll_seconds

    def _let_go(self) -> None:
        with self._lock:
            for key, progress in list(self._watched.items()):
                if progress not in self._new and (progress.ended or not progress.wanted):
                    del self._watched[key]
                    self._local.pop(key, None)

    def _pause(self, health: float) -> float | None:
        """Return milliseconds until there is something to do by itself; ``None`` for never."""
        now = time.monotonic()
        times = []
        if self._local:
            times.append(health)
            changed = [
                progress.not_before
                for key in self._local
                if (progress := self._watched.get(key)) is not None and progress.not_before > now
            ]
            times += changed
        if len(self._watched) > len(self._local):
            times += self._due.values() or [now]
        return max(0.0, min(times) - now) * 1000 if times else None

    def _silence(self) -> None:
        try:
            while os.read(self._rung, 4096):
                pass
        except BlockingIOError:
            pass


def _look_at_all(group: list[Progress]) -> None:
    """Look at the jobs of one scheduler, which is asked once for all of them."""
    ids = [app.app_id for progress in group for app in progress.record.apps]
    try:
        statuses = group[0].scheduler.statuses(ids)
    except (WherryError, OSError) as error:
        for progress in group:
            progress.trouble = error
        return
    for progress in group:
        progress.look(statuses)


def _is_local(progress: Progress) -> bool:
    return not progress.scheduler.remote and progress.scheduler.journaled


def _event_logs(progress: Progress) -> list[str]:
    return [os.path.join(home(), "apps", app.app_id, _EVENTS) for app in progress.record.apps]


def _is_over(progress: Progress) -> bool:
    """Tell whether the last event of every app says that it is the last; costs next to nothing."""
    for path in _event_logs(progress):
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_LINE))
                if _FINISHED not in file.read(_LAST_LINE):
                    return False
        except OSError:
            return False
    return True


def _watch_outcomes(progress: Progress, watch: Watch) -> None:
    """Watch the folder where outcomes arrive, or the one where that folder is going to be made."""
    from wherry.engine.kernel import IN_CREATE, IN_MOVED_TO

    for folder in _outcome_folders(progress):
        if not watch.add(folder, IN_MOVED_TO):
            watch.add(os.path.dirname(folder), IN_CREATE)


def _outcome_folders(progress: Progress) -> list[str]:
    """Name the folders where the outcomes of a job arrive, where that is worth a look at each.

    An array has too many; its event log says enough.
    """
    root = _folder_of(progress.store.url)
    if progress.is_array or not root:
        return []
    return [f"{root}/{out_key(app.job, 0)[:-2]}" for app in progress.record.apps]


def _folder_of(url: str) -> str:
    """Return the folder that a store is, or nothing."""
    if not url.startswith("file://"):
        return ""
    from urllib.parse import unquote

    return unquote(url[len("file://") :])


def _signs(progress: Progress) -> _Signs:
    logs = tuple(_size(path) for path in _event_logs(progress))
    return _Signs(logs, tuple(_count(folder) for folder in _outcome_folders(progress)))


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _count(folder: str) -> int | None:
    try:
        return sum(not name.endswith(_UNFINISHED) for name in os.listdir(folder))
    except OSError:
        return None


_made: list[Watcher] = []
_making = threading.Lock()


def watcher() -> Watcher:
    """Return this process's watcher; a forked process gets one of its own."""
    with _making:
        if not _made:
            _made.append(Watcher())
        return _made[0]


def _forget() -> None:
    _made.clear()


os.register_at_fork(after_in_child=_forget)
