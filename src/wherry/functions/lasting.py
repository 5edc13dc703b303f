"""A Docker scheduler whose apps outlive the client from their first moment on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.schedulers.docker import DockerScheduler

if TYPE_CHECKING:
    from wherry.schedulers.local.plan import Plan
    from wherry.schedulers.local.record import Record


class LastingDockerScheduler(DockerScheduler):
    """A client that is killed between the launch and a `detach` would take its job with it."""

    attached = False

    def _launch(self, record: Record, plan: Plan) -> None:
        super()._launch(record, {**plan, "attached": False})
        self.detach(record.app_id)
