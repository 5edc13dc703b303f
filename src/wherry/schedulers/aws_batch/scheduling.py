"""Submitting an app: look up, define, note, send. All or nothing, and never twice.

What can be known to be wrong is told before anything is made: the queue, the roles, the
dependencies. Then the record is written, without jobs, and only then something is sent: whatever
happens from there on, an app that AWS has can be found by its record.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from wherry.aws import definitions, submission
from wherry.aws.calls import Calls
from wherry.aws.definitions import Definitions
from wherry.aws.documents import Client, Document
from wherry.aws.session import Session
from wherry.errors import (
    AwsError,
    InvalidOptionError,
    InvalidSpecError,
    LaunchError,
    LostReply,
    UnknownNameError,
    UsageError,
)
from wherry.schedulers.aws_batch import naming, queues
from wherry.schedulers.aws_batch.batch_job import BatchJob, Dependency, UpstreamJob
from wherry.schedulers.aws_batch.ending import end_jobs
from wherry.schedulers.aws_batch.existing import fitted
from wherry.schedulers.aws_batch.finding import Finder
from wherry.schedulers.aws_batch.lately import Lately
from wherry.schedulers.aws_batch.record import JobRef, Record, read_record, under_way
from wherry.schedulers.aws_batch.request import Source, make_request, resolved
from wherry.schedulers.aws_batch.shape import Kind
from wherry.specs.app import AppDef
from wherry.specs.handles import parse_app_handle
from wherry.specs.options import CfgVal
from wherry.specs.plain import to_plain
from wherry.specs.states import AppState, is_terminal

NOT_WHOLE = "Submitted in several parts, of which another one was refused"

_ROLE_OPTIONS = ("job_role_arn", "execution_role_arn")


@dataclass(frozen=True)
class Order:
    """A request that is to be submitted, and what it is about.

    Args:
        request: what will be sent.
        app: what it was made of.
        options: the run options, resolved.
        session: the session of Wherry.
        user: whom it is tagged with.
    """

    request: BatchJob
    app: AppDef
    options: Mapping[str, CfgVal]
    session: str
    user: str


class Submitter:
    """Submits apps for one identity in one region. May be used by several threads.

    Args:
        aws: whom to ask.
        lately: what AWS said lately.
        finder: finds the apps that others depend on.
    """

    def __init__(self, aws: Session, lately: Lately, finder: Finder) -> None:
        self._aws = aws
        self._calls: Calls = aws.calls()
        self._lately = lately
        self._finder = finder
        self._definitions = Definitions(self._calls)
        self._asking = threading.Lock()

    def settled(self, request: BatchJob, *, again: bool = False) -> tuple[BatchJob, list[str]]:
        """Settle what was left open until the queue was known.

        Args:
            request: the request.
            again: ask AWS even if it has said lately what the queue is.

        Returns:
            The request, and what is worth knowing.

        Raises:
            UsageError: there is no such queue, it takes no jobs, or not this one.
            AwsError: AWS cannot be asked.
        """
        with self._asking:  # who comes at the same time profits from what the first one is told
            return self._settled(request, again=again)

    def _settled(self, request: BatchJob, *, again: bool) -> tuple[BatchJob, list[str]]:
        facts = None if again else self._lately.queue(request.queue)
        if facts is not None:
            try:
                return resolved(request, facts)
            except UsageError:
                pass  # it may have changed since
        seen = queues.look_up(self._calls, request.queue)
        if seen.facts is None:
            return replace(request, platform_assumed=False), list(seen.warnings)
        made, warnings = resolved(request, seen.facts)
        if not seen.warnings:
            self._lately.note_queue(request.queue, seen.facts)
        return made, [*seen.warnings, *warnings]

    def warnings_of(self, source: Source, queue: str) -> list[str]:
        """Return what is to be said of a request, now that the queue is known."""
        facts = self._lately.queue(queue)
        if facts is None:
            return []
        parts = (source.app, source.cfg, source.session_name, source.user)
        return make_request(*parts, facts, source.token)[1]

    def submit(self, order: Order, push: Client | None = None) -> str:
        """Submit an app.

        Args:
            order: the request, settled.
            push: a Docker client to push images with; the environment's when needed.

        Returns:
            The app's id.

        Raises:
            UsageError: something that was asked for is not there, or cannot be.
            LaunchError: nothing was submitted.
            LostReply: nobody knows whether it was submitted; `describe` will tell.
            AwsError: AWS refused it; nothing was left behind.
        """
        request = order.request
        if read_record(request.app_id) is not None:
            raise LaunchError(
                f"{request.app_id} was scheduled already; make a new dry run to run it again"
            )
        self._check_roles(order.options)
        request = self._fitted(request)
        request, upstream = self._with_upstream(request)
        request = self._pushed(request, order.options, push)
        documents = request.submissions(self._definition(request), upstream)
        record = record_of(replace(order, request=request), self._aws)
        under_way.add(record.app_id)
        try:
            self._submit_noted(record, request, documents)
        finally:
            under_way.discard(record.app_id)
        return record.app_id

    def _submit_noted(
        self, record: Record, request: BatchJob, documents: Sequence[Document]
    ) -> None:
        """Submit with a record; what may have been submitted is in the record and the journal."""
        record.create()
        try:
            jobs = self._send(request, documents)
            record = record.with_jobs(jobs)
            replace(record, definition=documents[0]["jobDefinition"]).save()
        except (AwsError, UsageError) as error:
            if isinstance(error, LostReply):
                record.announce()
            else:
                record.remove()
            raise
        except BaseException:
            record.announce()  # nobody knows how far it came; `describe` looks it up
            raise
        record.announce()

    # -- before anything is made ----------------------------------------------------------------

    def _check_roles(self, options: Mapping[str, CfgVal]) -> None:
        """Refuse roles that are not there, as far as we may look."""
        for name in _ROLE_OPTIONS:
            arn = options.get(name)
            if not isinstance(arn, str) or not arn or self._lately.has_role(arn):
                continue
            try:
                self._aws.calls("iam").call("GetRole", RoleName=arn.rpartition("/")[2], patience=5)
            except AwsError as error:
                if error.code == "NoSuchEntity":
                    raise InvalidOptionError(
                        f"option {name!r}: there is no role {arn}; `aws iam list-roles` shows "
                        "those there are"
                    ) from None
                continue  # we may not look; AWS Batch will tell
            self._lately.note_role(arn)

    def _fitted(self, request: BatchJob) -> BatchJob:
        """Fit a request to the user's own definition, and pin its revision."""
        wanted = request.job_definition
        if wanted is None:
            return request
        found = self.existing(wanted)
        pinned = str(found["jobDefinitionArn"])
        return replace(fitted(request, found), job_definition=pinned)

    def existing(self, wanted: str) -> Document:
        """Return a definition of the user's own.

        Args:
            wanted: its name, ``name:revision`` or ARN.

        Raises:
            UnknownNameError: there is none that is active.
            AwsError: AWS does not let us look.
        """
        name = wanted.rpartition("/")[2]
        pinned = ":" in name
        params: Document = (
            {"jobDefinitions": [wanted]}
            if pinned
            else {"jobDefinitionName": name, "status": "ACTIVE"}
        )
        known = [
            each
            for each in self._calls.pages("DescribeJobDefinitions", "jobDefinitions", **params)
            if each.get("status", "ACTIVE") == "ACTIVE" or pinned
        ]
        if not known:
            raise UnknownNameError(
                f"option 'job_definition': there is no active job definition {wanted!r} in "
                f"{self._aws.region}"
            )
        newest = max(known, key=lambda each: int(each.get("revision", 0)))
        if newest.get("status", "ACTIVE") != "ACTIVE":
            raise InvalidOptionError(
                f"option 'job_definition': {wanted} is {newest['status']}; name an active revision"
            )
        return newest

    def _with_upstream(self, request: BatchJob) -> tuple[BatchJob, dict[str, list[UpstreamJob]]]:
        """Find the jobs of the apps that are waited for; those that have succeeded are left out."""
        kept: list[Dependency] = []
        upstream: dict[str, list[UpstreamJob]] = {}
        for dependency in request.depends_on:
            jobs = self._upstream(dependency.handle)
            if jobs:
                kept.append(dependency)
                upstream[dependency.handle] = jobs
        return replace(request, depends_on=kept), upstream

    def _upstream(self, handle: str) -> list[UpstreamJob]:
        app = self._finder.find(parse_app_handle(handle).app_id)
        if app is None or not app.jobs:
            raise InvalidSpecError(f"depends_on: there is no app {handle}")
        if app.aws.region != self._aws.region:
            raise InvalidSpecError(
                f"depends_on: {handle} is in {app.aws.region}, and this app is for "
                f"{self._aws.region}; AWS Batch waits for jobs of the same region only"
            )
        last = app.record.last() if app.record is not None else None
        if last is not None and last[0].state is AppState.SUCCEEDED:
            return []  # AWS may have forgotten it
        if last is not None and is_terminal(last[0].state):
            why = f"{last[0].state}: {last[0].msg}" if last[0].msg else str(last[0].state)
            raise LaunchError(f"it would never start: it depends on {handle}, which is {why}")
        array = app.kind is Kind.ARRAY
        return [
            UpstreamJob(job.id, job.count if array and job.count > 1 else None, job.first)
            for job in app.jobs
        ]

    # -- sending --------------------------------------------------------------------------------

    def _pushed(
        self, request: BatchJob, options: Mapping[str, CfgVal], client: Client | None
    ) -> BatchJob:
        """Push local images; return the request with the digests that the registry gave them."""
        if not request.images_to_push:
            return request
        from wherry.workspace.push import push_images
        from wherry.workspace.push_ecr import ecr_logins

        digests = push_images(
            request.images_to_push,
            login_for=ecr_logins(lambda region: self._in_region(region, options).calls("ecr")),
            client=client,
            quiet=bool(options["quiet"]),
        )
        return replace(request, job_def=_with_images(request.job_def, digests))

    def _in_region(self, region: str, options: Mapping[str, CfgVal]) -> Session:
        """Return a session in a repository's region, which need not be the queue's."""
        if region == self._aws.region:
            return self._aws
        return Session(
            _text(options.get("profile")),
            region,
            credentials_file=_text(options.get("credentials_file")),
        )

    def _definition(self, request: BatchJob) -> str | None:
        """Return the ARN of a request's definition, registered when it is not there."""
        document = request.definition()
        if document is None:
            return request.job_definition
        key = _key(document)
        known = self._lately.definition(key)
        if known is not None:
            return known
        arn = self._definitions.ensure(
            document["jobDefinitionName"], document, document.get("tags")
        )
        self._lately.note_definition(key, arn)
        return arn

    def _send(self, request: BatchJob, documents: Sequence[Document]) -> list[JobRef]:
        """Submit all parts, or none."""
        sent: list[JobRef] = []
        try:
            for part, document in zip(request.parts, documents, strict=True):
                made = self._submitted(request, document)
                sent.append(
                    JobRef(made.job_id, made.job_arn, made.job_name, part.first, part.count)
                )
        except BaseException:
            end_jobs(self._calls, [job.id for job in sent], NOT_WHOLE)
            raise
        return sent

    def _submitted(self, request: BatchJob, document: Document) -> submission.Submitted:
        """Submit one part; what AWS said lately may be wrong, and is then asked again."""
        try:
            return submission.submit(self._calls, document, request.token)
        except LostReply:
            raise
        except AwsError as error:
            if error.status != 400:
                raise
            arn = self._renewed_definition(request, document, error)
            if arn is None:
                self.settled(request, again=True)  # tells what is wrong with the queue, if it is
                raise
            document["jobDefinition"] = arn
        return submission.submit(self._calls, document, request.token)

    def _renewed_definition(
        self, request: BatchJob, document: Document, error: AwsError
    ) -> str | None:
        """Return a definition in place of one that was there lately and is no more."""
        ours = request.definition()
        if ours is None or "efinition" not in str(error):
            return None
        self._lately.forget(definition=_key(ours))
        self._definitions.forget(document["jobDefinition"])
        renewed = self._definition(request)
        return None if renewed == document["jobDefinition"] else renewed


def record_of(order: Order, aws: Session) -> Record:
    """Return the record of an app that is about to be submitted."""
    request = order.request
    strategy = request.job.get("retryStrategy") or {}
    tags = order.options.get("tags")
    return Record(
        app_id=request.app_id,
        session=order.session,
        name=order.app.name,
        created_at=time.time(),
        token=request.token,
        queue=naming.queue_name(request.queue),
        region=aws.region,
        profile=_text(order.options.get("profile")),
        kind=str(request.kind),
        groups=[asdict(group) for group in request.groups],
        parts=[asdict(part) for part in request.parts],
        attempts=int(strategy.get("attempts", 1)),
        user=order.user,
        tags=dict(tags) if isinstance(tags, dict) else {},
        plain_app=to_plain(order.app),
        options=to_plain(dict(order.options)),
        pid=os.getpid(),
    )


def _with_images(document: Any, digests: Mapping[str, str]) -> Any:
    """Return a definition with other references for some images."""
    if isinstance(document, dict):
        return {
            key: digests.get(item, item)
            if key == "image" and isinstance(item, str)
            else _with_images(item, digests)
            for key, item in document.items()
        }
    if isinstance(document, list):
        return [_with_images(item, digests) for item in document]
    return document


def _key(document: Document) -> str:
    return f"{document['jobDefinitionName']} {definitions.full_hash(document)}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
