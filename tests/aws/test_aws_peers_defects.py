"""Defects of the scheduler that this one replaces (TorchX 0.7.0), each with what is wanted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from support.batch_apps import (
    app,
    counted,
    described,
    ended,
    over,
    reached,
    role,
    submitted,
)
from wherry.emulator import Fault
from wherry.errors import InvalidOptionError, UnknownNameError
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppDef, AppState

S = AppState
EXECUTION_ROLE = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"


def active_definitions(aws):
    known = aws.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    return [each["jobDefinitionName"] for each in known]


def job_of(aws, batch, app_id):
    (job_id,) = described(batch, app_id).metadata["job_id"].split(", ")
    return aws.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]


# 1. Everything is a multi-node job, even one replica: no Fargate, no arrays, no Spot retries.


def test_1_one_replica_is_a_container_job_and_several_an_array_or_a_gang(batch, wherry_aws):
    single = job_of(wherry_aws, batch, submitted(batch, "true"))
    array = job_of(wherry_aws, batch, submitted(batch, app("true", 2)))
    gang = job_of(wherry_aws, batch, submitted(batch, AppDef("g", [role("true", 2)])))

    assert "container" in single
    assert "nodeProperties" not in single
    assert array["arrayProperties"]["size"] == 2
    assert gang["nodeProperties"]["numNodes"] == 2


def test_1_it_runs_on_fargate_and_is_retried_after_spot(batch, wherry_aws):
    fargate = submitted(batch, "true", queue="fargate", execution_role_arn=EXECUTION_ROLE)
    spot = submitted(batch, "test $WHERRY_ATTEMPT = 2 || sleep 60", queue="spot", retries="spot")
    reached(batch, spot, "RUNNING")
    wherry_aws.reclaim(described(batch, spot).metadata["job_id"])

    assert ended(batch, fargate).state is S.SUCCEEDED
    answer = ended(batch, spot)
    assert answer.state is S.SUCCEEDED
    assert answer.num_restarts == 1


# 2. A new definition for every run, never removed; max_retries=1 gives one attempt.


def test_2_runs_share_a_definition(batch, wherry_aws):
    for number in range(5):
        submitted(batch, f"echo {number}")

    assert len(active_definitions(wherry_aws)) == 1


def test_2_one_retry_is_two_attempts(batch):
    answer = ended(batch, submitted(batch, app("exit 3", max_retries=1)))

    assert len(answer.roles_statuses[0].replicas[0].attempts) == 2


# 3. priority without share_id is dropped silently; names are not checked.


def test_3_a_priority_without_a_share_is_refused(batch):
    with pytest.raises(InvalidOptionError, match="set share_id too"):
        batch.submit_dryrun(app("true"), {"queue": "main", "priority": 5})


def test_3_names_that_aws_would_refuse_are_refused_or_made_to_fit(batch, wherry_aws):
    with pytest.raises(InvalidOptionError, match="'queue' takes the name"):
        batch.submit_dryrun(app("true"), {"queue": "no such queue"})

    app_id = submitted(batch, app("true", name=f"my.app.{'x' * 120}"))

    assert len(job_of(wherry_aws, batch, app_id)["jobName"]) <= 128
    assert described(batch, app_id).app.name.startswith("my.app.")


# 4. Cancelled shows as FAILED; no status reason, exit code, attempts or replica states.


def test_4_cancelled_is_cancelled(batch):
    app_id = submitted(batch, "sleep 60")
    batch.cancel(app_id, "enough")

    assert over(batch, app_id).state is S.CANCELLED


def test_4_reason_code_attempts_and_replicas_are_told(batch):
    answer = ended(batch, submitted(batch, app("exit $((WHERRY_REPLICA_ID + 3))", 2)))

    assert answer.msg
    replicas = answer.roles_statuses[0].replicas
    assert [one.exit_code for one in replicas] == [3, 4]
    assert all(one.attempts[0].reason for one in replicas)


# 5. Every status is a ListJobs by name and a DescribeJobs.


def test_5_a_status_is_one_describe_jobs(batch, wherry_aws):
    with wherry_aws.fault("hold", value="RUNNABLE"):
        app_id = submitted(batch, "true")
        with counted() as asked:
            AWSBatchScheduler("one").statuses([app_id])
            described(AWSBatchScheduler("another process"), app_id)

    assert asked == {"DescribeJobs": 2}


# 6. list() returned 100 of 350 jobs.


def test_6_all_of_350_jobs_are_listed(batch, wherry_aws):
    with wherry_aws.fault("hold", value="SUBMITTED"):
        made = [submitted(batch, "true") for _ in range(350)]

        found = [line.app_id for line in batch.list()]

    assert found == made[::-1]


# 7. An idle tail polls without a pause, loses the last lines, gives nothing for a RUNNABLE job.


def test_7_a_tail_waits_politely_through_runnable_to_the_last_line(batch, wherry_aws):
    fault = wherry_aws.faults.add(Fault("hold", value="RUNNABLE"))
    app_id = submitted(batch, "echo first; sleep 1; echo last")
    reached(batch, app_id, "RUNNABLE")
    lines = batch.log_iter(app_id, "main", should_tail=True)
    with counted() as asked:
        threading.Timer(1.5, lambda: wherry_aws.faults.remove(fault)).start()
        found = list(lines)

    assert found == ["first\n", "last\n"]
    assert asked.calls <= 40


# 8. Logs of an unknown role are another role's; only the last attempt; the log group is fixed.


def test_8_logs_are_those_of_the_role_the_attempt_and_the_group(batch, wherry_aws):
    wherry_aws.client("logs").create_log_group(logGroupName="/mine")
    made = app("echo attempt $WHERRY_ATTEMPT; exit 1", max_retries=1)
    app_id = submitted(batch, made, log_group="/mine")
    answer = ended(batch, app_id)

    with pytest.raises(UnknownNameError, match="no-such-role"):
        list(batch.log_iter(app_id, "no-such-role"))
    assert list(batch.log_iter(app_id, "main")) == ["attempt 1\n", "attempt 2\n"]
    assert list(batch.log_iter(app_id, "main", attempt=1)) == ["attempt 1\n"]
    attempts = answer.roles_statuses[0].replicas[0].attempts
    assert all(one.logs.startswith("/mine:") for one in attempts)


# 9. ${replica_id} stays a literal unless the command is a shell; never works in env.


def test_9_the_replica_id_is_known_in_args_and_env_without_a_shell(batch):
    words = ["-c", "import os, sys; print(sys.argv[1], os.environ['ME'])", "<${replica_id}>"]
    main = replace(
        role("", 2, env={"ME": "number ${replica_id}"}), entrypoint="python3", args=words
    )
    app_id = submitted(batch, AppDef("nine", [main], array=True))
    assert ended(batch, app_id).state is S.SUCCEEDED

    logs = [list(batch.log_iter(app_id, "main", k)) for k in range(2)]

    assert logs == [["<0> number 0\n"], ["<1> number 1\n"]]


# 10. No region or profile option.


def test_10_region_and_profile_are_options(batch, wherry_aws, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text(
        "[profile there]\nregion = eu-central-1\n"
        "aws_access_key_id = there\naws_secret_access_key = secret\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)

    by_region = ended(batch, submitted(batch, "true", region="eu-west-1"))
    by_profile = ended(batch, submitted(batch, "true", profile="there"))

    assert by_region.metadata["region"] == "eu-west-1"
    assert by_profile.metadata["region"] == "eu-central-1"


def test_a_thousand_looks_are_not_needed(batch):
    """The whole of a short run: submitted, watched, described and read in a handful of calls."""
    begin = time.monotonic()
    with counted() as asked:
        app_id = submitted(batch, "echo hello")
        over(batch, app_id)
        described(batch, app_id)
        list(batch.log_iter(app_id, "main"))

    assert asked.calls <= 5 + 3 * (time.monotonic() - begin) + 5
