"""Clean-up: what is left of calls that have ended, in their stores and on this machine.

Blobs are shared, so they are marked and swept. First the blobs are listed, then the documents of
all jobs are read, whoever submitted them, and what none of them names is removed. A blob younger
than its store's ``kept_for`` stays, and a submission makes an old one young before it relies on it
(`wherry.store.blobs`), so a submission that goes on at the same time loses nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wherry.errors import UnknownAppError, UsageError, WherryError, unknown
from wherry.functions import leftovers, records
from wherry.functions.defaults import executor_of
from wherry.functions.leftovers import Swept
from wherry.functions.progress import Progress
from wherry.home import home
from wherry.specs.states import AppState
from wherry.worker.formats import blob_key

if TYPE_CHECKING:
    from wherry.functions.records import Entry, JobRecord
    from wherry.store.api import ObjectInfo, Store

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_MANIFEST = re.compile(rb'"manifest": ?"([0-9a-f]{64})"')
_WORK = re.compile(rb"/work/(\w+)")
_TREE_MAGIC = b"WHERRYT1"
_DOCUMENTS = ("call.json", "job.json")


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended, and may go.

    Args:
        record: what was submitted.
        state: how it ended.
        ended_at: when its last object was written, in seconds since the epoch.
        size: bytes of its own objects.
    """

    record: JobRecord
    state: AppState
    ended_at: float
    size: int


@dataclass
class _Marks:
    """What is still named by somebody."""

    digests: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    work: set[str] = field(default_factory=set)

    def read(self, text: bytes, *, is_app: bool = False) -> None:
        """Take in a document; in an app's, any digest may be that of a manifest."""
        found = {digest.decode() for digest in _DIGEST.findall(text)}
        self.digests |= found
        self.manifests |= found if is_app else {m.decode() for m in _MANIFEST.findall(text)}
        self.work |= {name.decode() for name in _WORK.findall(text)}


class Clearance:
    """One clean-up: `choose` first, then `remove`. What went wrong is in ``problems``.

    Args:
        older_than: only jobs that ended so many seconds ago.
        states: only jobs in one of these states; all that have ended when empty.
        stores: only in these stores, by their URLs; in all of this machine's when empty.
        remote: look into stores that are not folders, too.

    Attributes:
        passed_over: how many jobs are in stores that were not looked into.

    Raises:
        UsageError: this machine knows no such store.
    """

    def __init__(
        self,
        older_than: float | None = None,
        states: Collection[AppState] = (),
        *,
        stores: Sequence[str] = (),
        remote: bool = False,
    ) -> None:
        self.problems: list[str] = []
        self.passed_over = 0
        self._older_than = older_than
        self._states = frozenset(states)
        self._entries = _by_store()
        self._all = not stores
        wanted = {_url(url) for url in stores}
        for url in sorted(wanted - set(self._entries)):
            raise UsageError(
                f"{unknown('store', url, self._entries)} Only stores that jobs of this machine "
                "have used are cleaned up"
            )
        self._urls = [
            url
            for url in self._entries
            if (url in wanted if wanted else remote or url.startswith("file://"))
        ]
        self._chosen: dict[str, list[EndedJob]] = {}
        self._marks = _Marks()

    def choose(self) -> list[EndedJob]:
        """Return the jobs that may go; nothing is removed yet."""
        self.passed_over = sum(
            len(entries) for url, entries in self._entries.items() if url not in self._urls
        )
        for url in self._urls:
            self._chosen[url] = [*self._ended(self._entries[url])]
        return [job for jobs in self._chosen.values() for job in jobs]

    def remove(self, *, dry_run: bool = False) -> list[Swept]:
        """Remove what was chosen, and then what nobody names any more.

        Args:
            dry_run: only count.
        """
        if not dry_run:
            for url, jobs in self._chosen.items():
                self._chosen[url] = [job for job in jobs if self._is_deleted(job)]
        for text in leftovers.app_documents():
            self._marks.read(text, is_app=True)
        swept, in_use = [], set(self._entries) - set(self._urls)
        for url in self._urls:
            try:
                found, rest = self._sweep(url, dry_run)
            except (WherryError, OSError) as error:
                self.problems.append(f"{url} is left as it is: {error}")
                self._all, rest = False, True
            else:
                swept.append(found)
            if rest:
                in_use.add(url)
        if self._all and not self.passed_over:
            swept += leftovers.remove(self._marks.digests, self._marks.work, dry_run=dry_run)
        if not dry_run:
            leftovers.remember(in_use)
        return [one for one in swept if one.count]

    def _is_deleted(self, job: EndedJob) -> bool:
        try:
            _delete(job.record)
        except (WherryError, OSError) as error:
            self.problems.append(f"job {job.record.id} is left: {error}")
            return False
        return True

    def _ended(self, entries: Iterable[Entry]) -> Iterator[EndedJob]:
        for entry in entries:
            try:
                found = _judged(entry)
            except UnknownAppError:
                records.remove(entry.id)  # Its objects were removed by somebody else.
                continue
            except (WherryError, OSError) as error:
                self.problems.append(f"job {entry.id} is left: {error}")
                continue
            if found is not None and self._fits(found):
                yield found

    def _fits(self, job: EndedJob) -> bool:
        old = self._older_than is None or job.ended_at <= time.time() - self._older_than
        return old and (not self._states or job.state in self._states)

    def _sweep(self, url: str, dry_run: bool) -> tuple[Swept, bool]:
        """Remove the blobs of a store that nobody names, and what has no job any more.

        Returns:
            What was removed, and whether anything is left in the store.
        """
        store = _store(url, self._entries[url])
        before = time.time() - store.kept_for
        blobs = {info.key.rpartition("/")[2]: info for info in store.list("blobs/")}
        jobs = _by_job(store.list("jobs/"))
        for job in self._chosen.get(url, ()):
            for app in job.record.apps:
                jobs.pop(app.job, None)  # there are some where it is only counted
        orphans = [name for name in jobs if _is_orphan(name, jobs, before)]
        old = [info for name in orphans for info in jobs.pop(name)]
        self._mark(store, jobs.values(), blobs)

        old += [info for name, info in blobs.items() if name not in self._marks.digests]
        old += _task_notes(store, jobs)
        old = [info for info in old if info.modified < before]
        size = sum(info.size for info in old)
        if not dry_run:
            size = store.delete_old([info.key for info in old], before)
        return Swept(url, len(old), size), bool(jobs) or len(blobs) > len(old)

    def _mark(
        self, store: Store, jobs: Iterable[list[ObjectInfo]], blobs: dict[str, ObjectInfo]
    ) -> None:
        keys = [i.key for infos in jobs for i in infos if i.key.endswith(_DOCUMENTS)]
        for _, text in store.read_many(keys):
            self._marks.read(text or b"")
        for digest in [*self._marks.manifests]:
            if digest in blobs:
                self._marks.digests |= _of_manifest(store, digest)


def _by_store() -> dict[str, list[Entry]]:
    """Return the stores that this machine knows, with the jobs of its index that are in them."""
    from wherry.store.opening import open_store

    found: dict[str, list[Entry]] = {}
    for entry in records.entries():
        found.setdefault(entry.store, []).append(entry)
    folder = os.path.join(home(), "store")
    if os.path.isdir(folder):
        found.setdefault(open_store(folder).url, [])
    for url in leftovers.remembered():
        found.setdefault(url, [])
    return found


def _url(text: str) -> str:
    from wherry.store.opening import open_store

    return open_store(text).url


def _store(url: str, entries: Sequence[Entry]) -> Store:
    from wherry.store.opening import open_store

    return executor_of(entries[0]).store if entries else open_store(url)


def _judged(entry: Entry) -> EndedJob | None:
    """Return a job if it has ended, its processes too; one that is being submitted has not."""
    executor = executor_of(entry)
    record = records.read(entry.id, executor.store)
    progress = Progress(record, executor.store, executor.scheduler)
    progress.refresh()
    statuses = [progress.status(app) for app in record.apps]
    if not progress.ended or any(s is not None and not s.is_terminal() for s in statuses):
        return None
    found = [i for app in record.apps for i in executor.store.list(f"jobs/{app.job}/")]
    ended_at = max((info.modified for info in found), default=record.created)
    is_known = any(statuses) or any("/out/" in info.key for info in found)
    if not is_known and ended_at > time.time() - executor.store.kept_for:
        return None
    return EndedJob(record, progress.state(), ended_at, sum(info.size for info in found))


def _delete(record: JobRecord) -> None:
    from wherry.runner.ledger import Ledger, LedgerUnavailableError

    executor_of(records.find(record.id)).delete(record)
    with contextlib.suppress(LedgerUnavailableError):
        Ledger().forget(record.handles)


def _by_job(infos: Iterable[ObjectInfo]) -> dict[str, list[ObjectInfo]]:
    found: dict[str, list[ObjectInfo]] = {}
    for info in infos:
        found.setdefault(info.key.split("/")[1], []).append(info)
    return found


def _is_orphan(name: str, jobs: dict[str, list[ObjectInfo]], before: float) -> bool:
    """Tell what is left of a submission that was cut off, or came after its job was deleted."""

    def has_record(job: str) -> bool:
        return any(info.key == f"jobs/{job}/job.json" for info in jobs.get(job, ()))

    whole = name.rpartition(".")[0]  # a later app of a large map has its record there
    if has_record(name) or (whole and has_record(whole)):
        return False
    return all(info.modified < before for info in jobs[name])


def _task_notes(store: Store, jobs: Collection[str]) -> list[ObjectInfo]:
    """List the notes of workflow engines' tasks whose jobs are gone."""
    notes = {info.key: info for info in store.list("tasks/")}
    return [
        notes[key]
        for key, text in store.read_many(notes)
        if text is not None and _job_in(text) not in jobs
    ]


def _job_in(text: bytes) -> str:
    try:
        return str(json.loads(text).get("job", ""))
    except (ValueError, AttributeError):
        return ""


def _of_manifest(store: Store, digest: str) -> set[str]:
    """Return the blobs that an archive consists of; none for another kind of blob."""
    key = blob_key(digest)
    try:
        if store.read(key, 0, len(_TREE_MAGIC)) != _TREE_MAGIC:
            return set()
        text = zlib.decompress(store.read(key)[len(_TREE_MAGIC) :])
    except (WherryError, zlib.error):
        return set()
    return {found.decode() for found in _DIGEST.findall(text)}
