"""Two values that say where a number comes from, instead of a number."""

from __future__ import annotations

from enum import Enum


class Setting(Enum):
    """Where a resource of a job comes from."""

    INHERIT = "inherit"
    """The job definition: what it says, and nothing sent with the job."""

    AUTO = "auto"
    """A formula over the vCPUs and GPUs, and never less than the job definition says."""

    def __repr__(self) -> str:
        return self.name


INHERIT, AUTO = Setting.INHERIT, Setting.AUTO
