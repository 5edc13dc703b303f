"""What AWS said lately, so that it need not be asked again before each submission.

Queues, definitions and roles, in a file for each identity, region and endpoint. Nothing of it is
relied on: AWS refuses what is wrong, and then it is asked again. The file may vanish at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from typing import Any

from wherry.aws.session import Session
from wherry.home import home
from wherry.schedulers.aws_batch.facts import Platform, QueueFacts

QUEUE_SECONDS = 3600.0
ROLE_SECONDS = 24 * 3600.0
DEFINITION_SECONDS = 30 * 24 * 3600.0

_MOST = 500


class Lately:
    """What was said to one identity in one region at one endpoint.

    All methods may be called from any thread, and of any process; who comes last is believed.

    Args:
        path: the file; without it all is kept in memory.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Any] | None = None

    def queue(self, name: str) -> QueueFacts | None:
        """Return what is known of a queue."""
        found = self._get("queues", name, QUEUE_SECONDS)
        if not isinstance(found, dict):
            return None
        try:
            return QueueFacts(
                Platform(found["platform"]),
                found["scheduling_policy"],
                found["gangs"],
                tuple(found["environments"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def note_queue(self, name: str, facts: QueueFacts) -> None:
        """Keep what is known of a queue."""
        value = {
            "platform": facts.platform.value,
            "scheduling_policy": facts.scheduling_policy,
            "gangs": facts.gangs,
            "environments": list(facts.environments),
        }
        self._put("queues", name, value)

    def definition(self, key: str) -> str | None:
        """Return the ARN of a definition by its name and content's hash."""
        found = self._get("definitions", key, DEFINITION_SECONDS)
        return found if isinstance(found, str) else None

    def note_definition(self, key: str, arn: str) -> None:
        """Keep the ARN of a definition."""
        self._put("definitions", key, arn)

    def has_role(self, arn: str) -> bool:
        """Tell whether a role was there."""
        return self._get("roles", arn, ROLE_SECONDS) is not None

    def note_role(self, arn: str) -> None:
        """Keep that a role is there."""
        self._put("roles", arn, True)

    def forget(self, *, queue: str = "", definition: str = "") -> None:
        """Ask again next time, about a queue or a definition."""
        with self._lock:
            known = self._load()
            known.get("queues", {}).pop(queue, None)
            known.get("definitions", {}).pop(definition, None)
            self._save(known)

    def _get(self, kind: str, name: str, seconds: float) -> object:
        with self._lock:
            found = self._load().get(kind, {}).get(name)
        if not isinstance(found, list) or len(found) != 2:
            return None
        at, value = found
        fresh = isinstance(at, (int, float)) and 0 <= time.time() - at < seconds
        return value if fresh else None

    def _put(self, kind: str, name: str, value: object) -> None:
        with self._lock:
            known = self._read()  # others may have learned something meanwhile
            table = known.setdefault(kind, {})
            table.pop(name, None)
            table[name] = [time.time(), value]
            while len(table) > _MOST:
                del table[next(iter(table))]
            self._save(known)

    def _load(self) -> dict[str, Any]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return self._known or {}
        try:
            with open(self._path, encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return {}
        tables = known.values() if isinstance(known, dict) else ("",)
        return known if all(isinstance(table, dict) for table in tables) else {}

    def _save(self, known: dict[str, Any]) -> None:
        self._known = known
        if self._path is None:
            return
        draft = f"{self._path}.{os.getpid()}.{threading.get_ident()}"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(known, file)
            os.replace(draft, self._path)
        except OSError:
            pass  # then AWS is asked again the next time


def lately_for(aws: Session) -> Lately:
    """Return what was said to a session's identity; in memory where it was given a client."""
    identity = aws.identity
    if identity.startswith("client-"):
        return Lately(None)
    key = f"{identity} {aws.region} {aws.endpoint()}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Lately(os.path.join(home(), "aws_batch", ".lately", f"{name}.json"))
