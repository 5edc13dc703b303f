"""The rest of AWS, which is moto's server behind the same port."""

from __future__ import annotations

import io
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from support.cloud import client, emulator, run, unique
from wherry.emulator.server.emulator import Emulator


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def test_objects_in_s3_come_back_as_they_went(running: Emulator) -> None:
    s3, bucket = client(running, "s3"), unique("bucket")
    s3.create_bucket(Bucket=bucket)
    body = bytes(range(256)) * 40_000

    s3.upload_fileobj(io.BytesIO(body), bucket, "a/b c+d.bin")

    assert s3.get_object(Bucket=bucket, Key="a/b c+d.bin")["Body"].read() == body


def test_metadata_with_underscores_survives(running: Emulator) -> None:
    s3, bucket = client(running, "s3"), unique("bucket")
    s3.create_bucket(Bucket=bucket)

    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"my_key": "1", "other-key": "2"})

    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"my_key": "1", "other-key": "2"}


def test_a_presigned_address_works_without_a_signature_in_the_header(running: Emulator) -> None:
    s3, bucket = client(running, "s3"), unique("bucket")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")

    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})

    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"hello"


@pytest.mark.parametrize(
    ("service", "operation", "member"),
    [
        ("iam", "list_roles", "Roles"),
        ("sts", "get_caller_identity", "Account"),
        ("ecr", "describe_repositories", "repositories"),
        ("ec2", "describe_subnets", "Subnets"),
        ("ecs", "list_clusters", "clusterArns"),
        ("events", "list_rules", "Rules"),
        ("secretsmanager", "list_secrets", "SecretList"),
        ("ssm", "describe_parameters", "Parameters"),
        ("dynamodb", "list_tables", "TableNames"),
        ("sqs", "list_queues", "ResponseMetadata"),
        ("cloudformation", "list_stacks", "StackSummaries"),
        ("logs", "describe_log_groups", "logGroups"),
    ],
)
def test_services_answer_to_unmodified_clients(
    running: Emulator, service: str, operation: str, member: str
) -> None:
    assert member in getattr(client(running, service), operation)()


def test_errors_of_moto_keep_their_shape(running: Emulator) -> None:
    s3 = client(running, "s3")

    with pytest.raises(s3.exceptions.NoSuchBucket):
        s3.list_objects_v2(Bucket=unique("missing"))


def test_what_a_first_job_needs_is_there(running: Emulator) -> None:
    iam, ec2, s3 = (client(running, name) for name in ("iam", "ec2", "s3"))
    batch = client(running, "batch")

    roles = {role["RoleName"] for role in iam.list_roles()["Roles"]}
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]}
    environments = {
        found["computeEnvironmentName"]: found["computeResources"]
        for found in batch.describe_compute_environments()["computeEnvironments"]
    }

    assert roles >= {
        "wherry-batch-service",
        "ecsTaskExecutionRole",
        "wherry-job",
        "ecsInstanceRole",
    }
    assert iam.get_instance_profile(InstanceProfileName="ecsInstanceRole")
    assert "wherry" in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    assert {name: found["type"] for name, found in environments.items()} == {
        "main": "EC2",
        "spot": "SPOT",
        "fargate": "FARGATE",
    }
    assert all(set(found["subnets"]) <= subnets for found in environments.values())
    assert all(found["maxvCpus"] == 256 for found in environments.values())


def test_without_bootstrap_nothing_is_there() -> None:
    with emulator(bootstrap=False) as made:
        batch = client(made, "batch")

        assert batch.describe_job_queues()["jobQueues"] == []
        assert batch.describe_compute_environments()["computeEnvironments"] == []


def test_moto_has_no_say_in_batch(running: Emulator) -> None:
    run(client(running, "batch"), ["true"])

    found = client(running, "batch").get_job_queue_snapshot(jobQueue="main")

    assert found["frontOfQueue"]["jobs"] == []


def test_the_emulator_loads_only_when_it_starts() -> None:
    program = (
        "import sys; import wherry.emulator, wherry.emulator.settings;"
        " print([name for name in ('moto', 'boto3', 'werkzeug') if name in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout

    assert out.strip() == "[]"


def test_the_aws_command_line_finds_all_of_it(running: Emulator) -> None:
    import os

    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    asked = subprocess.run(
        [sys.executable, "-m", "awscli", "s3", "ls"],
        env={**given, **running.environment(), "AWS_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
    )

    assert asked.returncode == 0, asked.stderr
    assert "wherry" in asked.stdout
