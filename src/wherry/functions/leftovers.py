"""What calls leave on this machine, besides their records: folders they ran in, old workers.

Also a note of the stores that had something left when they were cleaned up last: the index of jobs
no longer tells of one whose jobs are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from wherry.home import home

_LEFT_FOR = 3600.0
"""Seconds for which nothing is removed: somebody may be about to use it."""


@dataclass
class Swept:
    """What was removed, or would be, besides the jobs' own objects.

    Args:
        where: a store's URL, or a folder of this machine.
        count: objects or files.
        size: their bytes.
    """

    where: str
    count: int = 0
    size: int = 0


def remove(digests: Collection[str], work: Collection[str], *, dry_run: bool) -> list[Swept]:
    """Remove folders that calls ran in and workers of earlier versions, where none is named.

    Args:
        digests: the workers that a job or an app names; the present one stays, too.
        work: the folders that one names.
        dry_run: only count.
    """
    from wherry.worker.shipping import worker_zip

    worker = worker_zip()[1]
    cache = os.path.join(home(), "cache", "worker")

    def is_used(name: str) -> bool:
        digest = name.partition(".")[0]
        return digest in digests or worker in (digest, _digest_in(os.path.join(cache, name)))

    return [
        _swept(os.path.join(home(), "work"), lambda name: name in work, dry_run=dry_run),
        _swept(cache, is_used, dry_run=dry_run),
    ]


def app_documents() -> Iterator[bytes]:
    """Give the records of this machine's apps: they name workers, folders and archives, too."""
    for place in ("apps", "aws_batch"):
        for folder, _, names in os.walk(os.path.join(home(), place)):
            for name in names:
                if name.endswith(".json"):
                    with (
                        contextlib.suppress(OSError),
                        open(os.path.join(folder, name), "rb") as file,
                    ):
                        yield file.read()


def _swept(folder: str, is_named: Callable[[str], bool], *, dry_run: bool) -> Swept:
    """Remove the old files and folders in a folder that nobody names."""
    found = Swept(folder)
    before = time.time() - _LEFT_FOR
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(path).st_mtime >= before or is_named(name):
                continue
            found.count += 1
            found.size += _size(path)
            if not dry_run:
                _remove(path)
    return found


def _size(path: str) -> int:
    if not os.path.isdir(path) or os.path.islink(path):
        return os.lstat(path).st_size
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in files)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)


def _digest_in(path: str) -> str:
    """Return which worker a note of the worker's cache is about."""
    with open(path, "rb") as file:
        return file.read(64).decode("ascii", errors="replace")


def remembered() -> list[str]:
    """Return the stores that had something left when they were cleaned up last."""
    try:
        with open(_notes(), encoding="utf-8") as file:
            return [str(url) for url in json.load(file)]
    except (OSError, ValueError, TypeError):
        return []


def remember(urls: Collection[str]) -> None:
    """Note the stores that have something left."""
    if sorted(urls) == sorted(remembered()):
        return
    beside = f"{_notes()}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(sorted(urls), file)
    os.replace(beside, _notes())


def _notes() -> str:
    return os.path.join(home(), "stores.json")
