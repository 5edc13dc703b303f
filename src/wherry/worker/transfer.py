"""Files of a call: its code trees, its inputs by name, and what it leaves as outputs."""

from __future__ import annotations

import os

from . import digests
from .faults import Fault
from .formats import blob_key, file_key
from .objects import Objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .formats import Call, Part

_READ = 1 << 20


def unpack_code(call: Call, objects: Objects) -> None:
    """Lay the call's code trees.

    Raises:
        Fault: a tree cannot be fetched, or not be laid.
    """
    from . import unpack

    for tree in call["code"]:
        target = os.path.abspath(tree.get("target") or ".")
        manifest = bytes(objects.read_blob({"blob": tree["manifest"]}))
        try:
            unpack.unpack(manifest, lambda blob: bytes(objects.read_blob({"blob": blob})), target)
        except (OSError, ValueError) as error:
            raise Fault(f"The code could not be laid in {target}: {error}") from None
    import importlib

    from .context import find_modules

    find_modules(call)
    importlib.invalidate_caches()  # The folders may have been looked for before they were there.


def fetch_inputs(inputs: dict[str, Any], objects: Objects) -> None:
    """Copy inputs into the working directory, under their names.

    Raises:
        Fault: one cannot be had, or its name leads out of the working directory.
    """
    for name, source in inputs.items():
        path = os.path.normpath(name)
        if os.path.isabs(path) or path.split(os.sep)[0] == "..":
            raise Fault(f"An input's name is a path below the working directory, not {name!r}.")
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        except OSError as error:
            raise Fault(f"The input {name!r} cannot be laid: {error}") from None
        if "blob" in source:
            _fetch_blob(source, objects, path)
        else:
            _fetch_url(source["url"], path)


def store_outputs(patterns: list[str], objects: Objects, job: str, child: int) -> dict[str, Part]:
    """Store the files that patterns match, each once.

    Returns:
        For each file its size and the SHA-256 of its bytes.

    Raises:
        Fault: a pattern matches nothing, or a file cannot be read or stored.
    """
    import glob

    made: dict[str, Part] = {}
    for pattern in patterns:
        found = [path for path in sorted(glob.glob(pattern, recursive=True)) if _is_file(path)]
        if not found:
            raise Fault(
                f"No file matches the output {pattern!r} in {os.getcwd()}, where the call ended.",
                "output",
            )
        for path in found:
            if path not in made:
                made[path] = _store_output(path, objects, job, child)
    return made


def _is_file(path: str) -> bool:
    return os.path.isfile(path)


def _store_output(path: str, objects: Objects, job: str, child: int) -> Part:
    try:
        size, digest = _digest_of_file(path)
    except OSError as error:
        raise Fault(f"The output {path!r} cannot be read: {error.strerror}.", "output") from None
    try:
        objects.write_file(file_key(job, child, path), path)
    except Fault as fault:
        raise Fault(f"The output {path!r} cannot be stored. {fault}", "output") from None
    return {"blob": digest, "size": size}


def _fetch_blob(part: Part, objects: Objects, path: str) -> None:
    objects.read_file(blob_key(part["blob"]), path)
    _, digest = _digest_of_file(path)
    if digest != part["blob"]:
        os.unlink(path)
        raise Fault(
            f"The input {path!r} was changed or damaged in the store: "
            f"{objects.url}/{blob_key(part['blob'])} has another SHA-256 than its name says."
        )


def _fetch_url(url: str, path: str) -> None:
    folder, _, name = url.rpartition("/")
    try:
        Objects(folder).read_file(name, path)
    except Fault as fault:
        raise Fault(f"The input {path!r} could not be fetched from {url}. {fault}") from None


def _digest_of_file(path: str) -> tuple[int, str]:
    size = os.stat(path).st_size
    made = digests.hasher(size)
    with open(path, "rb", buffering=0) as file:
        while data := file.read(_READ):
            made.update(data)
    return size, str(made.hexdigest())
