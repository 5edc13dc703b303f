"""A store that is a prefix of a bucket of S3, of AWS or of another server that speaks the same.

Nearly all goes by way of obstore; `s3_botocore` says what does not, and why.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from wherry.errors import CorruptObjectError, MissingObjectError
from wherry.store import file_faults, keys
from wherry.store.api import Buffer, ObjectInfo, Store
from wherry.store.s3_access import Access
from wherry.store.s3_connection import Connection
from wherry.store.s3_failures import Kind, S3Failure
from wherry.store.s3_parts import PIECE, in_parallel, pieces_of, ranges, whole

if TYPE_CHECKING:
    from wherry.store.s3_wire import Entry, Wire

_Paths = list[str]  # inside the class, `list` is its method

_BATCH = 1000  # objects that S3 deletes in one request
_SMALL = 1 << 20  # bytes that are sent without a look whether they are there


class S3Store(Store):
    """Objects under a prefix of a bucket. Nothing is asked before the first is wanted.

    Args:
        bucket: its name.
        prefix: what all keys begin with, without a slash at either end; may be empty.
        profile: a profile of AWS's configuration; by default the one that boto3 takes.
        region: the bucket's region; by default it is found out.
        endpoint: an S3 server other than AWS's.
        credentials_file: to be read instead of ``~/.aws/credentials``.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        profile: str | None = None,
        region: str | None = None,
        endpoint: str | None = None,
        credentials_file: str | None = None,
    ) -> None:
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        access = Access(bucket, profile, region, endpoint, credentials_file)
        self._line = Connection(self.url, access)
        self._ask = self._line.ask
        self._whole_ranges = False
        self._bucket_seen = False

    # -- reading ----------------------------------------------------------------------------------

    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object, or its bytes from ``start`` up to ``end``; fewer if it ends before."""
        path = self._path(key)
        if not start and end is None:
            return self._read_whole(key)
        if end is not None and end <= start:
            self._entry(key)
            return b""
        if end is not None and end - start <= PIECE:
            return bytes(self._range(key, path, start, end))
        found = self._entry(key)
        until = found.size if end is None else min(end, found.size)
        return self._read_parts(key, found, start, until - start) if until > start else b""

    def _read_whole(self, key: str) -> bytes:
        path = self._path(key)
        size, data = self._ask("read", key, lambda wire: wire.get(path, PIECE))
        if data is not None:
            return bytes(data)
        return self._read_parts(key, self._entry(key), 0, size)

    def _read_parts(self, key: str, found: Entry, start: int, size: int) -> bytes:
        # The bytes of a BytesIO are handed out as they are; a bytearray's would be copied.
        into = io.BytesIO(bytes(size))
        with into.getbuffer() as view:
            self._fill(key, found, start, view)
        return into.getvalue()

    def read_into(self, key: str, start: int, into: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on, in parallel parts if large."""
        view = into.cast("B")
        path = self._path(key)
        if not view.nbytes:
            self._entry(key)
        elif view.nbytes <= PIECE:
            data = self._range(key, path, start, start + view.nbytes)
            self._not_cut_off(key, start, view.nbytes, start + memoryview(data).nbytes)
            view[:] = data
        else:
            self._fill(key, self._entry(key), start, view)

    def _fill(self, key: str, found: Entry, start: int, view: memoryview) -> None:
        self._not_cut_off(key, start, view.nbytes, found.size)

        def fetch(at: int, end: int) -> None:
            data = self._range(key, found.key, start + at, start + end, found.etag)
            self._not_cut_off(key, start + at, end - at, start + at + memoryview(data).nbytes)
            view[at:end] = data

        in_parallel(fetch, ranges(view.nbytes))

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Return small objects as they arrive; ``None`` for one that is not there."""
        from wherry.store.gathering import gather

        def fetch(key: str) -> bytes | None:
            try:
                return self._read_whole(key)
            except MissingObjectError:
                return None

        yield from gather(fetch, keys)

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file, in parallel parts if large; the file appears when whole."""
        found = self._entry(key)

        def fetch(descriptor: int, at: int, end: int) -> None:
            data = memoryview(self._range(key, found.key, at, end, found.etag))
            self._not_cut_off(key, at, end - at, at + data.nbytes)
            while data.nbytes:
                written = os.pwrite(descriptor, data, at)
                data, at = data[written:], at + written

        beside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.part"
        try:
            with open(beside, "xb", buffering=0) as file:
                if found.size:
                    os.posix_fallocate(file.fileno(), 0, found.size)
                in_parallel(lambda at, end: fetch(file.fileno(), at, end), ranges(found.size))
            os.replace(beside, path)
        except OSError as error:
            raise file_faults.of_target(error, path) from None
        finally:
            _remove(beside)

    def head(self, key: str) -> ObjectInfo | None:
        """Tell an object's size and time; ``None`` when it is not there."""
        found = self._look(key)
        return ObjectInfo(key, found.size, found.modified) if found else None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List the objects whose key begins so, page by page, in the order of their keys."""
        whole_prefix = self._prefix + keys.checked_prefix(prefix)
        # obstore lists what is below a folder; S3, and botocore, what begins in any way.
        by_folder = not whole_prefix or whole_prefix.endswith("/")
        pages = self._pages(prefix, whole_prefix, by_folder)
        cut = len(self._prefix)
        for page in pages:
            for found in page:
                if found.key.startswith(whole_prefix) and not found.key.endswith("/"):
                    yield ObjectInfo(found.key[cut:], found.size, found.modified)

    def _pages(self, prefix: str, begin: str, by_folder: bool) -> Iterator[Sequence[Entry]]:
        def first(wire: Wire) -> tuple[Sequence[Entry], Iterator[Sequence[Entry]]]:
            pages = (wire if by_folder else self._line.second()).pages(begin)
            return next(pages, ()), pages

        page, others = self._ask("list", prefix, first)
        yield page
        try:
            yield from others
        except S3Failure as failure:
            raise self._error(failure, "list", prefix) from failure

    # -- writing ----------------------------------------------------------------------------------

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object that consists of these parts, in parallel if large; replaces another."""
        path = self._path(key)
        size = sum(memoryview(part).nbytes for part in parts)
        if size <= PIECE:
            data = whole(parts)
            self._ask("write", key, lambda wire: wire.put(path, data))
            return
        self._ask("write", key, lambda wire: wire.put_large(path, *pieces_of(parts, size)))

    def write_new(self, key: str, parts: Sequence[Buffer]) -> bool:
        """Store an object unless the key is taken.

        AWS, and other servers that know the condition ``If-None-Match``, store one of many who try
        at once. Servers that do not know it are asked beforehand whether the key is taken, so two
        who try at the same moment may both be told that theirs was stored.
        """
        path = self._path(key)
        size = sum(memoryview(part).nbytes for part in parts)
        if (size > _SMALL or not self._line.access.server().aws) and self._look(key):
            return False
        try:
            self._ask("write", key, lambda wire: self._put_new(wire, path, parts, size), raw=True)
        except S3Failure as failure:
            if failure.kind is Kind.TAKEN:
                return False
            if failure.kind is Kind.BROKEN:
                return self._settled(key, parts)
            if failure.kind is not Kind.UNKNOWN_HEADER:
                raise self._error(failure, "write", key) from failure
            if self._look(key):
                return False
            self.write(key, parts)
        return True

    def _settled(self, key: str, parts: Sequence[Buffer]) -> bool:
        """Find out whether an object was stored although its answer was lost."""
        try:
            return self.read(key) == b"".join(parts)
        except MissingObjectError:
            return self.write_new(key, parts)

    def _put_new(self, wire: Wire, path: str, parts: Sequence[Buffer], size: int) -> None:
        if size <= PIECE:
            wire.put(path, whole(parts), new=True)
        else:
            # Only botocore sends the condition with the end of an object in parts.
            self._line.second().put_large(path, *pieces_of(parts, size), new=True)

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        from wherry.store.s3_parts import file_pieces

        target = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size <= PIECE:
                    data = file.readall()
                    self._ask("write", key, lambda wire: wire.put(target, data))
                    return
                self._ask(
                    "write", key, lambda wire: wire.put_large(target, *file_pieces(file, size))
                )
        except OSError as error:
            raise file_faults.of_source(error, path) from None

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, a thousand in a request."""
        paths = map(self._path, keys)
        while batch := [*islice(paths, _BATCH)]:
            self._delete(batch)

    def _delete(self, batch: _Paths) -> None:
        self._ask("delete", batch[0][len(self._prefix) :], lambda wire: wire.delete(batch))

    def close(self) -> None:
        """Let go of connections; the store makes others when it is used again."""
        self._line.close()

    # -- looking, and ranges ----------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return self._prefix + keys.checked(key)

    def _entry(self, key: str) -> Entry:
        found = self._look(key)
        if found is None:
            raise self._error(S3Failure(Kind.MISSING, "", status=404), "read", key)
        return found

    def _look(self, key: str) -> Entry | None:
        path = self._path(key)

        def look(wire: Wire) -> Entry | None:
            try:
                found = wire.head(path)
            except S3Failure as failure:
                # The answer to HEAD has no body: ask in a way that is told why.
                if not failure.code and failure.status in (400, 401, 403):
                    wire.get(path, 0)
                raise
            if found is None and not self._bucket_seen:
                self._see_bucket(wire, path)
            return found

        return self._ask("look at", key, look)

    def _see_bucket(self, wire: Wire, path: str) -> None:
        """Tell an object that is not there from a bucket that is not there."""
        try:
            wire.get(path, 0)
        except S3Failure as failure:
            if failure.kind is not Kind.MISSING:
                raise
        self._bucket_seen = True

    def _range(self, key: str, path: str, start: int, end: int, etag: str = "") -> Buffer:
        def fetch(wire: Wire) -> Buffer:
            chosen = self._line.second() if self._whole_ranges else wire
            try:
                return chosen.get_range(path, start, end, etag)
            except S3Failure as failure:
                if failure.kind is Kind.PAST_END:
                    return b""
                if failure.kind is not Kind.WHOLE:
                    raise
            self._whole_ranges = True
            return self._line.second().get_range(path, start, end, etag)

        return self._ask("read", key, fetch)

    def _error(self, failure: S3Failure, doing: str, key: str) -> Exception:
        return self._line.error(failure, doing, key)

    def _not_cut_off(self, key: str, start: int, wanted: int, until: int) -> None:
        if wanted and start + wanted > until:
            raise CorruptObjectError(
                f"{self.url}/{key} is cut off: {wanted:,} bytes were expected from {start:,} on, "
                f"and there are {max(until - start, 0):,}"
            )


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
