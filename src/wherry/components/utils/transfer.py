"""The built-in component that copies a file."""

from __future__ import annotations

from wherry.components.image import DEFAULT_IMAGE
from wherry.components.utils.inside import program
from wherry.specs.app import AppDef, Role
from wherry.specs.resources import Resource


def copy(src: str, dst: str, image: str = DEFAULT_IMAGE) -> AppDef:
    """Copy one file between paths and URLs.

    The image needs Python and nothing else for paths, file://, http:// and https:// (which can
    only be read). Any other URL, such as s3://bucket/key, is handed to fsspec when the image
    has it.

    Args:
        src: path or URL to read
        dst: path or URL to write; missing folders are made
        image: image to run in
    """
    role = Role(
        name="copy",
        image=image,
        entrypoint="python",
        args=["-c", program("copy_file"), src, dst],
        resource=Resource(cpu=1, gpu=0, memMB=1024),
    )
    return AppDef(name="copy", roles=[role])
