"""Pulls images, each once however many tasks wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from wherry.emulator.engines.docker_reasons import PULL, reason

if TYPE_CHECKING:
    from docker import APIClient

AT_ONCE = 3


class Images:
    """Pulls in threads of its own, so that a slow registry holds up nothing else.

    Args:
        client: the Engine.
    """

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Callable[[str], None]]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="docker-pull")

    def pull(self, image: str, then: Callable[[str], None]) -> None:
        """Pull an image.

        Args:
            image: as the job definition says it.
            then: called, from any thread, with the reason why it could not be pulled, or nothing.
        """
        with self._lock:
            waiting = self._waiting.setdefault(image, [])
            waiting.append(then)
            if len(waiting) > 1:
                return
        self._pool.submit(self._pull, image)

    def close(self) -> None:
        """Begin no other pull; one that runs is left to the Engine."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _pull(self, image: str) -> None:
        why = self._why_not(image)
        with self._lock:
            waiting = self._waiting.pop(image)
        for then in waiting:
            then(why)

    def _why_not(self, image: str) -> str:
        from docker.utils import parse_repository_tag

        repository, tag = parse_repository_tag(image)
        try:
            news: Any = self._client.pull(repository, tag=tag or "latest", stream=True, decode=True)
            for line in news:
                # A failure after the answer has begun comes as a line of it.
                if "error" in line:
                    return f"{PULL}: {line['error']}"
        except Exception as error:  # noqa: BLE001 — whatever it was, the task's reason will say
            return reason(PULL, error)
        return ""
