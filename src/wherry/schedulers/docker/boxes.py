"""Containers with our labels, and what an app is that consists of them. Pure data."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wherry.engine.docker.ending import ended
from wherry.engine.signals import name_of
from wherry.errors import WherryError
from wherry.schedulers.api import DescribeAppResponse, ListAppResponse
from wherry.schedulers.docker import labels
from wherry.schedulers.docker.states import attempt_state
from wherry.specs.app import AppDef
from wherry.specs.plain import app_from_plain
from wherry.specs.states import AppState, is_terminal
from wherry.specs.status import AttemptStatus, ReplicaStatus, RoleStatus

Key = tuple[str, int]

BACKEND = "local_docker"
_RETRY_SECONDS = 10.0
"""How long after a failure another attempt may still begin."""
_EXITED = re.compile(r"Exited \((\d+)\)")
_NEVER = "0001-"
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


@dataclass(frozen=True)
class Box:
    """One container: one attempt of one replica.

    Args:
        id, name: the Engine's for it.
        labels: its labels.
        word: the Engine's word for its state.
        exit_code, signal, why: how it ended, where it has.
        started_at, ended_at: seconds since the epoch.
    """

    id: str
    name: str
    labels: Mapping[str, str]
    word: str
    exit_code: int | None = None
    signal: int | None = None
    why: str = ""
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def role(self) -> str:
        """The role's name."""
        return self.labels.get(labels.ROLE, "")

    @property
    def replica(self) -> int:
        """The replica's index."""
        return _number(self.labels.get(labels.REPLICA), 0)

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1."""
        return _number(self.labels.get(labels.ATTEMPT), 1)

    @property
    def state(self) -> AppState:
        """The attempt's state."""
        return attempt_state(self.word, self.exit_code)


def read_box(inspected: Mapping[str, Any]) -> Box:
    """Read ``GET /containers/ID/json``."""
    state = inspected["State"]
    box = Box(
        id=inspected["Id"],
        name=str(inspected.get("Name") or "").lstrip("/"),
        labels=inspected["Config"].get("Labels") or {},
        word=str(state["Status"]),
        started_at=read_time(state.get("StartedAt")),
    )
    if not is_terminal(attempt_state(box.word, 0)):
        return box
    end = ended(state, int((inspected.get("HostConfig") or {}).get("Memory") or 0))
    how = {"exit_code": end.exit_code, "signal": end.signal, "why": end.why}
    return Box(**{**vars(box), **how, "ended_at": read_time(state.get("FinishedAt"))})


def read_line(listed: Mapping[str, Any]) -> Box:
    """Read one entry of ``GET /containers/json``, which has less."""
    code = _EXITED.match(str(listed.get("Status") or ""))
    exit_code = int(code[1]) if code else None
    names = listed.get("Names") or ["/"]
    return Box(
        id=listed["Id"],
        name=names[0].lstrip("/"),
        labels=listed.get("Labels") or {},
        word=str(listed["State"]),
        exit_code=exit_code,
        why=f"exited with code {exit_code}" if exit_code else "",
    )


class Seen:
    """An app, as far as its containers tell.

    Args:
        boxes: its containers; at least one.
        cancelled: why somebody who had no record ended it; ``None`` where nobody has.
    """

    def __init__(self, boxes: Sequence[Box], cancelled: str | None) -> None:
        self._boxes = boxes
        self._cancelled = cancelled
        self._labels = boxes[0].labels if boxes else {}
        self._plain = _document(self._labels.get(labels.APP))
        self._latest: dict[Key, Box] = {}
        for box in sorted(boxes, key=lambda box: box.attempt):
            self._latest[box.role, box.replica] = box

    def expected(self) -> list[Key]:
        """List the replicas that there should be: those of the app, and those that are seen."""
        told = [
            (str(role.get("name")), index)
            for role in self._plain.get("roles", ())
            for index in range(_number(role.get("num_replicas"), 1))
        ]
        return [*told, *sorted(set(self._latest) - set(told))]

    def state(self) -> tuple[AppState, str]:
        """Return the app's state, and why it is in it."""
        states = {key: box.state for key, box in self._latest.items()}
        missing = len(self.expected()) - len(states)
        for state in (AppState.RUNNING, AppState.PENDING, AppState.UNKNOWN):
            if state in states.values():
                return state, ""
        if self._cancelled is not None:
            return AppState.CANCELLED, self._cancelled
        failed = [box for box in self._latest.values() if box.state is AppState.FAILED]
        if any(self._may_go_on(box) for box in failed):
            return AppState.PENDING, "may be started again"
        if failed and (not missing or not self._plain.get("array")):
            first = min(failed, key=lambda box: box.ended_at or 0.0)
            return AppState.FAILED, f"{first.role}/{first.replica} {first.why}"
        if missing:
            return AppState.UNKNOWN, (
                f"{missing} of its replicas have no container, and there is no record here that "
                "tells whether they will"
            )
        return AppState.SUCCEEDED, ""

    def describe(self) -> DescribeAppResponse:
        """Tell all that is known."""
        state, msg = self.state()
        app = self._app()
        return DescribeAppResponse(
            app_id=self._labels[labels.APP_ID],
            state=state,
            num_restarts=sum(box.attempt > 1 for box in self._boxes),
            msg=msg,
            roles_statuses=self._roles(),
            roles=tuple(app.roles) if app else (),
            app=app,
            created_at=_seconds(self._labels.get(labels.CREATED)),
            started_at=min((box.started_at for box in self._boxes if box.started_at), default=None),
            ended_at=self._ended_at() if is_terminal(state) else None,
            metadata={
                "session": self._labels.get(labels.SESSION, ""),
                "home": self._labels.get(labels.HOME, ""),
                "containers": ", ".join(box.name for box in self._boxes),
            },
        )

    def line(self) -> ListAppResponse:
        """Return its line in a list."""
        state, msg = self.state()
        session = self._labels.get(labels.SESSION, "")
        app_id = self._labels[labels.APP_ID]
        return ListAppResponse(
            app_id=app_id,
            state=state,
            app_handle=f"{BACKEND}://{session}/{app_id}",
            name=str(self._plain.get("name") or app_id.rpartition("-")[0]),
            created_at=_seconds(self._labels.get(labels.CREATED)),
            ended_at=self._ended_at() if is_terminal(state) else None,
            msg=msg,
            replicas=len(self.expected()),
            session=session,
            tags={labels.HOME: self._labels.get(labels.HOME, "")},
        )

    def _may_go_on(self, box: Box) -> bool:
        """Tell whether a failed replica has a retry left, and failed so lately that it may run."""
        roles = {role.get("name"): role for role in self._plain.get("roles", ())}
        retries = _number(roles.get(box.role, {}).get("max_retries"), 0)
        lately = box.ended_at is not None and time.time() - box.ended_at < _RETRY_SECONDS
        return box.attempt <= retries and lately

    def _roles(self) -> tuple[RoleStatus, ...]:
        roles: dict[str, list[ReplicaStatus]] = {}
        for key in self.expected():
            roles.setdefault(key[0], []).append(self._replica(key))
        return tuple(RoleStatus(name, tuple(replicas)) for name, replicas in roles.items())

    def _replica(self, key: Key) -> ReplicaStatus:
        mine = [box for box in self._boxes if (box.role, box.replica) == key]
        latest = self._latest.get(key)
        return ReplicaStatus(
            id=key[1],
            state=latest.state if latest else AppState.UNKNOWN,
            role=key[0],
            hostname=latest.name if latest else "",
            reason=latest.why if latest else "it has no container",
            attempts=tuple(_attempt(box) for box in sorted(mine, key=lambda box: box.attempt)),
        )

    def _ended_at(self) -> float | None:
        return max((box.ended_at for box in self._boxes if box.ended_at), default=None)

    def _app(self) -> AppDef | None:
        try:
            return app_from_plain(self._plain) if self._plain else None
        except (WherryError, KeyError, TypeError):
            return None  # of another version, or told in short


def _attempt(box: Box) -> AttemptStatus:
    return AttemptStatus(
        number=box.attempt,
        state=box.state,
        exit_code=box.exit_code,
        signal=None if box.signal is None else name_of(box.signal),
        reason=box.why,
        started_at=box.started_at,
        ended_at=box.ended_at,
    )


def read_time(text: object) -> float | None:
    """Read a time as the Engine writes it, which may have nine digits behind the point.

    >>> read_time("1970-01-01T00:00:10.500000000Z"), read_time("0001-01-01T00:00:00Z")
    (10.5, None)
    """
    found = _TIME.match(text) if isinstance(text, str) else None
    if found is None or found[0].startswith(_NEVER):
        return None
    zone = "+00:00" if found[3] == "Z" else found[3]
    return datetime.fromisoformat(found[1] + zone).timestamp() + float(found[2] or 0)


def _number(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default


def _seconds(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _document(text: str | None) -> dict[str, Any]:
    try:
        document = json.loads(text or "")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
