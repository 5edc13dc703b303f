"""The schedulers of this machine: apps as processes, in the current folder or in their image's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from wherry.home import journal_path, runtime_dir
from wherry.schedulers.api import AppDryRunInfo
from wherry.schedulers.local.images import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
)
from wherry.schedulers.local.request import (
    LocalRequest,
    checked_gpu_pool,
    local_opts,
    machine_cores,
    make_request,
    role_plan,
)
from wherry.schedulers.local.supervised import SupervisedScheduler
from wherry.specs.app import AppDef
from wherry.specs.options import CfgVal, runopts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.local.plan import Plan

ImageProviderFactory = Callable[[Mapping[str, CfgVal]], ImageProvider]


class LocalScheduler(SupervisedScheduler[LocalRequest]):
    """Runs apps as processes of this machine.

    An app that was scheduled here ends with this process, unless `detach` is called for it; its
    record stays.

    Args:
        session_name: the session that apps are filed under.
        image_provider_class: makes the image provider, given the run options.
        cache_size: how many finished apps' answers are remembered.
        extra_paths: folders put into the ``PATH`` of every replica.
        backend: the scheduler's name.
    """

    workspace_mode = "folder"

    def __init__(
        self,
        session_name: str,
        image_provider_class: ImageProviderFactory = CWDImageProvider,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        backend: str = "local_cwd",
    ) -> None:
        super().__init__(backend, session_name, cache_size)
        self._make_provider = image_provider_class
        self._extra_paths = tuple(extra_paths or ())

    def run_opts(self) -> runopts:
        """Return the options: log_dir, prepend_cwd, auto_set_cuda_visible_devices and more."""
        return local_opts()

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[LocalRequest]:
        """Turn an app into a request; nothing is started or made."""
        self.check(app)
        resolved = self.run_opts().resolve(cfg)
        provider = self._make_provider(resolved)
        request, warnings = make_request(app, resolved, provider, self._extra_paths)
        return AppDryRunInfo(
            request, scheduler=self.backend, app=app, cfg=resolved, warnings=warnings
        )

    def schedule(self, dryrun_info: AppDryRunInfo[LocalRequest]) -> str:
        """Start what a dry run made; returns once its first replicas run, or wait to.

        Raises:
            LaunchError: it could not be started; nothing was left behind.
        """
        request = dryrun_info.request
        plans = [role_plan(role) for role in request.roles]
        pool = checked_gpu_pool(request.roles, array=request.array)
        replicas = {role.name: role.replicas for role in request.roles}
        record = self._make_record(dryrun_info.app, request.app_id, replicas, request.log_dir)
        plan: Plan = {
            "app_id": request.app_id,
            "name": dryrun_info.app.name,
            "handle": record.handle,
            "directory": record.directory,
            "log_dir": record.log_dir,
            "journal": journal_path(),
            "array": request.array,
            "timeout": request.timeout,
            "grace": request.grace,
            "disk_patience": request.disk_patience,
            "max_parallel": request.max_parallel,
            "roles": plans,
            "slots_dir": os.path.join(runtime_dir(), "slots"),
            "cores": machine_cores(),
            "gpu_pool": pool,
            "depends_on": [(handle, self._folder_of(handle)) for handle in request.depends_on],
            "client": os.getpid(),
            "attached": True,
            "engine": None,
            "environ": None,
        }
        self._launch(record, plan)
        return request.app_id


def create_cwd_scheduler(session_name: str) -> LocalScheduler:
    """Make ``local_cwd``: apps run in the client's current working directory."""
    return LocalScheduler(session_name, CWDImageProvider, backend="local_cwd")


def create_dir_scheduler(session_name: str) -> LocalScheduler:
    """Make ``local_dir``: apps run in the folder that their image names."""
    return LocalScheduler(session_name, LocalDirectoryImageProvider, backend="local_dir")
