"""Ending apps: cancelled or terminated, as their state asks for; the first reason is kept."""

from __future__ import annotations

import shutil

import pytest

from support.batch_apps import (
    MAIN,
    Meddling,
    app,
    counted,
    described,
    ended,
    job_ids,
    over,
    reached,
    role,
    submitted,
)
from wherry.emulator import Fault
from wherry.errors import AwsError, UnknownAppError
from wherry.home import home
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.schedulers.aws_batch.record import read_record
from wherry.specs import AppDef, AppState

S = AppState


def test_a_job_that_waits_is_cancelled(batch, wherry_aws):
    with wherry_aws.fault("hold", value="RUNNABLE"):
        app_id = submitted(batch, "true")
        reached(batch, app_id, "RUNNABLE")
        with counted() as asked:
            batch.cancel(app_id, "not needed")
        answer = ended(batch, app_id)

    assert asked["CancelJob"] == 1
    assert asked["TerminateJob"] == 0
    assert (answer.state, answer.msg) == (S.CANCELLED, "not needed")
    assert answer.raw_state == "FAILED"


def test_a_job_that_runs_is_terminated(batch):
    app_id = submitted(batch, "sleep 60")
    reached(batch, app_id, "RUNNING")

    with counted() as asked:
        batch.cancel(app_id, "too slow")

    assert asked["TerminateJob"] == 1
    assert asked["CancelJob"] == 0
    answer = ended(batch, app_id)
    assert (answer.state, answer.msg) == (S.CANCELLED, "too slow")
    assert answer.roles_statuses[0].replicas[0].state is S.CANCELLED


def test_a_job_that_slips_by_is_terminated(wherry_aws):
    """It is RUNNABLE when it is looked at, and runs when the cancellation arrives."""
    client = wherry_aws.client("batch")
    fault = []

    def late(cancel, **params):
        wherry_aws.faults.remove(fault[0])
        reached(AWSBatchScheduler("looks"), app_id, "RUNNING")
        return cancel(**params)

    scheduler = AWSBatchScheduler("tests", client=Meddling(client, cancel_job=late))
    fault.append(wherry_aws.faults.add(Fault("hold", value="RUNNABLE")))
    app_id = submitted(scheduler, "sleep 60")
    reached(scheduler, app_id, "RUNNABLE")

    scheduler.cancel(app_id, "stop")

    assert ended(scheduler, app_id).state is S.CANCELLED


def test_all_replicas_of_an_array_are_reached(batch):
    app_id = submitted(batch, app("sleep $((WHERRY_REPLICA_ID * 100))", 3))
    reached(batch, app_id, "PENDING", S.RUNNING)

    batch.cancel(app_id, "enough")

    answer = ended(batch, app_id)
    assert (answer.state, answer.msg) == (S.CANCELLED, "enough")
    states = [one.state for one in answer.roles_statuses[0].replicas]
    assert states[1:] == [S.CANCELLED, S.CANCELLED]
    assert states[0] in (S.SUCCEEDED, S.CANCELLED)


def test_all_nodes_of_a_gang_are_reached(batch):
    app_id = submitted(batch, AppDef("gang", [role("sleep 60", 2)]))
    reached(batch, app_id, "RUNNING")

    batch.cancel(app_id, "enough")

    answer = ended(batch, app_id)
    assert answer.state is S.CANCELLED
    assert [one.state for one in answer.roles_statuses[0].replicas] == [S.CANCELLED] * 2


def test_the_reason_that_aws_overwrites_is_kept(batch, wherry_aws):
    with wherry_aws.fault("stuck-runnable", value="UNDETERMINED"):
        app_id = submitted(batch, "true")
        reached(batch, app_id, "RUNNABLE")
        wherry_aws.clock.advance(600)
        before = described(batch, app_id).msg
        batch.cancel(app_id, "waited too long")
        answer = ended(batch, app_id)

    assert "UNDETERMINED" in before
    assert answer.msg == f"waited too long (before: {before})"
    record = read_record(app_id)
    assert record is not None
    assert list(record.wish().before.values()) == [before]
    (job_id,) = job_ids(batch, app_id)
    told = wherry_aws.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]
    assert told["statusReason"] == f"waited too long (before: {before})"


def test_it_is_idempotent_and_the_first_reason_counts(batch):
    app_id = submitted(batch, "trap '' TERM; sleep 60")
    reached(batch, app_id, "RUNNING")
    batch.cancel(app_id, "the first")

    with counted() as asked:
        batch.cancel(app_id, "the second")
        AWSBatchScheduler("other").cancel(app_id, "the third")

    assert set(asked) == {"DescribeJobs"}
    assert described(batch, app_id).msg in ("being cancelled: the first", "the first")


def test_what_has_ended_stays_as_it_is(batch):
    app_id = submitted(batch, "exit 3")
    before = ended(batch, app_id)

    with counted() as asked:
        batch.cancel(app_id, "too late")

    assert asked.calls == 0
    assert described(batch, app_id) == before


def test_what_ended_unseen_stays_as_it_is(batch, wherry_aws):
    app_id = submitted(batch, "exit 3")
    ended(AWSBatchScheduler("other"), app_id)
    shutil.rmtree(f"{home()}/aws_batch")

    batch.cancel(app_id, "too late")

    assert described(batch, app_id).state is S.FAILED


def test_an_app_of_another_machine_is_ended_by_its_name_or_job_id(batch):
    apps = [submitted(batch, "sleep 60") for _ in range(2)]
    (job_id,) = job_ids(batch, apps[1])
    for each in apps:
        reached(batch, each, "RUNNING")
    shutil.rmtree(f"{home()}/aws_batch")
    other = AWSBatchScheduler("other")

    other.cancel(apps[0], "by name")
    other.cancel(job_id, "by id")

    assert (ended(other, apps[0]).state, ended(other, apps[0]).msg) == (S.CANCELLED, "by name")
    assert (ended(other, job_id).state, ended(other, job_id).msg) == (S.CANCELLED, "by id")


def test_an_older_client_without_the_bulk_calls_will_do(wherry_aws):
    class Older(Meddling):
        def __getattr__(self, name):
            if name in ("terminate_jobs", "cancel_jobs"):
                raise AttributeError(name)
            return super().__getattr__(name)

    scheduler = AWSBatchScheduler("tests", client=Older(wherry_aws.client("batch")))
    with wherry_aws.fault("hold", value="SUBMITTED"):
        app_id = submitted(scheduler, app("true", 10_001))
        with counted() as asked:
            scheduler.cancel(app_id, "enough")

    assert asked["TerminateJob"] == 2
    assert over(scheduler, app_id).state is S.CANCELLED


def test_it_waits_for_no_submission(batch, wherry_aws):
    """Terminations have a lane of their own: throttled submissions do not hold them up."""
    app_id = submitted(batch, "sleep 60")
    lanes = batch.aws(MAIN).calls().limiter

    assert lanes.lane("TerminateJob") is lanes.lane("CancelJobs")
    assert lanes.lane("TerminateJob") is not lanes.lane("SubmitJob")
    assert lanes.lane("TerminateJob") is not lanes.lane("DescribeJobs")
    batch.cancel(app_id)
    assert ended(batch, app_id).msg == "cancelled"


def test_a_refusal_is_an_error(batch, wherry_aws):
    app_id = submitted(batch, "sleep 60")
    reached(batch, app_id, "RUNNING")

    with wherry_aws.fault("access-denied", operation="TerminateJob"):
        with pytest.raises(AwsError, match="may not do TerminateJob"):
            batch.cancel(app_id, "stop")

    batch.cancel(app_id, "stop again")
    assert ended(batch, app_id).msg == "stop"


def test_what_never_was_cannot_be_ended(batch):
    for app_id in ("never-was", "main:never-was"):
        with pytest.raises(UnknownAppError):
            batch.cancel(app_id)
