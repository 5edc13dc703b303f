"""What is said of the code that goes along with an app, in a line."""

from __future__ import annotations

from wherry.schedulers.shipping import show_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wherry.runner.clearing import Cleared
    from wherry.schedulers.shipping import Shipment


def planned(shipment: Shipment) -> str:
    """Say what would be shipped: how, what, and where to."""
    parts = [f"{shipment.mode} of {' + '.join(shipment.sources)}"]
    if shipment.digest:
        parts += [show_amount(shipment), f"digest {shipment.digest[:16]}"]
    parts.append(f"at {shipment.place}")
    return f"workspace of {', '.join(shipment.roles)}: {', '.join(parts)}"


def shipped(shipments: Sequence[Shipment]) -> str:
    """Say what was shipped, and what had to be done for it."""
    return "workspace: " + "; ".join(map(_one, shipments))


def _one(shipment: Shipment) -> str:
    if not shipment.digest:
        return f"{shipment.place}, {shipment.outcome}"
    return f"{show_amount(shipment)}; {shipment.outcome}"


def show_amount(shipment: Shipment) -> str:
    """Say how many files there are, and how large.

    >>> from wherry.schedulers.shipping import Shipment
    >>> show_amount(Shipment("archive", (), (), files=12, size=48_000))
    '12 files, 48 KB'
    """
    files = "file" if shipment.files == 1 else "files"
    return f"{shipment.files} {files}, {show_bytes(shipment.size)}"


def cleared_lines(cleared: Cleared, verb: str) -> Iterator[str]:
    """Say what shipped code had left behind.

    Args:
        cleared: what was, or would be, removed.
        verb: which of the two.
    """
    if cleared.images:
        images = _counted(len(cleared.images), "image")
        size = show_bytes(cleared.image_size)
        yield f"{verb} {images} with workspaces, about {size}"
    if cleared.names:
        yield f"{verb} {_counted(len(cleared.names), 'name')} that pushes gave to images"
    if cleared.cache_size:
        yield f"{verb} {show_bytes(cleared.cache_size)} of caches"
    if cleared.problem:
        yield cleared.problem


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
