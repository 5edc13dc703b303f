"""Requests for AWS Batch in tests: made of an app and options, and judged by botocore's model."""

from __future__ import annotations

from functools import cache
from typing import Any

from wherry.schedulers.aws_batch.batch_job import BatchJob
from wherry.schedulers.aws_batch.facts import Platform, QueueFacts
from wherry.schedulers.aws_batch.request import make_request
from wherry.specs import AppDef, Resource, Role

TOKEN = "01k2m3n4p5q6r"
EC2 = QueueFacts(Platform.EC2)
FARGATE = QueueFacts(Platform.FARGATE)
JOB_ROLE = "arn:aws:iam::123456789012:role/job"
EXECUTION_ROLE = "arn:aws:iam::123456789012:role/execution"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf"
SMALL = Resource(cpu=1, memMB=2048)


def role(name: str = "main", **fields: Any) -> Role:
    given = {"image": "alpine:3", "entrypoint": "echo", "args": ("hello",), "resource": SMALL}
    return Role(name, **{**given, **fields})


def app(*roles: Role, name: str = "demo", **fields: Any) -> AppDef:
    return AppDef(name, roles or (role(),), **fields)


def made(
    app: AppDef,
    facts: QueueFacts | None = EC2,
    token: str = TOKEN,
    session: str = "tests",
    user: str = "ada",
    **options: Any,
) -> tuple[BatchJob, list[str]]:
    return make_request(app, {"queue": "main", **options}, session, user, facts, token)


def request_of(app: AppDef, facts: QueueFacts | None = EC2, **options: Any) -> BatchJob:
    return made(app, facts, **options)[0]


def warnings_of(app: AppDef, facts: QueueFacts | None = EC2, **options: Any) -> list[str]:
    return made(app, facts, **options)[1]


def container_of(request: BatchJob) -> dict[str, Any]:
    return request.job_def["containerProperties"]


def command_of(request: BatchJob) -> list[str]:
    return request.submissions()[0]["containerOverrides"]["command"]


def env_of(overrides: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in overrides["environment"]}


def requirements_of(container: dict[str, Any]) -> dict[str, str]:
    return {item["type"]: item["value"] for item in container["resourceRequirements"]}


def assert_aws_would_take(request: BatchJob) -> None:
    """Judge what would be sent by the API model, and by the emulator's rules of AWS Batch."""
    from wherry.emulator.batch import definition_rules, override_rules
    from wherry.emulator.batch.records import JobDefinition

    definition = request.definition()
    if definition is not None:
        assert_valid("RegisterJobDefinition", definition)
        definition_rules.check(definition)
    for document in request.submissions():
        assert_valid("SubmitJob", document)
        assert set(map(type, texts(document))) <= {str, int, bool}
        if definition is not None:
            arn = "arn:aws:batch:eu-west-1:123456789012:job-definition/x:1"
            record = JobDefinition(arn=arn, name="x", revision=1, document=definition)
            override_rules.check(record, document, {str(request.platform)})


def assert_valid(operation: str, document: dict[str, Any]) -> None:
    from botocore.validate import ParamValidator

    shape = service_model().operation_model(operation).input_shape
    report = ParamValidator().validate(document, shape)
    assert not report.has_errors(), report.generate_report()


@cache
def service_model() -> Any:
    from botocore.session import get_session

    return get_session().get_service_model("batch")


def texts(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return [leaf for item in document.values() for leaf in texts(item)]
    if isinstance(document, list):
        return [leaf for item in document for leaf in texts(item)]
    return [document]
