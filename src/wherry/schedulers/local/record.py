"""The record of one local app, and what is known of the app: a fold over its events.

A record is a folder: ``app.json`` (what was submitted, written once by the client),
``events.jsonl`` (what happened, see `events`), ``control`` (the supervisor's letter box), and the
logs, unless the user wanted them elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wherry.engine.signals import name_of
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.local.events import EVENTS_FILE, RECORD_FILE, log_prefix
from wherry.specs.plain import app_from_plain
from wherry.specs.states import AppState, is_terminal
from wherry.specs.status import AttemptStatus, ReplicaStatus, RoleStatus

# Events that move an app, and the state that they move it to.
_APP_STATES = {
    "supervising": AppState.SUBMITTED,
    "waiting": AppState.PENDING,
    "started": AppState.RUNNING,
}
LOST = "its supervisor is gone and did not say how it ended"
NEVER_LAUNCHED = "its client died before it was started"


@dataclass(frozen=True)
class Record:
    """What was submitted.

    Args:
        directory: the folder of this record.
        app_id, session, scheduler: the parts of its handle.
        created_at: seconds since the epoch.
        log_dir: where the logs are.
        plain_app: the `AppDef` as plain data.
    """

    directory: str
    app_id: str
    session: str
    scheduler: str
    created_at: float
    log_dir: str
    plain_app: Mapping[str, Any]

    @property
    def handle(self) -> str:
        """The app's name for every command."""
        return f"{self.scheduler}://{self.session}/{self.app_id}"

    def write(self) -> None:
        """Write the record into its folder; half of one is as good as none (`read_record`)."""
        fields = dict(vars(self))
        del fields["directory"]
        with open(f"{self.directory}/{RECORD_FILE}", "x", encoding="utf-8") as file:
            file.write(json.dumps(fields))


def read_record(directory: str) -> Record | None:
    """Read what was submitted; ``None`` where there is no record, or only half of one."""
    try:
        with open(f"{directory}/{RECORD_FILE}", encoding="utf-8") as file:
            return Record(directory=directory, **json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def read_events(directory: str) -> list[dict[str, Any]]:
    """Read the events of an app; a last line that was cut off is left out."""
    try:
        with open(f"{directory}/{EVENTS_FILE}", "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    return list(_decoded(data[: data.rfind(b"\n") + 1].splitlines()))


def _decoded(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "e" in event:
            yield event


@dataclass
class _Replica:
    """One replica while the events are gone through."""

    state: AppState = AppState.PENDING
    reason: str = ""
    attempts: list[AttemptStatus] = field(default_factory=list)


class _Fold:
    """Goes through the events of one app in their order."""

    def __init__(self, record: Record) -> None:
        self.state = AppState.SUBMITTED
        self.msg = ""
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.restarts = 0
        self.host = os.uname().nodename
        self.record = record
        self.replicas: dict[str, list[_Replica]] = {
            role["name"]: [_Replica() for _ in range(role.get("num_replicas", 1))]
            for role in record.plain_app.get("roles", ())
        }

    def take(self, event: Mapping[str, Any]) -> None:
        """Go one event further; an event of a newer version is passed over."""
        handler = _HANDLERS.get(event["e"])
        if handler is not None and not is_terminal(self.state):
            handler(self, event)

    def moved(self, event: Mapping[str, Any]) -> None:
        self.state = _APP_STATES[event["e"]]
        self.msg = event.get("why", "")

    def waiting(self, event: Mapping[str, Any]) -> None:
        if self.state is AppState.RUNNING:
            self.msg = event["why"]  # Something runs; it is its Engine that is waited for.
        else:
            self.moved(event)

    def resumed(self, _: Mapping[str, Any]) -> None:
        self.msg = ""

    def started(self, event: Mapping[str, Any]) -> None:
        self.moved(event)
        self.started_at = self.started_at or event["t"]
        replica = self._replica(event)
        if replica is None:
            return
        replica.state, replica.reason = AppState.RUNNING, ""
        replica.attempts.append(self._attempt(event, AppState.RUNNING))
        self.restarts += event["n"] > 1

    def ended(self, event: Mapping[str, Any]) -> None:
        replica = self._replica(event)
        if replica is None:
            return
        if not replica.attempts or replica.attempts[-1].number != event["n"]:
            replica.attempts.append(self._attempt(event, AppState.FAILED))
        replica.state = AppState[event["state"]]
        replica.reason = event["why"]
        replica.attempts[-1] = replace(
            replica.attempts[-1],
            state=replica.state,
            exit_code=event.get("code"),
            signal=_signal_name(event.get("sig")),
            reason=event["why"],
            ended_at=event["t"],
            error=event.get("error"),
        )

    def queued(self, event: Mapping[str, Any]) -> None:
        replica = self._replica(event)
        if replica is not None:
            replica.state = AppState.PENDING

    def restarting(self, event: Mapping[str, Any]) -> None:
        self.msg = f"started again: {event['why']}"
        for replica in self._all():
            replica.state = AppState.PENDING

    def cancelling(self, event: Mapping[str, Any]) -> None:
        self.msg = f"being cancelled: {event['why']}"

    def finished(self, event: Mapping[str, Any]) -> None:
        self.state = AppState[event["state"]]
        self.msg = event["why"]
        self.ended_at = event["t"]
        for replica in self._all():
            if not is_terminal(replica.state):
                self._left_behind(replica)

    def first_error(self) -> str:
        """Return the error file of the failure that came first, of those that were not retried."""
        failed = [r.attempts[-1] for r in self._all() if r.state is AppState.FAILED and r.attempts]
        told = [attempt for attempt in failed if attempt.error]
        first = min(told, key=lambda attempt: attempt.ended_at or 0.0, default=None)
        return (first.error or "") if first else ""

    def _left_behind(self, replica: _Replica) -> None:
        """Settle a replica whose own end nobody saw."""
        running = replica.state is AppState.RUNNING
        replica.state = AppState.FAILED if running else AppState.CANCELLED
        replica.reason = self.msg
        if running and replica.attempts:
            replica.attempts[-1] = replace(
                replica.attempts[-1], state=AppState.FAILED, reason=self.msg, ended_at=self.ended_at
            )

    def _attempt(self, event: Mapping[str, Any], state: AppState) -> AttemptStatus:
        prefix = log_prefix(self.record.log_dir, event["role"], event["k"], event["n"])
        return AttemptStatus(number=event["n"], state=state, started_at=event["t"], logs=prefix)

    def _replica(self, event: Mapping[str, Any]) -> _Replica | None:
        replicas = self.replicas.get(event["role"], [])
        return replicas[event["k"]] if event["k"] < len(replicas) else None

    def _all(self) -> Iterator[_Replica]:
        for replicas in self.replicas.values():
            yield from replicas


_HANDLERS = {
    "supervising": _Fold.moved,
    "waiting": _Fold.waiting,
    "resumed": _Fold.resumed,
    "started": _Fold.started,
    "ended": _Fold.ended,
    "queued": _Fold.queued,
    "restarting": _Fold.restarting,
    "cancelling": _Fold.cancelling,
    "finished": _Fold.finished,
}


def fold(record: Record, events: Iterable[Mapping[str, Any]]) -> DescribeAppResponse:
    """Say what is known of an app after some events.

    Args:
        record: what was submitted.
        events: what happened, oldest first.

    Returns:
        Its state, and that of its roles, replicas and attempts.
    """
    state = _Fold(record)
    for event in events:
        state.take(event)
    app = app_from_plain(record.plain_app)
    return DescribeAppResponse(
        app_id=record.app_id,
        state=state.state,
        num_restarts=state.restarts,
        msg=state.msg,
        structured_error_msg=state.first_error(),
        ui_url=f"file://{record.log_dir}",
        roles_statuses=tuple(
            RoleStatus(
                role,
                tuple(
                    ReplicaStatus(
                        id=index,
                        state=replica.state,
                        role=role,
                        hostname=state.host,
                        structured_error_msg=_last_error(replica),
                        reason=replica.reason,
                        attempts=tuple(replica.attempts),
                    )
                    for index, replica in enumerate(replicas)
                ),
            )
            for role, replicas in state.replicas.items()
        ),
        roles=tuple(app.roles),
        app=app,
        created_at=record.created_at,
        started_at=state.started_at,
        ended_at=state.ended_at,
        metadata={"log_dir": record.log_dir, "session": record.session},
    )


def _last_error(replica: _Replica) -> str:
    return (replica.attempts[-1].error or "") if replica.attempts else ""


def _signal_name(number: int | None) -> str | None:
    return None if number is None else name_of(number)
