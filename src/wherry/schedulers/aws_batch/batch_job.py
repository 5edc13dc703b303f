"""The request: what will be sent to AWS Batch for one app, typed, printable and editable.

One job definition, and one submission, or several when an array has more than 10,000 replicas.
The request knows what is sent, not how.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wherry.aws.documents import Document
from wherry.errors import UsageError
from wherry.schedulers.aws_batch import limits, naming
from wherry.schedulers.aws_batch.facts import Platform
from wherry.schedulers.aws_batch.launcher import INDEX_OFFSET_ENV
from wherry.schedulers.aws_batch.overrides import check_size, compact, overrides_in
from wherry.schedulers.aws_batch.shape import Group, Kind, Part

if TYPE_CHECKING:
    from wherry.schedulers.aws_batch.request import Source

# AWS Batch adds the name of the environment that runs the job, which may be this long.
_SOME_ENVIRONMENT = "x" * limits.NAME_LENGTH
_SOME_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Dependency:
    """Another app that must have succeeded, by its handle; its job ids are found when it is sent.

    Args:
        handle: the other app's handle.
        each: whether each replica waits for the one of its number only (``N_TO_N``).
    """

    handle: str
    each: bool = False


@dataclass(frozen=True)
class UpstreamJob:
    """A job that is waited for, as AWS knows it.

    Args:
        job_id: its id.
        array_size: its size when it is an array.
        first: the number of its first replica within its app.
    """

    job_id: str
    array_size: int | None = None
    first: int = 0


@dataclass
class BatchJob:
    """What is sent to AWS Batch for one app; each field may be edited before it is scheduled.

    Args:
        name: the job's name; it ends in the token.
        queue: the queue's name or ARN.
        share_id: its share there.
        job_def: the parameters of RegisterJobDefinition; empty when ``job_definition`` is used.
        images_to_push: local image → repository and tag that it is pushed to first.
        app_id: the app's id.
        token: what makes the name unique.
        kind: what the app is at AWS Batch.
        platform: what the queue is made of.
        platform_assumed: whether that was assumed, as nobody had asked AWS yet.
        job_definition: an existing definition to use.
        job: what each SubmitJob has besides names, sizes and dependencies.
        parts: the jobs behind the app, in the order of their replicas.
        groups: the roles, in the order of their nodes.
        depends_on: the apps that must have succeeded first.
        environments: the names of the queue's compute environments, as far as they are known.
        source: what it was made of, so that it can be made again for another platform.
    """

    name: str
    queue: str
    share_id: str | None
    job_def: Document
    images_to_push: dict[str, tuple[str, str]]
    app_id: str = ""
    token: str = ""
    kind: Kind = Kind.SINGLE
    platform: Platform = Platform.EC2
    platform_assumed: bool = False
    job_definition: str | None = None
    job: Document = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    depends_on: list[Dependency] = field(default_factory=list)
    environments: tuple[str, ...] = field(default=(), repr=False, compare=False)
    source: Source | None = field(default=None, repr=False, compare=False)

    def definition(self) -> Document | None:
        """Return the parameters of RegisterJobDefinition, named by their content.

        Returns:
            A copy; ``None`` when an existing definition is used.
        """
        if self.job_definition is not None:
            return None
        return naming.named(copy.deepcopy(self.job_def))

    def submissions(
        self,
        definition: str | None = None,
        upstream: Mapping[str, Sequence[UpstreamJob]] | None = None,
    ) -> list[Document]:
        """Return the parameters of each SubmitJob, in the order of the parts.

        Args:
            definition: the pinned definition (``name:revision`` or ARN); its name when not given.
            upstream: the jobs of each handle in ``depends_on``; without it, dependencies show
                their handles.

        Raises:
            UsageError: a dependency that AWS Batch cannot have.
        """
        if definition is None:
            made = self.definition()
            definition = self.job_definition or (made or {}).get("jobDefinitionName", "")
        return [self._submission(part, definition, upstream) for part in self.parts]

    def _submission(
        self, part: Part, definition: str, upstream: Mapping[str, Sequence[UpstreamJob]] | None
    ) -> Document:
        document: Document = {
            "jobName": part.name,
            "jobQueue": self.queue,
            "jobDefinition": definition,
        }
        if self.share_id is not None:
            document["shareIdentifier"] = self.share_id
        if self.kind is Kind.ARRAY:
            document["arrayProperties"] = {"size": part.count}
        waits = self._waits(part, upstream)
        if waits:
            document["dependsOn"] = waits
        document.update(copy.deepcopy(self.job))
        if part.first:
            _add_offset(document, part.first)
        return document

    def _waits(
        self, part: Part, upstream: Mapping[str, Sequence[UpstreamJob]] | None
    ) -> list[Document]:
        waits: list[Document] = []
        for dependency in self.depends_on:
            kind = {"type": "N_TO_N"} if dependency.each else {}
            if upstream is None:
                waits.append({"jobId": f"<{dependency.handle}>", **kind})
                continue
            jobs = upstream[dependency.handle]
            if dependency.each:
                jobs = [_same_part(dependency.handle, jobs, part)]
            waits += [{"jobId": job.job_id, **kind} for job in jobs]
        if len(waits) > limits.DEPENDENCIES:
            raise UsageError(
                f"the job would wait for {len(waits)} jobs, and AWS Batch allows "
                f"{limits.DEPENDENCIES}"
            )
        return waits

    def check(self) -> None:
        """Refuse what AWS would refuse, or accept and then fail, for its size.

        Raises:
            UsageError: the definition, a submission or its overrides are too large; the largest
                parts are named.
        """
        definition = self.definition()
        if definition is not None:
            _check_bytes("the job definition", definition, limits.DEFINITION_BYTES)
        for document in self.submissions():
            self._check_overrides(document)
            _check_bytes("the submission", document, limits.SUBMIT_BYTES)

    def _check_overrides(self, document: Document) -> None:
        added = self._added(document)
        if self.kind is not Kind.GANG:
            check_size(f"role {self.groups[0].role!r}", overrides_in(document), added)
            return
        nodes = document["nodeOverrides"]["nodePropertyOverrides"]
        for group, node in zip(self.groups, nodes, strict=False):
            check_size(f"role {group.role!r}", overrides_in(node), added)

    def _added(self, document: Document) -> dict[str, str]:
        """Return the variables that AWS Batch adds to the overrides, as long as they may be."""
        added = {
            "AWS_BATCH_JOB_ID": _SOME_ID,
            "AWS_BATCH_JOB_ATTEMPT": str(limits.ATTEMPTS),
            "AWS_BATCH_CE_NAME": max(self.environments, key=len, default=_SOME_ENVIRONMENT),
            "AWS_BATCH_JQ_NAME": naming.queue_name(self.queue),
        }
        size = str(document.get("arrayProperties", {}).get("size", ""))
        if size:
            added["AWS_BATCH_JOB_ID"] += f":{size}"
            added["AWS_BATCH_JOB_ARRAY_INDEX"] = added["AWS_BATCH_JOB_ARRAY_SIZE"] = size
        if self.kind is Kind.GANG:
            nodes = str(sum(group.count for group in self.groups))
            added["AWS_BATCH_JOB_ID"] += f"#{nodes}"
            added["AWS_BATCH_JOB_NODE_INDEX"] = added["AWS_BATCH_JOB_NUM_NODES"] = nodes
            added["AWS_BATCH_JOB_MAIN_NODE_INDEX"] = "0"
            added["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = "255.255.255.255"
        return added

    def __str__(self) -> str:
        shown: Document = {}
        if self.images_to_push:
            shown["push"] = {image: ":".join(to) for image, to in self.images_to_push.items()}
        definition = self.definition()
        if definition is not None:
            shown["RegisterJobDefinition"] = definition
        shown["SubmitJob"] = self.submissions()
        return json.dumps(shown, indent=2, ensure_ascii=False)


def _add_offset(document: Document, first: int) -> None:
    overrides_in(document)["environment"].append({"name": INDEX_OFFSET_ENV, "value": str(first)})


def _same_part(handle: str, jobs: Sequence[UpstreamJob], part: Part) -> UpstreamJob:
    for job in jobs:
        if (job.array_size, job.first) == (part.count, part.first):
            return job
    sizes = ", ".join(str(job.array_size or "no array") for job in jobs)
    raise UsageError(
        f"dependency=n_to_n needs arrays of the same size: {handle} has {sizes}, "
        f"and this one {part.count} (replicas {part.first} to {part.first + part.count - 1})"
    )


def _check_bytes(what: str, document: Document, most: int) -> None:
    size = len(compact(document).encode())
    if size <= most:
        return
    parts = sorted(_sizes(document), key=lambda item: item[1], reverse=True)[:3]
    shown = ", ".join(f"{name} ({length:,})" for name, length in parts)
    raise UsageError(
        f"{what} comes to {size:,} bytes, and AWS Batch takes {most:,}. Largest: {shown}"
    )


def _sizes(document: object, path: str = "") -> list[tuple[str, int]]:
    """Return the length of each text in a document, by its path."""
    if isinstance(document, Mapping):
        items = [(f"{path}.{key}" if path else str(key), item) for key, item in document.items()]
    elif isinstance(document, (list, tuple)):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(document)]
    else:
        return [(path, len(str(document)))]
    return [found for name, item in items for found in _sizes(item, name)]
