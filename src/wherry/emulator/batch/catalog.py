"""Everything that is made once and used by jobs: queues, environments, definitions and the rest.

The catalog keeps records and finds them by name or ARN; what is allowed is the business of the
module that has the operations of each kind. Whatever is changed here goes to the archive, if there
is one, so that the next start knows it. Nothing here runs jobs: what concerns them comes in through
hooks. Calls come under the lock of the service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from wherry.emulator.batch import arns, limits
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.ports import Archive, Document
from wherry.emulator.batch.records import (
    REPLENISHABLE,
    ComputeEnvironment,
    ConsumableResource,
    JobDefinition,
    JobQueue,
    QuotaShare,
    SchedulingPolicy,
    ServiceEnvironment,
)
from wherry.emulator.batch.revisions import Revisions
from wherry.emulator.clock import Clock

JobTags = Callable[[str, "dict[str, str] | None"], "dict[str, str] | None"]
"""Called with a job's ARN and nothing, returns its tags; with tags, it keeps those instead.

Returns nothing when there is no such job. Raises `ClientError` for jobs that have no tags of their
own: children of arrays and nodes.
"""

_DAY = 86_400.0


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What there is to know of a kind of records.

    Attributes:
        record: their class.
        arn: what their ARNs say of the kind; empty where names are not all that differs.
        missing: AWS's words when there is none of a name.
    """

    record: type[Any]
    arn: str
    missing: str


_KINDS = {
    # The words: base2genomics/batchit#13, Netflix/metaflow#65.
    "queue": _Kind(JobQueue, arns.QUEUE, "JobQueue {} not found."),
    "environment": _Kind(
        ComputeEnvironment, arns.ENVIRONMENT, "ComputeEnvironment {} does not exist."
    ),
    "policy": _Kind(SchedulingPolicy, arns.POLICY, "SchedulingPolicy {} not found."),
    "consumable": _Kind(
        ConsumableResource, arns.CONSUMABLE, "ConsumableResource {} does not exist."
    ),
    "quota-share": _Kind(QuotaShare, "", "QuotaShare {} not found."),
    "service-environment": _Kind(
        ServiceEnvironment, arns.SERVICE_ENVIRONMENT, "ServiceEnvironment {} does not exist."
    ),
}
"""The kinds of records by their name in the archive. Definitions have a place of their own."""

_BY_ARN = frozenset(("policy", "quota-share"))
"""Kinds whose records are asked for by ARN alone."""

_DEFINITION = "definition"
_REVISION = "revision"

Record = Any
R = TypeVar("R")


class Catalog:
    """The resources of one region.

    Args:
        region: where they are.
        clock: tells when definitions were deregistered and resources created.
        archive: where records outlive the process, read at once; nothing for memory alone.
        in_use: tells whether jobs that have not ended use the resource with an ARN.

    Attributes:
        in_use: as above; may be set later.
        end_jobs: called with a queue that is being deleted; ends all its jobs.
        job_tags: reads and writes the tags of jobs.
    """

    def __init__(
        self,
        region: str,
        clock: Clock,
        archive: Archive | None = None,
        in_use: Callable[[str], bool] | None = None,
    ) -> None:
        self.region = region
        self.clock = clock
        self.in_use: Callable[[str], bool] = in_use or (lambda _arn: False)
        self.end_jobs: Callable[[JobQueue], object] = lambda _queue: None
        self.job_tags: JobTags = lambda _arn, _tags: None
        self.client_tokens: dict[tuple[str, str], tuple[object, int]] = {}
        self._archive = archive
        self._kept: dict[str, dict[str, Record]] = {kind: {} for kind in _KINDS}
        self._revisions = Revisions()
        self._load()

    # -- finding one ------------------------------------------------------------------------------

    def queue(self, ref: str) -> JobQueue:
        """Return a queue by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._need("queue", ref, self.find_queue(ref))

    def find_queue(self, ref: str) -> JobQueue | None:
        """Return a queue by name or ARN, if there is one."""
        found: JobQueue | None = self._find("queue", ref)
        if found is not None and self._is_gone(found):
            self.remove(found)
            return None
        return found

    def environment(self, ref: str) -> ComputeEnvironment:
        """Return a compute environment by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._need("environment", ref, self.find_environment(ref))

    def find_environment(self, ref: str) -> ComputeEnvironment | None:
        """Return a compute environment by name or ARN, if there is one."""
        found: ComputeEnvironment | None = self._find("environment", ref)
        return found

    def policy(self, arn: str) -> SchedulingPolicy:
        """Return a scheduling policy by its ARN.

        Raises:
            ClientError: there is none.
        """
        return self._need("policy", arn, self.find_policy(arn))

    def find_policy(self, arn: str) -> SchedulingPolicy | None:
        """Return a scheduling policy by its ARN, if there is one."""
        found: SchedulingPolicy | None = self._find("policy", arn)
        return found

    def consumable(self, ref: str) -> ConsumableResource:
        """Return a consumable resource by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._need("consumable", ref, self.find_consumable(ref))

    def find_consumable(self, ref: str) -> ConsumableResource | None:
        """Return a consumable resource by name or ARN, if there is one."""
        found: ConsumableResource | None = self._find("consumable", ref)
        return found

    def quota_share(self, arn: str) -> QuotaShare:
        """Return a quota share by its ARN.

        Raises:
            ClientError: there is none.
        """
        found: QuotaShare | None = self._find("quota-share", arn)
        return self._need("quota-share", arn, found)

    def service_environment(self, ref: str) -> ServiceEnvironment:
        """Return a service environment by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._need("service-environment", ref, self.find_service_environment(ref))

    def find_service_environment(self, ref: str) -> ServiceEnvironment | None:
        """Return a service environment by name or ARN, if there is one."""
        found: ServiceEnvironment | None = self._find("service-environment", ref)
        return found

    def definition(self, ref: str) -> JobDefinition:
        """Return the revision of a job definition that SubmitJob means.

        Args:
            ref: a name (its latest active revision), ``name:revision``, or an ARN.

        Raises:
            ClientError: there is none, or it is not active, in the words of
                AlexsLemonade/refinebio#2887.
        """
        found = self.find_definition(ref)
        if found is None or found.status != "ACTIVE":
            name, why = arns.name_of(ref), arns.why_foreign(ref, self.region, arns.DEFINITION)
            missing = f"JobDefinition name {name} does not exist or is not in ACTIVE status"
            raise ClientError(f"{missing}. {why}" if why else missing)
        return found

    def find_definition(self, ref: str) -> JobDefinition | None:
        """Return a revision, active or not; for a bare name the latest active one."""
        self._forget_old_definitions()
        name, colon, number = self._local(arns.DEFINITION, ref).partition(":")
        if colon:
            return self._revisions.find(name, int(number)) if number.isdecimal() else None
        return self._revisions.latest_active(name)

    # -- all of a kind ----------------------------------------------------------------------------

    def queues(self) -> Iterator[JobQueue]:
        """Return all queues, by name."""
        for queue in self._all("queue"):
            if self._is_gone(queue):
                self.remove(queue)
            else:
                yield queue

    def environments(self) -> Iterator[ComputeEnvironment]:
        """Return all compute environments, by name."""
        yield from self._all("environment")

    def policies(self) -> Iterator[SchedulingPolicy]:
        """Return all scheduling policies, by ARN."""
        yield from self._all("policy")

    def consumables(self) -> Iterator[ConsumableResource]:
        """Return all consumable resources, by name."""
        yield from self._all("consumable")

    def quota_shares(self, queue_arn: str) -> Iterator[QuotaShare]:
        """Return the quota shares of a queue, by ARN."""
        return (share for share in self._all("quota-share") if share.queue_arn == queue_arn)

    def service_environments(self) -> Iterator[ServiceEnvironment]:
        """Return all service environments, by name."""
        yield from self._all("service-environment")

    def definitions(self, name: str | None = None) -> Iterator[JobDefinition]:
        """Return all revisions of one name, or of all, names in order and newest first."""
        self._forget_old_definitions()
        yield from self._revisions.all(name)

    def count(self, kind: str) -> int:
        """Return how many records of a kind there are."""
        return len(self._kept[kind])

    # -- keeping ----------------------------------------------------------------------------------

    def arn(self, kind: str, name: str) -> str:
        """Return the ARN of a resource of this region."""
        return arns.make(self.region, kind, name)

    def keep(self, record: Record) -> None:
        """Add a record, or take note that it has changed."""
        if isinstance(record, JobDefinition):
            self._keep_definition(record)
            return
        kind = _kind_of(record)
        self._kept[kind][_key_of(record)] = record
        self._save(kind, _key_of(record), dataclasses.asdict(record))

    def remove(self, record: Record) -> None:
        """Drop a record; harmless when it is not there."""
        kind = _kind_of(record)
        self._kept[kind].pop(_key_of(record), None)
        self._unsave(kind, _key_of(record))

    def next_revision(self, name: str) -> int:
        """Return the revision that the next definition of a name gets.

        Deregistered revisions keep counting, even after they are gone.
        """
        return self._revisions.highest(name) + 1

    def adopt(self, kind: str, document: Document, arn: str) -> Record:
        """Take over a resource that was made elsewhere, such as by a CloudFormation stack.

        What is there already under the same name is brought up to date. Documents that
        `wherry.emulator.batch` would refuse are taken all the same.

        Args:
            kind: ``queue``, ``environment``, ``definition``, ``policy`` or ``consumable``.
            document: the request that creates it, or what the Describe operation shows of it.
            arn: by which it is known.

        Returns:
            The record.

        Raises:
            ClientError: the document has no such resource in it.
        """
        from wherry.emulator.batch import adopting

        return adopting.adopt(self, kind, document, arn)

    # -- inside -----------------------------------------------------------------------------------

    def _find(self, kind: str, ref: str) -> Any:
        key = ref if kind in _BY_ARN else self._local(_KINDS[kind].arn, ref)
        return self._kept[kind].get(key)

    def _local(self, arn_kind: str, ref: str) -> str:
        """Return the name in an ARN of this region and account; nothing for other ARNs."""
        if not arns.is_arn(ref):
            return ref
        name = arns.name_of(ref)
        return name if ref == self.arn(arn_kind, name) else ""

    def _need(self, kind: str, ref: str, found: R | None) -> R:
        if found is not None:
            return found
        known = _KINDS[kind]
        why = arns.why_foreign(ref, self.region, known.arn) if known.arn else ""
        raise ClientError(f"{known.missing.format(ref)} {why}".rstrip())

    def _all(self, kind: str) -> list[Any]:
        return [record for _, record in sorted(self._kept[kind].items())]

    def _is_gone(self, queue: JobQueue) -> bool:
        """Tell whether a queue that is being deleted has seen the end of its last job."""
        return queue.status == "DELETING" and not self.in_use(queue.arn)

    def _keep_definition(self, definition: JobDefinition) -> None:
        self._revisions.keep(definition)
        name, number = definition.name, definition.revision
        is_new = self._revisions.reach(name, number)
        if self._archive is None:
            return
        self._archive.save(_DEFINITION, f"{name}:{number}", dataclasses.asdict(definition))
        if is_new:
            self._archive.save(_REVISION, name, {"revision": number})
        self._archive.commit()

    def _forget_old_definitions(self) -> None:
        """Drop definitions 180 days after they were deregistered."""
        limit = self.clock.now() - limits.DEFINITION_KEPT_DAYS * _DAY
        for old in self._revisions.forget_before(limit):
            self._unsave(_DEFINITION, f"{old.name}:{old.revision}")

    def _save(self, kind: str, key: str, record: Document) -> None:
        if self._archive is not None:
            self._archive.save(kind, key, record)
            self._archive.commit()

    def _unsave(self, kind: str, key: str) -> None:
        if self._archive is not None:
            self._archive.remove(kind, key)
            self._archive.commit()

    def _load(self) -> None:
        if self._archive is None:
            return
        for kind, known in _KINDS.items():
            for key, fields in self._archive.load(kind):
                self._kept[kind][key] = known.record(**fields)
        for consumable in self.consumables():
            if consumable.type == REPLENISHABLE:
                consumable.in_use = 0  # whoever held it has ended with the earlier life
        for name, fields in self._archive.load(_REVISION):
            self._revisions.reach(name, fields["revision"])
        for _, fields in self._archive.load(_DEFINITION):
            self._revisions.keep(JobDefinition(**fields))
        self._revisions.sort()


def _kind_of(record: Record) -> str:
    return next(kind for kind, known in _KINDS.items() if isinstance(record, known.record))


def _key_of(record: Record) -> str:
    return str(record.arn if _kind_of(record) in _BY_ARN else record.name)
