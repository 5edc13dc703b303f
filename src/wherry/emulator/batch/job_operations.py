"""Which function does which operation, for all that is about jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wherry.emulator.batch import consumption, describing, ending, listing, submission
from wherry.emulator.batch.ports import Document

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

Operation = Callable[["Plane", Document], Document]


def get_job_queue_snapshot(plane: Plane, request: Document) -> Document:
    """Do GetJobQueueSnapshot.

    Raises:
        ClientError: there is no such queue.
    """
    queue = plane.catalog.queue(request.get("jobQueue", ""))
    return plane.placing.snapshot(queue.arn, plane.clock.now())


OPERATIONS: Mapping[str, Operation] = {
    "SubmitJob": submission.submit_job,
    "DescribeJobs": describing.describe_jobs,
    "ListJobs": listing.list_jobs,
    "CancelJob": ending.cancel_job,
    "CancelJobs": ending.cancel_jobs,
    "TerminateJob": ending.terminate_job,
    "TerminateJobs": ending.terminate_jobs,
    "GetJobQueueSnapshot": get_job_queue_snapshot,
    "ListJobsByConsumableResource": consumption.list_jobs,
}
READ_ONLY = frozenset(
    ("DescribeJobs", "ListJobs", "GetJobQueueSnapshot", "ListJobsByConsumableResource")
)
