"""Makes an image of another one and a tree: in a container that never runs, or by a build.

A container takes the files as one stream, straight into the layer that is then kept. That is less
work for the Engine than a build, which unpacks, hashes and copies them first. Images that only a
build treats as it should are built: those with volumes (what is put into one of a container is not
in the image), with triggers for builds, or with no command at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wherry.errors import DockerError
from wherry.workspace import image_labels
from wherry.workspace.image_context import tar_stream
from wherry.workspace.image_engine import engine, look_up, read_news, send_archive
from wherry.workspace.image_names import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wherry.engine.docker.connection import Engine
    from wherry.workspace.image import ImagePlan
    from wherry.workspace.image_layers import Ground

Say = Callable[[str], None]

_OVERLAY = "ARG IMAGE\nFROM $IMAGE\nCOPY tree/ ./\n"
_OVERLAY_FILE = "Dockerfile"
_TREE = "tree"
_ONLY_BUILT = ("Volumes", "OnBuild")


def lay_over(api: Engine, plan: ImagePlan, ground: Ground, host: str | None) -> None:
    """Make an image of what it is built on and the files that are laid over that.

    Raises:
        WorkspaceError: a file was changed while it was sent.
        DockerError: the Engine refuses.
    """
    found = look_up(api, ground.image)
    if found is None:
        raise DockerError(f"the image {ground.image} is gone")
    config = found.get("Config") or {}
    labels = plan.labels | ground.labels | {image_labels.HOME: image_labels.home_mark()}
    try:
        if _takes_a_build(config):
            texts = [(_OVERLAY_FILE, _OVERLAY.encode())]
            context = tar_stream(ground.entries, _TREE, texts)
            _build(plan, context, _OVERLAY_FILE, ground.image, labels, host, None)
        else:
            _commit(api, plan, ground, config, labels)
    except DockerError as error:
        raise DockerError(
            f"laying the workspace over {plan.base} failed: {error}", status=error.status
        ) from None


def build_dockerfile(plan: ImagePlan, host: str | None, say: Say | None) -> None:
    """Make an image as the tree's own Dockerfile says.

    Raises:
        WorkspaceError: a file was changed while it was sent.
        DockerError: the build failed; what it said is in the message.
    """
    context = tar_stream(plan.tree.entries)
    labels = plan.labels | {
        image_labels.ADDED: str(plan.size),
        image_labels.HOME: image_labels.home_mark(),
    }
    try:
        _build(plan, context, plan.dockerfile, plan.base, labels, host, say)
    except DockerError as error:
        raise DockerError(
            f"building {plan.dockerfile} of the workspace on {plan.base} failed: {error}"
        ) from None


def _takes_a_build(config: Mapping[str, Any]) -> bool:
    has_command = config.get("Cmd") or config.get("Entrypoint")
    return not has_command or any(config.get(name) for name in _ONLY_BUILT)


def _commit(
    api: Engine,
    plan: ImagePlan,
    ground: Ground,
    config: Mapping[str, Any],
    labels: Mapping[str, str],
) -> None:
    name = f"{REPOSITORY}-{plan.tag[:12]}-{os.urandom(4).hex()}"
    made = api.request(
        "POST",
        "/containers/create",
        {"name": name, "platform": plan.platform},
        {"Image": ground.image, "HostConfig": {"NetworkMode": "none"}},
    )
    box = str(made["Id"])
    try:
        folder = config.get("WorkingDir") or "/"
        send_archive(api, box, folder, tar_stream(ground.entries))
        every = {**(config.get("Labels") or {}), **labels}
        # Docker takes the labels from the document; Podman reads the changes alone.
        api.request(
            "POST",
            "/commit",
            {
                "container": box,
                "repo": REPOSITORY,
                "tag": plan.tag,
                "pause": False,
                "changes": "LABEL " + " ".join(f'"{k}"="{v}"' for k, v in labels.items()),
            },
            {**config, "Labels": every},
        )
    finally:
        api.request("DELETE", f"/containers/{box}", {"force": True, "v": True})


def _build(
    plan: ImagePlan,
    context: Iterable[bytes],
    dockerfile: str,
    image: str,
    labels: Mapping[str, str],
    host: str | None,
    say: Say | None,
) -> None:
    with engine(host) as client:
        news = client.build(
            fileobj=context,  # type: ignore[arg-type]  # any iterable is sent in chunks
            custom_context=True,
            dockerfile=dockerfile,
            tag=plan.name,
            rm=True,
            forcerm=True,
            pull=False,
            decode=True,
            buildargs={"IMAGE": image, "WORKSPACE": ",".join(plan.tree.sources)},
            labels=dict(labels),
            platform=plan.platform,
        )
        for line in read_news(news, DockerError):
            if say is not None and line.get("stream", "").strip():
                say(line["stream"].rstrip())
