"""The lookup: built-in names first, then those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from wherry.errors import PluginError, UnknownNameError, nearest, unknown
from wherry.specs.catalogue.generic import SIZES
from wherry.specs.resources import Resource

if TYPE_CHECKING:
    from wherry.specs.catalogue.plugins import PluginResources

T = TypeVar("T")

_AWS = "aws_"


class NamedResources(Mapping[str, Resource]):
    """Resources by name, read-only.

    An AWS type goes by its own name and with ``aws_`` before it; iteration gives the longer form.
    Plug-ins are the entry points of the group ``wherry.named_resources``: a `Resource`,
    a function that returns one, or a mapping of names to either. They add names and cannot
    replace built-in ones; one that fails is told of in `problems` and changes nothing else.

    >>> named_resources["aws_p4d.24xlarge"] == named_resources["p4d.24xlarge"]
    True
    """

    def __init__(self) -> None:
        self._plugins: PluginResources | None = None

    def __getitem__(self, name: str) -> Resource:
        """Return the resource of this name.

        Raises:
            UnknownNameError: there is none; the message has the nearest name.
            PluginError: a plug-in has the name and failed.
        """
        if name in SIZES:
            cpu, gpu, mem = SIZES[name]
            return Resource(cpu=cpu, gpu=gpu, memMB=mem)
        found = _find_aws(name)
        if found is not None:
            return found
        plugins = self._from_plugins()
        if name in plugins.found:
            return plugins.found[name]
        if name in plugins.failed:
            raise PluginError(plugins.failed[name])
        raise UnknownNameError(self._unknown(str(name)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (_is_built_in(name) or name in self._from_plugins().found)

    def __iter__(self) -> Iterator[str]:
        yield from SIZES
        yield from (f"{_AWS}{instance_type}" for instance_type in _aws_types())
        yield from self._from_plugins().found

    def __len__(self) -> int:
        return len(SIZES) + len(_aws_types()) + len(self._from_plugins().found)

    @overload
    def get(self, name: str, /) -> Resource | None: ...
    @overload
    def get(self, name: str, /, default: Resource | T) -> Resource | T: ...

    def get(self, name: str, /, default: Resource | T | None = None) -> Resource | T | None:
        """Return the resource of this name, or the default when there is none."""
        return self[name] if name in self else default  # noqa: SIM401 — this is that get

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong with plug-ins, a sentence each; looking loads them."""
        return tuple(self._from_plugins().problems)

    def _from_plugins(self) -> PluginResources:
        if self._plugins is None:
            from wherry.specs.catalogue.plugins import PluginResources

            self._plugins = PluginResources(taken=_is_built_in)
        return self._plugins

    def _unknown(self, name: str) -> str:
        names = [*self, *_aws_types()]
        if nearest(name, names):
            told = unknown("named resource", name, names)
        else:
            few = [*SIZES, *self._from_plugins().found]
            told = unknown("named resource", name, few, shown=len(few)).removesuffix(".")
            told += ", and EC2 instance types such as m5.large."
        return " ".join((told, *self.problems))


def _is_built_in(name: str) -> bool:
    return name in SIZES or _find_aws(name) is not None


def _find_aws(name: object) -> Resource | None:
    from wherry.specs.catalogue.aws import find

    return find(name.removeprefix(_AWS)) if isinstance(name, str) else None


def _aws_types() -> list[str]:
    from wherry.specs.catalogue.aws import instance_types

    return list(instance_types())


named_resources = NamedResources()
"""The resources that are known here."""


def resource(
    cpu: float | None = None,
    gpu: int | None = None,
    memMB: int | None = None,
    h: str | None = None,
) -> Resource:
    """Make a resource of numbers, or look one up by name.

    Args:
        cpu: virtual CPUs; 1 when not given.
        gpu: GPUs; 0 when not given.
        memMB: memory in MiB; 1024 when not given.
        h: a named resource, such as ``"gpu.small"``; the numbers are then left aside.

    Returns:
        The resource.

    Raises:
        UnknownNameError: no resource has the name.
        InvalidSpecError: a number that is not allowed.

    >>> resource(cpu=2).memMB
    1024
    """
    if h is not None:
        return named_resources[h]
    return Resource(
        cpu=1 if cpu is None else cpu,
        gpu=0 if gpu is None else gpu,
        memMB=1024 if memMB is None else memMB,
    )
