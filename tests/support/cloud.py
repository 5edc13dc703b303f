"""Emulators with processes for jobs, and unmodified clients of AWS that talk to them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from typing import Any

import boto3
from botocore.config import Config

from support.waiting import until
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

REGION = "us-east-1"
GROUP = "/aws/batch/job"


def emulator(**settings: Any) -> Emulator:
    """Make an emulator on a port of its own; `with` starts and stops it."""
    return Emulator(Settings(**{"port": 0, "engine": "process", **settings}))


def client(running: Emulator, service: str, region: str = REGION, **config: Any) -> Any:
    """Make a boto3 client; by default one that does not retry."""
    given = running.environment()
    session = boto3.Session(
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    settings = Config(**{"proxies": {}, "retries": {"total_max_attempts": 1}, **config})
    return session.client(service, endpoint_url=running.url, config=settings)


def unique(word: str = "x") -> str:
    """Return a name that nobody has yet; all emulators of a process share moto's state."""
    return f"{word}-{uuid.uuid4().hex[:10]}"


def define(batch: Any, command: list[str], *, platform: str = "EC2", **properties: Any) -> str:
    """Register a definition that runs a command; returns its ARN."""
    vcpus, memory = ("0.25", "512") if platform == "FARGATE" else ("1", "128")
    container = {
        "image": "busybox",
        "command": command,
        "resourceRequirements": [
            {"type": "VCPU", "value": vcpus},
            {"type": "MEMORY", "value": memory},
        ],
        **properties,
    }
    answer = batch.register_job_definition(
        jobDefinitionName=unique("def"),
        type="container",
        containerProperties=container,
        platformCapabilities=[platform],
    )
    return str(answer["jobDefinitionArn"])


def run(
    batch: Any, command: list[str], *, queue: str = "main", **properties: Any
) -> dict[str, Any]:
    """Run a command as a job; returns it when it is over."""
    definition = define(batch, command, **properties)
    answer = batch.submit_job(jobName=unique("job"), jobQueue=queue, jobDefinition=definition)
    return over(batch, answer["jobId"])


def over(batch: Any, job_id: str) -> dict[str, Any]:
    """Wait for the end of a job; returns it."""

    def ended() -> Any:
        job = batch.describe_jobs(jobs=[job_id])["jobs"][0]
        return job if job["status"] in ("SUCCEEDED", "FAILED") else None

    found: dict[str, Any] = until(ended, f"the end of job {job_id}")
    return found


def lines(logs: Any, job: dict[str, Any], group: str = GROUP) -> list[str]:
    """Return what a job has written."""
    stream = job["container"]["logStreamName"]
    page = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)
    return [event["message"] for event in page["events"]]


def http(
    url: str, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """Send a request without any client of AWS; returns status, JSON body and headers."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data, named, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        text = answer.read()
        return answer.status, json.loads(text) if text else None, dict(answer.headers)
