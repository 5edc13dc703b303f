"""From an app and options to a request: which kind of job it is, and what goes where.

One replica is a container job, an array an array job, several replicas a multi-node job with one
node group a role. What cannot be overridden goes into the job definition, so that all runs that
agree share it; what varies from run to run goes into overrides. Nothing is asked of AWS: what is
known of the queue comes in as `QueueFacts`, now or later (`resolved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wherry._version import __version__
from wherry.aws.documents import Document
from wherry.errors import InvalidOptionError, InvalidSpecError, StateError
from wherry.schedulers.aws_batch import limits, naming
from wherry.schedulers.aws_batch.batch_job import (
    BatchJob,
    Dependency,
    UpstreamJob,
)
from wherry.schedulers.aws_batch.boot import referring
from wherry.schedulers.aws_batch.containers import Ask, ask_of
from wherry.schedulers.aws_batch.definition import Defining, consumables
from wherry.schedulers.aws_batch.existing import fitted, refuse_what_cannot_be_overridden
from wherry.schedulers.aws_batch.facts import Platform, QueueFacts, check_queue
from wherry.schedulers.aws_batch.launcher import INDEX_OFFSET_ENV, Launch
from wherry.schedulers.aws_batch.options import Options, read_options
from wherry.schedulers.aws_batch.overrides import (
    Setting,
    container_overrides,
    ecs_overrides,
    launch_of,
    needs_launcher,
    placed,
)
from wherry.schedulers.aws_batch.retries import retry_strategy
from wherry.schedulers.aws_batch.shape import (
    Group,
    Kind,
    Part,
    check_gang,
    groups_of,
    kind_of,
    parts_of,
    target_nodes,
)
from wherry.schedulers.aws_batch.tags import job_tags
from wherry.specs.app import AppDef, Role
from wherry.specs.handles import parse_app_handle
from wherry.specs.options import CfgVal
from wherry.workspace.image_names import is_workspace_image

__all__ = [
    "BatchJob",
    "Dependency",
    "Group",
    "Kind",
    "Part",
    "Source",
    "UpstreamJob",
    "fitted",
    "make_request",
    "resolved",
]

BACKEND = "aws_batch"
_LOCAL_IMAGE = "sha256:"
_PLATFORMS = {"ec2": Platform.EC2, "fargate": Platform.FARGATE}

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """What a request was made of."""

    app: AppDef
    cfg: Mapping[str, CfgVal]
    session_name: str
    user: str
    token: str


def make_request(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    session_name: str,
    user: str,
    queue_facts: QueueFacts | None,
    token: str,
) -> tuple[BatchJob, list[str]]:
    """Turn an app into a request.

    Args:
        app: what to run; it is not changed.
        cfg: run options, resolved or not.
        session_name: the session that it is filed under.
        user: whom it is tagged with, unless the option ``user`` says otherwise.
        queue_facts: what is known of the queue; without it, EC2 is assumed where the option
            ``platform`` does not tell, and `resolved` settles it.
        token: what makes the job's name unique; `naming.make_token` makes one.

    Returns:
        The request, and what is not as it was asked for, in words.

    Raises:
        UsageError: the app or an option asks for something that AWS Batch cannot do.
    """
    warnings: list[str] = []
    source = Source(app, dict(cfg), session_name, user, token)
    making = _Making(source, read_options(cfg), queue_facts, warnings.append)
    request = making.request()
    request.check()
    return request, warnings


def resolved(request: BatchJob, facts: QueueFacts) -> tuple[BatchJob, list[str]]:
    """Settle what was left open until the queue was known; to be called before sending.

    Args:
        request: a request, edited or not.
        facts: what AWS says of the queue.

    Returns:
        The request, made again where the platform turned out to be another, and what is not as
        it was asked for besides what was said before.

    Raises:
        UsageError: the queue cannot take it.
        StateError: it would have to be made again, and was edited.
    """
    check_queue(request.queue, facts, request.share_id, gang=request.kind is Kind.GANG)
    same = facts.platform is request.platform
    if same or not request.platform_assumed:
        _check_platform(request.queue, request.platform, facts)
        settled = replace(request, platform_assumed=False, environments=facts.environments)
        settled.check()
        return settled, []
    source = request.source
    if source is None:
        raise StateError(_remake(request, facts, "its app is not known"))
    parts = (source.app, source.cfg, source.session_name, source.user)
    before, said = make_request(*parts, None, source.token)
    if before != request:
        raise StateError(_remake(request, facts, "it was edited"))
    made, warnings = make_request(*parts, facts, source.token)
    return made, [warning for warning in warnings if warning not in said]


def _remake(request: BatchJob, facts: QueueFacts, why: str) -> str:
    return (
        f"the request was made for {request.platform} and queue {request.queue!r} runs on "
        f"{facts.platform}; it cannot be made again, as {why}. Make it with "
        f"-cfg platform={str(facts.platform).lower()}"
    )


def _check_platform(queue: str, platform: Platform, facts: QueueFacts) -> None:
    if platform is not facts.platform:
        raise InvalidOptionError(
            f"option 'platform' is {str(platform).lower()}, and queue {queue!r} runs on "
            f"{facts.platform}; leave it out, or use another queue"
        )


class _Making:
    """One request in the making: the app, the options, and what follows from both."""

    def __init__(
        self, source: Source, options: Options, facts: QueueFacts | None, warn: Warn
    ) -> None:
        self.source, self.app = source, source.app
        self.options, self.facts, self.warn = options, facts, warn
        self.kind = kind_of(self.app)
        self.name = naming.job_name(self.app.name, source.token)
        self.platform, self.assumed = self._platform()
        self.images, self.pushed = self._images()
        self.strategy = retry_strategy(self.app.roles, options.retries, self.platform, warn)
        self.setting = Setting(
            app_id=naming.app_id(options.queue, self.name),
            alone=self.kind is Kind.SINGLE,
            gang=self.kind is Kind.GANG,
            one_attempt=self._one_attempt(),
            launcher="sh" if options.launcher == "auto" else options.launcher,
        )
        self.groups = groups_of(self.app.roles)
        self.boots: dict[str, Mapping[str, str]] = {}

    def request(self) -> BatchJob:
        """Return the request."""
        self._check_app()
        launches = [self._launch(group, role) for group, role in self._placed_roles()]
        existing = self.options.job_definition
        return BatchJob(
            name=self.name,
            queue=self.options.queue,
            share_id=self.options.share_id,
            job_def={} if existing else self._definition(sidecar=self._brings_shell(launches)),
            images_to_push=self.pushed,
            app_id=self.setting.app_id,
            token=self.source.token,
            kind=self.kind,
            platform=self.platform,
            platform_assumed=self.assumed,
            job_definition=existing,
            job=self._job(launches),
            parts=parts_of(self.name, self.kind, self.groups),
            groups=self.groups,
            depends_on=self._dependencies(),
            environments=self.facts.environments if self.facts else (),
            source=self.source,
        )

    # -- what it is ------------------------------------------------------------------------------

    def _platform(self) -> tuple[Platform, bool]:
        queue, facts = self.options.queue, self.facts
        if facts is not None:
            gang = self.kind is Kind.GANG
            check_queue(queue, facts, self.options.share_id, gang=gang)
        chosen = _PLATFORMS.get(self.options.platform)
        if chosen is not None:
            if facts is not None:
                _check_platform(queue, chosen, facts)
            if chosen is Platform.FARGATE and self.kind is Kind.GANG:
                check_queue(queue, QueueFacts(chosen), None, gang=True)
            return chosen, False
        if facts is not None:
            return facts.platform, False
        if self.kind is not Kind.GANG and self.options.job_definition is None:
            self.warn(
                f"queue {queue!r} was not asked what it runs on; the request is for EC2 instances "
                "and is made again for Fargate when the queue turns out to be that"
            )
        return Platform.EC2, True

    def _images(self) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
        """Return the image of each role, and the local ones with where they are pushed to."""
        images, pushed = {}, {}
        for role in self.app.roles:
            images[role.name] = role.image
            if role.image.startswith(_LOCAL_IMAGE) or is_workspace_image(role.image):
                repository, tag = self.options.image_repo, role.image.partition(":")[2]
                if repository is None:
                    raise InvalidOptionError(
                        f"role {role.name!r} runs in the local image {role.image!r}, which AWS "
                        "cannot pull; set the repository to push it to with -cfg image_repo=…"
                    )
                images[role.name] = f"{repository}:{tag}"
                pushed[role.image] = (repository, tag)
        return images, pushed

    def _one_attempt(self) -> bool:
        # A definition of the user's own may have retries that are not known here.
        known = self.options.job_definition is None or bool(self.strategy)
        return known and self.strategy.get("attempts", 1) == 1

    def _check_app(self) -> None:
        if self.kind is Kind.GANG:
            check_gang(self.app)
        for role in self.app.roles:
            if self.options.job_definition is not None:
                refuse_what_cannot_be_overridden(role, self.options)
                if role.image:
                    self.warn(
                        f"role {role.name!r}: the image {role.image!r} is not used; "
                        f"{self.options.job_definition} has its own"
                    )
            if role.min_replicas not in (None, role.num_replicas):
                self.warn(
                    f"role {role.name!r}: min_replicas is not used; AWS Batch starts "
                    + ("all nodes or none" if self.setting.gang else "each replica by itself")
                )
            if role.port_map:
                self.warn(
                    f"role {role.name!r}: port_map is not used; a program listens on the ports "
                    "that it opens, and security groups decide who reaches them"
                )

    def _definition(self, *, sidecar: bool) -> Document:
        defining = Defining(
            self.kind, self.platform, self.options, self.images, self.boots, self.warn
        )
        made = defining.definition(list(self._placed_roles()), sidecar=sidecar)
        return naming.named(made, self.options.definition_name or self.app.name)

    def _brings_shell(self, launches: Sequence[Launch]) -> bool:
        wanted = self.setting.launcher == "sidecar"
        return wanted and any(needs_launcher(launch, self.setting) for launch in launches)

    # -- what goes into the submissions ----------------------------------------------------------

    def _launch(self, group: Group, role: Role) -> Launch:
        launch, boot = referring(launch_of(role, self.setting))
        if self.options.job_definition is None:
            self.boots[role.name] = boot
        else:  # a definition of the user's own has not the text
            launch = Launch(launch.words, {**launch.env, **boot})
        if self.setting.gang and group.first:
            launch = Launch(launch.words, {**launch.env, INDEX_OFFSET_ENV: str(-group.first)})
        return launch

    def _job(self, launches: Sequence[Launch]) -> Document:
        job: Document = dict(self._overrides(launches))
        if self.options.share_id is not None:
            job["schedulingPriorityOverride"] = self.options.priority
        if self.strategy:
            job["retryStrategy"] = self.strategy
        seconds = self._timeout()
        if seconds is not None:
            job["timeout"] = {"attemptDurationSeconds": seconds}
        if self.options.job_definition is not None and self.kind is not Kind.GANG:
            job |= consumables(self.options, "consumableResourcePropertiesOverride")
        job["propagateTags"] = self.options.propagate_tags
        job["tags"] = self._tags()
        return job

    def _overrides(self, launches: Sequence[Launch]) -> Document:
        sidecar = self._brings_shell(launches)
        made = []
        for (_, role), launch in zip(self._placed_roles(), launches, strict=True):
            secrets = [*role.secrets, *self.options.secrets]
            ready = placed(role, launch, self.setting, secrets, self.warn)
            document = container_overrides(ready, self._requirements(role))
            made.append(
                {"ecsPropertiesOverride": ecs_overrides(document)}
                if sidecar
                else {"containerOverrides": document}
            )
        if self.kind is not Kind.GANG:
            return made[0]
        nodes: list[Document] = [
            {"targetNodes": target_nodes(group), **overrides}
            for group, overrides in zip(self.groups, made, strict=True)
        ]
        if self.options.job_definition is not None:
            nodes = [
                node | consumables(self.options, "consumableResourcePropertiesOverride")
                for node in nodes
            ]
        return {"nodeOverrides": {"nodePropertyOverrides": nodes}}

    def _requirements(self, role: Role) -> list[Document]:
        """Return resources to override: those that the role states, of a definition not ours."""
        if self.options.job_definition is None:
            return []
        asked = role.resource
        if asked.cpu and asked.memMB:
            ask = ask_of(role, self.platform, self.warn)
        else:  # the other half is the definition's, and so is what goes together
            ask = Ask(asked.cpu, asked.memMB, asked.gpu)
        stated = {"VCPU": asked.cpu, "MEMORY": asked.memMB, "GPU": asked.gpu}
        return [item for item in ask.requirements() if stated[item["type"]]]

    def _timeout(self) -> int | None:
        asked = self.options.timeout if self.options.timeout is not None else self.app.timeout
        if asked is None:
            return None
        if asked < limits.TIMEOUT_SECONDS:
            raise InvalidSpecError(
                f"a timeout of {asked:g} seconds is too short: AWS Batch looks at the clock about "
                f"once a minute and takes {limits.TIMEOUT_SECONDS} seconds or more"
            )
        seconds = math.ceil(asked)
        if seconds != asked:
            self.warn(f"the timeout of {asked:g} seconds is rounded up to {seconds}")
        if self.platform is Platform.FARGATE and seconds > limits.FARGATE_DAYS * 86_400:
            self.warn(
                f"Fargate may end a job after {limits.FARGATE_DAYS} days, before its timeout of "
                f"{seconds} seconds"
            )
        return seconds

    def _tags(self) -> dict[str, str]:
        own = {
            "app": self.app.name,
            "session": self.source.session_name,
            "user": self.options.user or self.source.user,
            "token": self.source.token,
            "version": __version__,
        }
        return job_tags(own, self.options.tags, self.app.metadata, self.warn)

    def _dependencies(self) -> list[Dependency]:
        each = self.options.dependency == "n_to_n"
        if each and self.app.depends_on and not self.app.array:
            raise InvalidOptionError(
                "option 'dependency' is n_to_n, which is for arrays; "
                f"{self.app.name!r} is a {self.kind} job"
            )
        for handle in self.app.depends_on:
            if parse_app_handle(handle).scheduler != BACKEND:
                raise InvalidSpecError(
                    f"an app on AWS Batch can depend on apps of {BACKEND}, not {handle!r}; "
                    "wait for that one first (`wherry wait`)"
                )
        if len(self.app.depends_on) > limits.DEPENDENCIES:
            raise InvalidSpecError(
                f"AWS Batch allows {limits.DEPENDENCIES} dependencies, "
                f"and depends_on has {len(self.app.depends_on)}"
            )
        # One replica is no array, and waits for one that is none either.
        array = self.kind is Kind.ARRAY
        return [Dependency(handle, each and array) for handle in self.app.depends_on]

    def _placed_roles(self) -> list[tuple[Group, Role]]:
        return list(zip(self.groups, self.app.roles, strict=True))
