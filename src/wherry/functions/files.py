"""The files that go along with a call, and those that come back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wherry.errors import CorruptObjectError, PayloadError, UnknownNameError, unknown
from wherry.worker.formats import file_key

if TYPE_CHECKING:
    from wherry.store.api import Store
    from wherry.worker.formats import Part

_REMOTE = ("s3://",)


class Outputs(Mapping[str, bytes]):
    """The output files of a job: name → content, read when it is asked for.

    Args:
        store: where they are.
        job, child: whose they are.
        files: name → size and SHA-256.
    """

    def __init__(self, store: Store, job: str, child: int, files: Mapping[str, Part]) -> None:
        self._store = store
        self._job = job
        self._child = child
        self._files = dict(files)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __getitem__(self, name: str) -> bytes:
        import hashlib

        data = self._store.read(self._key(name))
        if hashlib.sha256(data).hexdigest() != self._files[name]["blob"]:
            raise CorruptObjectError(
                f"the output file {name!r} of {self._job} is not what the job has stored: its "
                "SHA-256 differs; run the job again (`job.rerun()`)"
            )
        return data

    def __repr__(self) -> str:
        return f"<Outputs {', '.join(self._files) or 'none'}>"

    def size(self, name: str) -> int:
        """Return a file's size in bytes.

        Raises:
            UnknownNameError: there is no such file.
        """
        self._key(name)
        return self._files[name].get("size", 0)

    def download(self, folder: str = ".") -> list[str]:
        """Copy all files into a folder, with the folders that are in their names.

        Args:
            folder: where to; made if it is not there.

        Returns:
            Their paths.
        """
        made = []
        for name in self._files:
            path = os.path.join(folder, self._inside(name))
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._store.read_file(self._key(name), path)
            made.append(path)
        return made

    def _key(self, name: str) -> str:
        if name not in self._files:
            raise UnknownNameError(unknown("output file", name, self._files))
        return file_key(self._job, self._child, name)

    def _inside(self, name: str) -> str:
        """Refuse a name that leads out of the folder: it was chosen in the job."""
        plain = os.path.normpath(name)
        if os.path.isabs(plain) or plain.startswith(".."):
            raise UnknownNameError(f"the output file {name!r} would lie outside of the folder")
        return plain


def stored_inputs(inputs: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Store a call's input files by their content; returns what the worker is told.

    Args:
        inputs: name → path, bytes, or the URL of an object.
        store: where.

    Raises:
        PayloadError: a file cannot be read, or a name leads out of the working directory.
    """
    from wherry.functions.payload import stored

    told: dict[str, Any] = {}
    for name, value in inputs.items():
        if not name or os.path.isabs(name) or os.path.normpath(name).startswith(".."):
            raise PayloadError(f"inputs: {name!r} is no name below the working directory")
        if isinstance(value, str) and value.startswith(_REMOTE):
            told[name] = {"url": value}
        elif isinstance(value, (bytes, bytearray, memoryview)):
            told[name] = stored(store, [value])
        else:
            told[name] = _stored_file(name, value, store)
    return told


def _stored_file(name: str, path: Any, store: Store) -> Part:
    import hashlib
    import mmap

    from wherry.functions.payload import check_disk
    from wherry.store.blobs import put_blob

    try:
        path = os.fspath(path)
    except TypeError:
        raise PayloadError(
            f"inputs: {name!r} is a path, bytes, or an s3:// URL, not a {type(path).__name__}"
        ) from None
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return _part(put_blob(store, [b""]))
            check_disk(store.url, size)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                with memoryview(data) as view:
                    digest = hashlib.sha256(view).hexdigest()
                    return _part(put_blob(store, [view], digest))
    except OSError as error:
        raise PayloadError(f"inputs: {name!r}: {path!r}: {error.strerror or error}") from None


def _part(stored: tuple[str, int]) -> Part:
    return {"blob": stored[0], "size": stored[1]}
