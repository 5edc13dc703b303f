"""How code gets to an app, as a scheduler offers it, and what is shipped with one app."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from wherry.store.api import Store

FOLDER = "folder"
"""Programs run in the folder itself, or in a snapshot of it."""

IMAGE = "image"
"""The files are laid over the role's image."""

ARCHIVE = "archive"
"""The files go through a store, and are unpacked before the program starts."""

SNAPSHOT = "snapshot"
"""A copy on this machine that nobody changes."""

FOLDER_KEY = "wherry.workspace"
"""In a role's metadata: the folder on this machine that the role runs in."""


@dataclass(frozen=True)
class Shipping:
    """How a scheduler takes a workspace, with the options of one run.

    Args:
        mode: `FOLDER`, `IMAGE` or `ARCHIVE`; empty where it takes none.
        store_url: of `ARCHIVE`: the store that jobs read from.
        open_store: opens it as this scheduler's credentials allow.
        target: of `ARCHIVE`: the folder that it is unpacked to.
        quiet: whether less is said while images are made.
        pull: of `IMAGE`: whether the images that files are laid over are pulled: always, missing
            or never.
        platform: of `IMAGE`: the platform that they are for; the Engine's own when ``None``.
    """

    mode: str
    store_url: str = ""
    open_store: Callable[[], Store] | None = None
    target: str = "."
    quiet: bool = False
    pull: str = "missing"
    platform: str | None = None


@dataclass
class Shipment:
    """One tree of files that goes with an app.

    Args:
        mode: `FOLDER`, `SNAPSHOT`, `IMAGE` or `ARCHIVE`.
        roles: the roles that it is for.
        sources: the folders, laid over each other in this order.
        digest: of its content; empty for a folder that is used in place.
        files: how many files there are.
        size: their bytes.
        place: where it goes: a folder, an image's name, or a store's URL.
        outcome: what was done, in words; empty until it was.
    """

    mode: str
    roles: tuple[str, ...]
    sources: tuple[str, ...]
    digest: str = ""
    files: int = 0
    size: int = 0
    place: str = ""
    outcome: str = field(default="", compare=False)


def show_bytes(amount: float) -> str:
    """Write a number of bytes for people.

    >>> show_bytes(999), show_bytes(1_500), show_bytes(50_000_000)
    ('999 bytes', '1.5 KB', '50 MB')
    """
    units = ("bytes", "KB", "MB", "GB", "TB")
    unit = 0
    while amount >= 1000 and unit < len(units) - 1:
        amount, unit = amount / 1000, unit + 1
    number = f"{amount:.1f}" if amount < 10 and unit else f"{amount:.0f}"
    return f"{number.removesuffix('.0')} {units[unit]}"
