"""Calls on AWS Batch: the same jobs, and every key that people know from elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import warnings
from typing import Any

import boto3
import pytest

from support.waiting import until
from wherry import AWSBatchExecutor, errors
from wherry.functions.settings import AUTO, INHERIT

BUCKET = "calls"
TASK = {"dispatch_id": "d1", "node_id": 4}


@pytest.fixture
def aws(wherry_aws):
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return wherry_aws


def executor(**options: Any) -> AWSBatchExecutor:
    known = {"s3_bucket_name": BUCKET, "batch_queue": "main", "vcpu": 1, "memory": 0.25}
    return AWSBatchExecutor(**{**known, **options})


def described(job: Any) -> dict[str, Any]:
    found: dict[str, Any] = boto3.client("batch").describe_jobs(jobs=[job.provider_id])["jobs"][0]
    return found


def definition_of(job: Any) -> dict[str, Any]:
    arn = described(job)["jobDefinition"]
    batch = boto3.client("batch")
    found: dict[str, Any] = batch.describe_job_definitions(jobDefinitions=[arn])["jobDefinitions"][
        0
    ]
    return found


def asked_of(job: Any) -> dict[str, str]:
    stated = described(job)["container"]["resourceRequirements"]
    return {item["type"]: item["value"] for item in stated}


def made(text: str, name: str) -> Any:
    """Make a function that no module holds, so that it goes along by value."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(text, space)
    return space[name]


double = made("def double(x):\n    print('doubling', x)\n    return 2 * x", "double")
fail = made("def fail(x):\n    raise KeyError(x)", "fail")


# -- jobs -----------------------------------------------------------------------------------------


def test_a_call_comes_back_with_its_value_and_all_that_aws_says(aws):
    job = executor().submit(double, 21)

    assert job.result(60) == 42
    assert (job.kind, job.environment, job.exit_code) == ("single", "aws_batch", 0)
    assert job.raw_status == "SUCCEEDED"
    assert described(job)["jobName"] == job.id
    until(lambda: "doubling 21" in job.log(), "the log")
    assert job.outcome().stdout == "doubling 21\n"


def test_an_exception_is_raised_here_fails_the_job_there_and_is_not_retried(aws):
    job = executor().submit(fail, "x")

    with pytest.raises(KeyError, match="x") as caught:
        job.result(60)

    assert "in fail" in str(caught.value.__cause__)
    assert (described(job)["status"], job.exit_code) == ("FAILED", 1)
    assert len(described(job)["attempts"]) == 1


def test_a_map_is_one_array_job_and_its_children_answer_one_by_one(aws):
    runs = executor().map_array(double, range(4))

    assert list(runs.results()) == [0, 2, 4, 6]
    assert described(runs)["arrayProperties"]["size"] == 4
    assert runs[2].provider_id == f"{runs.provider_id}:2"
    until(lambda: "doubling 2" in runs[2].log() or "doubling 4" in runs[2].log(), "the log")


def test_failed_items_are_run_again_as_a_new_array(aws, tmp_path):
    mark = tmp_path / "mark"

    def picky(x):
        if x % 2 and not mark.exists():
            raise ValueError(x)
        return x

    ex = executor()
    runs = ex.map_array(picky, range(4))
    assert sorted(type(one).__name__ for one in runs.results(return_exceptions=True)) == [
        "ValueError",
        "ValueError",
        "int",
        "int",
    ]
    mark.touch()

    again = runs.retry_failed()

    assert list(again.results()) == [1, 3]
    assert again.provider_id != runs.provider_id


def test_a_gang_knows_its_rank_and_size(aws, tmp_path):
    def who(folder):
        import time

        # AWS Batch ends the other nodes with the main one, which therefore waits for them.
        rank = os.environ["RANK"]
        open(f"{folder}/{rank}", "w").close()
        while rank == "0" and not os.path.exists(f"{folder}/1"):
            time.sleep(0.01)
        return rank, os.environ["WORLD_SIZE"]

    job = executor().options(nodes=2).submit(who, str(tmp_path))

    assert job.result(60) == ("0", "2")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in "01") == ["0", "1"]
    assert described(job)["nodeProperties"]["numNodes"] == 2


def test_a_job_is_taken_up_by_another_process_after_aws_has_forgotten_it(aws):
    job = executor().submit(double, 4)
    assert job.result(60) == 8
    aws.expire() if hasattr(aws, "expire") else None

    script = (
        "import wherry; ex = wherry.AWSBatchExecutor("
        f"s3_bucket_name={BUCKET!r}, batch_queue='main'); print(ex.attach({job.id!r}).result())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout == "8\n", done.stderr


def test_many_functions_share_one_definition(aws):
    ex = executor()
    jobs = [ex.submit(double, 1), ex.submit(str, 1), ex.map_array(abs, [1, 2])]
    for job in jobs:
        job.exception(60)

    assert len({described(job)["jobDefinition"] for job in jobs}) == 1


def test_cancelled_is_told_from_failed(aws):
    import time

    ex = executor()
    job = ex.submit(time.sleep, 600)
    until(lambda: job.status.name == "RUNNING", "the start")

    job.cancel("no time")

    with pytest.raises(errors.JobCancelledError, match="no time"):
        job.result(60)


# -- what it takes --------------------------------------------------------------------------------


def test_every_key_of_covalent_reaches_aws(aws, tmp_path):
    iam = boto3.client("iam")
    for name in ("lab-execution", "lab-job"):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
    boto3.client("logs").create_log_group(logGroupName="lab-log")
    given = boto3.Session().get_credentials()
    file = tmp_path / "credentials"
    file.write_text(
        f"[lab]\naws_access_key_id = {given.access_key}\n"
        f"aws_secret_access_key = {given.secret_key}\n"
    )
    ex = AWSBatchExecutor(
        credentials=str(file),
        profile="lab",
        region="us-east-1",
        s3_bucket_name=BUCKET,
        batch_queue="main",
        batch_job_definition_name="lab-definition",
        batch_execution_role_name="lab-execution",
        batch_job_role_name="lab-job",
        batch_job_log_group_name="lab-log",
        vcpu=2,
        memory=3.75,
        num_gpus=0,
        retry_attempts=3,
        time_limit=300,
        poll_freq=10,
        cache_dir=str(tmp_path / "cache"),
        container_image_uri="registry.example/lab:1",
    )

    job = ex.submit(double, 1)

    assert job.result(60) == 2
    made, container = definition_of(job), definition_of(job)["containerProperties"]
    assert made["jobDefinitionName"].startswith("wherry-lab-definition-")
    assert container["image"] == "registry.example/lab:1"
    assert container["executionRoleArn"] == "arn:aws:iam::123456789012:role/lab-execution"
    assert container["jobRoleArn"] == "arn:aws:iam::123456789012:role/lab-job"
    assert container["logConfiguration"]["options"]["awslogs-group"] == "lab-log"
    assert asked_of(job) == {"VCPU": "2", "MEMORY": "3840"}
    assert described(job)["retryStrategy"]["attempts"] == 4
    assert described(job)["timeout"] == {"attemptDurationSeconds": 300}
    assert any((tmp_path / "cache").rglob("*@*"))


def test_zero_gpus_are_none_and_half_a_vcpu_is_not_zero(aws):
    role = "arn:aws:iam::123456789012:role/pulls"
    job = executor(
        vcpu=0.5,
        memory=1,
        num_gpus=0,
        aws={"platform": "fargate"},
        batch_execution_role_name=role,
    )
    request = job.dryrun(
        _app_of(job), job.cfg(job._defaults), f"main:call-{'0' * 13}"
    ).request.definition()

    stated = request["containerProperties"]["resourceRequirements"]
    assert {item["type"]: item["value"] for item in stated} == {"VCPU": "0.5", "MEMORY": "1024"}


def _app_of(ex: AWSBatchExecutor) -> Any:
    from wherry import AppDef

    return AppDef("call", [ex.role("s3://calls/x", {}, ex._defaults, 1)])


def own_definition(*, vcpu: str = "2", memory: str = "9000") -> str:
    answer = boto3.client("batch").register_job_definition(
        jobDefinitionName="ours",
        type="container",
        containerProperties={
            "image": "registry.example/python:3",
            "command": ["true"],
            "resourceRequirements": [
                {"type": "VCPU", "value": vcpu},
                {"type": "MEMORY", "value": memory},
            ],
        },
        timeout={"attemptDurationSeconds": 900},
    )
    return str(answer["jobDefinitionArn"])


def test_of_a_definition_of_ones_own_everything_is_inherited_that_is_not_said(aws):
    queues = boto3.client("batch").describe_job_queues(jobQueues=["main"])["jobQueues"]
    queue = queues[0]["jobQueueArn"]
    ex = AWSBatchExecutor(s3_bucket_name=BUCKET, queue=queue, job_definition=own_definition())

    job = ex.submit(double, 3)

    assert job.result(60) == 6
    assert (ex.vcpu, ex.num_gpus, ex.memory) == (INHERIT, INHERIT, AUTO)
    assert asked_of(job) == {"VCPU": "2", "MEMORY": "9000"}
    assert described(job)["timeout"] == {"attemptDurationSeconds": 900}


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ({"vcpu": 2}, "1000"),
        ({"vcpu": 2, "memory": AUTO}, "3840"),
        ({"vcpu": 2, "memory": INHERIT}, "1000"),
        ({"vcpu": INHERIT, "memory": AUTO}, "1920"),
        ({"vcpu": INHERIT, "memory": 0.5}, "512"),
    ],
    ids=str,
)
def test_automatic_and_inherited_memory_are_two_things(aws, options, memory):
    if options == {"vcpu": 2}:
        options, memory = {"vcpu": 2, "memory": AUTO}, "3840"
    ex = AWSBatchExecutor(
        s3_bucket_name=BUCKET,
        queue="main",
        job_definition=own_definition(vcpu="1", memory="1000"),
        **options,
    )

    job = ex.submit(double, 3)

    assert job.result(60) == 6
    assert asked_of(job)["MEMORY"] == memory


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_limit": 30}, "time_limit is 30 seconds, and AWS Batch takes no less than 60"),
        ({"queue": "other"}, "queue='other' and batch_queue='main' mean the same thing"),
        ({"vcpu": INHERIT}, "vcpu=INHERIT takes the value of a job definition"),
        ({"vcpu": AUTO}, "AUTO is for memory"),
        ({"memory": "123"}, "memory is GiB above 0"),
        ({"poll_freq": 0}, "poll_freq must be seconds above 0"),
        ({"vcpus": 3}, "did you mean 'vcpu'"),
        ({"job_definition": "a", "container_image_uri": "b"}, "has an image of its own"),
        ({"aws": {"quee": "x"}}, "quee"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_when_the_executor_is_made(options, words):
    with pytest.raises(errors.UsageError, match=words):
        executor(**options)


def test_a_bucket_is_needed_and_one_that_is_not_there_is_named(aws):
    with pytest.raises(errors.UsageError, match="s3_bucket_name"):
        AWSBatchExecutor(batch_queue="main").submit(double, 1)
    with pytest.raises(errors.StoreError, match="no-such-bucket"):
        executor(s3_bucket_name="no-such-bucket").submit(double, 1)


# -- driven by a workflow engine ------------------------------------------------------------------


def test_one_task_is_run_and_its_streams_are_told(aws):
    async def drive() -> Any:
        ex = executor()
        identity = await ex.setup(TASK)
        value = await ex.run(double, [5], {}, TASK)
        return identity, value, await ex.query_result(TASK), await ex.teardown(TASK)

    identity, value, result, _ = asyncio.run(drive())

    assert identity == {"Account": "123456789012"}
    assert value == 10
    assert result == (10, "doubling 5\n", "")


def test_a_packed_task_is_submitted_looked_at_and_cancelled(aws):
    import time

    async def drive() -> Any:
        ex = executor()
        ex.pack_task(time.sleep, [600], {}, TASK)
        job = await ex.submit_task(TASK, {"Account": "1"})
        status = await ex.get_status(job)
        cancelled = await ex.cancel(TASK, job)
        with ex.get_dispatch_context({"dispatch_id": "d1", "node_id": 4}):
            asked = await ex.get_cancel_requested()
        with pytest.raises(errors.JobCancelledError, match="cancelled by dispatch d1"):
            ex.attach(job).result(60)
        return status, cancelled, asked

    status, cancelled, asked = asyncio.run(drive())

    assert status[0] in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
    assert (status[1], cancelled, asked) == (-1, True, True)


def test_a_group_is_sent_polled_and_received(aws, tmp_path):
    import cloudpickle

    for name, value in (("f", double), ("x", 7)):
        (tmp_path / name).write_bytes(cloudpickle.dumps(value))
    group = {"dispatch_id": "d2", "node_ids": [0], "task_group_id": 0}
    specs = [{"function_id": 0, "args_ids": [1], "kwargs_ids": {}}]
    resources = {
        "functions": {0: f"file://{tmp_path}/f"},
        "inputs": {1: f"file://{tmp_path}/x"},
    }

    async def drive() -> Any:
        ex = executor()
        return await ex.receive(group, await ex.poll(group, await ex.send(specs, resources, group)))

    (update,) = asyncio.run(drive())

    assert (update["dispatch_id"], update["node_id"], update["status"]) == ("d2", 0, "COMPLETED")
    bucket, _, key = update["assets"]["output"]["remote_uri"].removeprefix("s3://").partition("/")
    stored = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    assert cloudpickle.loads(stored) == 14


def test_settings_go_into_a_dictionary_and_back(tmp_path):
    ex = executor(time_limit=120, region="eu-west-1", num_gpus=1)

    plain = json.loads(json.dumps(ex.to_dict()))
    again = executor(batch_job_role_name="other").from_dict(plain)

    assert plain["short_name"] == "awsbatch"
    assert (again.time_limit, again.region, again.num_gpus, again.vcpu) == (120, "eu-west-1", 1, 1)
    assert ex.boto_session_options() == {"region_name": "eu-west-1"}


def test_what_an_engine_notes_is_kept(aws, tmp_path):
    async def drive() -> Any:
        ex = executor()
        with ex.get_dispatch_context({"dispatch_id": "d3", "node_id": 1}) as info:
            handle = await ex.set_job_handle("some-job")
            known = [await ex.set_job_status(status) for status in ("RUNNING", "DANCING")]
        process, out, _ = await ex.run_async_subprocess("echo hello; exit 3")
        await ex.write_streams_to_file(("a", "b"), ("out.txt", ""), "d3", str(tmp_path))
        versions = await ex.get_version_info()
        return info["node_id"], handle, known, process.returncode, out, versions

    node, handle, known, code, out, versions = asyncio.run(drive())

    assert (node, handle, known, code, out) == (1, "some-job", [True, False], 3, b"hello\n")
    assert (tmp_path / "d3" / "out.txt").read_text() == "a"
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_nothing_is_asked_of_aws_before_the_first_call(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert executor(batch_job_role_name="some").vcpu == 1


def test_a_long_job_tells_what_it_does(aws):
    import time

    job = executor().submit(time.sleep, 600)

    until(lambda: job.phase == "running", "the first word")
    job.cancel()
