"""What one replica asks of a host: cores, GPUs, memory, special devices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wherry.errors import InvalidSpecError
from wherry.specs._frozen import (
    FrozenDict,
    frozen_data,
    mapping,
    set_field,
    text,
    whole_number,
)


@dataclass(frozen=True)
class Resource:
    """What one replica asks for; zero means "not stated", and the scheduler decides.

    Args:
        cpu: virtual CPUs; fractions are allowed where the scheduler has them.
        gpu: whole GPUs.
        memMB: memory in MiB.
        capabilities: what the host must be, such as an instance type.
        devices: special devices by name and count, such as
            ``{"vpc.amazonaws.com/efa": 1}``.

    Raises:
        InvalidSpecError: a value that is negative or not a number.
    """

    cpu: float = 0
    gpu: int = 0
    memMB: int = 0
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (
            isinstance(self.cpu, bool)
            or not isinstance(self.cpu, (int, float))
            or not math.isfinite(self.cpu)
            or self.cpu < 0
        ):
            raise InvalidSpecError(f"Resource.cpu must be 0 or more, not {self.cpu!r}")
        whole_number("Resource.gpu", self.gpu, least=0)
        whole_number("Resource.memMB", self.memMB, least=0)
        for name, count in mapping("Resource.devices", self.devices).items():
            text("a key of Resource.devices", name)
            whole_number(f"Resource.devices[{name!r}]", count, least=1)
        set_field(self, "capabilities", frozen_data("Resource.capabilities", self.capabilities))
        set_field(self, "devices", FrozenDict(self.devices))

    def copy(self, **capabilities: Any) -> Resource:
        """Return this resource with capabilities added or replaced."""
        merged = {**self.capabilities, **capabilities}
        return Resource(self.cpu, self.gpu, self.memMB, merged, self.devices)


NULL_RESOURCE = Resource()
"""A resource that states nothing."""
