"""What a task can ask about itself: the ECS task metadata endpoint, version 4.

The control plane says what it knows of a task; this room gives it ECS's field names where they are
missing, and answers under the task's own address. Programs read it to find the task's ARN, the
container's name, or its address.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-response.html
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from typing import Any

from wherry.emulator.batch.ports import Document
from wherry.emulator.settings import ACCOUNT


class Metadata:
    """Tasks and what they are told. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}
        self._tasks: dict[str, str] = {}
        self._regions: dict[str, str] = {}
        self._documents: dict[str, Document] = {}

    def open(self, task_id: str, region: str) -> str:
        """Give a task its address; returns the part after ``v4/``."""
        with self._lock:
            token = self._tokens.setdefault(task_id, secrets.token_urlsafe(18))
            self._tasks[token] = task_id
            self._regions[task_id] = region
            return token

    def describe(self, task_id: str, metadata: Document) -> None:
        """Take what is known of a task; later knowledge is added to earlier."""
        with self._lock:
            self._documents[task_id] = {**self._documents.get(task_id, {}), **metadata}

    def close(self, task_id: str) -> None:
        """Forget a task; unknown ones are ignored."""
        with self._lock:
            self._tasks.pop(self._tokens.pop(task_id, ""), None)
            self._documents.pop(task_id, None)
            self._regions.pop(task_id, None)

    def answer(self, path: str) -> Any:
        """Return what is under ``TOKEN[/CONTAINER][/task|/stats|/task/stats]``.

        Returns:
            A JSON value, or ``None`` where there is nothing.
        """
        token, *words = [word for word in path.split("/") if word] or [""]
        with self._lock:
            task_id = self._tasks.get(token)
            if task_id is None:
                return None
            given = self._documents.get(task_id, {})
            region = self._regions[task_id]
        task = _task(task_id, region, given)
        containers = {container["Name"]: container for container in task["Containers"]}
        name = words.pop(0) if words and words[0] in containers else next(iter(containers))
        resources: Document = {
            "": containers[name],
            "task": task,
            "taskWithTags": task,
            "stats": {},
            "task/stats": {one["DockerId"]: {} for one in task["Containers"]},
        }
        return resources.get("/".join(words))


def _task(task_id: str, region: str, given: Document) -> Document:
    defaults: Document = {
        "Cluster": "default",
        "TaskARN": f"arn:aws:ecs:{region}:{ACCOUNT}:task/default/{task_id}",
        "Family": "job",
        "Revision": "1",
        "ServiceName": "",
        "VPCID": "",
        "DesiredStatus": "RUNNING",
        "KnownStatus": "RUNNING",
        "Limits": {},
        "AvailabilityZone": f"{region}a",
        "LaunchType": "EC2",
    }
    task = {**defaults, **given}
    arn = task["TaskARN"]
    containers = task.get("Containers") or [{}]
    task["Containers"] = [_container(task_id, arn, task, container) for container in containers]
    return task


def _container(task_id: str, arn: str, task: Document, given: Document) -> Document:
    name = given.get("Name", "default")
    docker_id = hashlib.sha256(f"{task_id}/{name}".encode()).hexdigest()
    head = arn.rpartition(":task/")[0]
    number = docker_id[:8] + "-" + "-".join(docker_id[i : i + 4] for i in (8, 12, 16))
    defaults: Document = {
        "DockerId": docker_id,
        "Name": name,
        "DockerName": f"ecs-{task['Family']}-{task['Revision']}-{name}-{task_id[:16]}",
        "Image": "",
        "ImageID": "",
        "Labels": {
            "com.amazonaws.ecs.cluster": task["Cluster"],
            "com.amazonaws.ecs.container-name": name,
            "com.amazonaws.ecs.task-arn": arn,
            "com.amazonaws.ecs.task-definition-family": task["Family"],
            "com.amazonaws.ecs.task-definition-version": task["Revision"],
        },
        "DesiredStatus": "RUNNING",
        "KnownStatus": "RUNNING",
        "Limits": task["Limits"],
        "Type": "NORMAL",
        "ContainerARN": f"{head}:container/{number}-{docker_id[20:32]}",
        "Networks": [{"NetworkMode": "bridge", "IPv4Addresses": ["127.0.0.1"]}],
    }
    return {**defaults, **given}
