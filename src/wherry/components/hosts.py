"""What a component's replicas ask for: numbers, or a host by name."""

from __future__ import annotations

from wherry.errors import ComponentError
from wherry.specs.resources import Resource


def ask(
    cpu: float | None,
    gpu: int | None,
    memMB: int | None,
    h: str | None,
    *,
    default_cpu: float = 1,
) -> Resource:
    """Turn the arguments that components share into a resource.

    Args:
        cpu, gpu, memMB: numbers; ``None`` where the user gave none.
        h: a named resource, which says all of them.
        default_cpu: for ``cpu`` when neither it nor ``h`` is given.

    Raises:
        ComponentError: ``h`` and a number; one of them would have to be ignored.
        UnknownNameError: there is no such named resource.
    """
    if h is None:
        return Resource(
            cpu=default_cpu if cpu is None else cpu,
            gpu=0 if gpu is None else gpu,
            memMB=1024 if memMB is None else memMB,
        )
    numbers = {"cpu": cpu, "gpu": gpu, "memMB": memMB}
    given = [f"--{name}" for name, value in numbers.items() if value is not None]
    if given:
        raise ComponentError(
            f"-h {h} already says cpu, gpu and memory; leave out {', '.join(given)}, or -h"
        )
    from wherry.specs import resource

    return resource(h=h)
