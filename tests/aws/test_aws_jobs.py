"""Jobs as values: read from DescribeJobs and ListJobs of every kind of job there is."""

from __future__ import annotations

import dataclasses

import pytest

from support import cloud
from support.aws_calls import Script, calls_of, define, definition, ended, start
from support.waiting import until
from wherry.aws import jobs, lookup
from wherry.emulator.faults import Fault
from wherry.errors import AwsError

ARN = "arn:aws:batch:eu-west-1:123456789012:job/6f1c"
TASK = "arn:aws:ecs:eu-west-1:123456789012:task/c/1"
LOG = {"logDriver": "awslogs", "options": {"awslogs-group": "/mine", "awslogs-region": "us-east-2"}}


@pytest.fixture(scope="module")
def emulator():
    with cloud.emulator() as running:
        yield running


@pytest.fixture(scope="module")
def calls(emulator):
    return calls_of(emulator)


@pytest.fixture
def faults(emulator):
    yield emulator.faults
    emulator.faults.clear()


def shell(calls, script: str, **more) -> str:
    return define(calls, cloud.unique("def"), ["sh", "-c", script], **more)


def document(**more: object) -> dict[str, object]:
    return {"jobId": "6f1c", "jobArn": ARN, "jobName": "job", "status": "RUNNING", **more}


# -- single jobs ----------------------------------------------------------------------------------


def test_a_job_that_succeeded(calls):
    job = ended(calls, start(calls, shell(calls, "echo hi"), "first", tags={"team": "x"}))

    assert (job.kind, job.status, job.ended, job.exit_code) == ("single", "SUCCEEDED", True, 0)
    assert (job.name, job.queue_name, job.parent) == ("first", "main", job.id)
    assert (job.region, job.account) == ("us-east-1", "123456789012")
    assert job.image == "busybox"
    assert job.tags["team"] == "x"
    assert job.detailed
    assert job.created_at <= job.started_at <= job.stopped_at
    (attempt,) = job.attempts
    assert (attempt.number, attempt.exit_code) == (1, 0)
    assert attempt.reason == "Essential container in task exited"
    assert attempt.log_streams == (job.containers[0].log_stream,)
    assert job.containers[0].requirements == {"VCPU": "1", "MEMORY": "64"}
    assert job.containers[0].log_group == "/aws/batch/job"


def test_every_attempt_has_its_exit_code_and_its_stream(calls):
    retries = {"attempts": 3}
    job = ended(calls, start(calls, shell(calls, "exit 7"), retryStrategy=retries))

    assert (job.status, job.exit_code, job.attempts_allowed) == ("FAILED", 7, 3)
    assert [attempt.number for attempt in job.attempts] == [1, 2, 3]
    assert [attempt.exit_code for attempt in job.attempts] == [7, 7, 7]
    assert len({attempt.log_streams for attempt in job.attempts}) == 3


def test_the_attempt_that_goes_on_is_one_of_them(calls, tmp_path):
    go = tmp_path / "go"
    script = f"[ $AWS_BATCH_JOB_ATTEMPT = 1 ] && exit 3; until [ -e {go} ]; do sleep 0.05; done"
    job_id = start(calls, shell(calls, script), retryStrategy={"attempts": 2})

    def second():
        job = lookup.describe(calls, [job_id])[job_id]
        return job if job.status == "RUNNING" and len(job.attempts) == 2 else None

    job = until(second, "the second attempt")

    assert [attempt.exit_code for attempt in job.attempts] == [3, None]
    assert job.attempts[0].stopped_at
    assert job.attempts[1].stopped_at is None
    assert job.attempts[1].log_streams != job.attempts[0].log_streams
    assert job.exit_code is None
    go.touch()
    assert [attempt.exit_code for attempt in ended(calls, job_id).attempts] == [3, 0]


def test_a_job_that_could_not_start_has_the_agents_reason_and_no_exit_code(calls, faults):
    faults.add(Fault("pull-failure", value="manifest unknown"))

    job = ended(calls, start(calls, shell(calls, "true")))

    assert job.exit_code is None
    assert job.attempts[0].reason == "Task failed to start"
    assert "CannotPullContainerError" in job.container_reason
    assert "manifest unknown" in job.container_reason


def test_a_job_that_was_ended_says_so_and_why(calls):
    job_id = start(calls, shell(calls, "exec sleep 60"), timeout={"attemptDurationSeconds": 77})
    until(lambda: lookup.describe(calls, [job_id])[job_id].status == "RUNNING", "its start")
    calls.call("TerminateJob", jobId=job_id, reason="enough")

    job = ended(calls, job_id)

    assert (job.status, job.is_terminated, job.is_cancelled) == ("FAILED", True, False)
    assert (job.reason, job.timeout) == ("enough", 77)


def test_a_job_that_waits_for_another_names_it(calls, faults):
    faults.add(Fault("hold", value="RUNNABLE"))
    arn = shell(calls, "true")
    first = start(calls, arn)
    second = start(calls, arn, dependsOn=[{"jobId": first}])

    job = lookup.describe(calls, [second])[second]

    assert job.depends_on == (first,)
    assert job.attempts == ()
    calls.call("TerminateJob", jobId=first, reason="done")


# -- several containers, and pods -----------------------------------------------------------------


def test_of_several_containers_each_has_its_own_end(calls):
    properties = definition(["sh", "-c", "exit 5"])["containerProperties"]
    document = {
        "type": "container",
        "ecsProperties": {
            "taskProperties": [
                {
                    "containers": [
                        {**properties, "name": "copy", "command": ["true"], "essential": False},
                        {
                            **properties,
                            "name": "main",
                            "dependsOn": [{"containerName": "copy", "condition": "SUCCESS"}],
                        },
                    ]
                }
            ]
        },
    }
    name = cloud.unique("def")
    answer = calls.call("RegisterJobDefinition", **document, jobDefinitionName=name)

    job = ended(calls, start(calls, answer["jobDefinitionArn"]))

    assert [(each.name, each.exit_code) for each in job.attempts[0].containers] == [
        ("copy", 0),
        ("main", 5),
    ]
    assert [each.essential for each in job.attempts[0].containers] == [False, True]
    assert job.exit_code == 5
    assert len(set(job.attempts[0].log_streams)) == 2
    assert len(job.attempts) == 1


def test_a_pod():
    job = jobs.view(
        document(
            status="FAILED",
            eksProperties={"podProperties": {"containers": [{"name": "Default", "image": "i"}]}},
            eksAttempts=[
                {
                    "containers": [{"name": "Default", "exitCode": 2, "reason": "Error"}],
                    "statusReason": "pod failed",
                    "startedAt": 1000,
                    "stoppedAt": 2000,
                }
            ],
        )
    )

    assert (job.exit_code, job.container_reason, job.image) == (2, "Error", "i")
    assert job.attempts[0].reason == "pod failed"
    assert (job.attempts[0].started_at, job.attempts[0].stopped_at) == (1.0, 2.0)


# -- what AWS may leave out -----------------------------------------------------------------------


def test_the_least_that_aws_may_say_is_a_job():
    job = jobs.view({"jobId": "6f1c", "status": "SUBMITTED"})

    assert (job.kind, job.exit_code, job.attempts, job.created_at) == ("single", None, (), None)
    assert not job.ended
    assert not job.detailed


def test_an_attempt_that_aws_has_not_written_down_yet_is_there_all_the_same():
    """As moto does: an exit code and a stream, and no attempts."""
    container = {"logStreamName": "d/default/1", "exitCode": 4, "reason": "r", "taskArn": TASK}

    job = jobs.view(document(status="FAILED", stoppedAt=5000, container=container, attempts=[]))

    (attempt,) = job.attempts
    assert (attempt.exit_code, attempt.log_streams) == (4, ("d/default/1",))
    assert (attempt.task_arn, attempt.container_reason, attempt.stopped_at) == (TASK, "r", 5.0)


def test_while_a_retry_waits_the_attempt_before_it_is_not_counted_twice():
    container = {"logStreamName": "s", "taskArn": TASK, "exitCode": 1}
    attempts = [{"container": container, "startedAt": 1, "stoppedAt": 2}]

    job = jobs.view(document(status="RUNNABLE", container=container, attempts=attempts))

    assert len(job.attempts) == 1


def test_logs_that_go_elsewhere_are_seen_in_every_attempt():
    container = {"image": "i", "logConfiguration": LOG, "taskArn": TASK, "logStreamName": "b"}
    attempts = [{"container": {"exitCode": 1, "logStreamName": "a"}}]

    job = jobs.view(document(container=container, attempts=attempts))

    found = [attempt.containers[0] for attempt in job.attempts]
    assert [(each.log_group, each.log_region, each.log_stream) for each in found] == [
        ("/mine", "us-east-2", "a"),
        ("/mine", "us-east-2", "b"),
    ]
    assert [each.image for each in found] == ["i", "i"]


def test_a_view_cannot_be_changed():
    job = jobs.view(document())

    with pytest.raises(dataclasses.FrozenInstanceError):
        job.status = "FAILED"


# -- arrays ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def array(calls) -> str:
    script = "[ $AWS_BATCH_JOB_ARRAY_INDEX != 3 ]"
    job_id = start(calls, shell(calls, script), arrayProperties={"size": 6})
    ended(calls, job_id)
    return job_id


def test_an_array_has_its_counts(calls, array):
    job = lookup.describe(calls, [array])[array]

    assert (job.kind, job.status, job.array_size) == ("array", "FAILED", 6)
    assert job.counts == {"SUCCEEDED": 5, "FAILED": 1}
    assert job.counted_at


def test_a_child_knows_its_index_and_its_array(calls, array):
    child_id = jobs.child_id(array, 3)
    child = lookup.describe(calls, [child_id])[child_id]

    assert (child.kind, child.index, child.parent, child.exit_code) == ("child", 3, array, 1)
    assert child.array_size == 0


def test_all_children_are_listed_whatever_their_state(calls, array):
    found = lookup.children(calls, array, size=6)

    assert list(found) == [0, 1, 2, 3, 4, 5]
    assert [child.status for child in found.values()] == [
        "FAILED" if index == 3 else "SUCCEEDED" for index in found
    ]
    assert found[3].exit_code == 1


def test_states_that_have_no_children_are_not_asked_for(emulator, array):
    calls = calls_of(emulator)
    counts = {"SUCCEEDED": 5, "FAILED": 1}

    found = lookup.children(calls, array, size=6, counts=counts)

    assert len(found) == 6
    assert calls.counts == {"ListJobs": 2}


def test_children_of_one_state_alone_are_listed(emulator, array):
    calls = calls_of(emulator)

    found = lookup.children(calls, array, states=jobs.ENDED[1:])

    assert list(found) == [3]
    assert calls.counts == {"ListJobs": 1}


def test_a_child_that_was_missed_between_two_lists_is_asked_for_by_id():
    lists = [{"jobSummaryList": []} for _ in jobs.STATES]
    lists[-2] = {"jobSummaryList": [{"jobId": "a:0", "status": "SUCCEEDED"}]}
    client = Script(*lists, {"jobs": [{"jobId": "a:1", "status": "RUNNABLE"}]})

    found = lookup.children(calls_of(client), "a", size=2)

    assert [child.status for child in found.values()] == ["SUCCEEDED", "RUNNABLE"]
    assert client.asked[-1] == ("describe_jobs", {"jobs": ["a:1"]})


def test_a_child_that_moves_on_while_it_is_listed_is_seen_where_it_went():
    lists = [{"jobSummaryList": []} for _ in jobs.STATES]
    lists[2] = {"jobSummaryList": [{"jobId": "a:0", "status": "RUNNABLE"}]}
    lists[4] = {"jobSummaryList": [{"jobId": "a:0", "status": "RUNNING"}]}

    found = lookup.children(calls_of(Script(*lists)), "a", size=1)

    assert found[0].status == "RUNNING"


# -- gangs ----------------------------------------------------------------------------------------


def test_a_gang_and_its_nodes(calls):
    container = definition(["sh", "-c", "true"])["containerProperties"]
    document = {
        "type": "multinode",
        "nodeProperties": {
            "numNodes": 3,
            "mainNode": 1,
            "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
        },
    }
    name = cloud.unique("gang")
    answer = calls.call("RegisterJobDefinition", **document, jobDefinitionName=name)
    gang = ended(calls, start(calls, answer["jobDefinitionArn"]))

    nodes = lookup.nodes(calls, gang.id, gang.num_nodes)

    assert (gang.kind, gang.num_nodes, gang.main_node, gang.image) == ("multinode", 3, 1, "busybox")
    assert [node.kind for node in nodes.values()] == ["node"] * 3
    assert [node.is_main_node for node in nodes.values()] == [False, True, False]
    assert [(node.index, node.parent) for node in nodes.values()] == [
        (0, gang.id),
        (1, gang.id),
        (2, gang.id),
    ]
    assert nodes[1].exit_code == 0


# -- asking ---------------------------------------------------------------------------------------


def test_a_hundred_jobs_are_described_in_one_call_and_unknown_ones_left_out(emulator, array):
    calls = calls_of(emulator)
    ids = [jobs.child_id(array, index % 6) for index in range(500)]
    unknown = [f"00000000-0000-0000-0000-{number:012}" for number in range(100)]

    found = lookup.describe(calls, [*ids, *unknown])

    assert sorted(found) == sorted(set(ids))
    assert calls.counts == {"DescribeJobs": 2}


def test_a_job_can_be_asked_for_by_its_arn(calls, array):
    arn = lookup.describe(calls, [array])[array].arn
    client = Script({"jobs": [{"jobId": "6f1c", "jobArn": ARN, "status": "RUNNING"}]})

    found = lookup.describe(calls_of(client), [ARN])

    assert arn.endswith(array)
    assert found[ARN].id == "6f1c"


def test_a_job_is_found_by_its_exact_name(calls):
    arn, name = shell(calls, "true"), cloud.unique("name")
    wanted = start(calls, arn, name)
    start(calls, arn, name + "-more")
    start(calls, arn, name.upper())

    assert [job.id for job in lookup.find(calls, "main", name)] == [wanted]
    assert lookup.find(calls, "main", cloud.unique("none")) == []


def test_a_line_of_a_list_is_a_job_with_less_in_it(calls, array):
    child = lookup.children(calls, array, states=["FAILED"])[3]

    assert (child.status, child.exit_code, child.index) == ("FAILED", 1, 3)
    assert not child.detailed
    assert child.attempts == ()
    assert child.definition_name.startswith("def-")


def test_many_pages_of_a_queue_are_one_list(emulator):
    calls = calls_of(emulator)
    arn, prefix = shell(calls, "true"), cloud.unique("page")
    made = [start(calls, arn, f"{prefix}-{number}") for number in range(130)]

    found = list(lookup.listed(calls, queue="main", filter=("JOB_NAME", prefix + "*")))

    assert [job.id for job in found] == made[::-1]
    assert calls.counts["ListJobs"] == 2


def test_an_unknown_queue_is_told_in_the_words_of_aws(calls):
    with pytest.raises(AwsError, match="no-such-queue"):
        list(lookup.listed(calls, queue="no-such-queue"))
