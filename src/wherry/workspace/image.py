"""Images with a workspace in them: the tree laid over a base image, or the project's own build.

An image is named by what is in it: the base image's digest and the tree's. It is built when there
is none of that name, and only then. The files go into the base image's working directory, which
stays the working directory, so that what ran in the base image runs in the new one. Where an older
image of the workspace has most of the tree, only what is new becomes a layer
(`wherry.workspace.image_layers`).

A tree with a ``Dockerfile.wherry`` at its top says itself what is built. It is given the build
arguments ``IMAGE`` (the base image) and ``WORKSPACE`` (the folder), as TorchX gives them to a
``Dockerfile.torchx``, which serves as well. A plain ``Dockerfile`` is no such file: it is what most
projects make their base image with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wherry.errors import DockerError, RegistryError
from wherry.workspace import image_labels
from wherry.workspace.image_context import check_names
from wherry.workspace.image_engine import (
    connected,
    distribution_digest,
    engine,
    look_up,
    read_news,
    words_of,
)
from wherry.workspace.image_names import image_name, is_for, is_local

if TYPE_CHECKING:
    from wherry.engine.docker.connection import Engine
    from wherry.workspace.archive import Listing
    from wherry.workspace.tree import Tree

DOCKERFILES = ("Dockerfile.wherry", "Dockerfile.torchx")

ALWAYS, MISSING, NEVER = "always", "missing", "never"

_RECIPE = 1
"""Goes up when the same base and tree would make another image."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class ImagePlan:
    """An image that there is, or is to be.

    Args:
        base: the image that the tree is laid over.
        base_digest: what is in it.
        content: the digest of the tree.
        name: the new image's name: repository and tag.
        tree: the tree.
        files: how many files it has.
        size: their bytes.
        dockerfile: the tree's own file for the build; empty where the tree is laid over the base.
        pull: whether the base image is pulled: `ALWAYS`, `MISSING` or `NEVER`.
        platform: the platform that it is for, such as ``linux/arm64``; the Engine's when ``None``.
        listing: what the tree consists of.
    """

    base: str
    base_digest: str
    content: str
    name: str
    tree: Tree
    files: int
    size: int
    dockerfile: str = ""
    pull: str = MISSING
    platform: str | None = None
    listing: Listing = field(default_factory=dict, compare=False, repr=False)

    @property
    def tag(self) -> str:
        """The part of the name that says what is in it."""
        return self.name.rpartition(":")[2]

    @property
    def labels(self) -> dict[str, str]:
        """The labels that say what is in the image."""
        labels = {image_labels.BASE: self.base_digest, image_labels.CONTENT: self.content}
        return labels | ({image_labels.PLATFORM: self.platform} if self.platform else {})


@dataclass(frozen=True)
class Built:
    """An image that is there.

    Args:
        image_id: its id.
        made: whether it was not there before.
        added: the files and links of its last layer, where it was built on an older image of the
            workspace; ``None`` otherwise.
    """

    image_id: str
    made: bool
    added: int | None = None


def build_workspace_image(img: str, workspace: str, *, host: str | None = None) -> str:
    """Make an image of another one with a folder's files laid over it, unless there is one.

    Args:
        img: the base image; it is pulled when it is not there.
        workspace: a folder, or an address that fsspec knows.
        host: the Docker Engine's address; the usual one when not given.

    Returns:
        The image's id.

    Raises:
        WorkspaceError: the folder cannot be shipped.
        DockerError: there is no Docker Engine, no such image, or the build failed.
    """
    return ensure_image(plan_image(img, workspace, host=host), host=host).image_id


def plan_image(
    base: str,
    sources: str | Sequence[str] | Tree,
    *,
    host: str | None = None,
    pull: str = MISSING,
    platform: str | None = None,
) -> ImagePlan:
    """Say which image is wanted; nothing is built or pulled.

    Args:
        base: the base image; the registry is asked for it when the Engine has it not.
        sources: folders, laid over each other in this order, or what was found in them.
        host: the Docker Engine's address; the usual one when not given.
        pull: whether the base image is pulled; with `ALWAYS` its registry is asked which it is.
        platform: such as ``linux/arm64``; the Engine's own when ``None``.

    Raises:
        WorkspaceError: a folder cannot be shipped.
        DockerError: there is no Docker Engine, or nobody knows the base image.
    """
    from wherry.workspace.archive import content_of, listing_of
    from wherry.workspace.tree import Tree, scan

    with connected(host) as api:
        base_digest = _digest_of(api, base, pull, platform, host)
    tree = sources if isinstance(sources, Tree) else scan(sources)
    check_names(tree.entries)
    listing = listing_of(tree)
    content = content_of(listing)
    sizes = [entry.size for entry in tree.entries if entry.kind == "file"]
    dockerfile = next((name for name in DOCKERFILES if listing.get(name, ("",))[0] == "file"), "")
    parts = [_RECIPE, base_digest, content, dockerfile, *([platform] if platform else [])]
    return ImagePlan(
        base,
        base_digest,
        content,
        image_name(hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]),
        tree,
        len(sizes),
        sum(sizes),
        dockerfile,
        pull,
        platform,
        listing,
    )


def ensure_image(plan: ImagePlan, *, host: str | None = None, say: Say | None = None) -> Built:
    """Build an image unless it is there.

    Args:
        plan: which one.
        host: the Docker Engine's address; the usual one when not given.
        say: is told how the build goes, line by line.

    Raises:
        WorkspaceError: a file was changed while it was sent.
        DockerError: the build failed; what it said is in the message.
        RegistryError: the base image cannot be pulled.
    """
    with connected(host) as api:
        found = look_up(api, plan.name)
        if found is not None and plan.labels.items() <= _labels(found).items():
            return Built(str(found["Id"]), made=False)
        _have_base(api, plan, host, say)
        added = _make(api, plan, host, say)
        made = look_up(api, plan.name)
        if made is None:
            raise DockerError(f"the image {plan.name} was built, and is gone again")
        image_id = str(made["Id"])
        if not plan.dockerfile:
            from wherry.workspace.image_layers import keep_listing

            keep_listing(image_id, plan.listing)
        return Built(image_id, made=True, added=added)


def _make(api: Engine, plan: ImagePlan, host: str | None, say: Say | None) -> int | None:
    """Make the image; return how much was added to an older one, if it was built on one."""
    from wherry.workspace.image_layers import find_ground
    from wherry.workspace.image_making import build_dockerfile, lay_over

    if plan.dockerfile:
        build_dockerfile(plan, host, say)
        return None
    ground = find_ground(api, plan)
    lay_over(api, plan, ground, host)
    return sum(entry.kind != "dir" for entry in ground.entries) if ground.depth else None


# -- the base image -------------------------------------------------------------------------------


def _digest_of(api: Engine, image: str, pull: str, platform: str | None, host: str | None) -> str:
    """Return what says what is in an image: the registry's digest where it came from one."""
    found = look_up(api, image)
    suits = found is not None and (platform is None or is_for(found, platform))
    if found is not None and suits and (pull != ALWAYS or is_local(image)):
        return _own_digest(found, image)
    if pull == NEVER or is_local(image):
        what = f"is not here for {platform}" if found is not None else "is not on this machine"
        why = "an image of this machine" if is_local(image) else "pull=never"
        raise DockerError(f"the base image {image!r} {what}, and is not pulled ({why})")
    return _digest_there(image, host, "pull=always" if suits else "it is not on this machine")


def _digest_there(image: str, host: str | None, why: str) -> str:
    from docker.errors import APIError

    try:
        with engine(host) as client:
            return distribution_digest(client, image)
    except DockerError as error:
        cause = error.__cause__
        if not isinstance(cause, APIError):
            raise
        raise DockerError(
            f"no registry gives the base image {image!r} ({why}): {words_of(cause)}. Check its "
            "name, or `docker login` to its registry"
        ) from None


def _own_digest(found: dict[str, Any], image: str) -> str:
    """Return a local image's digest: the one that its registry would tell, else its id.

    So that it is the same before the image was pulled, and after.
    """
    name = _without_tag(image)
    digests = (str(item).partition("@") for item in found.get("RepoDigests") or ())
    known = sorted(digest for repository, _, digest in digests if repository == name)
    return known[0] if known else str(found["Id"])


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def _labels(found: dict[str, Any]) -> dict[str, str]:
    return (found.get("Config") or {}).get("Labels") or {}


def _have_base(api: Engine, plan: ImagePlan, host: str | None, say: Say | None) -> None:
    """See to it that the base image is here as it was planned with."""
    found = look_up(api, plan.base)
    suits = found is not None and (plan.platform is None or is_for(found, plan.platform))
    if found is not None and suits and _own_digest(found, plan.base) == plan.base_digest:
        return
    if found is not None and suits and plan.pull != ALWAYS:
        raise DockerError(f"the base image {plan.base!r} was made anew meanwhile; run it again")
    _pull(plan, host, say)


def _pull(plan: ImagePlan, host: str | None, say: Say | None) -> None:
    image, platform = plan.base, plan.platform
    if say is not None:
        say(f"pulling {image}")
    name = _without_tag(image)
    tag = image[len(name) + 1 :] or "latest"
    try:
        with engine(host) as client:
            news = client.pull(name, tag=tag, stream=True, decode=True, platform=platform)
            for _ in read_news(news, RegistryError):
                pass
    except (DockerError, RegistryError) as error:
        cause = error.__cause__
        said = words_of(cause) if cause is not None else str(error)
        raise RegistryError(f"the base image {image!r} cannot be pulled: {said}") from None
