"""What Batch needs of the rest of AWS, put together: the `Surroundings` of the control plane.

This room hands each question to the one that knows: logs, credentials, metadata, secrets, events.
It decides only how a task reaches them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from wherry.emulator.batch.ports import Document
from wherry.emulator.clock import Clock
from wherry.emulator.cloud import events, moto, secrets
from wherry.emulator.cloud.credentials import Credentials
from wherry.emulator.cloud.logs import LogSink, LogStore
from wherry.emulator.cloud.metadata import Metadata
from wherry.emulator.faults import Faults
from wherry.emulator.settings import Settings

CREDENTIALS_PATH = "/_wherry/credentials/"
METADATA_PATH = "/_wherry/metadata/v4/"

_CREDENTIAL_HOSTS = ("169.254.170.2", "169.254.170.23", "localhost")
"""Where SDKs take credentials from over plain HTTP: loopback, and the addresses of ECS and EKS.
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html"""


class Cloud:
    """Everything of AWS that a job meets; implements `wherry.emulator.batch.ports.Surroundings`.

    Args:
        settings: what the emulator was told; its state folder keeps the logs.
        clock: dates logs and events.
        endpoint: tells ``http://HOST:PORT``, the emulator as a container sees it.
        faults: which log streams are missing or late.
    """

    def __init__(
        self, settings: Settings, clock: Clock, endpoint: Callable[[], str], faults: Faults
    ) -> None:
        self._clock = clock
        self._endpoint = endpoint
        self.store = LogStore(settings.state)
        self.sink = LogSink(self.store, clock, faults)
        self.credentials = Credentials(time.time)
        self.metadata = Metadata()

    def start(self) -> None:
        """Bring back logs of an earlier life and begin to write new ones."""
        self.store.load()
        self.sink.start()

    def stop(self) -> None:
        """Write what is there and end all threads; harmless when repeated."""
        self.sink.stop()
        self.store.close()

    def reset(self, task_ids: Iterable[str]) -> None:
        """Empty all of AWS but Batch; moto's state is shared by all emulators of a process.

        Args:
            task_ids: tasks that were running, and are forgotten with the rest.
        """
        for task_id in task_ids:
            self.task_over(task_id)
        self.sink.forget(task_ids)
        moto.reset()
        self.credentials.reset()
        self.store.forget()

    def task_environment(
        self, task_id: str, region: str, role_arn: str | None
    ) -> Mapping[str, str]:
        """Return the variables that tell a task where AWS is and who it is.

        A task without a role gets no credentials, and is kept from asking the machine's own
        instance metadata for some.
        """
        endpoint = self._endpoint()
        metadata = f"{endpoint}{METADATA_PATH}{self.metadata.open(task_id, region)}"
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
            "AWS_EC2_METADATA_DISABLED": "true",
            "ECS_CONTAINER_METADATA_URI": metadata,
            "ECS_CONTAINER_METADATA_URI_V4": metadata,
            **self._identity(task_id, region, role_arn, endpoint),
        }

    def _identity(
        self, task_id: str, region: str, role_arn: str | None, endpoint: str
    ) -> dict[str, str]:
        if not role_arn:
            return {}
        token = self.credentials.grant(task_id, region, role_arn)
        host = urlsplit(endpoint).hostname or ""
        if host.startswith("127.") or host in _CREDENTIAL_HOSTS:
            return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint}{CREDENTIALS_PATH}{token}"}
        # SDKs refuse to take credentials from any other host; so they come by hand.
        found = self.credentials.fetch(token) or {}
        return {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["Token"],
        }

    def task_over(self, task_id: str) -> None:
        """Withdraw the credentials of a task, and its metadata."""
        self.credentials.revoke(task_id)
        self.metadata.close(task_id)

    def describe_task(self, task_id: str, metadata: Document) -> None:
        """Take what the metadata endpoint tells a task about itself."""
        self.metadata.describe(task_id, metadata)

    def secret(self, value_from: str, region: str, role_arn: str | None) -> str:  # noqa: ARG002
        """Return a secret or a parameter; whether the role may read it is not checked.

        Raises:
            LookupError: it cannot be had; the text is what ECS would say.
        """
        return secrets.secret(value_from, region)

    def emit(self, region: str, detail_type: str, resources: list[str], detail: Document) -> None:
        """Send an event of ``aws.batch`` to the default event bus."""
        events.emit(region, detail_type, resources, detail, self._clock.now())

    def open_stream(self, region: str, group: str, stream: str, *, create_group: bool) -> str:
        """Make a log stream; returns nothing, or what ECS says when the driver cannot start."""
        return self.sink.open_stream(region, group, stream, create_group=create_group)
