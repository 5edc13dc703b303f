"""The names that images with a workspace have on this machine, and what an image is for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

REPOSITORY = "wherry-workspace"
"""The repository; the tag says what is in the image."""


def image_name(tag: str) -> str:
    """Return the name of the image with a tag."""
    return f"{REPOSITORY}:{tag}"


def is_workspace_image(name: str) -> bool:
    """Tell whether an image's name is one of ours, so that no registry can have it."""
    return name.startswith(f"{REPOSITORY}:")


def is_local(name: str) -> bool:
    """Tell whether an image can only be on this machine, so that it is never pulled."""
    return name.startswith("sha256:") or is_workspace_image(name)


def is_for(image: Mapping[str, Any], platform: str) -> bool:
    """Tell whether an image is for a platform.

    Args:
        image: what the Engine says of it.
        platform: such as ``linux/arm64`` or ``linux/arm/v7``.
    """
    wanted = platform.split("/")
    has = [str(image.get(part) or "") for part in ("Os", "Architecture", "Variant")]
    return wanted[:2] == has[:2] and (len(wanted) < 3 or not has[2] or has[2] == wanted[2])
