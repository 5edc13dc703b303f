"""What is in an image's working directory, as the real Engine has it."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import ImageNotFound

from support.engine import client


def files_in(image: str, folder: str = "") -> dict[str, tuple[str, int, bytes | str]]:
    """Return path → kind, mode, and content or target, of what is below a folder of an image.

    Args:
        image: its name or id.
        folder: where; the image's working directory when not given.
    """
    with client() as docker:
        place = folder or docker.inspect_image(image)["Config"]["WorkingDir"] or "/"
        box = docker.create_container(image, ["none"], network_disabled=True)["Id"]
        try:
            pieces, _ = docker.get_archive(box, place)
            data = b"".join(pieces)
        finally:
            docker.remove_container(box, force=True)
    found: dict[str, tuple[str, int, bytes | str]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            path = info.name.partition("/")[2].rstrip("/")
            if not path:
                continue
            if info.issym():
                found[path] = ("link", 0, info.linkname)
            elif info.isdir():
                found[path] = ("dir", info.mode & 0o7777, "")
            else:
                file = tar.extractfile(info)
                assert file is not None
                found[path] = ("file", info.mode & 0o7777, file.read())
    return found


def layers_of(image: str) -> list[str]:
    """Return the digests of an image's layers, the lowest first."""
    with client() as docker:
        found: list[str] = docker.inspect_image(image)["RootFS"]["Layers"]
    return found


class Made:
    """Images that a test made, to be removed at its end, the last one first."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def note(self, name: str) -> str:
        """Note an image; return its name."""
        if name in self.names:
            self.names.remove(name)
        self.names.append(name)
        return name

    def remove(self) -> None:
        """Remove those that are still there."""
        with client() as docker:
            for name in reversed(self.names):
                try:
                    docker.remove_image(name, force=True)
                except ImageNotFound:
                    pass


@contextmanager
def removed_at_the_end() -> Iterator[Made]:
    """Have images removed that are noted inside."""
    made = Made()
    try:
        yield made
    finally:
        made.remove()


def docker_build(name: str, text: str) -> None:
    """Build an image of a Dockerfile alone."""
    import subprocess

    subprocess.run(
        ["docker", "build", "-q", "-t", name, "-"],
        input=os.fsencode(text),
        check=True,
        capture_output=True,
    )
