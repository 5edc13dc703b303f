"""The roles of an app, back from its jobs, for when no record of ours has the app itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherry.aws import jobs
from wherry.aws.jobs import ContainerView, JobView
from wherry.schedulers.aws_batch.finding import (
    REPLICAS_ENV,
    ROLE_ENV,
    KnownApp,
    environment_of,
)
from wherry.schedulers.aws_batch.launcher import unwrapped
from wherry.schedulers.aws_batch.looking import Seen
from wherry.schedulers.aws_batch.shape import Group, Kind
from wherry.specs.app import MISSING, Role
from wherry.specs.resources import Resource

_OURS = ("WHERRY_", "AWS_BATCH_")


def roles_of(app: KnownApp, seen: Seen) -> tuple[Role, ...]:
    """Return an app's roles: those of our record, or what the jobs tell of them."""
    if app.record is not None and app.record.app is not None:
        return tuple(app.record.app.roles)
    job = next(iter(seen.jobs.values()))
    return tuple(_role(app, group, job, seen) for group in app.groups)


def _role(app: KnownApp, group: Group, job: JobView, seen: Seen) -> Role:
    container = _container_of(app, group, job, seen)
    if container is None:
        return Role(group.role, num_replicas=group.count)
    environment = environment_of([container])
    command = container.document.get("command")
    words = [str(word) for word in command] if isinstance(command, (list, tuple)) else []
    launch = unwrapped(words, environment)
    env = {name: value for name, value in launch.env.items() if not name.startswith(_OURS)}
    program, *args = launch.words or [MISSING]
    count = environment.get(REPLICAS_ENV, "")
    return Role(
        group.role,
        image=container.image,
        entrypoint=program or MISSING,
        args=args,
        env=env,
        num_replicas=int(count) if count.isdigit() and int(count) > 0 else group.count,
        max_retries=max(0, job.attempts_allowed - 1),
        resource=_resource(container.requirements),
    )


def _container_of(app: KnownApp, group: Group, job: JobView, seen: Seen) -> ContainerView | None:
    whole: Sequence[ContainerView] = job.containers
    if app.kind is not Kind.GANG:
        return next((each for each in whole if each.essential), whole[0] if whole else None)
    named = [each for each in whole if environment_of([each]).get(ROLE_ENV) == group.role]
    node = seen.members.get(jobs.node_id(job.id, group.first))
    members = node.containers if node is not None else ()
    return next(iter((*named, *members, *whole)), None)


def _resource(requirements: Mapping[str, str]) -> Resource:
    def number(kind: str) -> float:
        try:
            return float(requirements.get(kind, ""))
        except ValueError:
            return 0.0

    cpu = number("VCPU")
    return Resource(
        cpu=int(cpu) if cpu.is_integer() else cpu,
        gpu=int(number("GPU")),
        memMB=int(number("MEMORY")),
    )
