"""Many small objects at once, by a few threads, with bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

_THREADS = 32  # many more than cores: most of the time they wait for the server
_OBJECTS_MOST = 256
_BYTES_MOST = 64 << 20

Fetch = Callable[[str], "bytes | None"]


def gather(fetch: Fetch, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """Fetch objects side by side; return them as they come.

    Args:
        fetch: returns an object; ``None`` when it is not there.
        keys: read as needed, by one thread at a time.

    Raises:
        Exception: what ``fetch`` or ``keys`` raised first.
    """
    crew = _Crew(fetch, iter(keys))
    try:
        crew.start()
        yield from crew.harvest()
    finally:
        crew.stop()


class _Crew:
    """Threads that take keys, and leave objects for the one who asked."""

    def __init__(self, fetch: Fetch, keys: Iterator[str]) -> None:
        self._fetch = fetch
        self._keys = keys
        self._taking = threading.Lock()
        self._changed = threading.Condition()
        self._found: deque[tuple[str, bytes | None]] = deque()
        self._bytes = 0
        self._over = False
        self._error: BaseException | None = None
        self._working = 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start one thread; each that finds a key starts another, as long as there may be more."""
        with self._changed:
            if self._over or len(self._threads) >= _THREADS:
                return
            thread = threading.Thread(target=self._work, name="wherry-gather", daemon=True)
            thread.start()
            self._threads.append(thread)
            self._working += 1

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in self._threads:  # none is added any more
            thread.join()

    def harvest(self) -> Iterator[tuple[str, bytes | None]]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._found or not self._working)
                batch = list(self._found)
                self._found.clear()
                self._bytes = 0
                self._changed.notify_all()
                if not batch and self._error is not None:
                    raise self._error
                if not batch:
                    return
            yield from batch

    def _work(self) -> None:
        try:
            key = self._take()
            if key is not None:
                self.start()
            while key is not None:
                self._leave(key, self._fetch(key))
                key = self._take()
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            with self._changed:
                self._error = self._error or error
                self._over = True
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _take(self) -> str | None:
        with self._changed:
            self._changed.wait_for(self._may_go_on)
            if self._over:
                return None
        with self._taking:
            return next(self._keys, None)

    def _may_go_on(self) -> bool:
        room = self._bytes < _BYTES_MOST and len(self._found) < _OBJECTS_MOST
        return self._over or room

    def _leave(self, key: str, data: bytes | None) -> None:
        with self._changed:
            self._found.append((key, data))
            self._bytes += len(data or b"")
            if len(self._found) == 1:
                self._changed.notify_all()
