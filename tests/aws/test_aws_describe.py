"""What is told of an app: states, reasons, attempts, replicas; by record, name, id or ARN."""

from __future__ import annotations

import shutil

import pytest

from support.batch_apps import (
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
from support.waiting import until
from wherry.errors import AwsError, CredentialsError, StateError, UnknownAppError, UsageError
from wherry.home import home, journal_path
from wherry.schedulers import journal
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppDef, AppState, Role

S = AppState


def elsewhere() -> AWSBatchScheduler:
    """Return a scheduler on another machine: the same AWS, and no records."""
    shutil.rmtree(f"{home()}/aws_batch")
    return AWSBatchScheduler("elsewhere")


def ends() -> list[tuple[str, str, str]]:
    """Return handle, state and message of each end that the journal tells of."""
    entries = journal.read(journal_path(), 0)[0]
    return [(e["handle"], e["state"], e["msg"]) for e in entries if e["e"] == "ended"]


class TestOneReplica:
    def test_a_failure_is_told_with_code_reason_stream_and_times(self, batch):
        answer = ended(batch, submitted(batch, "echo hi; exit 3"))

        assert (answer.state, answer.raw_state) == (S.FAILED, "FAILED")
        assert answer.msg == "main/0 exited with code 3"
        assert answer.to_status().exit_code == 3
        (replica,) = answer.roles_statuses[0].replicas
        (attempt,) = replica.attempts
        assert (attempt.number, attempt.state, attempt.exit_code) == (1, S.FAILED, 3)
        assert attempt.reason == "exited with code 3"
        group, _, stream = attempt.logs.partition(":")
        assert group == "/aws/batch/job"
        assert stream.startswith("wherry-job-")
        assert answer.created_at <= answer.started_at <= answer.ended_at

    def test_a_signal_has_its_name(self, batch):
        answer = ended(batch, submitted(batch, "kill -SEGV $$$$"))

        assert answer.msg == "main/0 killed by SIGSEGV"
        (attempt,) = answer.roles_statuses[0].replicas[0].attempts
        assert (attempt.signal, attempt.exit_code) == ("SIGSEGV", 139)
        assert answer.to_status().exit_code == 139

    def test_each_attempt_is_told_and_counted(self, batch):
        answer = ended(batch, submitted(batch, app("exit $WHERRY_ATTEMPT", max_retries=2)))

        (replica,) = answer.roles_statuses[0].replicas
        assert [(one.number, one.exit_code) for one in replica.attempts] == [(1, 1), (2, 2), (3, 3)]
        assert {one.state for one in replica.attempts} == {S.FAILED}
        assert len({one.logs for one in replica.attempts}) == 3
        assert answer.num_restarts == 2
        assert answer.msg == "main/0 exited with code 3"

    def test_a_retry_that_succeeds_is_a_success_with_an_earlier_failure(self, batch):
        script = "test $WHERRY_ATTEMPT = 2"
        answer = ended(batch, submitted(batch, app(script, max_retries=1)))

        (replica,) = answer.roles_statuses[0].replicas
        assert answer.state is S.SUCCEEDED
        assert [one.state for one in replica.attempts] == [S.FAILED, S.SUCCEEDED]

    def test_a_container_that_never_started_says_why(self, batch, wherry_aws):
        with wherry_aws.fault("pull-failure", value="manifest unknown"):
            answer = ended(batch, submitted(batch, "true"))

        assert answer.state is S.FAILED
        assert "CannotPullContainerError" in answer.msg
        assert "manifest unknown" in answer.msg
        assert answer.to_status().exit_code == 1
        assert answer.roles_statuses[0].replicas[0].exit_code is None

    def test_a_lost_host_says_so(self, batch, wherry_aws):
        app_id = submitted(batch, "sleep 60")
        reached(batch, app_id, "RUNNING")
        wherry_aws.reclaim(job_ids(batch, app_id)[0])

        answer = ended(batch, app_id)

        assert "Host EC2 (instance i-" in answer.msg
        assert "was lost" in answer.msg

    def test_memory_that_ran_out_says_so(self, batch):
        script = "exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(30)'"

        answer = ended(batch, submitted(batch, script))

        assert answer.msg.startswith("main/0 killed by SIGKILL: OutOfMemoryError")

    def test_a_reason_to_wait_is_told(self, batch, wherry_aws):
        with wherry_aws.fault("stuck-runnable", value="UNDETERMINED"):
            app_id = submitted(batch, "true")
            wherry_aws.clock.advance(600)
            told = until(lambda: described(batch, app_id).msg, "a reason")

        assert "UNDETERMINED" in told

    def test_the_page_is_that_of_the_region(self, batch, wherry_aws, monkeypatch):
        monkeypatch.setenv("AWS_REGION", "eu-west-3")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
        app_id = submitted(batch, "true", region="eu-west-1")

        answer = ended(AWSBatchScheduler("other"), app_id)

        (job_id,) = answer.metadata["job_id"].split()
        assert answer.ui_url == (
            "https://eu-west-1.console.aws.amazon.com/batch/home?region=eu-west-1"
            f"#jobs/detail/{job_id}"
        )
        assert answer.metadata["region"] == "eu-west-1"

    def test_the_app_is_the_one_that_was_submitted(self, batch):
        given = AppDef("mine", [role("true", env={"A": "b"}, port_map={"x": 1})], {"team": "red"})
        app_id = submitted(batch, given)

        assert described(batch, app_id).app == given
        assert described(batch, app_id).roles == tuple(given.roles)


class TestArrays:
    def test_each_replica_is_told(self, batch):
        script = "exit $((WHERRY_REPLICA_ID == 1 ? 4 : 0))"
        answer = ended(batch, submitted(batch, app(script, 3)))

        assert answer.state is S.FAILED
        assert answer.msg == "1 of 3 replicas failed; the first: main/1 exited with code 4"
        replicas = answer.roles_statuses[0].replicas
        assert [one.state for one in replicas] == [S.SUCCEEDED, S.FAILED, S.SUCCEEDED]
        assert [one.exit_code for one in replicas] == [0, 4, 0]
        assert all(one.attempts[0].logs for one in replicas)
        assert "#jobs/array-job/" in answer.ui_url

    def test_an_array_runs_once_one_of_its_replicas_does(self, batch):
        app_id = submitted(batch, app("sleep 60", 2))

        answer = until(
            lambda: (found := described(batch, app_id)).state is S.RUNNING and found, "a start"
        )

        assert answer.raw_state == "PENDING"
        assert S.RUNNING in [one.state for one in answer.roles_statuses[0].replicas]

    def test_up_to_99_replicas_cost_one_call(self, batch, wherry_aws):
        with wherry_aws.fault("hold", value="RUNNABLE"):
            app_id = submitted(batch, app("true", 99))
            reached(batch, app_id, "PENDING")
            with counted() as asked:
                answer = described(batch, app_id)

        assert asked == {"DescribeJobs": 1}
        assert len(answer.roles_statuses[0].replicas) == 99

    def test_many_replicas_are_listed_and_failures_described(self, batch):
        script = "test $WHERRY_REPLICA_ID != 7"
        app_id = submitted(batch, app(script, 120))
        status = over(batch, app_id)
        assert status.exit_code == 1
        assert status.counts() == {S.SUCCEEDED: 119, S.FAILED: 1}

        with counted() as asked:
            answer = described(batch, app_id)

        replicas = answer.roles_statuses[0].replicas
        assert len(replicas) == 120
        assert replicas[7].attempts[0].logs
        assert [one.id for one in replicas if one.state is S.FAILED] == [7]
        assert {one.exit_code for one in replicas} == {0, 1}
        assert asked.calls <= 5
        with counted() as asked:
            assert described(batch, app_id) == answer
        assert asked.calls == 0


class TestGangs:
    def test_roles_are_told_apart_and_the_main_node_decides(self, batch):
        roles = [role("sleep 0.5; exit 5", name="head"), role("sleep 30", 2, name="tail")]

        answer = ended(batch, submitted(batch, AppDef("gang", roles)))

        assert answer.state is S.FAILED
        assert answer.msg == "head/0 exited with code 5"
        assert answer.to_status().exit_code == 5
        head, tail = answer.roles_statuses
        assert [one.state for one in head.replicas] == [S.FAILED]
        assert [one.id for one in tail.replicas] == [0, 1]
        assert S.FAILED not in [one.state for one in tail.replicas]
        assert "#jobs/mnp-job/" in answer.ui_url


class TestManyAtOnce:
    def test_the_states_of_many_apps_cost_one_call(self, batch, wherry_aws):
        with wherry_aws.fault("hold", value="RUNNABLE"):
            apps = [submitted(batch, app("true", name=f"app{n}")) for n in range(12)]
            apps.append(submitted(batch, app("true", 5)))
            batch = AWSBatchScheduler("another process")
            with counted() as asked:
                statuses = batch.statuses([*apps, "never-was"])

        assert asked == {"DescribeJobs": 1}
        assert statuses["never-was"] is None
        assert all(statuses[each] is not None for each in apps)

    def test_of_an_array_that_goes_on_the_replicas_are_counted(self, batch, wherry_aws):
        app_id = submitted(batch, app("sleep 60", 4))
        until(
            lambda: batch.statuses([app_id])[app_id].counts() == {S.RUNNING: 4},
            "all replicas to run",
        )

    def test_what_has_ended_costs_nothing(self, batch):
        app_id = submitted(batch, "true")
        ended(batch, app_id)

        with counted() as asked:
            for scheduler in (batch, AWSBatchScheduler("other")):
                assert scheduler.statuses([app_id])[app_id].state is S.SUCCEEDED
                assert described(scheduler, app_id).state is S.SUCCEEDED
                assert scheduler.exists(app_id)

        assert asked.calls == 0

    def test_waiting_for_an_end_asks_less_and_less(self, batch):
        app_id = submitted(batch, "sleep 3")

        with counted() as asked:
            assert over(batch, app_id).state is S.SUCCEEDED

        assert asked["DescribeJobs"] <= 10
        assert set(asked) == {"DescribeJobs"}


class TestWithoutARecord:
    def test_an_app_is_found_by_its_name(self, batch):
        app_id = submitted(batch, app("exit 3", env={"A": "b"}, max_retries=1))
        other = elsewhere()

        answer = ended(other, app_id)

        assert answer.state is S.FAILED
        assert answer.app is None
        assert answer.metadata["session"] == "tests"
        (back,) = answer.roles
        assert back == Role(
            "main",
            image="busybox",
            entrypoint="sh",
            args=["-c", "exit 3"],
            env={"A": "b"},
            max_retries=1,
            resource=back.resource,
        )
        assert (back.resource.cpu, back.resource.memMB) == (1, 128)

    def test_finding_it_costs_one_list(self, batch):
        app_id = submitted(batch, "true")
        other = elsewhere()

        with counted() as asked:
            described(other, app_id)
        assert asked["ListJobs"] == 1
        with counted() as asked:
            described(other, app_id)
        assert asked == {"DescribeJobs": 1}

    def test_an_array_and_its_roles_are_found(self, batch):
        app_id = submitted(batch, app("echo $WHERRY_REPLICA_ID; sleep 0.3", 3))
        other = elsewhere()

        answer = ended(other, app_id)

        (status,) = answer.roles_statuses
        assert (status.role, len(status.replicas)) == ("main", 3)
        assert answer.roles[0].num_replicas == 3
        assert list(other.log_iter(app_id, "main", 2)) == ["2\n"]

    def test_the_roles_of_a_gang_are_found(self, batch):
        roles = [role("sleep 1", name="head"), role("sleep 30", 2, name="tail")]
        app_id = submitted(batch, AppDef("gang", roles))
        other = elsewhere()

        answer = ended(other, app_id)

        assert [(one.role, len(one.replicas)) for one in answer.roles_statuses] == [
            ("head", 1),
            ("tail", 2),
        ]

    def test_an_id_or_an_arn_of_aws_will_do(self, batch):
        app_id = submitted(batch, app("exit $WHERRY_REPLICA_ID", 2))
        ended(batch, app_id)
        (job_id,) = job_ids(batch, app_id)
        arn = f"arn:aws:batch:us-east-1:123456789012:job/{job_id}"

        assert described(batch, job_id).state is S.FAILED
        assert described(batch, arn).roles_statuses == described(batch, job_id).roles_statuses
        child = described(batch, f"{job_id}:1")
        assert child.to_status().exit_code == 1
        assert batch.exists(f"{job_id}:0")

    @pytest.mark.parametrize(
        "app_id",
        [
            "never-was",
            "main:never-was",
            "no-such-queue:never-was",
            "6f1c0000-0000-4000-8000-000000000000",
            "arn:aws:batch:us-east-1:123456789012:job/6f1c0000-0000-4000-8000-000000000000",
            "",
            "..",
            "../aws_batch/x",
        ],
    )
    def test_what_never_was_is_none(self, batch, app_id):
        assert batch.describe(app_id) is None
        assert not batch.exists(app_id)

    def test_a_job_of_others_is_described(self, batch, wherry_aws):
        client = wherry_aws.client("batch")
        submitted(batch, "true")
        (definition,) = client.describe_job_definitions()["jobDefinitions"]
        override = {"command": ["sh", "-c", "echo theirs"]}
        job_id = client.submit_job(
            jobName="theirs",
            jobQueue="main",
            jobDefinition=definition["jobDefinitionArn"],
            containerOverrides=override,
        )["jobId"]

        answer = ended(batch, job_id)

        assert answer.state is S.SUCCEEDED
        assert [one.role for one in answer.roles_statuses] == ["main"]
        assert list(batch.log_iter(job_id, "main")) == ["theirs\n"]
        assert ended(batch, "main:theirs").state is S.SUCCEEDED


class TestWhatAwsForgets:
    def test_the_last_answer_stays(self, batch, wherry_aws):
        app_id = submitted(batch, app("exit $WHERRY_REPLICA_ID", 2))
        before = ended(batch, app_id)
        wherry_aws.expire()

        assert described(AWSBatchScheduler("later"), app_id) == before

    def test_where_nothing_was_seen_it_is_expired(self, batch, wherry_aws):
        app_id = submitted(batch, "true")
        (job_id,) = [job["jobId"] for job in _all_jobs(wherry_aws)]
        until(lambda: _job(wherry_aws, job_id)["status"] == "SUCCEEDED", "the end of the job", 30)
        wherry_aws.expire()

        answer = described(batch, app_id)

        assert answer.state is S.EXPIRED
        assert answer.app == app("true")
        assert "does not know it any more" in answer.msg
        assert batch.statuses([app_id])[app_id].state is S.EXPIRED
        assert ends() == []

    def test_it_is_not_called_expired_with_credentials_of_somebody_else(self, batch, wherry_aws):
        app_id = submitted(batch, "true")
        (job_id,) = [job["jobId"] for job in _all_jobs(wherry_aws)]
        until(lambda: _job(wherry_aws, job_id)["status"] == "SUCCEEDED", "the end of the job")
        wherry_aws.expire()
        path = f"{home()}/aws_batch/{app_id}/app.json"
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("123456789012", "999999999999"))

        with pytest.raises(UsageError, match=r"account 999999999999.*of account 123456789012"):
            batch.describe(app_id)

    def test_the_end_is_told_once(self, batch):
        app_id = submitted(batch, "exit 3")
        ended(batch, app_id)
        for scheduler in (batch, AWSBatchScheduler("other")):
            described(scheduler, app_id)
            scheduler.statuses([app_id])

        assert ends() == [(f"aws_batch://tests/{app_id}", "FAILED", "main/0 exited with code 3")]


class TestTrouble:
    def test_without_credentials_it_says_so(self, batch, monkeypatch):
        app_id = submitted(batch, "true")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

        with pytest.raises(CredentialsError):
            AWSBatchScheduler("other").describe(app_id)

    def test_a_refusal_is_an_error_and_not_an_end(self, batch, wherry_aws):
        app_id = submitted(batch, "true")

        with wherry_aws.fault("access-denied", operation="DescribeJobs"):
            with pytest.raises(AwsError, match="may not do DescribeJobs"):
                batch.describe(app_id)

    @pytest.mark.parametrize("kind", ["throttle", "server-error", "lost-reply"])
    def test_what_passes_is_borne(self, batch, wherry_aws, kind):
        with wherry_aws.fault(kind, operation="DescribeJobs", every=2):
            assert over(batch, submitted(batch, "true")).state is S.SUCCEEDED


def test_waiting_wakes_when_something_happens(batch):
    app_id = submitted(batch, "sleep 1")
    batch.statuses([app_id])

    batch.wait_for_change(app_id, 30, until_end=True)

    assert batch.statuses([app_id])[app_id].state is S.SUCCEEDED
    assert batch.monotonic() <= batch.monotonic()


def test_the_app_is_forgotten_only_when_it_has_ended(batch):
    app_id = submitted(batch, "sleep 0.5")
    with pytest.raises(StateError, match="has not ended"):
        batch.forget(app_id)
    ended(batch, app_id)

    batch.forget(app_id)

    assert [app.app_id for app in batch.recorded()] == []
    with pytest.raises(UnknownAppError):
        batch.forget(app_id)


def test_why_is_asked_of_aws(batch, wherry_aws):
    app_id = submitted(batch, "exit 127")
    ended(batch, app_id)

    found = batch.why(app_id)

    assert found.app_id == app_id
    assert found.findings
    wherry_aws.expire()
    assert batch.why(app_id).state is S.FAILED


def _all_jobs(aws):
    filters = [{"name": "BEFORE_CREATED_AT", "values": ["9999999999999"]}]
    return aws.client("batch").list_jobs(jobQueue="main", filters=filters)["jobSummaryList"]


def _job(aws, job_id):
    return aws.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]
