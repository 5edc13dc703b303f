"""A job that ran out of memory goes on with the next amount that was named for it.

Each amount is an app of its own. Its record, with every name chosen, is stored before it is
started, and the store takes only one for each amount: of two clients that see a job fall short,
one starts it again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wherry.errors import JobMemoryError, LostReply
from wherry.functions import failures, records
from wherry.functions.options import MIB_OF_GIB
from wherry.functions.outcome import Answer
from wherry.specs.states import AppState

if TYPE_CHECKING:
    from wherry.functions.executor import Executor
    from wherry.functions.progress import Progress
    from wherry.functions.records import AppPart, JobRecord

_MIB = 1 << 20


def submit_with_more(executor: Executor, progress: Progress) -> JobRecord | None:
    """Submit a job that fell short of memory with the next amount, unless somebody has.

    Args:
        executor: where it runs.
        progress: what is known of the job, which has ended.

    Returns:
        The record of what runs now; ``None`` when it did not fall short, or no larger amount is
        left.

    Raises:
        WherryError: it cannot be submitted.
    """
    from wherry.functions.starting import start

    record = progress.record
    stage = record.stage + 1
    if stage >= len(record.memory) or not _is_short(progress):
        return None
    following = replace(
        record,
        stage=stage,
        created=time.time(),
        earlier=(*record.earlier, *record.apps),
        apps=(_larger(executor, record, stage),),
        client=records.own_mark(),
    )
    if not records.write_stage(following, executor.store):
        return records.read(record.id, executor.store)
    try:
        start(executor, following)
    except LostReply:
        return following  # It may well run; a look at its status will tell.
    except Exception:
        executor.store.delete([records.stage_key(record.id, stage)])
        raise
    return following


def _is_short(progress: Progress) -> bool:
    for child in range(progress.record.children):
        header = progress.headers.get(child)
        if header is not None:
            failure = Answer(header, []).error_of()
            if failure is not None and failures.is_of_memory(failure):
                return True
            continue
        replica = progress.replica(child)
        state = replica.state if replica is not None else AppState.UNKNOWN
        if isinstance(failures.of_replica(replica, state, "", progress.record.id), JobMemoryError):
            return True
    return False


def _larger(executor: Executor, record: JobRecord, stage: int) -> AppPart:
    from wherry.functions.submission import again_as

    made = again_as(executor, record, f"{record.id}.m{stage}")
    return replace(made, plain=with_memory(made.plain, record.memory[stage]))


def with_memory(plain: Mapping[str, Any], gib: float) -> dict[str, Any]:
    """Return an app, as plain data, with another amount of memory for each process."""
    changed: dict[str, Any] = json.loads(json.dumps(plain))
    mib = math.ceil(gib * MIB_OF_GIB)
    for role in changed["roles"]:
        role["resource"]["memMB"] = mib
        if "data" in role.get("ulimits", {}):
            role["ulimits"]["data"] = [mib * _MIB, mib * _MIB]
    return changed
