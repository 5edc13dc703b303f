"""A world in which jobs get stuck and fail: the emulator, our calls over HTTP, and a few verbs.

A situation makes a job and returns its id; `World.diagnosed` then asks the real code. Times, ids
and the names of log streams are made the same in every run, so that what is printed can be kept.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any

from support.waiting import until
from wherry.aws.diagnosis import SessionServices, diagnose
from wherry.aws.session import Session
from wherry.cli.cmd_why import text
from wherry.emulator import Fault, Running
from wherry.specs.diagnosis import Diagnosis

ACCOUNT = "123456789012"
REGION = "us-east-1"
WIDTH = 100
ROLE = f"arn:aws:iam::{ACCOUNT}:role/"
MINUTE = 60.0
_FARGATE = {"type": "FARGATE", "maxvCpus": 16}
_EC2 = {"type": "EC2", "minvCpus": 0, "maxvCpus": 16, "instanceTypes": ["m5.large"]}

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX = re.compile(r"\b[0-9a-f]{32}\b")
_RESOURCE = re.compile(r"\b(i|sg|subnet)-[0-9a-f]{17}\b")
_SECONDS = re.compile(r"\b\d+ seconds?\b")
_clients: dict[tuple[str, str], Any] = {}
_PLAIN = type("Plain", (), {"isatty": lambda self: False})()


class World:
    """One emulated AWS and those who use it."""

    def __init__(self, aws: Running) -> None:
        self.aws = aws
        self.batch = self.client("batch")
        self.session = Session(region=REGION, client_factory=self.client)

    def client(self, service: str) -> Any:
        """Return a client; to make one takes longer than most of what is asked with it."""
        return _clients.setdefault((self.aws.url, service), None) or self._made(service)

    def _made(self, service: str) -> Any:
        made = _clients[self.aws.url, service] = self.aws.client(service)
        return made

    # -- asking -----------------------------------------------------------------------------------

    def diagnosed(self, job_id: str) -> Diagnosis:
        """Ask the real code, over HTTP."""
        return diagnose(SessionServices(self.session), job_id, self.aws.clock.now())

    def printed(self, job_id: str) -> str:
        """Return what the command prints, the same in every run."""
        return printed(self.diagnosed(job_id))

    # -- making -----------------------------------------------------------------------------------

    def define(
        self,
        name: str,
        *command: str,
        vcpus: float = 1,
        memory: int = 128,
        gpus: int = 0,
        image: str = "alpine:3",
        container: dict[str, Any] | None = None,
        **definition: Any,
    ) -> str:
        """Register a definition of one container; returns its name."""
        properties = {
            "image": image,
            "command": list(command),
            "resourceRequirements": wants(vcpus, memory, gpus),
            **(container or {}),
        }
        if definition.get("platformCapabilities") == ["FARGATE"]:
            properties.setdefault("executionRoleArn", f"{ROLE}ecsTaskExecutionRole")
        self.batch.register_job_definition(
            jobDefinitionName=name, type="container", containerProperties=properties, **definition
        )
        return name

    def define_gang(self, name: str, *command: str, nodes: int = 2, **container: Any) -> str:
        """Register a multi-node definition; returns its name."""
        one = {
            "image": "alpine:3",
            "command": list(command),
            "resourceRequirements": wants(1, 128, 0),
            **container,
        }
        self.batch.register_job_definition(
            jobDefinitionName=name,
            type="multinode",
            nodeProperties={
                "numNodes": nodes,
                "mainNode": 0,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": one}],
            },
        )
        return name

    def submit(self, definition: str, queue: str = "main", name: str = "", **more: Any) -> str:
        """Submit a job; returns its id."""
        answer = self.batch.submit_job(
            jobName=name or definition, jobQueue=queue, jobDefinition=definition, **more
        )
        return str(answer["jobId"])

    def run(self, script: str, *states: str, **more: Any) -> str:
        """Run a line of shell, and wait for a state, by default for the end."""
        job = self.submit(self.define("train", "sh", "-c", script, **more))
        return self.until(job, *(states or ("SUCCEEDED", "FAILED")))

    def queue(self, name: str, resources: dict[str, Any], **queue: Any) -> str:
        """Make an environment like ``main`` with other resources, and a queue of the same name."""
        [known] = self.batch.describe_compute_environments(computeEnvironments=["main"])[
            "computeEnvironments"
        ]
        own = known["computeResources"]
        kept = {"instanceRole": own["instanceRole"]}
        self.batch.create_compute_environment(
            computeEnvironmentName=name,
            type="MANAGED",
            serviceRole=known["serviceRole"],
            computeResources={
                **(_FARGATE if "FARGATE" in resources.get("type", "") else _EC2 | kept),
                "subnets": own["subnets"],
                "securityGroupIds": own["securityGroupIds"],
                **resources,
            },
        )
        self.batch.create_job_queue(
            jobQueueName=name,
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": name}],
            **queue,
        )
        return name

    # -- letting happen ---------------------------------------------------------------------------

    def look(self, job_id: str) -> dict[str, Any]:
        """Describe a job."""
        return dict(self.batch.describe_jobs(jobs=[job_id])["jobs"][0])

    def until(self, job_id: str, *states: str) -> str:
        """Wait until a job is in a state; returns its id."""
        until(lambda: self.look(job_id)["status"] in states, f"{job_id} to be {states}")
        return job_id

    def until_said(self, job_id: str) -> str:
        """Wait until AWS gives a reason for a job that waits; returns the job's id."""
        until(lambda: self.look(job_id).get("statusReason"), f"a reason for {job_id}")
        return job_id

    def until_logged(self, job_id: str, words: str) -> str:
        """Wait until a job has written words to its log; returns its id."""
        logs = self.client("logs")

        def said() -> bool:
            stream = self.look(job_id).get("container", {}).get("logStreamName")
            if not stream:
                return False
            events = logs.get_log_events(
                logGroupName="/aws/batch/job", logStreamName=stream, startFromHead=True
            )["events"]
            return any(words in event["message"] for event in events)

        until(said, f"{words!r} in the log of {job_id}")
        return job_id

    def after(self, minutes: float) -> None:
        """Let time go by: half a minute more, so that what is printed does not depend on luck."""
        self.aws.clock.advance(minutes * MINUTE + 20)

    def stuck(self, key: str, minutes: float = 15) -> str:
        """Submit a job that AWS keeps RUNNABLE for a documented reason."""
        self.fault("stuck-runnable", value=key)
        job = self.until(self.submit(self.define("train", "true")), "RUNNABLE")
        self.after(minutes)
        return self.until_said(job)

    def held(self, state: str, minutes: float, definition: str = "", **more: Any) -> str:
        """Submit a job that stays in a state."""
        self.fault("hold", value=state)
        job = self.submit(definition or self.define("train", "true"), **more)
        self.until(job, state)
        self.after(minutes)
        return job

    def fault(self, kind: str, **values: Any) -> None:
        """Let something go wrong until the test is over."""
        self.aws.faults.add(Fault(kind, **values))


def wants(vcpus: float, memory: int, gpus: int = 0) -> list[dict[str, str]]:
    """Return resource requirements."""
    amounts = {"VCPU": f"{vcpus:g}", "MEMORY": str(memory), "GPU": str(gpus) if gpus else ""}
    return [{"type": kind, "value": value} for kind, value in amounts.items() if value]


def trust(*services: str) -> str:
    """Return a trust policy."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": list(services)},
        "Action": "sts:AssumeRole",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def printed(diagnosis: Diagnosis) -> str:
    """Return what the command prints of a diagnosis, with ids and seconds of no one run."""
    from wherry.cli.output import Paint

    same = normalised(diagnosis)
    return text(same.app_id, same, Paint(_PLAIN), WIDTH)


def normalised(diagnosis: Diagnosis) -> Diagnosis:
    """Replace ids by ids that are the same in every run, and seconds by three."""
    names: dict[str, str] = {}

    def other_uuid(found: re.Match[str]) -> str:
        digit = str(len(names) + 1)
        return names.setdefault(found[0], re.sub("[0-9a-f]", digit, found[0]))

    def same(words: str) -> str:
        words = _UUID.sub(other_uuid, words)
        words = _HEX.sub("0" * 32, words)
        words = _RESOURCE.sub(lambda found: f"{found[1]}-0123456789abcdef0", words)
        return _SECONDS.sub("3 seconds", words)

    def all_same(many: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(same, many))

    return dataclasses.replace(
        diagnosis,
        app_id=same(diagnosis.app_id),
        findings=tuple(
            dataclasses.replace(
                finding,
                summary=same(finding.summary),
                detail=same(finding.detail),
                resolution=same(finding.resolution),
            )
            for finding in diagnosis.findings
        ),
        facts=tuple(dataclasses.replace(fact, text=same(fact.text)) for fact in diagnosis.facts),
        log=all_same(diagnosis.log),
        log_name=same(diagnosis.log_name),
        unseen=all_same(diagnosis.unseen),
    )
