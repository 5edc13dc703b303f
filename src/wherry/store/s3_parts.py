"""Large objects in pieces that travel side by side, none of them copied more than it must be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from wherry.errors import StoreError
from wherry.store.api import Buffer
from wherry.store.s3_wire import PARALLEL

if TYPE_CHECKING:
    from io import FileIO

PIECE = 8 << 20
"""Bytes of a piece; what is not larger travels in one."""

_PIECES_MOST = 10_000  # of an object of S3
_GRAIN = 1 << 20


def piece_length(size: int) -> int:
    """Return how long the pieces of an object are that is sent: S3 takes 10,000 of them."""
    least = -(-size // _PIECES_MOST)
    return max(PIECE, -(-least // _GRAIN) * _GRAIN)


def ranges(size: int) -> list[tuple[int, int]]:
    """Return where the pieces of an object that is fetched begin and end."""
    return [(at, min(at + PIECE, size)) for at in range(0, size, PIECE)]


def in_parallel(fetch: Callable[[int, int], None], pieces: Sequence[tuple[int, int]]) -> None:
    """Fetch pieces side by side; the first failure ends it."""
    if len(pieces) < 2:
        for start, end in pieces:
            fetch(start, end)
        return
    with ThreadPoolExecutor(min(PARALLEL, len(pieces)), "wherry-s3") as pool:
        futures = [pool.submit(fetch, start, end) for start, end in pieces]
        done, left = wait(futures, return_when=FIRST_EXCEPTION)
        for future in left:
            future.cancel()
        for future in done:
            future.result()


def whole(parts: Sequence[Buffer]) -> Buffer:
    """Return small parts as one buffer; one part alone is not copied."""
    views = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    return views[0] if len(views) == 1 else b"".join(views)


def pieces_of(parts: Iterable[Buffer], size: int) -> tuple[Iterator[Buffer], int]:
    """Return parts as pieces of one length, and that length.

    A piece inside one part is a view of it; one that reaches over several is a copy of its own.
    """
    length = piece_length(size)
    return _cut(parts, length), length


def _cut(parts: Iterable[Buffer], length: int) -> Iterator[Buffer]:
    waiting: list[memoryview] = []
    missing = length
    for part in parts:
        view = memoryview(part).cast("B")
        while view.nbytes:
            taken, view = view[:missing], view[missing:]
            waiting.append(taken)
            missing -= taken.nbytes
            if not missing:
                yield whole(waiting)
                waiting, missing = [], length
    if waiting:
        yield whole(waiting)


def file_pieces(file: FileIO, size: int) -> tuple[Iterator[Buffer], int]:
    """Return a file's bytes as pieces of one length, and that length."""
    length = piece_length(size)
    return _read_pieces(file, size, length), length


def _read_pieces(file: FileIO, size: int, length: int) -> Iterator[Buffer]:
    for at in range(0, size, length):
        wanted = min(length, size - at)
        data = os.pread(file.fileno(), wanted, at)
        if len(data) < wanted:
            raise StoreError(f"{file.name!s} became shorter while it was stored; store it again")
        yield data
