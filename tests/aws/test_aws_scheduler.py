"""Submitting apps: what is asked of AWS, what is told beforehand, and what a failure leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.batch_apps import (
    MAIN,
    Meddling,
    app,
    counted,
    described,
    ended,
    over,
    reached,
    role,
    submitted,
)
from wherry.emulator import Running
from wherry.errors import (
    AwsError,
    InvalidOptionError,
    InvalidSpecError,
    LaunchError,
    LostReply,
    UnknownNameError,
    UsageError,
)
from wherry.home import home, journal_path
from wherry.schedulers import journal
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppDef, AppState

ROLE = "arn:aws:iam::123456789012:role/wherry-job"
NO_ROLE = "arn:aws:iam::123456789012:role/nobody"


def jobs_of(aws: Running, queue: str = "main") -> list[dict[str, object]]:
    """Return all jobs of a queue, as AWS has them."""
    filters = [{"name": "BEFORE_CREATED_AT", "values": ["9999999999999"]}]
    client = aws.client("batch")
    found = client.list_jobs(jobQueue=queue, filters=filters)["jobSummaryList"]
    return list(found)


def definitions_of(aws: Running) -> list[str]:
    known = aws.client("batch").describe_job_definitions()["jobDefinitions"]
    return [f"{each['jobDefinitionName']}:{each['revision']}" for each in known]


def kept() -> list[str]:
    """Return the ids of the apps that there are records of."""
    folder = f"{home()}/aws_batch"
    return [name for name in os.listdir(folder) if name[0] != "."] if os.path.isdir(folder) else []


def announced() -> list[str]:
    return [entry["e"] for entry in journal.read(journal_path(), 0)[0]]


class TestBeforeTheFirstCall:
    def test_making_a_scheduler_and_a_dry_run_load_no_boto3(self):
        program = (
            "import sys, json\n"
            "from wherry.schedulers.aws_batch import create_scheduler\n"
            "from wherry.specs import AppDef, Role\n"
            "s = create_scheduler('x')\n"
            "app = AppDef('a', [Role('r', image='i', entrypoint='true')])\n"
            "info = s.submit_dryrun(app, {'queue': 'main'})\n"
            "loaded = sorted({'boto3', 'botocore', 'moto', 'docker'} & set(sys.modules))\n"
            "print(json.dumps([loaded, info.warnings]))"
        )
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}

        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
        )

        loaded, warnings = json.loads(done.stdout)
        assert loaded == []
        assert any("was not asked what it runs on" in words for words in warnings)

    def test_importing_the_room_loads_nothing_of_it(self):
        program = (
            "import sys, wherry.schedulers.aws_batch as room\n"
            "rooms = [name for name in sys.modules if name.startswith('wherry.aws')]\n"
            "assert rooms == [] and 'dataclasses' not in sys.modules, sys.modules\n"
            "assert room.BatchJob and room.AWSBatchScheduler and room.create_scheduler"
        )

        subprocess.run([sys.executable, "-c", program], check=True)


class TestWhatIsAsked:
    def test_the_first_submission_looks_up_and_defines_and_the_next_only_submits(self, batch):
        with counted() as first:
            submitted(batch, "echo one")
        with counted() as second:
            submitted(batch, "echo two")

        assert first == {
            "DescribeJobQueues": 1,
            "DescribeComputeEnvironments": 1,
            "DescribeJobDefinitions": 1,
            "RegisterJobDefinition": 1,
            "SubmitJob": 1,
        }
        assert second == {"SubmitJob": 1}

    def test_another_process_only_submits_too(self, batch):
        submitted(batch, "echo one")

        with counted() as asked:
            submitted(AWSBatchScheduler("other"), "echo two")

        assert asked == {"SubmitJob": 1}

    def test_runs_that_agree_share_one_definition(self, batch, wherry_aws):
        for word in ("one", "two", "three"):
            submitted(batch, f"echo {word}")
        submitted(batch, app("echo many", 3))

        assert len(definitions_of(wherry_aws)) == 1
        assert definitions_of(wherry_aws)[0].endswith(":1")

    def test_a_definition_that_was_removed_meanwhile_is_made_again(self, batch, wherry_aws):
        submitted(batch, "echo one")
        client = wherry_aws.client("batch")
        for name in definitions_of(wherry_aws):
            client.deregister_job_definition(jobDefinition=name)

        app_id = submitted(batch, "echo two")

        assert ended(batch, app_id).state is AppState.SUCCEEDED

    def test_a_job_has_the_tags_of_its_app(self, batch, wherry_aws):
        app_id = submitted(batch, "true", tags="team:red", user="ada")

        (job,) = jobs_of(wherry_aws)
        told = wherry_aws.client("batch").describe_jobs(jobs=[job["jobId"]])["jobs"][0]
        token = app_id.rpartition("-")[2]
        assert (
            told["tags"].items()
            >= {
                "team": "red",
                "wherry/app": "job",
                "wherry/session": "tests",
                "wherry/user": "ada",
                "wherry/token": token,
            }.items()
        )
        assert told["propagateTags"] is True


class TestToldBeforeAnythingIsMade:
    def test_an_unknown_queue_with_the_nearest(self, batch, wherry_aws):
        with pytest.raises(UnknownNameError, match=r"unknown job queue 'mian'.*'main'"):
            submitted(batch, "true", queue="mian")

        assert definitions_of(wherry_aws) == []
        assert kept() == []

    def test_a_queue_that_is_disabled(self, batch, wherry_aws):
        wherry_aws.client("batch").update_job_queue(jobQueue="main", state="DISABLED")

        with pytest.raises(UsageError, match="'main' is DISABLED"):
            submitted(batch, "true")

        assert definitions_of(wherry_aws) == []

    def test_a_queue_that_was_disabled_since_it_was_last_looked_at(self, batch, wherry_aws):
        submitted(batch, "true")
        wherry_aws.client("batch").update_job_queue(jobQueue="main", state="DISABLED")

        with pytest.raises(UsageError, match="'main' is DISABLED"):
            submitted(batch, "true")

    def test_a_role_that_is_not_there(self, batch, wherry_aws):
        with pytest.raises(InvalidOptionError, match=r"'job_role_arn': there is no role.*nobody"):
            submitted(batch, "true", job_role_arn=NO_ROLE)

        assert definitions_of(wherry_aws) == []

    def test_a_role_that_is_there_is_looked_up_once(self, batch):
        with counted() as asked:
            submitted(batch, "echo one", job_role_arn=ROLE)
            submitted(batch, "echo two", job_role_arn=ROLE)

        assert asked["GetRole"] == 1

    def test_a_role_that_may_not_be_looked_at_is_no_obstacle(self, batch, wherry_aws):
        with wherry_aws.fault("access-denied", service="iam"):
            app_id = submitted(batch, "true", job_role_arn=ROLE)

        assert ended(batch, app_id).state is AppState.SUCCEEDED

    def test_a_definition_that_is_not_there(self, batch):
        with pytest.raises(UnknownNameError, match="no active job definition 'mine'"):
            submitted(batch, "true", job_definition="mine")

    def test_an_app_to_wait_for_that_is_not_there(self, batch):
        with pytest.raises(InvalidSpecError, match="there is no app"):
            submitted(batch, app("true", depends_on=["aws_batch://tests/main:nothing-here"]))

    def test_a_share_that_the_queue_needs_or_does_not_have(self, batch):
        with pytest.raises(UsageError, match="has no scheduling policy"):
            submitted(batch, "true", share_id="a")

    def test_a_gang_for_a_queue_that_has_none(self, batch, wherry_aws):
        with pytest.raises(InvalidSpecError, match="Fargate, which has no multi-node jobs"):
            submitted(batch, app("true", 2, array=False), queue="fargate")

        assert definitions_of(wherry_aws) == []

    def test_a_region_that_the_given_client_is_not_for(self, wherry_aws):
        scheduler = AWSBatchScheduler("tests", client=wherry_aws.client("batch"))

        with pytest.raises(InvalidOptionError, match=r"'region' is 'eu-west-1'.*us-east-1"):
            submitted(scheduler, "true", region="eu-west-1")


class TestWhatTheQueueIsMadeOf:
    def test_a_request_is_made_again_for_fargate(self, batch, wherry_aws):
        role_arn = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"
        cfg = {"queue": "fargate", "execution_role_arn": role_arn}
        info = batch.submit_dryrun(app("true"), cfg)
        assert any("was not asked" in words for words in info.warnings)

        settled = batch.settled(info)
        app_id = batch.schedule(settled)

        assert not any("was not asked" in words for words in settled.warnings)
        assert any("rounded up" in words for words in settled.warnings)
        answer = ended(batch, app_id)
        assert answer.state is AppState.SUCCEEDED, answer.msg

    def test_environments_that_start_nothing_are_warned_of(self, batch, wherry_aws):
        client = wherry_aws.client("batch")
        client.update_compute_environment(computeEnvironment="main", state="DISABLED")

        settled = batch.settled(batch.submit_dryrun(app("true"), MAIN))

        assert any("no compute environment of queue 'main'" in words for words in settled.warnings)

    def test_who_may_not_look_is_told_and_goes_on(self, batch, wherry_aws):
        with wherry_aws.fault("access-denied", operation="DescribeJobQueues"):
            settled = batch.settled(batch.submit_dryrun(app("true"), MAIN))
            app_id = batch.schedule(settled)

        assert any("may not do DescribeJobQueues" in words for words in settled.warnings)
        assert ended(batch, app_id).state is AppState.SUCCEEDED


class TestFailures:
    def test_a_refusal_leaves_nothing_behind(self, batch, wherry_aws):
        with wherry_aws.fault("access-denied", operation="SubmitJob"):
            with pytest.raises(AwsError, match="may not do SubmitJob"):
                submitted(batch, "true")

        assert kept() == []
        assert announced() == []
        assert jobs_of(wherry_aws) == []

    @pytest.mark.parametrize("kind", ["lost-reply", "server-error", "throttle"])
    def test_a_call_that_fails_makes_neither_none_nor_two(self, batch, wherry_aws, kind):
        with wherry_aws.fault(kind, operation="SubmitJob", times=1):
            app_id = submitted(batch, "true")

        assert len(jobs_of(wherry_aws)) == 1
        assert ended(batch, app_id).state is AppState.SUCCEEDED

    def test_when_nobody_knows_the_app_stays_known(self, batch, wherry_aws):
        info = batch.submit_dryrun(app("true"), MAIN)
        with (
            wherry_aws.fault("lost-reply", operation="SubmitJob"),
            wherry_aws.fault("access-denied", operation="ListJobs"),
        ):
            with pytest.raises(LostReply, match="could not be found out"):
                batch.schedule(info)

        assert ended(batch, info.request.app_id).state is AppState.SUCCEEDED
        assert announced() == ["created", "created", "ended"]

    def test_an_interrupt_after_sending_leaves_a_known_app(self, wherry_aws):
        def interrupted(submit, **params):
            submit(**params)
            raise KeyboardInterrupt

        client = Meddling(wherry_aws.client("batch"), submit_job=interrupted)
        scheduler = AWSBatchScheduler("tests", client=client)
        info = scheduler.submit_dryrun(app("true"), MAIN)

        with pytest.raises(KeyboardInterrupt):
            scheduler.schedule(info)

        assert "created" in announced()
        assert ended(AWSBatchScheduler("other"), info.request.app_id).state is AppState.SUCCEEDED

    def test_an_interrupt_before_sending_leaves_nothing(self, wherry_aws):
        def interrupted(_submit, **_params):
            raise KeyboardInterrupt

        client = Meddling(wherry_aws.client("batch"), submit_job=interrupted)
        scheduler = AWSBatchScheduler("tests", client=client)
        info = scheduler.submit_dryrun(app("true"), MAIN)

        with pytest.raises(KeyboardInterrupt):
            scheduler.schedule(info)

        assert scheduler.describe(info.request.app_id) is None
        assert scheduler.statuses([info.request.app_id]) == {info.request.app_id: None}
        assert kept() == []

    def test_while_it_is_being_submitted_it_is_known(self, wherry_aws):
        seen = []

        def looked_at(submit, **params):
            app_id = f"{params['jobQueue']}:{params['jobName']}"
            seen.append(described(AWSBatchScheduler("other"), app_id))
            return submit(**params)

        client = Meddling(wherry_aws.client("batch"), submit_job=looked_at)
        submitted(AWSBatchScheduler("tests", client=client), "true")

        assert [answer.state for answer in seen] == [AppState.SUBMITTED]
        assert "being submitted" in seen[0].msg

    def test_the_same_request_is_not_submitted_twice(self, batch, wherry_aws):
        info = batch.submit_dryrun(app("true"), MAIN)
        batch.schedule(info)

        with pytest.raises(LaunchError, match="was scheduled already"):
            batch.schedule(info)

        assert len(jobs_of(wherry_aws)) == 1


class TestManyReplicas:
    def test_more_than_an_array_holds_are_several_jobs_behind_one_app(self, batch, wherry_aws):
        with wherry_aws.fault("hold", value="SUBMITTED"):
            app_id = submitted(batch, app("true", 10_001))
            answer = batch.statuses([app_id])[app_id]
            with counted() as asked:
                batch.cancel(app_id, "enough")

        assert len(jobs_of(wherry_aws)) == 2
        assert answer is not None
        assert sum(answer.counts().values()) == 10_001
        assert asked == {"DescribeJobs": 1, "TerminateJobs": 1}
        assert over(batch, app_id).state is AppState.CANCELLED

    def test_they_are_submitted_all_or_none(self, batch, wherry_aws):
        with wherry_aws.fault("hold", value="SUBMITTED"):
            with wherry_aws.fault("access-denied", operation="SubmitJob", every=2):
                with pytest.raises(AwsError, match="SubmitJob"):
                    submitted(batch, app("true", 10_001))

        (job,) = jobs_of(wherry_aws)
        told = wherry_aws.client("batch").describe_jobs(jobs=[job["jobId"]])["jobs"][0]
        assert told["isTerminated"] or told["status"] == "FAILED"
        assert kept() == []


class TestDependencies:
    def test_an_app_waits_for_another(self, batch):
        first = submitted(batch, app("sleep 0.5", name="first"))
        second = submitted(batch, app("true", depends_on=[f"aws_batch://tests/{first}"]))

        waiting = described(batch, second)
        assert ended(batch, second).state is AppState.SUCCEEDED
        assert described(batch, first).state is AppState.SUCCEEDED
        assert waiting.state is AppState.SUCCEEDED or "waits for 1 other job" in waiting.msg

    def test_an_app_that_waits_for_a_failure_fails(self, batch):
        first = submitted(batch, app("sleep 0.5; exit 3", name="first"))
        second = submitted(batch, app("true", depends_on=[f"aws_batch://tests/{first}"]))

        assert ended(batch, second).state is AppState.FAILED

    def test_one_that_is_known_to_have_failed_is_told_at_once(self, batch):
        first = submitted(batch, app("exit 3", name="first"))
        ended(batch, first)

        with pytest.raises(LaunchError, match=r"it depends on .*first.*FAILED"):
            submitted(batch, app("true", depends_on=[f"aws_batch://tests/{first}"]))

    def test_one_that_has_succeeded_and_was_forgotten_is_no_obstacle(self, batch, wherry_aws):
        first = submitted(batch, app("true", name="first"))
        ended(batch, first)
        wherry_aws.expire()

        second = submitted(batch, app("true", depends_on=[f"aws_batch://tests/{first}"]))

        assert ended(batch, second).state is AppState.SUCCEEDED

    def test_replicas_wait_for_those_of_their_number(self, batch, wherry_aws):
        first = submitted(batch, app("true", 3, name="first"))
        waits = app("true", 3, name="second", depends_on=[f"aws_batch://tests/{first}"])
        second = submitted(batch, waits, dependency="n_to_n")

        (job_id,) = [job["jobId"] for job in jobs_of(wherry_aws) if job["jobName"] in second]
        told = wherry_aws.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]
        assert [each["type"] for each in told["dependsOn"]] == ["N_TO_N"]
        assert ended(batch, second).state is AppState.SUCCEEDED

    def test_arrays_of_different_sizes_are_refused(self, batch):
        first = submitted(batch, app("true", 3, name="first"))
        waits = app("true", 2, depends_on=[f"aws_batch://tests/{first}"])

        with pytest.raises(UsageError, match="arrays of the same size"):
            submitted(batch, waits, dependency="n_to_n")


class TestADefinitionOfTheUsersOwn:
    def test_it_is_used_and_its_command_is_overridden(self, batch, wherry_aws):
        client = wherry_aws.client("batch")
        container = {
            "image": "busybox",
            "command": ["false"],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "64"},
            ],
        }
        client.register_job_definition(
            jobDefinitionName="mine", type="container", containerProperties=container
        )
        given = AppDef("own", [role("echo $WHERRY_ROLE_NAME", image="")])

        app_id = submitted(batch, given, job_definition="mine")

        assert ended(batch, app_id).metadata["definition"] == "mine:1"
        assert list(batch.log_iter(app_id, "main")) == ["main\n"]


def test_the_state_goes_from_submitted_to_the_end(batch, wherry_aws):
    with wherry_aws.fault("hold", value="SUBMITTED"):
        app_id = submitted(batch, "true")
        assert reached(batch, app_id, "SUBMITTED").state is AppState.SUBMITTED
    with wherry_aws.fault("hold", value="RUNNABLE"):
        assert reached(batch, app_id, "RUNNABLE").state is AppState.PENDING

    assert ended(batch, app_id).state is AppState.SUCCEEDED
