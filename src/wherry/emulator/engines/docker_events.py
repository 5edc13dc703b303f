"""The deaths of all containers of one emulator, from one connection to the Engine.

When the connection breaks, because the Engine was restarted say, it is made again, and the listener
is told to look for itself at what happened meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wherry.emulator.engines.docker_connection import open_answer, socket_of

if TYPE_CHECKING:
    from docker import APIClient
    from requests import Response

_log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class Deaths:
    """Listens in a thread of its own, from `open` to `close`.

    Args:
        client: the Engine.
        probe: raises an OSError while nobody listens where the Engine should be.
        filters: which containers.
        connected: called each time after a connection was made, the first time before `open`
            returns.
        died: called with a container's id and exit code.
        out_of_memory: called with the id of a container of which the kernel has killed a process.
    """

    def __init__(
        self,
        client: APIClient,
        probe: Callable[[], None],
        filters: Mapping[str, Iterable[str]],
        *,
        connected: Callable[[], None],
        died: Callable[[str, int], None],
        out_of_memory: Callable[[str], None],
    ) -> None:
        self._client = client
        self._probe = probe
        self._filters = {key: list(values) for key, values in filters.items()}
        self._filters |= {"type": ["container"], "event": ["die", "oom"]}
        self._connected = connected
        self._died = died
        self._out_of_memory = out_of_memory
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._answer: Response | None = None
        self._line: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._seen = time.time()

    def open(self) -> None:
        """Connect, and start the thread."""
        self._connect()
        self._thread = threading.Thread(target=self._run, name="docker-events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        if self._thread is None:
            return
        self._hang_up()
        self._thread.join()
        self._thread = None

    def _connect(self) -> None:
        # The Engine answers before it listens; what it did in between it remembers.
        query: dict[str, str | int] = {
            "since": int(self._seen) - 1,
            "filters": json.dumps(self._filters),
        }
        answer = open_answer(self._client, "GET", "/events", query)
        with self._lock:
            self._answer = answer
            self._line = socket_of(answer)
        self._connected()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._listen()
            self._reconnect()
        self._listen()  # a connection that was made while this was closing

    def _listen(self) -> None:
        """Tell events until the connection ends, however it ends."""
        answer = self._answer
        if answer is None:
            return
        with contextlib.suppress(OSError, ValueError), answer:
            if not self._closing.is_set():
                for line in answer.iter_lines():
                    self._tell(json.loads(line))
        with self._lock:
            self._answer = None
            if self._line is not None:
                self._line.close()
            self._line = None

    def _reconnect(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.wait(pause):
            try:
                self._probe()
                self._connect()
            except Exception as error:  # noqa: BLE001 — whatever it is, the Engine is not back yet
                _log.debug("the Docker Engine does not answer: %s", error)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    def _tell(self, event: Mapping[str, Any]) -> None:
        self._seen = max(self._seen, float(event.get("time", 0)))
        actor = event.get("Actor", {})
        container = str(actor.get("ID", ""))
        if event.get("Action") == "oom":
            self._out_of_memory(container)
        elif event.get("Action") == "die":
            self._died(container, int(actor.get("Attributes", {}).get("exitCode", 0)))

    def _hang_up(self) -> None:
        # It may be gone already. The thread that reads from it closes it.
        with self._lock, contextlib.suppress(OSError):
            if self._line is not None:
                self._line.shutdown(socket.SHUT_RDWR)
