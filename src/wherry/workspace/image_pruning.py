"""Removes what images with workspaces have left at the Engine, as far as nobody needs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wherry.engine.docker.http import quote
from wherry.errors import DockerError
from wherry.home import home
from wherry.workspace import image_labels
from wherry.workspace.image_engine import connected
from wherry.workspace.image_names import REPOSITORY, is_workspace_image

if TYPE_CHECKING:
    from wherry.engine.docker.connection import Engine

Document = Mapping[str, Any]

_MAKING_SECONDS = 3600
"""A container that an image is made in is older than this only where its maker has died."""


@dataclass
class Removed:
    """What was, or would be, removed.

    Args:
        images: names of images with a workspace.
        names: names that a push gave to images.
        size: bytes of the files that the images alone had; about what becomes free.
    """

    images: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    size: int = 0


def note_pushed_name(name: str) -> None:
    """Note a name that an image was given so that it could be pushed."""
    if name in pushed_names():
        return
    try:
        os.makedirs(os.path.dirname(_notes()), mode=0o700, exist_ok=True)
        with open(_notes(), "a", encoding="utf-8") as stream:
            stream.write(json.dumps(name) + "\n")
    except OSError:
        return  # it stays, as any name that `docker tag` gave


def pushed_names() -> list[str]:
    """Return the names that were noted."""
    try:
        with open(_notes(), encoding="utf-8") as stream:
            return [str(json.loads(line)) for line in stream if line.strip()]
    except (OSError, ValueError):
        return []


def prune_images(
    needed: Collection[str],
    older_than: float | None = None,
    *,
    dry_run: bool = False,
    host: str | None = None,
) -> Removed:
    """Remove images with workspaces that no container is of, and names that pushes gave.

    Only what was made with this folder of records goes.

    Args:
        needed: names of images that stay.
        older_than: only images that were made so many seconds ago.
        dry_run: only tell which they are.
        host: the Docker Engine's address; the usual one when not given.

    Raises:
        DockerError: the Engine is not there, or refuses.
    """
    with connected(host) as api:
        return _Pruning(api, needed, older_than, dry_run=dry_run).run()


class _Pruning:
    """One pass."""

    def __init__(
        self, api: Engine, needed: Collection[str], older_than: float | None, *, dry_run: bool
    ) -> None:
        self._api, self._needed, self._dry_run = api, needed, dry_run
        self._before = time.time() - (older_than or 0)
        self._removed = Removed()
        containers = api.request("GET", "/containers/json", {"all": True})
        self._used = {box["ImageID"] for box in containers}
        self._leftovers = list(_leftovers(containers))

    def run(self) -> Removed:
        """Go through containers, names and images."""
        if not self._dry_run:
            for box in self._leftovers:
                self._delete(f"/containers/{box}", force=True)
        labelled = {"label": [f"{image_labels.HOME}={image_labels.home_mark()}"]}
        images = self._api.request("GET", "/images/json", {"filters": labelled})
        sizes = {image["Id"]: _added(image) for image in images}
        self._drop_names(images)
        # The newest first: an image stays as long as another one is built on it.
        for image in sorted(images, key=lambda image: -image["Created"]):
            for name in image.get("RepoTags") or ():
                if is_workspace_image(name) and name not in self._needed and self._may_go(image):
                    self._drop(name, image, sizes)
        return self._removed

    def _may_go(self, image: Document) -> bool:
        return image["Id"] not in self._used and image["Created"] <= self._before

    def _drop(self, name: str, image: Document, sizes: dict[str, int]) -> None:
        gone = [image["Id"]] if self._dry_run else self._untagged(name)
        if gone is None:
            return
        self._removed.images.append(name)
        self._removed.size += sum(sizes.pop(image_id, 0) for image_id in gone)

    def _untagged(self, name: str) -> list[str] | None:
        """Take a name away; return the images that went with it, nothing where it stays."""
        done = self._delete(f"/images/{quote(name)}")
        return None if done is None else [line["Deleted"] for line in done if "Deleted" in line]

    def _drop_names(self, images: list[Document]) -> None:
        noted = pushed_names()
        for name in noted:
            found = next((i for i in images if name in (i.get("RepoTags") or ())), None)
            image = found or self._inspected(name)
            if image is None or name in self._needed or not self._may_go(image):
                continue
            if self._dry_run or self._untagged(name) is not None:
                self._removed.names.append(name)
        if not self._dry_run:
            _keep_names([name for name in noted if self._inspected(name) is not None])

    def _inspected(self, name: str) -> Document | None:
        try:
            image = self._api.request("GET", f"/images/{quote(name)}/json")
        except DockerError as error:
            if error.status != 404:
                raise
            return None
        tagged = _seconds((image.get("Metadata") or {}).get("LastTagTime") or "")
        return {"Id": image["Id"], "Created": tagged}

    def _delete(self, path: str, *, force: bool = False) -> list[Document] | None:
        """Remove something; nothing is returned where it is used, or gone."""
        try:
            return self._api.request("DELETE", path, {"force": force}) or []
        except DockerError as error:
            if error.status not in (404, 409):
                raise
            return None


def _leftovers(containers: list[Document]) -> Iterator[str]:
    """Go through the containers that images were made in by somebody who died."""
    for box in containers:
        ours = any(name.startswith(f"/{REPOSITORY}-") for name in box.get("Names") or ())
        if ours and box.get("State") == "created" and _is_old(box):
            yield str(box["Id"])


def _is_old(box: Document) -> bool:
    return float(box["Created"]) < time.time() - _MAKING_SECONDS


def _added(image: Document) -> int:
    text = (image.get("Labels") or {}).get(image_labels.ADDED, "")
    return int(text) if text.isdecimal() else 0


def _seconds(text: str) -> float:
    """Read the Engine's time, such as ``2026-01-01T00:00:00.123456789Z``; 0 where there is none."""
    from datetime import datetime, timezone

    try:
        return datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(
            tzinfo=timezone.utc
        ).timestamp()  # fmt: skip
    except ValueError:
        return 0.0


def _notes() -> str:
    return os.path.join(home(), "pushed-names")


def _keep_names(names: list[str]) -> None:
    partial = f"{_notes()}.{os.getpid()}"
    try:
        if names:
            with open(partial, "w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(name) + "\n" for name in names)
            os.replace(partial, _notes())
        else:
            os.unlink(_notes())
    except OSError:
        return
