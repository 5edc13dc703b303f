"""The scheduler of AWS Batch: its verbs. What they do is in the rooms beside this one.

Nothing is asked of AWS, and boto3 is not loaded, before a verb needs it; an app that this machine
has a record of costs one DescribeJobs a look, and none once it has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from wherry.aws.documents import Client
from wherry.aws.session import Session
from wherry.errors import StateError, UnknownAppError
from wherry.schedulers.api import (
    AppDryRunInfo,
    DescribeAppResponse,
    ListAppResponse,
    ListFilter,
    LogChunk,
    Scheduler,
    Stream,
)
from wherry.schedulers.aws_batch import naming
from wherry.schedulers.aws_batch.batch_job import BatchJob
from wherry.schedulers.aws_batch.finding import Finder, KnownApp
from wherry.schedulers.aws_batch.inquiring import Inquiries, telling_job
from wherry.schedulers.aws_batch.options import aws_batch_opts
from wherry.schedulers.aws_batch.record import BACKEND, read_record
from wherry.schedulers.aws_batch.request import Source, make_request
from wherry.schedulers.aws_batch.sessions import Sessions
from wherry.schedulers.aws_batch.shape import Kind
from wherry.schedulers.aws_batch.waiting import Waits
from wherry.schedulers.lines import LogLines
from wherry.specs.app import AppDef
from wherry.specs.options import CfgVal, runopts
from wherry.specs.states import is_terminal
from wherry.specs.status import AppStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.aws_batch.logs import BatchLogs
    from wherry.schedulers.aws_batch.replicas import AppJobs
    from wherry.schedulers.aws_batch.scheduling import Submitter
    from wherry.schedulers.shipping import Shipping
    from wherry.specs.diagnosis import Diagnosis, Finding


class AWSBatchScheduler(Scheduler[BatchJob]):
    """Runs apps on AWS Batch; they go on when this process ends.

    An app's id is ``<queue>:<job name>``. What asks about an app also takes the id or ARN of any
    job of AWS Batch, whoever has submitted it.

    Args:
        session_name: the session that apps are filed under.
        client: a boto3 client of Batch to use, in place of one for each app's profile and region.
        log_client: the same for CloudWatch Logs.
        docker_client: a client of Docker, for images that have to be pushed first.
    """

    remote = True
    journaled = True

    def __init__(
        self,
        session_name: str,
        client: Client | None = None,
        log_client: Client | None = None,
        docker_client: Client | None = None,
    ) -> None:
        super().__init__(BACKEND, session_name)
        self._docker = docker_client
        self._sessions = Sessions({"batch": client, "logs": log_client})
        self._finder = Finder(self._sessions)
        self._waits = Waits()
        self._inquiries = Inquiries(self._finder, self._waits)
        self._lock = threading.Lock()
        self._submitters: dict[int, Submitter] = {}
        self._readers: dict[int, BatchLogs] = {}

    def configure(self, options: Callable[[], Mapping[str, CfgVal]]) -> None:
        """Be told where the configured region and profile are, for apps without a record."""
        self._sessions.defaults = options

    def run_opts(self) -> runopts:
        """Return the options: queue, region, platform, retries and many more."""
        return aws_batch_opts()

    # -- submitting -----------------------------------------------------------------------------

    def look_within(self, seconds: float) -> None:
        """Never wait longer than this between two looks at what is waited for.

        Args:
            seconds: the pauses grow up to half a minute where nothing changes, unless this is less.
        """
        self._waits.within = seconds

    def submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], *, token: str | None = None
    ) -> AppDryRunInfo[BatchJob]:
        """Turn an app into a request; AWS is not asked.

        Args:
            app, cfg: as for `Scheduler.submit_dryrun`.
            token: what makes the job's name unique; a new one when not given.

        Raises:
            UsageError: the app or an option asks for something that AWS Batch cannot do.
        """
        self.check(app)
        resolved = self.run_opts().resolve(cfg)
        request, warnings = make_request(
            app, resolved, self.session_name, _user(resolved), None, token or naming.make_token()
        )
        return AppDryRunInfo(
            request, scheduler=self.backend, app=app, cfg=resolved, warnings=warnings
        )

    def settled(self, dryrun_info: AppDryRunInfo[BatchJob]) -> AppDryRunInfo[BatchJob]:
        """Look the queue up, and make the request again where it is not what was assumed.

        Raises:
            UsageError: there is no such queue, it takes no jobs, or not this one.
            AwsError: AWS cannot be asked.
        """
        info = dryrun_info
        before = info.request
        submitter = self._submitter(self._sessions.of(info.cfg))
        request, news = submitter.settled(before)
        said = info.warnings
        if before.platform_assumed and before.source is not None:
            # What was assumed need not be said any more.
            assumed = _warnings_of(before.source)
            said = [words for words in said if words not in assumed]
            settled = submitter.warnings_of(before.source, before.queue)
            news = [*news, *(words for words in settled if words not in (*said, *news))]
        return AppDryRunInfo(
            request,
            scheduler=info.scheduler,
            app=info.app,
            cfg=info.cfg,
            warnings=[*said, *news],
        )

    def schedule(self, dryrun_info: AppDryRunInfo[BatchJob]) -> str:
        """Submit what a dry run made; all of its jobs or none, and none twice.

        Returns:
            The app's id.

        Raises:
            UsageError: something that was asked for is not there, or cannot be.
            LaunchError: nothing was submitted.
            LostReply: nobody knows whether it was submitted; `describe` will tell.
            AwsError: AWS refused it; nothing was left behind.
        """
        from wherry.schedulers.aws_batch.scheduling import Order

        info = dryrun_info
        submitter = self._submitter(self._sessions.of(info.cfg))
        request, _ = submitter.settled(info.request)
        order = Order(request, info.app, info.cfg, self.session_name, _user(info.cfg))
        app_id = submitter.submit(order, self._docker)
        self._waits.submitted(app_id)
        return app_id

    def shipping(self, cfg: Mapping[str, CfgVal]) -> Shipping:
        """Say how a workspace gets to jobs: through the option ``store``, or in an image.

        Raises:
            InvalidOptionError: neither ``store`` nor ``image_repo`` is set, or not the needed one.
        """
        from wherry.schedulers.aws_batch.shipping import shipping

        return shipping(cfg, lambda: self._sessions.of(cfg))

    def build_workspace_image(self, img: str, workspace: str) -> str:
        """Make an image of another one with a folder's files laid over it.

        An app whose role has this image pushes it to the option ``image_repo`` first.

        Args:
            img: the base image.
            workspace: a folder, or an address that fsspec knows.

        Returns:
            The image's id.

        Raises:
            WorkspaceError: the folder cannot be shipped.
            DockerError: there is no Docker Engine, no such image, or the build failed.
        """
        from wherry.workspace.image import build_workspace_image

        return build_workspace_image(img, workspace)

    def preflight(self, dryrun_info: AppDryRunInfo[BatchJob]) -> Sequence[Finding]:
        """Say what would keep a request from ever running, before it is sent.

        Raises:
            UsageError: there is no such queue, or it takes no jobs.
            AwsError: AWS cannot be asked.
        """
        from wherry.aws.diagnosis import SessionServices, preflight

        info = self.settled(dryrun_info)
        aws = self._sessions.of(info.cfg)
        definition = info.request.definition()
        if definition is None:
            definition = self._submitter(aws).existing(info.request.job_definition or "")
        submission = info.request.submissions()[0]
        return preflight(SessionServices(aws), submission, definition)

    # -- asking ---------------------------------------------------------------------------------

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app; of arrays and gangs, about each replica.

        Raises:
            AwsError: AWS cannot be asked.
        """
        return self._inquiries.describe(app_id)

    def statuses(self, app_ids: Sequence[str]) -> dict[str, AppStatus | None]:
        """Tell the status of many apps, with one DescribeJobs for each 100 of their jobs.

        Of arrays and gangs that go on, the replicas are counted.

        Raises:
            AwsError: AWS cannot be asked.
        """
        return self._inquiries.statuses(app_ids)

    def exists(self, app_id: str) -> bool:
        """Tell whether an app is or ever was known."""
        return self._inquiries.exists(app_id)

    def list(
        self,
        chosen: ListFilter = ListFilter(),  # noqa: B008 — a frozen value
        *,
        queues: Sequence[str] = (),
        everyone: bool = False,
    ) -> Iterator[ListAppResponse]:
        """List the apps that AWS knows, newest first, page by page.

        Args:
            chosen: which ones.
            queues: of these queues, by name or ARN; of all when empty.
            everyone: also jobs that were not submitted with Wherry.

        Raises:
            AwsError: AWS cannot be asked.
        """
        from wherry.schedulers.aws_batch.listing import listed

        calls = self._sessions.configured().calls()
        return listed(calls, chosen, queues=queues, everyone=everyone)

    def recorded(self) -> Iterator[ListAppResponse]:
        """List the apps that this machine has records of; AWS is not asked."""
        from wherry.schedulers.aws_batch.listing import recorded

        return recorded(ListFilter())

    def why(self, app_id: str) -> Diagnosis:
        """Say why an app is in its state: what AWS tells of it and of all that it needs.

        Raises:
            UnknownAppError: there is no such app.
            AwsError: AWS cannot be asked.
        """
        from dataclasses import replace

        from wherry.aws.diagnosis import SessionServices, diagnose
        from wherry.specs.states import AppState

        app = self._required(app_id)
        if not app.jobs:
            return super().why(app_id)
        found = diagnose(SessionServices(app.aws), telling_job(app), time.time())
        if found.state is AppState.EXPIRED:
            return super().why(app_id)
        return replace(found, app_id=app_id)

    def job_id(self, app_id: str, replica: int | None = None) -> str:
        """Return AWS's id of an app's first job, or of the job that a replica is.

        Args:
            app_id: the app.
            replica: the number of a replica of an array, or of a gang's node.

        Raises:
            UnknownAppError: there is no such app.
            StateError: it has no job yet.
        """
        app = self._required(app_id)
        if not app.jobs:
            raise StateError(f"{app.handle} is being submitted; it has no job yet")
        if replica is None:
            return app.jobs[0].id
        job = next(job for job in reversed(app.jobs) if job.first <= replica or job is app.jobs[0])
        mark = {Kind.ARRAY: ":", Kind.GANG: "#"}.get(app.kind)
        return job.id if mark is None else f"{job.id}{mark}{replica - job.first}"

    def resources_of(self, definition: str, cfg: Mapping[str, CfgVal]) -> dict[str, float]:
        """Return what a job definition of the user's own asks for: VCPU, MEMORY (MiB) and GPU.

        Args:
            definition: name, ``name:revision`` or ARN.
            cfg: options that say where: profile, region, credentials_file.

        Raises:
            UnknownNameError: there is no such definition.
            AwsError: AWS cannot be asked.
        """
        from wherry.schedulers.aws_batch.existing import stated_resources

        return stated_resources(self._submitter(self._sessions.of(cfg)).existing(definition))

    # -- ending, waiting ------------------------------------------------------------------------

    def cancel(self, app_id: str, reason: str = "", *, kill: bool = False) -> None:
        """Ask for an app's end; returns when AWS has taken note.

        Programs get SIGTERM, and SIGKILL 30 seconds later; AWS has no quicker way.

        Raises:
            UnknownAppError: there is no such app.
            StateError: it is still being submitted.
            AwsError: AWS refused, or cannot be asked.
        """
        from wherry.schedulers.aws_batch.cancelling import cancel

        del kill
        app = self._required(app_id)
        if app.record is not None and app.record.last() is not None:
            return
        if not app.jobs:
            if is_terminal(self._inquiries.without_jobs(app).state):
                return
            raise StateError(f"{app.handle} is being submitted; try again in a moment")
        cancel(app, reason)
        self._waits.forget(app_id)

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool = False) -> None:
        """Block until something happened to the app, or for ``timeout`` seconds.

        All who wait in this process share one poller for each account and region.

        Raises:
            UnknownAppError: there is no such app.
            AwsError: AWS does not let us look.
        """
        app = self._required(app_id)
        if app.record is not None and app.record.last() is not None:
            return
        self._waits.wait(app, timeout, until_end=until_end)

    def forget(self, app_id: str) -> None:
        """Remove our record of an app that has ended; AWS keeps what it has.

        Raises:
            UnknownAppError: there is no record of it.
            StateError: it has not ended.
        """
        record = read_record(app_id)
        if record is None:
            raise UnknownAppError(f"there is no record of {app_id!r} at {self.backend}")
        described = self.describe(app_id)
        if described is not None and not is_terminal(described.state):
            raise StateError(f"{record.handle} has not ended; cancel it first")
        record.remove()
        self._waits.forget(app_id)

    def close(self) -> None:
        """Stop looking at apps; they go on. May be called many times."""
        self._waits.close()

    # -- logs -----------------------------------------------------------------------------------

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        attempt: int | None = None,
    ) -> LogLines:
        """Iterate over the lines of one replica; see `Scheduler.log_iter`."""
        app = self._required(app_id)
        return self._reader(app.aws).lines(
            self._jobs(app),
            role_name,
            k,
            regex=regex,
            since=since,
            until=until,
            should_tail=should_tail,
            streams=streams,
            attempt=attempt,
        )

    def log_bytes(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        stream: Stream = Stream.COMBINED,
        *,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Read what one replica has written so far, in large pieces."""
        app = self._required(app_id)
        return self._reader(app.aws).data(self._jobs(app), role_name, k, stream, attempt=attempt)

    def follow(self, app_id: str, stream: Stream = Stream.COMBINED) -> Iterator[LogChunk]:
        """Read what all replicas write, as they write it, until the app's last line."""
        app = self._required(app_id)
        return self._reader(app.aws).follow(self._jobs(app), stream)

    # -- inside ---------------------------------------------------------------------------------

    def aws(self, cfg: Mapping[str, CfgVal] | None = None) -> Session:
        """Return the AWS session of run options; the configured one when there are none."""
        return self._sessions.configured() if cfg is None else self._sessions.of(cfg)

    def _required(self, app_id: str) -> KnownApp:
        return self._inquiries.required(app_id)

    def _submitter(self, aws: Session) -> Submitter:
        from wherry.schedulers.aws_batch.lately import lately_for
        from wherry.schedulers.aws_batch.scheduling import Submitter

        with self._lock:
            found = self._submitters.get(id(aws))
            if found is None:
                found = self._submitters[id(aws)] = Submitter(aws, lately_for(aws), self._finder)
            return found

    def _reader(self, aws: Session) -> BatchLogs:
        from wherry.schedulers.aws_batch.logs import BatchLogs

        with self._lock:
            found = self._readers.get(id(aws))
            if found is None:
                found = BatchLogs(aws, session_in=lambda region: self._sessions.get(None, region))
                self._readers[id(aws)] = found
            return found

    def _jobs(self, app: KnownApp) -> AppJobs:
        if not app.jobs:
            raise StateError(f"{app.handle} is being submitted; it has no log yet")
        record = app.record
        over = record is not None and record.last() is not None
        streams = record.streams() if record is not None else ()
        return app.with_jobs(over=over, streams=streams)


def create_scheduler(
    session_name: str,
    client: Client | None = None,
    log_client: Client | None = None,
    docker_client: Client | None = None,
) -> AWSBatchScheduler:
    """Make ``aws_batch``; see `AWSBatchScheduler`."""
    return AWSBatchScheduler(session_name, client, log_client, docker_client)


def _warnings_of(source: Source) -> Iterable[str]:
    return make_request(
        source.app, source.cfg, source.session_name, source.user, None, source.token
    )[1]


def _user(options: Mapping[str, CfgVal]) -> str:
    chosen = options.get("user")
    if isinstance(chosen, str) and chosen:
        return chosen
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # no such user: a container with a number for one
