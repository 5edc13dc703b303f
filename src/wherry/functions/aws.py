"""Calls as jobs on AWS Batch."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wherry.errors import UsageError
from wherry.functions.executor import Executor
from wherry.functions.handle import ROLE, Job
from wherry.functions.settings import AUTO, INHERIT, Setting
from wherry.functions.submission import variables
from wherry.functions.task_methods import TaskMethods
from wherry.specs.app import AppDef, RetryPolicy, Role
from wherry.specs.resources import Resource

if TYPE_CHECKING:
    from wherry.aws.session import Session
    from wherry.functions.options import Options
    from wherry.schedulers.api import AppDryRunInfo, Scheduler
    from wherry.schedulers.aws_batch.scheduler import AWSBatchScheduler
    from wherry.specs.options import CfgVal
    from wherry.store.api import Store
    from wherry.worker.formats import Call

LEAST_SECONDS = 60
"""AWS Batch takes no shorter timeout."""

VCPU = 2
RETRIES = 3
MIB_PER_VCPU = 1920
"""What a compute instance has for each vCPU once the host has taken its share: 2 vCPUs come to
3.75 GiB."""

MIB_PER_GPU = 7680

_IMAGES = "public.ecr.aws/docker/library/python"
_PREFIX = "wherry"
_CHILDREN_OF_A_MAP = 64
_LONGEST_NAME = 48


class AWSBatchExecutor(TaskMethods, Executor):
    """Runs each call as a job on AWS Batch.

    Nothing is asked of AWS before the first call. The image needs Python 3.9 or later, and nothing
    of Wherry. With ``job_definition``, that definition is used, and what is not said here comes
    from it; without one, definitions are made by content, shared, and never more than there are
    different ones.

    Args:
        credentials: path of a file with AWS credentials; the usual places when ``None``.
        profile: a profile of AWS's configuration.
        region: the AWS region; the profile's or environment's when ``None``.
        s3_bucket_name: the bucket of calls and results: its name, or ``name/prefix``.
        batch_queue: the job queue: its name or ARN.
        batch_execution_role_name: the role that pulls the image and writes logs: name or ARN.
        batch_job_role_name: the role that the function acts as, which must be allowed to use the
            bucket: name or ARN.
        batch_job_log_group_name: the log group; AWS Batch's own when ``None``.
        vcpu: vCPUs of a job, or ``INHERIT``; 2 by default, ``INHERIT`` with ``job_definition``.
        memory: GiB of a job, `Escalate` amounts, ``INHERIT`` or ``AUTO``; ``AUTO`` by default.
        num_gpus: GPUs of a job, or ``INHERIT``.
        retry_attempts: attempts beyond the first when a host is lost or an image cannot be
            pulled; 3 by default. Exceptions of the function are not retried
            (``retry_exceptions=True`` does).
        time_limit: seconds that an attempt may take, 60 at least; no limit, or the definition's,
            when ``None``.
        poll_freq: the most seconds between two looks at a job that is waited for.
        cache_dir: a folder in which fetched results are kept, so that they are fetched once.
        batch_job_definition_name: what the definitions that are made are called; ``call`` when
            ``None``.
        container_image_uri: the image; one with this Python's version when ``None``.
        queue: the same as ``batch_queue``.
        job_definition: a definition to use as it is: name, ``name:revision`` or ARN.
        aws: more options of the scheduler (``wherry runopts aws_batch``).
        store, session, on_step, options: see `Executor`.

    Raises:
        UsageError: a value that cannot be; it is named.
    """

    environment = "aws_batch"
    backend = "aws_batch"

    def __init__(
        self,
        credentials: str | None = None,
        profile: str | None = None,
        region: str | None = None,
        s3_bucket_name: str | None = None,
        batch_queue: str | None = None,
        batch_execution_role_name: str | None = None,
        batch_job_role_name: str | None = None,
        batch_job_log_group_name: str | None = None,
        vcpu: float | Setting | None = None,
        memory: Any = None,
        num_gpus: int | Setting | None = None,
        retry_attempts: int | None = None,
        time_limit: float | None = None,
        poll_freq: float | None = None,
        cache_dir: str | None = None,
        *,
        batch_job_definition_name: str | None = None,
        container_image_uri: str | None = None,
        queue: str | None = None,
        job_definition: str | None = None,
        aws: Mapping[str, CfgVal] | None = None,
        **options: Any,
    ) -> None:
        asked = {"vcpu": vcpu, "memory": memory, "num_gpus": num_gpus, "timeout": time_limit}
        asked["retries"] = RETRIES if retry_attempts is None else retry_attempts
        options = {**{name: value for name, value in asked.items() if value is not None}, **options}
        options.setdefault("num_gpus", INHERIT if job_definition else 0)
        super().__init__(**options)
        self.credentials = credentials
        self.profile = profile
        self.region = region
        self.s3_bucket_name = s3_bucket_name
        self.queue = _one_of(queue=queue, batch_queue=batch_queue)
        self.batch_execution_role_name = batch_execution_role_name
        self.batch_job_role_name = batch_job_role_name
        self.batch_job_log_group_name = batch_job_log_group_name
        self.batch_job_definition_name = batch_job_definition_name
        self.container_image_uri = container_image_uri
        self.job_definition = job_definition
        self.poll_freq = poll_freq
        self.cache_dir = cache_dir
        self._aws = dict(aws or {})
        self._check_arguments()

    # -- what it was made of, by the names of both worlds ----------------------------------------

    @property
    def batch_queue(self) -> str:
        """The job queue."""
        return self.queue

    @property
    def vcpu(self) -> float | Setting:
        """vCPUs of a job."""
        asked = self._defaults.vcpu
        return asked if asked is not None else (INHERIT if self.job_definition else VCPU)

    @property
    def memory(self) -> Any:
        """GiB of a job."""
        return AUTO if self._defaults.memory is None else self._defaults.memory

    @property
    def num_gpus(self) -> int | Setting:
        """GPUs of a job."""
        return self._defaults.num_gpus

    @property
    def retry_attempts(self) -> int:
        """Attempts beyond the first."""
        return self._defaults.retries

    @property
    def time_limit(self) -> float | None:
        """Seconds that an attempt may take."""
        return self._defaults.timeout

    # -- apps of any kind, and tasks of somebody else's workflow ----------------------------------

    def run(  # type: ignore[override]  # Covalent's `run` has the same name
        self,
        app: AppDef | Callable[..., Any],
        cfg: Mapping[str, CfgVal] | Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_metadata: Mapping[str, Any] | None = None,
    ) -> str | Coroutine[Any, Any, Any]:
        """Run an app, or one task of a workflow.

        Args:
            app: an app; or a function, as Covalent calls it.
            cfg: run options of the app; or the function's arguments.
            kwargs: the function's arguments by name.
            task_metadata: the task's ``dispatch_id`` and ``node_id``.

        Returns:
            The app's handle; or what is to be awaited for the function's value.
        """
        if isinstance(app, AppDef):
            options = cfg if isinstance(cfg, Mapping) else None
            return Executor.run(self, app, options)
        args = cfg if isinstance(cfg, Sequence) else ()
        return self._run_task(app, args, kwargs or {}, task_metadata or {})

    def boto_session_options(self) -> dict[str, str]:
        """Return what a `boto3.Session` for the same profile and region is made with."""
        options = {"profile_name": self.profile, "region_name": self.region}
        return {name: value for name, value in options.items() if value}

    def from_dict(self, object_dict: Mapping[str, Any]) -> AWSBatchExecutor:
        """Take over the settings that `to_dict` gave; returns this executor."""
        if object_dict:
            self.__init__(**object_dict["attributes"])  # type: ignore[misc]
        return self

    # -- what executors differ in -----------------------------------------------------------------

    def open_store(self) -> Store:
        """Open the bucket."""
        from wherry.store.opening import open_store

        if not self.s3_bucket_name and not self._store_url:
            raise UsageError(
                "AWSBatchExecutor needs a bucket for calls and results: s3_bucket_name='my-bucket'"
            )
        url = self._store_url
        if url is None:
            bucket, _, prefix = str(self.s3_bucket_name).removeprefix("s3://").partition("/")
            url = f"s3://{bucket}/{prefix.strip('/') or _PREFIX}"
        store = open_store(
            url, profile=self.profile, region=self.region, credentials_file=self.credentials
        )
        if self.cache_dir is None:
            return store
        from wherry.store.caching import CachingStore

        return CachingStore(store, self.cache_dir)

    def make_scheduler(self) -> Scheduler[Any]:
        """Make the scheduler."""
        from wherry.schedulers.aws_batch.scheduler import AWSBatchScheduler

        made = AWSBatchScheduler(self.session)
        made.configure(self._where)
        if self.poll_freq is not None:
            made.look_within(self.poll_freq)
        return made

    def settings(self) -> dict[str, Any]:
        """Return the arguments, as plain data; what credentials there are is not among them."""
        names = (
            *("credentials", "profile", "region", "s3_bucket_name", "batch_execution_role_name"),
            *("batch_job_role_name", "batch_job_log_group_name", "batch_job_definition_name"),
            *("container_image_uri", "job_definition", "poll_freq", "cache_dir"),
        )
        given = {name: getattr(self, name) for name in names}
        more = {"aws": self._aws} if self._aws else {}
        told = {name: value for name, value in given.items() if value is not None}
        return {**super().settings(), "batch_queue": self.queue, **told, **more}

    def cfg(self, options: Options) -> dict[str, CfgVal]:
        """Return the scheduler's run options."""
        del options
        cfg: dict[str, CfgVal] = {
            "queue": self.queue,
            **self._where(),
            "job_definition": self.job_definition,
            "definition_name": self.batch_job_definition_name or ROLE,
            "log_group": self.batch_job_log_group_name,
            "job_role_arn": self._role_arn(self.batch_job_role_name),
            "execution_role_arn": self._role_arn(self.batch_execution_role_name),
            **self._aws,
        }
        return {name: value for name, value in cfg.items() if value is not None}

    def check(self, options: Options) -> None:
        """Refuse what AWS Batch does not take.

        Raises:
            UsageError: it is named.
        """
        if options.timeout is not None and options.timeout < LEAST_SECONDS:
            raise UsageError(
                f"time_limit is {options.timeout:g} seconds, and AWS Batch takes no less than "
                f"{LEAST_SECONDS}"
            )
        if options.vcpu is AUTO or options.num_gpus is AUTO:
            raise UsageError("AUTO is for memory, which follows from vcpu and num_gpus")
        inherited = [
            name for name in ("vcpu", "memory", "num_gpus") if getattr(options, name) is INHERIT
        ]
        if inherited and not self.job_definition:
            raise UsageError(
                f"{' and '.join(inherited)}=INHERIT takes the value of a job definition; name it "
                "with job_definition=, or give a number"
            )

    def role(self, call_url: str, call: Call, options: Options, children: int) -> Role:
        """Return the role that runs a call's processes."""
        del call
        from wherry.store.blobs import put_blob
        from wherry.worker.shipping import boot_command, worker_zip

        data, digest = worker_zip()
        put_blob(self.store, [data], digest)
        command = boot_command(self.store.url, digest, ["call", call_url])
        policy = RetryPolicy.REPLICA if options.retry_exceptions else RetryPolicy.spot()
        return Role(
            name=ROLE,
            image="" if self.job_definition else self.container_image_uri or default_image(),
            entrypoint=command[0],
            args=[word.replace("$", "$$") for word in command[1:]],
            env={**self._surroundings(), **variables(options)},
            num_replicas=children,
            max_retries=options.retries,
            retry_policy=policy,
            resource=self._resource(options),
        )

    def app_id(self, job: str, name: str) -> str:
        """Choose the id of an app: its queue and its job name, which ends in a token."""
        from wherry.schedulers.aws_batch import naming

        token = naming.token_of(job) or naming.make_token()
        return naming.app_id(self.queue, naming.job_name(name, token))

    def dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str) -> AppDryRunInfo[Any]:
        """Make the request for an app, under the id that was chosen for it."""
        from wherry.schedulers.aws_batch import naming

        return self._batch.submit_dryrun(app, cfg, token=naming.token_of(app_id))

    def provider_id(self, app_id: str, part: int | None) -> str:
        """Return AWS's id of an app's job, or of a part of it."""
        return self._batch.job_id(app_id, part)

    def cancel_part(self, app_id: str, part: int, reason: str) -> None:
        """End one child of an array."""
        self._batch.cancel(self.provider_id(app_id, part), reason)

    def cores(self) -> int:
        """Return how many processes of a map may run at once; a queue's limit is not asked for."""
        return _CHILDREN_OF_A_MAP

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _batch(self) -> AWSBatchScheduler:
        found: AWSBatchScheduler = self.scheduler  # type: ignore[assignment]
        return found

    @property
    def _identity(self) -> Session:
        return self._batch.aws(self._where())

    def _where(self) -> dict[str, CfgVal]:
        where = {
            "profile": self.profile,
            "region": self.region,
            "credentials_file": self.credentials,
        }
        return {name: value for name, value in where.items() if value}

    def _check_arguments(self) -> None:
        self.check(self._defaults)
        if self.poll_freq is not None and not self.poll_freq > 0:
            raise UsageError(f"poll_freq must be seconds above 0, not {self.poll_freq!r}")
        if self.job_definition and self.container_image_uri:
            raise UsageError(
                "job_definition has an image of its own; leave out container_image_uri, or use "
                "batch_job_definition_name to name a definition that is made"
            )
        from wherry.schedulers.aws_batch.options import read_options

        plain = {"queue": self.queue, "job_definition": self.job_definition, **self._aws}
        read_options({name: value for name, value in plain.items() if value is not None})

    def _role_arn(self, name: str | None) -> str | None:
        """Return a role's ARN; the account is asked for where only the name is given."""
        if name is None or name.startswith("arn:"):
            return name
        region = self._identity.region
        partition = next((p for start, p in _PARTITIONS if region.startswith(start)), "aws")
        return f"arn:{partition}:iam::{self._account()}:role/{name}"

    def _account(self) -> str:
        return self._identity.account_id()

    def _surroundings(self) -> dict[str, str]:
        """Return variables that the worker's own client of S3 needs."""
        return {"AWS_DEFAULT_REGION": self._identity.region}

    def _resource(self, options: Options) -> Resource:
        vcpu = options.vcpu if options.vcpu is not None else self.vcpu
        gpus = options.num_gpus
        memory = AUTO if options.memory is None else options.memory
        cpu = 0 if isinstance(vcpu, Setting) else vcpu
        gpu = 0 if isinstance(gpus, Setting) else gpus
        if memory is AUTO:
            mib = self._automatic(vcpu, gpus)
        else:
            mib = 0 if memory is INHERIT else options.mib
        return Resource(cpu=cpu, gpu=gpu, memMB=mib)

    def _automatic(self, vcpu: float | Setting, gpus: int | Setting) -> int:
        """Return MiB that suit the vCPUs and GPUs, and the definition's if it has more."""
        stated: dict[str, float] = {}
        if self.job_definition:
            stated = self._batch.resources_of(self.job_definition, self._where())
        cpu = stated.get("VCPU", 0) if isinstance(vcpu, Setting) else vcpu
        gpu = stated.get("GPU", 0) if isinstance(gpus, Setting) else gpus
        formula = max(MIB_PER_VCPU * max(1, math.ceil(cpu)), MIB_PER_GPU * gpu)
        if stated.get("MEMORY", 0) >= formula:
            return 0  # The definition's stands.
        return math.ceil(formula)

    def _submit_named(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Job:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:_LONGEST_NAME] or ROLE
        job: Job = self.options(name=plain).submit(function, *args, **kwargs)
        return job

    def _attributes(self) -> dict[str, Any]:
        shown = {
            "vcpu": self._defaults.vcpu,
            "memory": self._defaults.memory,
            "num_gpus": self._defaults.num_gpus,
            "retry_attempts": self.retry_attempts,
            "time_limit": self.time_limit,
        }
        plain = {name: value for name, value in shown.items() if not isinstance(value, Setting)}
        return {**self.settings(), **{name: v for name, v in plain.items() if v is not None}}


_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))


def default_image() -> str:
    """Return a public image with this Python's minor version."""
    return f"{_IMAGES}:{sys.version_info[0]}.{sys.version_info[1]}-slim"


def _one_of(**given: str | None) -> str:
    found = {name: value for name, value in given.items() if value is not None}
    if len(set(found.values())) > 1:
        shown = " and ".join(f"{name}={value!r}" for name, value in found.items())
        raise UsageError(f"{shown} mean the same thing; give one of them")
    if not found:
        raise UsageError("AWSBatchExecutor needs a job queue: batch_queue='my-queue'")
    return next(iter(found.values()))


__all__ = ["AUTO", "INHERIT", "AWSBatchExecutor", "default_image"]
