"""What a new image is built on: the newest one that it only adds to, else the base.

Of each image that was built here a listing is kept below ``home()/cache/images``: which file of
which content. A tree that has nothing less than an older image, and nothing that became something
else, is that image with one more layer, which holds what is new. Everything else starts anew from
the base, and so does a chain that has grown too deep, or whose layers hold more than the tree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wherry.home import home
from wherry.workspace import image_labels

if TYPE_CHECKING:
    from wherry.engine.docker.connection import Engine
    from wherry.workspace.archive import Listing
    from wherry.workspace.image import ImagePlan
    from wherry.workspace.tree import Entry

DEPTH_MOST = 20
LAYERS_MOST = 100
"""Of an image in all; file systems of layers have some 125."""

ALWAYS_STACKED = 16 << 20
"""Bytes of changes that are stacked however small the tree is."""

LOOKED_AT = 8
KEPT = 64
_VERSION = 1


@dataclass(frozen=True)
class Ground:
    """What an image is built on, and what is laid over that.

    Args:
        image: its name or id.
        entries: what is laid over it.
        depth: how many layers of changes the new image has.
        stacked: bytes of files in them.
    """

    image: str
    entries: tuple[Entry, ...]
    depth: int = 0
    stacked: int = 0

    @property
    def size(self) -> int:
        """Bytes of the files that are laid over it."""
        return sum(entry.size for entry in self.entries)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of an image that is built so."""
        return {
            image_labels.DEPTH: str(self.depth),
            image_labels.ADDED: str(self.size),
            image_labels.STACKED: str(self.stacked),
        }


def find_ground(api: Engine, plan: ImagePlan) -> Ground:
    """Return what an image is best built on.

    Raises:
        DockerError: the Engine refuses.
    """
    asked = {"label": [f"{image_labels.BASE}={plan.base_digest}"]}
    found = api.request("GET", "/images/json", {"filters": asked})
    for image in sorted(found, key=_age)[:LOOKED_AT]:
        ground = _on(image, plan)
        if ground is not None and _layers(api, ground.image) < LAYERS_MOST:
            return ground
    return Ground(plan.base, plan.tree.entries)


def keep_listing(image_id: str, listing: Listing) -> None:
    """Note what is in an image that was just built; a note that cannot be written is none."""
    path = _path(image_id)
    partial = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(partial, "w", encoding="ascii") as stream:
            stream.write(json.dumps({"version": _VERSION, "image": image_id, "files": listing}))
        os.replace(partial, path)
        _forget_old(os.path.dirname(path))
    except OSError:
        return


def listings_folder() -> str:
    """Return where the listings are kept."""
    return os.path.join(home(), "cache", "images")


def _age(image: Mapping[str, Any]) -> tuple[int, int]:
    return -int(image["Created"]), -_number(image, image_labels.DEPTH)


def _on(image: Mapping[str, Any], plan: ImagePlan) -> Ground | None:
    """Return an image as ground for another one, if it can be that."""
    labels = image.get("Labels") or {}
    depth = _number(image, image_labels.DEPTH) + 1
    if depth > DEPTH_MOST or image_labels.DEPTH not in labels:
        return None
    if labels.get(image_labels.PLATFORM, "") != (plan.platform or ""):
        return None
    before = _read_listing(str(image["Id"]))
    new = None if before is None else news(before, plan.listing)
    if new is None:
        return None
    entries = tuple(entry for entry in plan.tree.entries if entry.path in new)
    stacked = _number(image, image_labels.STACKED) + sum(entry.size for entry in entries)
    if stacked > max(plan.size, ALWAYS_STACKED):
        return None
    return Ground(str(image["Id"]), entries, depth, stacked)


def news(before: Listing, now: Listing) -> set[str] | None:
    """Return the paths that are new or changed; ``None`` when a layer over it would not do.

    That is so when something is gone, or became something else.
    """
    if not before.keys() <= now.keys():
        return None
    changed = {path for path, is_now in now.items() if before.get(path) != is_now}
    if any(path in before and before[path][0] != now[path][0] for path in changed):
        return None
    return changed


def _layers(api: Engine, image_id: str) -> int:
    document = api.request("GET", f"/images/{image_id}/json")
    return len((document.get("RootFS") or {}).get("Layers") or ())


def _number(image: Mapping[str, Any], label: str) -> int:
    text = (image.get("Labels") or {}).get(label, "")
    return int(text) if text.isdecimal() else 0


def _path(image_id: str) -> str:
    return os.path.join(listings_folder(), f"{image_id.rpartition(':')[2]}.json")


def _read_listing(image_id: str) -> Listing | None:
    try:
        with open(_path(image_id), encoding="ascii") as stream:
            document = json.loads(stream.read())
        if document["version"] != _VERSION or document["image"] != image_id:
            return None
        return {path: (kind, mode, what) for path, (kind, mode, what) in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _forget_old(folder: str) -> None:
    found = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(found) > KEPT:
        for entry in sorted(found, key=lambda entry: entry.stat().st_mtime)[:-KEPT]:
            os.unlink(entry.path)
