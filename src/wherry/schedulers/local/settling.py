"""Finish the record of an app whose supervisor is gone, and end what is left of it."""

from __future__ import annotations

import os
import time
from typing import Any

from wherry.engine import processes
from wherry.engine.signals import SIGKILL
from wherry.schedulers import journal
from wherry.schedulers.local import events
from wherry.schedulers.local.events import EventLog, encode
from wherry.schedulers.local.record import (
    LOST,
    NEVER_LAUNCHED,
    Record,
    read_events,
    read_record,
)

_TRIES = 200
_PAUSE = 0.01
_ENGINE_PATIENCE = 2.0


def settle_if_lost(record: Record, journal_path: str) -> bool:
    """Finish an app that nobody supervises any more.

    Args:
        record: the app's record.
        journal_path: where its end is announced.

    Returns:
        Whether the app is over: it was already, or it is now.
    """
    fd = events.lock(record.directory)
    if fd < 0:
        return False
    try:
        settle_as_writer(fd, record.directory, journal_path, "")
    finally:
        os.close(fd)
    return True


def settle_as_writer(fd: int, directory: str, journal_path: str, why: str) -> None:
    """Finish an app whose events this process writes; does nothing to one that has finished.

    Args:
        fd: the events file, locked.
        directory: the app's record.
        journal_path: where its end is announced.
        why: why it ended; empty when that is not known.
    """
    record = read_record(directory)
    past = read_events(directory)
    if record is None or any(event["e"] == "finished" for event in past):
        return
    _kill_survivors(record.app_id)
    _end_containers(record.app_id, past)
    why = why or (LOST if past else NEVER_LAUNCHED)
    cancelling = next((event for event in past if event["e"] == "cancelling"), None)
    state, why = ("CANCELLED", cancelling["why"]) if cancelling else ("FAILED", why)
    now = time.time()
    log = EventLog(fd)
    log.write("finished", state=state, why=why)
    log.sync()
    line = encode({"e": "ended", "handle": record.handle, "state": state, "t": now, "msg": why})
    journal.append(journal_path, line)


def _end_containers(app_id: str, past: list[dict[str, Any]]) -> None:
    """Kill what runs of an app in containers, and remove its network."""
    address = next((event["engine"] for event in past if event.get("engine")), "")
    if address:
        from wherry.engine.docker.sweeping import end_app

        end_app(address, app_id, patience=_ENGINE_PATIENCE)


def _kill_survivors(app_id: str) -> None:
    """Kill every process that carries the app's id, until none is left."""
    marker = f"WHERRY_APP_ID={app_id}".encode()
    for _ in range(_TRIES):
        living = processes.marked_processes(marker)
        if not living:
            return
        processes.send(living, SIGKILL)
        time.sleep(_PAUSE)
