"""Calls in containers of this machine's Docker Engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wherry.errors import UsageError
from wherry.functions.executor import Executor
from wherry.functions.handle import ROLE
from wherry.functions.submission import retry_policy, variables
from wherry.home import home
from wherry.schedulers.local.record import read_record
from wherry.specs.app import Role
from wherry.specs.mounts import BindMount
from wherry.specs.resources import Resource

if TYPE_CHECKING:
    from wherry.functions.options import Options
    from wherry.schedulers.api import Scheduler
    from wherry.specs.mounts import Mount
    from wherry.specs.options import CfgVal
    from wherry.store.api import Store
    from wherry.worker.formats import Call

_FILE = "file://"


class DockerExecutor(Executor):
    """Runs each call in a container of its own.

    The image needs Python 3.9 or later, and nothing of Wherry. A store that is a folder is seen
    inside at the same path; other stores are reached over the network.

    Args:
        image: the image.
        store, session, on_step, options: see `Executor`.
        mounts: what else the containers see of this machine.
        docker: options of the Docker scheduler (``wherry runopts local_docker``).
    """

    environment = "docker"
    backend = "local_docker"

    def __init__(
        self,
        image: str,
        *,
        mounts: tuple[Mount, ...] | list[Mount] = (),
        docker: dict[str, CfgVal] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not isinstance(image, str) or not image:
            raise UsageError(f"image is the name of an image, such as python:3.12, not {image!r}")
        self._image = image
        self._mounts = tuple(mounts)
        self._docker = dict(docker or {})

    @property
    def image(self) -> str:
        """The image that containers are made of."""
        return self._image

    def make_scheduler(self) -> Scheduler[Any]:
        """Make the scheduler."""
        from wherry.functions.lasting import LastingDockerScheduler

        return LastingDockerScheduler(self.session)

    def settings(self) -> dict[str, Any]:
        """Return the arguments, as plain data."""
        docker = {"docker": self._docker} if self._docker else {}
        return {**super().settings(), "image": self._image, **docker}

    def cfg(self, options: Options) -> dict[str, CfgVal]:
        """Return the scheduler's run options: who runs as whom, besides those given."""
        del options
        cfg = dict(self._docker)
        if os.getuid() and _is_folder(self.store):
            cfg.setdefault("user", f"{os.getuid()}:{os.getgid()}")
        return cfg

    def is_started(self, app_id: str) -> bool:
        """Tell whether there is a record of the app; a start that failed leaves none."""
        return read_record(os.path.join(home(), "apps", app_id)) is not None

    def role(self, call_url: str, call: Call, options: Options, children: int) -> Role:
        """Return the role that runs a call's processes."""
        del call
        command = self._command(call_url)
        mounts: list[Mount] = list(self._mounts)
        if _is_folder(self.store):
            folder = unquote(self.store.url[len(_FILE) :])
            mounts.append(BindMount(folder, folder))
        return Role(
            name=ROLE,
            image=self._image,
            entrypoint=command[0],
            args=[word.replace("$", "$$") for word in command[1:]],
            env={**({"HOME": "/tmp"} if os.getuid() else {}), **variables(options)},  # noqa: S108 — a container's own
            num_replicas=children,
            max_retries=options.retries,
            retry_policy=retry_policy(options),
            resource=Resource(cpu=options.cores, gpu=options.gpus, memMB=options.mib),
            mounts=mounts,
        )

    def _command(self, call_url: str) -> list[str]:
        from wherry.store.blobs import put_blob
        from wherry.worker.shipping import boot_command, worker_zip

        data, digest = worker_zip()
        put_blob(self.store, [data], digest)
        return boot_command(self.store.url, digest, ["call", call_url])


def _is_folder(store: Store) -> bool:
    return store.url.startswith(_FILE)
