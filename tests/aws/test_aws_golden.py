"""Whole dry runs, as they print, against the texts in ``golden/``.

A text is what would be sent to AWS Batch. To accept a change that is meant, run these tests with
``UPDATE_GOLDEN=1`` and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.batch_requests import (
    EC2,
    EXECUTION_ROLE,
    FARGATE,
    JOB_ROLE,
    SECRET,
    app,
    assert_aws_would_take,
    made,
    role,
)
from wherry._version import __version__
from wherry.schedulers.aws_batch.launcher import SCRIPT
from wherry.specs import (
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    VolumeMount,
    resource,
)

GOLDEN = Path(__file__).parent / "golden"
RANK = ["--rank=${replica_id}", "--out=/data/${app_id}"]
ON_FARGATE = {"execution_role_arn": EXECUTION_ROLE}

CASES = {
    "single": (app(), EC2, {}),
    "single-retried": (
        app(role(max_retries=3, retry_policy=RetryPolicy.spot()), timeout=3600),
        EC2,
        {},
    ),
    "array": (app(role(args=RANK, num_replicas=100), array=True), EC2, {}),
    "array-in-parts": (app(role(args=RANK, num_replicas=10_001), array=True), EC2, {}),
    "gang": (app(role(args=RANK, num_replicas=4)), EC2, {}),
    "gang-of-roles": (
        app(
            role("trainer", args=RANK, num_replicas=2, resource=resource(h="aws_m5.2xlarge")),
            role("reader", args=["--master=${rank0_env}"], num_replicas=3),
        ),
        EC2,
        {},
    ),
    "fargate": (app(role(resource=Resource(cpu=1, memMB=9000))), FARGATE, ON_FARGATE),
    "fargate-array": (
        app(
            role(
                num_replicas=2,
                resource=Resource(cpu=0.5, memMB=1024, capabilities={"arch": "arm64"}),
            ),
            array=True,
        ),
        FARGATE,
        {**ON_FARGATE, "public_ip": False},
    ),
    "gpu": (app(role(resource=resource(h="aws_g5.12xlarge"))), EC2, {}),
    "efa": (
        app(role(resource=resource(h="aws_p4d.24xlarge"), num_replicas=2)),
        EC2,
        {"efa": True},
    ),
    "efs": (app(role(mounts=[VolumeMount("fs-0123456789abcdef0:/work", "/work")])), EC2, {}),
    "mounts": (
        app(
            role(
                mounts=[
                    BindMount("/data", "/in", read_only=True),
                    BindMount("/scratch", "/scratch"),
                    DeviceMount("/dev/fuse", permissions="rw"),
                ],
                ulimits={"nofile": (1024, 4096)},
            )
        ),
        EC2,
        {"privileged": True},
    ),
    "secrets": (
        app(role(secrets={"DB_PASSWORD": SECRET})),
        EC2,
        {
            "secrets": {"API_KEY": "/app/key"},
            "execution_role_arn": EXECUTION_ROLE,
            "job_role_arn": JOB_ROLE,
        },
    ),
    "everything-else": (
        app(
            role(args=["", "two words", "$HOME", "$$"], env={"EMPTY": ""}),
            metadata={"team": "ml"},
            depends_on=["aws_batch://tests/main:first-01"],
        ),
        EC2,
        {
            "share_id": "teamA",
            "priority": 7,
            "retries": "2:exit=137:retry;status=Host EC2*:retry",
            "tags": {"cost": "42"},
            "log_group": "/my/logs",
            "consumable_resources": {"license": 1},
        },
    ),
    "sidecar-array": (
        app(role(args=RANK, num_replicas=2, mounts=[BindMount("/d", "/d")]), array=True),
        EC2,
        {"launcher": "sidecar", "job_role_arn": JOB_ROLE},
    ),
    "sidecar-gang": (
        app(role(args=RANK, num_replicas=2, resource=resource(h="aws_m5.2xlarge"))),
        EC2,
        {"launcher": "sidecar"},
    ),
    "sidecar-fargate": (
        app(role(args=RANK, num_replicas=2), array=True),
        FARGATE,
        {**ON_FARGATE, "launcher": "sidecar"},
    ),
    "no-launcher": (app(role(num_replicas=2), array=True), EC2, {"launcher": "none"}),
    "own-definition": (
        app(role(image="", resource=Resource(memMB=4096))),
        EC2,
        {"job_definition": "mine:3"},
    ),
    "own-definition-gang": (
        app(role("a", image=""), role("b", image="")),
        EC2,
        {"job_definition": "mine:3"},
    ),
    "local-image": (app(role(image="sha256:abc123")), EC2, {"image_repo": "example.com/team/app"}),
}

each_case = pytest.mark.parametrize("name", CASES)


def dry_run(name):
    whole, facts, options = CASES[name]
    request, warnings = made(whole, facts, **options)
    shown = str(request).replace(json.dumps(SCRIPT)[1:-1], "<launcher>")
    shown = shown.replace(f'"wherry/version": "{__version__}"', '"wherry/version": "<version>"')
    return "".join(f"# {warning}\n" for warning in warnings) + shown + "\n"


@each_case
def test_a_dry_run_prints_what_will_be_sent(name):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(dry_run(name))

    assert dry_run(name) == path.read_text()


@each_case
def test_what_a_dry_run_makes_aws_would_take(name):
    whole, facts, options = CASES[name]

    assert_aws_would_take(made(whole, facts, **options)[0])


def test_no_text_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)
