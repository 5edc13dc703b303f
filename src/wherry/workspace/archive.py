"""A workspace as content-addressed blobs, of which only the changed ones are sent.

Small files are bundled. A bundle ends with a file whose path says so (its CRC-32, see `_ends`), so
that a file which comes, goes or grows changes its own bundle and no other. A file of `LARGE` bytes
or more stands alone, in parts of 16 MiB. A blob is kept as it is or, where that helps, compressed
by zlib; it is named by the SHA-256 of the bytes that are stored.

The manifest is ``b"WHERRYT1"`` and a JSON document compressed by zlib:

    {
      "version": 1,
      "content": SHA-256 of what the tree consists of, whatever blobs it became,
      "size": bytes of all files,
      "dirs":  [[path, mode] …],               the outer ones first
      "links": [[path, target] …],
      "groups": [{"blobs": [[digest, size, raw, coding] …], "files": [[path, mode, size] …]} …]
    }

A group's blobs, each taken out of its coding (``"zlib"`` or ``""``) into ``raw`` bytes and put one
after the other, are the group's files one after the other. Paths are relative, with ``/``; bytes of
a name that are not UTF-8 are lone surrogates, as `os.fsdecode` makes them, which JSON can write.
There are no times, owners or names of machines in it: the same tree gives the same manifest
wherever the same zlib compresses it, and the same ``content`` everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wherry.errors import WorkspaceError
from wherry.workspace.archive_reading import PART, each, hash_file, read_parts, read_whole, sha256
from wherry.workspace.cache import Cache
from wherry.workspace.tree import Entry, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.store.api import Store
    from wherry.workspace.cache import BlobRow

Listing = dict[str, tuple[str, int, str]]
"""What a tree consists of: path → kind, mode, and a file's SHA-256 or a link's target."""

MAGIC = b"WHERRYT1"
LARGE = 1 << 20
BUNDLE_MOST = 4 << 20
BUNDLE_FILES = 64
KEPT_IN_MEMORY = 64 << 20
SAMPLE = 128 << 10
WORTH_IT = 0.9
SENDERS = 16


@dataclass(frozen=True)
class Blob:
    """Bytes of an archive.

    Args:
        digest: SHA-256 of what is stored, in hex.
        size: bytes of what is stored.
        read: returns them; raises WorkspaceError when the files have changed since.
    """

    digest: str
    size: int
    read: Callable[[], bytes] = field(compare=False)


@dataclass(frozen=True)
class Archive:
    """A tree, ready to be sent.

    Args:
        digest: SHA-256 of the manifest, under which it is stored.
        size: bytes of all blobs and the manifest.
        manifest: the manifest.
        blobs: each once, without the manifest.
        content: SHA-256 of what the tree consists of; the same on every machine.
    """

    digest: str
    size: int
    manifest: bytes = field(repr=False)
    blobs: list[Blob] = field(repr=False)
    content: str


@dataclass(frozen=True)
class Uploaded:
    """What became of an archive's blobs.

    Args:
        sent: how many were stored, the manifest among them.
        bytes_sent: their bytes.
        kept: how many the store had already.
    """

    sent: int
    bytes_sent: int
    kept: int


def pack(tree: Tree) -> Archive:
    """Make an archive of a tree; files that have not changed since the last time are not read.

    Raises:
        WorkspaceError: a file is gone, cannot be read, or changes while it is read.
    """
    memory = _Memory(KEPT_IN_MEMORY)
    groups = _read_groups(tree, lambda group: group.make(memory))
    content = content_of(_listing(tree, groups))
    files = [file for group in groups for file in group.files]
    document = {
        "version": 1,
        "content": content,
        "size": sum(file.size for file in files),
        "dirs": [[entry.path, entry.mode] for entry in tree.entries if entry.kind == "dir"],
        "links": [[entry.path, entry.target] for entry in tree.entries if entry.kind == "link"],
        "groups": [
            {
                "blobs": group.rows,
                "files": [[file.path, file.mode, file.size] for file in group.files],
            }
            for group in groups
        ],
    }
    text = json.dumps(document, separators=(",", ":")).encode("ascii")
    manifest = MAGIC + zlib.compress(text, 1)
    blobs = {blob.digest: blob for group in groups for blob in group.blobs()}
    size = len(manifest) + sum(blob.size for blob in blobs.values())
    return Archive(sha256(manifest), size, manifest, list(blobs.values()), content)


def content_digest(tree: Tree) -> str:
    """Return the SHA-256 of what a tree consists of; the same on every machine.

    Raises:
        WorkspaceError: a file is gone, cannot be read, or changes while it is read.
    """
    return content_of(listing_of(tree))


def listing_of(tree: Tree) -> Listing:
    """Return what a tree consists of, path by path; what has not changed is not read again.

    Raises:
        WorkspaceError: a file is gone, cannot be read, or changes while it is read.
    """
    return _listing(tree, _read_groups(tree, _Group.hash))


def content_of(listing: Listing) -> str:
    """Return the SHA-256 of what a tree consists of, from its listing."""
    lines = [
        f"{kind}\0{mode:o}\0{path}\0{what}\0\n" for path, (kind, mode, what) in listing.items()
    ]
    return sha256("".join(lines).encode("utf-8", "surrogateescape"))


def upload(archive: Archive, store: Store) -> Uploaded:
    """Send what a store does not have yet; the manifest last, so that it is never alone.

    Raises:
        StoreError: the store fails.
        WorkspaceError: a file changed since the archive was made.
    """
    from wherry.store.blobs import has_blobs
    from wherry.worker.formats import blob_key

    known = has_blobs(store, [*(blob.digest for blob in archive.blobs), archive.digest])
    missing = [blob for blob in archive.blobs if blob.digest not in known]

    def send(blob: Blob) -> None:
        store.write(blob_key(blob.digest), [blob.read()])

    each(send, missing, SENDERS)
    if archive.digest not in known:
        whole = Blob(archive.digest, len(archive.manifest), lambda: archive.manifest)
        send(whole)
        missing.append(whole)
    total = len(archive.blobs) + 1
    return Uploaded(len(missing), sum(blob.size for blob in missing), total - len(missing))


class _Memory:
    """Blobs that were just made are kept for sending, up to a number of bytes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._room:
                return False
            self._room -= size
            return True


class _Group:
    """Files that become blobs together."""

    def __init__(self, files: list[Entry]) -> None:
        self.files = files
        self.alone = files[0].size >= LARGE
        self.digests: list[str] = []
        self.rows: list[BlobRow] = []
        self._made: dict[int, bytes] = {}

    def recipe(self) -> str:
        return sha256("".join(self.digests).encode())

    def known(self, cache: Cache) -> bool:
        """Fill in what the cache knows; tells whether that is all."""
        self.digests = [cache.digest(file) for file in self.files]
        rows = cache.group(self.recipe()) if all(self.digests) else None
        self.rows = [(row[0], row[1], row[2], row[3]) for row in rows or ()]
        return rows is not None

    def hash(self) -> None:
        """Read the files that are not known yet, and make no blobs."""
        for at, file in enumerate(self.files):
            if not self.digests[at]:
                self.files[at], self.digests[at] = hash_file(file)

    def make(self, memory: _Memory) -> None:
        """Read the files, and make the blobs."""
        if self.alone:
            self._make_large(memory)
            return
        pieces = []
        for at, file in enumerate(self.files):
            self.files[at], data = read_whole(file)
            pieces.append(data)
        self.digests = [sha256(piece) for piece in pieces]
        self.rows = []
        self._add(b"".join(pieces), memory)

    def _make_large(self, memory: _Memory) -> None:
        whole = hashlib.sha256()

        def start() -> Callable[[bytes], None]:
            nonlocal whole
            whole = hashlib.sha256()
            self.rows = []
            self._made.clear()
            return take

        def take(part: bytes) -> None:
            whole.update(part)
            self._add(part, memory)

        self.files[0] = read_parts(self.files[0], start)
        self.digests = [whole.hexdigest()]

    def _add(self, raw: bytes, memory: _Memory) -> None:
        coding, data = _stored(raw)
        if memory.take(len(data)):
            self._made[len(self.rows)] = data
        self.rows.append((sha256(data), len(data), len(raw), coding))

    def blobs(self) -> Iterator[Blob]:
        for at, row in enumerate(self.rows):
            yield Blob(row[0], row[1], functools.partial(self._read, at))

    def _read(self, at: int) -> bytes:
        data = self._made.get(at)
        if data is not None:
            return data
        _, data = _stored(self._raw(at))
        if sha256(data) == self.rows[at][0]:
            return data
        names = " or ".join(repr(file.file) for file in self.files[:3])
        more = f" (or one of {len(self.files) - 3} more)" if len(self.files) > 3 else ""
        raise WorkspaceError(
            f"{names}{more} changed while the workspace was sent; wait until nothing writes to it."
        )

    def _raw(self, at: int) -> bytes:
        if not self.alone:
            return b"".join(read_whole(file)[1] for file in self.files)
        file = self.files[0].file
        try:
            with open(file, "rb") as stream:
                stream.seek(at * PART)
                return stream.read(PART)
        except OSError as error:
            raise WorkspaceError(f"cannot read {file!r}: {error.strerror}") from error


def _read_groups(tree: Tree, read: Callable[[_Group], None]) -> list[_Group]:
    cache = Cache(tree.sources)
    groups = [_Group(files) for files in _grouped(tree)]
    unknown = [group for group in groups if not group.known(cache)]
    each(read, unknown, min(8, os.cpu_count() or 1))
    for group in unknown:
        for file, digest in zip(group.files, group.digests, strict=True):
            cache.remember(file, digest)
        if group.rows:
            cache.remember_group(group.recipe(), group.rows)
    cache.save()
    return groups


def _grouped(tree: Tree) -> Iterator[list[Entry]]:
    bundle: list[Entry] = []
    size = 0
    for entry in tree.entries:
        if entry.kind != "file":
            continue
        if entry.size >= LARGE:
            yield [entry]
            continue
        bundle.append(entry)
        size += entry.size
        if size >= BUNDLE_MOST or _ends(entry.path):
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


def _ends(path: str) -> bool:
    """Tell whether a bundle ends with the file of this path: every sixty-fourth does, at random."""
    return zlib.crc32(os.fsencode(path)) % BUNDLE_FILES == 0


def _stored(raw: bytes) -> tuple[str, bytes]:
    """Return a blob's coding and the bytes that are stored."""
    sample = raw[:SAMPLE]
    if len(zlib.compress(sample, 1)) > WORTH_IT * len(sample):
        return "", raw
    data = zlib.compress(raw, 1)
    return ("zlib", data) if len(data) <= WORTH_IT * len(raw) else ("", raw)


def _listing(tree: Tree, groups: list[_Group]) -> Listing:
    found = {
        file.path: (file.mode, digest)
        for group in groups
        for file, digest in zip(group.files, group.digests, strict=True)
    }
    return {
        entry.path: (entry.kind, *found.get(entry.path, (entry.mode, entry.target)))
        for entry in tree.entries
    }
