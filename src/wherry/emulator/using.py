"""An emulator for as long as a block of Python runs.

>>> import wherry.emulator
>>> with wherry.emulator.running(engine="process", scale=60) as aws:  # doctest: +SKIP
...     batch = aws.client("batch")
...     with aws.fault("throttle", operation="SubmitJob", rate=0.5):
...         batch.submit_job(jobName="a", jobQueue="main", jobDefinition="mine")

Each has a port, queues and jobs of its own, so that several may run side by side; what moto holds
(buckets, logs, roles) is shared by all of one process, and a reset empties it for all. None leaves
a record that a command in a terminal would find.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from wherry.emulator import exports, hosting
from wherry.emulator.clock import Clock
from wherry.emulator.faults import Fault, Faults
from wherry.emulator.settings import DEFAULT_REGION, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.server.emulator import Emulator


class Running:
    """An emulator that runs in this process.

    Attributes:
        emulator: the server itself, for what is not offered here.
    """

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    @property
    def url(self) -> str:
        """Where it answers: the endpoint of all of AWS."""
        return self.emulator.url

    @property
    def faults(self) -> Faults:
        """What goes wrong on purpose; ``add``, ``remove``, ``clear`` and ``active``."""
        return self.emulator.faults

    @property
    def clock(self) -> Clock:
        """The emulated time; ``advance`` and ``set_scale`` change it."""
        return self.emulator.clock

    def environment(self) -> dict[str, str]:
        """Return the variables with which an unmodified client finds the emulator."""
        found = self.changes(os.environ)
        return {name: value for name, value in found.items() if value is not None}

    def changes(self, environ: Mapping[str, str]) -> dict[str, str | None]:
        """Return what has to change in an environment for clients to find the emulator.

        Besides `environment`, this names what would lead them elsewhere, with ``None``.
        """
        return exports.changes(self.emulator.environment(), environ)

    def client(self, service: str, region: str | None = None, **settings: Any) -> Any:
        """Make a boto3 client that talks to the emulator, whatever the user's own settings say.

        Args:
            service: such as ``batch``, ``logs`` or ``s3``.
            region: the emulator's own when ``None``.
            **settings: what else ``boto3.Session.client`` takes.

        Returns:
            The client.
        """
        import boto3
        import botocore.config
        import botocore.session

        given = self.emulator.environment()
        nowhere = (None, None, os.devnull, None)
        session = boto3.Session(
            aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
            region_name=region or given["AWS_REGION"],
            botocore_session=botocore.session.Session(
                session_vars={
                    "profile": (None, None, None, None),
                    "config_file": nowhere,
                    "credentials_file": nowhere,
                }
            ),
        )
        config = settings.pop("config", None)
        direct = botocore.config.Config(proxies={})
        make: Any = session.client
        return make(
            service,
            endpoint_url=self.url,
            config=direct if config is None else direct.merge(config),
            **settings,
        )

    @contextmanager
    def fault(self, kind: str, **values: Any) -> Iterator[int]:
        """Let something go wrong inside a block.

        Args:
            kind: a key of ``wherry.emulator.faults.KINDS``.
            **values: the other attributes of `Fault`.

        Yields:
            The fault's number.
        """
        number = self.faults.add(Fault(kind, **values))
        try:
            yield number
        finally:
            if any(number == active for active, _, _ in self.faults.active()):
                self.faults.remove(number)

    def reclaim(self, job_or_instance: str, region: str | None = None) -> list[str]:
        """Take an instance away, as Spot does; returns the ids of the jobs that it ran."""
        return self.emulator.service(region).reclaim(job_or_instance)

    def lose_agent(self, job: str, region: str | None = None) -> None:
        """Let the ECS agent under a job vanish: reason ``AGENT``, no exit code."""
        self.emulator.service(region).lose_agent(job)

    def expire(self, job: str | None = None, region: str | None = None) -> int:
        """Forget a job that has ended, or all of them; returns how many."""
        return self.emulator.service(region).expire(job)

    def status(self) -> dict[str, Any]:
        """Return what ``wherry emulator status --json`` prints."""
        return self.emulator.status()

    def reset(self) -> None:
        """End and forget everything but what the emulator had at its start."""
        self.emulator.reset()


@contextmanager
def running(
    *,
    engine: str = "auto",
    scale: float = 1.0,
    port: int = 0,
    vcpus: float | None = None,
    memory_mib: int | None = None,
    gpus: int = 0,
    state: str | None = None,
    s3: str | None = None,
    region: str = DEFAULT_REGION,
    bootstrap: bool = True,
    patch_environment: bool = False,
) -> Iterator[Running]:
    """Run an emulator while a block runs; at its end, all jobs are ended.

    Args:
        engine: ``docker``, ``process``, or ``auto`` for Docker where an Engine answers.
        scale: emulated seconds for each real second.
        port: where it listens; 0 for any that is free.
        vcpus, memory_mib, gpus: what jobs may have at once; see `Settings`.
        state: a folder that keeps the state for the next time.
        s3: the address of a real S3 server, in place of the one inside.
        region: for requests that name none.
        bootstrap: whether the queue ``main`` is there from the start.
        patch_environment: whether this process's own environment points at it inside the block,
            so that clients made there by any code find it. Nothing is changed otherwise.

    Yields:
        The emulator.

    Raises:
        LaunchError: it cannot run here; the message says why.
        UsageError: a setting cannot be honoured.
    """
    settings = Settings(
        port=port,
        engine=engine,
        vcpus=vcpus,
        memory_mib=memory_mib,
        gpus=gpus,
        state=state,
        s3=s3,
        scale=scale,
        region=region,
        bootstrap=bootstrap,
    )
    with started(settings) as aws:
        if not patch_environment:
            yield aws
            return
        with exports.applied(aws.changes(os.environ)):
            yield aws


@contextmanager
def started(settings: Settings) -> Iterator[Running]:
    """Run an emulator with settings as a whole, as `running` does."""
    emulator = hosting.make(settings)
    try:
        hosting.start(emulator, settings)
        yield Running(emulator)
    finally:
        emulator.stop()
