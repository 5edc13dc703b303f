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
    ComputeEnvironment,
    ConsumableResource,
    JobDefinition,
    JobQueue,
    SchedulingPolicy,
)
from wherry.emulator.batch.service_records import QuotaShare, ServiceEnvironment
from wherry.emulator.clock import Clock

JobTags = Callable[[str, "dict[str, str] | None"], "dict[str, str] | None"]
"""Called with a job's ARN and nothing, returns its tags; with tags, it keeps those instead.

Returns nothing when there is no such job. Raises `ClientError` for jobs that have no tags of their
own: children of arrays and nodes.
"""

_DAY = 86_400.0


_RECORDS: dict[str, type[Any]] = {
    "queue": JobQueue,
    "environment": ComputeEnvironment,
    "policy": SchedulingPolicy,
    "consumable": ConsumableResource,
    "quota-share": QuotaShare,
    "service-environment": ServiceEnvironment,
}
"""The kinds of records by their name in the archive. Definitions have a place of their own."""

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
        self._kept: dict[str, dict[str, Record]] = {kind: {} for kind in _RECORDS}
        self._definitions: dict[str, dict[int, JobDefinition]] = {}
        self._revisions: dict[str, int] = {}
        self._deregistered: dict[str, JobDefinition] = {}  # the oldest first
        self._load()

    # -- finding one ------------------------------------------------------------------------------

    def queue(self, ref: str) -> JobQueue:
        """Return a queue by name or ARN.

        Raises:
            ClientError: there is none, in the words of base2genomics/batchit#13.
        """
        return self._found(self.find_queue(ref), f"JobQueue {ref} not found.")

    def find_queue(self, ref: str) -> JobQueue | None:
        """Return a queue by name or ARN, if there is one."""
        found: JobQueue | None = self._find("queue", arns.QUEUE, ref)
        if found is not None and self._is_gone(found):
            self.remove(found)
            return None
        return found

    def environment(self, ref: str) -> ComputeEnvironment:
        """Return a compute environment by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._found(self.find_environment(ref), f"ComputeEnvironment {ref} does not exist.")

    def find_environment(self, ref: str) -> ComputeEnvironment | None:
        """Return a compute environment by name or ARN, if there is one."""
        found: ComputeEnvironment | None = self._find("environment", arns.ENVIRONMENT, ref)
        return found

    def policy(self, arn: str) -> SchedulingPolicy:
        """Return a scheduling policy by its ARN.

        Raises:
            ClientError: there is none.
        """
        return self._found(self.find_policy(arn), f"SchedulingPolicy {arn} not found.")

    def find_policy(self, arn: str) -> SchedulingPolicy | None:
        """Return a scheduling policy by its ARN, if there is one."""
        found: SchedulingPolicy | None = self._find("policy", arns.POLICY, arn)
        return found

    def consumable(self, ref: str) -> ConsumableResource:
        """Return a consumable resource by name or ARN.

        Raises:
            ClientError: there is none.
        """
        return self._found(self.find_consumable(ref), f"ConsumableResource {ref} does not exist.")

    def find_consumable(self, ref: str) -> ConsumableResource | None:
        """Return a consumable resource by name or ARN, if there is one."""
        found: ConsumableResource | None = self._find("consumable", arns.CONSUMABLE, ref)
        return found

    def quota_share(self, arn: str) -> QuotaShare:
        """Return a quota share by its ARN.

        Raises:
            ClientError: there is none.
        """
        found: QuotaShare | None = self._kept["quota-share"].get(arn)
        return self._found(found, f"QuotaShare {arn} not found.")

    def service_environment(self, ref: str) -> ServiceEnvironment:
        """Return a service environment by name or ARN.

        Raises:
            ClientError: there is none.
        """
        found = self.find_service_environment(ref)
        return self._found(found, f"ServiceEnvironment {ref} does not exist.")

    def find_service_environment(self, ref: str) -> ServiceEnvironment | None:
        """Return a service environment by name or ARN, if there is one."""
        kind, arn_kind = "service-environment", arns.SERVICE_ENVIRONMENT
        found: ServiceEnvironment | None = self._find(kind, arn_kind, ref)
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
            raise ClientError(
                f"JobDefinition name {arns.name_of(ref)} does not exist or is not in ACTIVE status"
            )
        return found

    def find_definition(self, ref: str) -> JobDefinition | None:
        """Return a revision, active or not; for a bare name the latest active one."""
        self._forget_old_definitions()
        name, colon, revision = self._local(arns.DEFINITION, ref).partition(":")
        revisions = self._definitions.get(name, {})
        if colon:
            return revisions.get(int(revision)) if revision.isdecimal() else None
        newest_first = (revisions.get(each) for each in range(self._revisions.get(name, 0), 0, -1))
        return next((one for one in newest_first if one and one.status == "ACTIVE"), None)

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
        for each in sorted(self._definitions) if name is None else (name,):
            revisions = self._definitions.get(each, {})
            for revision in sorted(revisions, reverse=True):
                yield revisions[revision]

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
        return self._revisions.get(name, 0) + 1

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

    def _find(self, kind: str, arn_kind: str, ref: str) -> Any:
        key = ref if kind == "policy" else self._local(arn_kind, ref)
        return self._kept[kind].get(key)

    def _local(self, arn_kind: str, ref: str) -> str:
        """Return the name in an ARN of this region and account; nothing for other ARNs."""
        if not arns.is_arn(ref):
            return ref
        name = arns.name_of(ref)
        return name if ref == self.arn(arn_kind, name) else ""

    @staticmethod
    def _found(record: R | None, complaint: str) -> R:
        if record is None:
            raise ClientError(complaint)
        return record

    def _all(self, kind: str) -> list[Any]:
        return [record for _, record in sorted(self._kept[kind].items())]

    def _is_gone(self, queue: JobQueue) -> bool:
        """Tell whether a queue that is being deleted has seen the end of its last job."""
        return queue.status == "DELETING" and not self.in_use(queue.arn)

    def _keep_definition(self, definition: JobDefinition) -> None:
        revisions = self._definitions.setdefault(definition.name, {})
        revisions[definition.revision] = definition
        if definition.status != "ACTIVE":
            self._deregistered[definition.arn] = definition
        key = f"{definition.name}:{definition.revision}"
        self._save(_DEFINITION, key, dataclasses.asdict(definition), commit=False)
        if definition.revision > self._revisions.get(definition.name, 0):
            self._revisions[definition.name] = definition.revision
            self._save(_REVISION, definition.name, {"revision": definition.revision}, commit=False)
        self._commit()

    def _forget_old_definitions(self) -> None:
        """Drop definitions 180 days after they were deregistered; the oldest stand first."""
        if not self._deregistered:
            return
        limit = self.clock.now() - limits.DEFINITION_KEPT_DAYS * _DAY
        for old in list(self._deregistered.values()):
            if (old.deregistered_at or 0.0) > limit:
                return
            del self._deregistered[old.arn]
            revisions = self._definitions[old.name]
            del revisions[old.revision]
            if not revisions:
                del self._definitions[old.name]
            self._unsave(_DEFINITION, f"{old.name}:{old.revision}")

    def _save(self, kind: str, key: str, record: Document, *, commit: bool = True) -> None:
        if self._archive is not None:
            self._archive.save(kind, key, record)
            if commit:
                self._archive.commit()

    def _unsave(self, kind: str, key: str) -> None:
        if self._archive is not None:
            self._archive.remove(kind, key)
            self._archive.commit()

    def _commit(self) -> None:
        if self._archive is not None:
            self._archive.commit()

    def _load(self) -> None:
        if self._archive is None:
            return
        for kind, make in _RECORDS.items():
            for key, fields in self._archive.load(kind):
                self._kept[kind][key] = make(**fields)
        for consumable in self.consumables():
            consumable.in_use = 0  # those that run again are counted again
        for name, fields in self._archive.load(_REVISION):
            self._revisions[name] = fields["revision"]
        for _, fields in self._archive.load(_DEFINITION):
            definition = JobDefinition(**fields)
            self._definitions.setdefault(definition.name, {})[definition.revision] = definition
        gone = (one for one in self.definitions() if one.status != "ACTIVE")
        oldest_first = sorted(gone, key=lambda one: one.deregistered_at or 0.0)
        self._deregistered = {one.arn: one for one in oldest_first}


def _kind_of(record: Record) -> str:
    return next(kind for kind, made in _RECORDS.items() if isinstance(record, made))


def _key_of(record: Record) -> str:
    return str(record.arn if isinstance(record, (SchedulingPolicy, QuotaShare)) else record.name)
