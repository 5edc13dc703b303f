"""Run apps on AWS Batch: as container jobs, array jobs and multi-node parallel jobs.

A client makes a request, notes it in a record and submits it; everything else (describe, logs,
cancel) works from any process, by the record or by what AWS knows.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.schedulers.aws_batch.batch_job import BatchJob
    from wherry.schedulers.aws_batch.scheduler import AWSBatchScheduler, create_scheduler

_HOMES = {
    "AWSBatchScheduler": "wherry.schedulers.aws_batch.scheduler",
    "BatchJob": "wherry.schedulers.aws_batch.batch_job",
    "create_scheduler": "wherry.schedulers.aws_batch.scheduler",
}

__all__ = ["AWSBatchScheduler", "BatchJob", "create_scheduler"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)
