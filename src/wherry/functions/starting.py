"""How a recorded job is started, once: by its client, or by whoever takes it up after that died."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wherry.errors import LaunchError, LostReply
from wherry.functions import records
from wherry.functions.handle import Job
from wherry.functions.progress import Progress
from wherry.home import home
from wherry.specs.plain import app_from_plain

if TYPE_CHECKING:
    from wherry.functions.executor import Executor
    from wherry.functions.records import JobRecord

_in_doubt: set[str] = set()
"""Jobs of this process of which nobody knows whether they were started."""


def first_start(executor: Executor, record: JobRecord) -> None:
    """Start a job that was just recorded; one that cannot be started leaves nothing.

    Raises:
        LostReply: nobody knows whether it was started; its record stays, and `attach` will see.
        WherryError: it was not started.
    """
    try:
        start(executor, record)
    except LostReply:
        _in_doubt.add(record.id)
        raise
    except Exception:
        _take_back(executor, record)
        raise


def start(executor: Executor, record: JobRecord) -> None:
    """Start a job's apps under the names in its record; one that is there is left alone."""
    scheduler = executor.scheduler
    started: list[str] = []
    try:
        for part in record.apps:
            info = executor.dryrun(app_from_plain(part.plain), record.cfg, part.app_id)
            try:
                scheduler.schedule(info)
            except LaunchError:
                if not executor.is_started(part.app_id):
                    raise
            started.append(part.app_id)
            scheduler.detach(part.app_id)
    except BaseException:
        for app_id in started:
            scheduler.cancel(app_id, "the rest of its job could not be started")
        raise


def take_up(executor: Executor, record: JobRecord) -> Any:
    """Make the handle of a recorded job; starts what its client did not live to start."""
    progress = progress_of(executor, record)
    progress.refresh()
    if not _anything_known(progress) and _is_ours_to_start(record):
        with _alone():
            progress = progress_of(executor, record)
            progress.refresh()
            if not _anything_known(progress):
                start(executor, record)
        _in_doubt.discard(record.id)
        progress = progress_of(executor, record)
    records.remember(record)
    return handle_of(executor, progress)


def progress_of(executor: Executor, record: JobRecord) -> Progress:
    """Return what is to be known of a job; one with more memory to come goes on by itself."""
    if not record.memory:
        return Progress(record, executor.store, executor.scheduler)
    from wherry.functions.escalation import submit_with_more

    def more(ended: Progress) -> JobRecord | None:
        return submit_with_more(executor, ended)

    return Progress(record, executor.store, executor.scheduler, more)


def handle_of(executor: Executor, progress: Progress) -> Any:
    """Return the handle that fits a job's kind."""
    kind = progress.record.kind
    if kind == "single":
        return Job(executor, progress)
    from wherry.functions.array import ArrayJob, GangJob

    return (ArrayJob if kind == "array" else GangJob)(executor, progress)


def _anything_known(progress: Progress) -> bool:
    if progress.headers or progress.arrived:
        return True
    return any(progress.status(app) is not None for app in progress.record.apps)


def _is_ours_to_start(record: JobRecord) -> bool:
    """Tell whether the client was one of this machine and its records, and is at it no more."""
    if record.id in _in_doubt:
        return True
    here = record.host in ("", platform.node()) and record.home in ("", home())
    return here and not records.is_at_work(record.client)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one process of this machine at a time take jobs up."""
    import fcntl

    os.makedirs(home(), mode=0o700, exist_ok=True)
    lock = os.open(f"{home()}/taking-up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _take_back(executor: Executor, record: JobRecord) -> None:
    """Remove what was stored of a job that could not be started."""
    for part in record.apps:
        keys = [info.key for info in executor.store.list(f"jobs/{part.job}/")]
        executor.store.delete(keys)
    records.remove(record.id)
