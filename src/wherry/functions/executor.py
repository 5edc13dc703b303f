"""What all executors have in common: how a call becomes an app, and an id a job again."""

from __future__ import annotations

import concurrent.futures
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from wherry.errors import StateError, UnknownAppError, UsageError
from wherry.functions import records
from wherry.functions.kinds import checked_kind, part_number, wanted_states
from wherry.functions.options import Options
from wherry.home import home

if TYPE_CHECKING:
    from wherry.functions.array import ArrayJob
    from wherry.functions.handle import Job
    from wherry.functions.records import JobRecord
    from wherry.schedulers.api import AppDryRunInfo, Scheduler
    from wherry.specs.app import AppDef, Role
    from wherry.specs.options import CfgVal
    from wherry.store.api import Store
    from wherry.worker.formats import Call

ExecutorT = TypeVar("ExecutorT", bound="Executor")

_CHUNKS_FOR_EACH_CORE = 2
_ENDS_WITHIN = 15.0


class Executor(concurrent.futures.Executor):
    """Runs calls as jobs.

    It is a `concurrent.futures.Executor`. `shutdown`, and the end of this process, leave jobs
    running; `attach` finds them again.

    Args:
        store: the URL or folder where calls and results are kept.
        session: what its apps are filed under.
        on_step: told how far a submission has got: ``packed``, ``stored``, ``recorded`` and
            ``submitted``, each with the job's id.
        options: what holds for all calls unless `options` says otherwise; see `Options`.

    Raises:
        UsageError: an option is unknown, or cannot have this value.
    """

    environment = ""
    """The kind of executor, as in ``job.environment``."""

    backend = ""
    """The scheduler that runs its jobs."""

    in_place = False
    """Whether its jobs see this machine's files, so that modules are imported where they are."""

    def __init__(
        self,
        *,
        store: str | None = None,
        session: str = "wherry",
        on_step: Callable[[str, str], object] | None = None,
        **options: Any,
    ) -> None:
        self.session = session
        self._store_url = store
        self._on_step = on_step
        self._defaults = Options().changed(options)
        self._given = dict(options)
        self._made: dict[str, Any] = {}
        self._closed = [False]

    # -- the calls --------------------------------------------------------------------------------

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run ``fn(*args, **kwargs)`` as a job.

        All arguments are the function's; what else there is to say goes through `options`.

        Returns:
            The job: a `Job`, or with ``nodes`` above 1 a `GangJob`.

        Raises:
            PayloadError: the function or an argument cannot be sent; nothing was submitted.
            LaunchError: it could not be started; nothing was left behind.
        """
        from wherry.functions.submission import submit_call

        self._require_open()
        return submit_call(self, fn, args, kwargs, self._defaults)

    def map_array(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        chunksize: int = 1,
        max_failures: int | None = None,
    ) -> ArrayJob:
        """Run ``fn`` for each item as one job: a process, a log and an exit code for each.

        Args:
            fn: the function.
            iterables: its arguments, item by item; the shortest ends the map.
            chunksize: items that share a process.
            max_failures: end what still runs when more than so many processes have failed.

        Raises:
            PayloadError: the function or an item cannot be sent; nothing was submitted.
            LaunchError: it could not be started; nothing was left behind.
        """
        from wherry.functions.submission import submit_map

        self._require_open()
        if not iterables:
            raise UsageError("map_array takes at least one iterable besides the function")
        if not isinstance(chunksize, int) or chunksize < 1:
            raise UsageError(f"chunksize must be 1 or more, not {chunksize!r}")
        if max_failures is not None and (not isinstance(max_failures, int) or max_failures < 0):
            raise UsageError(f"max_failures must be 0 or more, not {max_failures!r}")
        items = zip(*iterables, strict=False)
        return submit_map(self, fn, items, self._defaults, chunksize, max_failures)

    def map(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
    ) -> Iterator[Any]:
        """Run ``fn`` for each item and give the results in order, as `concurrent.futures` does.

        Items share processes; `map_array` gives each one of its own.

        Args:
            fn: the function.
            iterables: its arguments, item by item; they are read now.
            timeout: seconds for all of them together.
            chunksize: items that share a process; a few chunks for each core by default.

        Raises:
            BaseException: that of the first item that raised; the rest is ended.
            TimeoutError: not all have ended in time; the rest is ended.
        """
        items = list(zip(*iterables, strict=False))
        if not items:
            return iter(())
        size = chunksize or math.ceil(len(items) / (_CHUNKS_FOR_EACH_CORE * self.cores()))
        columns = zip(*items, strict=True)
        return _results(self.map_array(fn, *columns, chunksize=size), timeout)

    def run(self, app: AppDef, cfg: Mapping[str, CfgVal] | None = None) -> str:
        """Run an app of any kind where this executor's jobs run; returns its handle.

        Args:
            app: what to run.
            cfg: run options, over the executor's own.
        """
        info = self.scheduler.submit_dryrun(app, {**self.cfg(self._defaults), **(cfg or {})})
        app_id = self.scheduler.schedule(info)
        self.scheduler.detach(app_id)
        return f"{self.scheduler.backend}://{self.session}/{app_id}"

    def options(self: ExecutorT, **changes: Any) -> ExecutorT:
        """Return this executor with other options for the calls that are submitted with it.

        ``ex.options(timeout=60, name="fit").submit(fit, data)``; both share everything else.

        Args:
            changes: see `Options`.

        Raises:
            UsageError: an option is unknown, or cannot have this value.
        """
        changed = copy.copy(self)
        changed._defaults = self._defaults.changed(changes)  # noqa: SLF001 — its own copy
        changed._given = {**self._given, **changes}  # noqa: SLF001
        return changed

    # -- jobs -------------------------------------------------------------------------------------

    def attach(self, job: str) -> Any:
        """Return the job with this id, from whatever process it was submitted.

        One whose client died before it was submitted is submitted now: it was recorded whole.

        Raises:
            UnknownAppError: the store has no such job.
        """
        from wherry.functions.starting import take_up

        whole, _, number = job.partition(":")
        record = self._record(whole)
        found = take_up(self, record)
        return found[part_number(job, number)] if number else found

    def look_up(self, job: str) -> Any:
        """Return the job with this id as it is; one that was never submitted stays so.

        Raises:
            UnknownAppError: the store has no such job.
        """
        from wherry.functions.starting import handle_of, progress_of

        return handle_of(self, progress_of(self, self._record(job)))

    def jobs(
        self,
        kind: str | None = None,
        status: Any = None,
        since: float | None = None,
    ) -> Iterator[Job]:
        """Give the jobs of this executor's kind and store that this machine knows, newest first.

        Args:
            kind: single, array or gang; the parts of jobs are not listed.
            status: only those in this state, or in one of these.
            since: only those submitted at or after this (seconds since the epoch).

        Raises:
            UsageError: there is no such kind of job.
        """
        checked_kind(kind)
        wanted = wanted_states(status)
        for entry in records.entries():
            if since is not None and entry.created < since:
                continue
            if kind not in (None, entry.kind):
                continue
            if (entry.environment, entry.store) != (self.environment, self.store.url):
                continue
            try:
                found = self.look_up(entry.id)
            except UnknownAppError:
                records.remove(entry.id)  # Its objects were removed by somebody else.
                continue
            if not wanted or found.status in wanted:
                yield found

    def delete(self, record: JobRecord) -> None:
        """Remove a job's objects and its records; what it shares with others stays."""
        for app in (*record.apps, *record.earlier):
            keys = [info.key for info in self.store.list(f"jobs/{app.job}/")]
            self.store.delete(keys)
            try:
                self._forget(app.app_id)
            except UnknownAppError:
                pass  # Its record was removed before, or never made.
        records.remove(record.id)

    def rerun(
        self,
        record: JobRecord,
        indices: Sequence[int] | None = None,
        memory: float | None = None,
    ) -> Any:
        """Submit a recorded call again, or some items of a map.

        Args:
            record: what was submitted.
            indices: the items, by their places in the map that was submitted first.
            memory: GiB for each process; what it was when ``None``.
        """
        from wherry.functions.submission import submit_again

        self._require_open()
        return submit_again(self, record, indices, memory)

    def cancel_part(self, app_id: str, part: int, reason: str) -> None:
        """End one part of an app.

        Raises:
            StateError: the scheduler cannot do that.
        """
        raise StateError(
            f"{self.environment} jobs are ended as a whole: cancel the job that part {part} of "
            f"{app_id} belongs to ({reason})"
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. Jobs go on, whether one waits or not.

        Args:
            wait: nothing is waited for, since jobs outlive their executor.
            cancel_futures: end the jobs that were submitted here and have not ended.
        """
        del wait
        self._closed[0] = True
        if cancel_futures:
            for job in self._made.get("jobs", ()):
                job.cancel("its executor was shut down")

    # -- what executors differ in -----------------------------------------------------------------

    @property
    def store(self) -> Store:
        """Where calls and results are kept."""
        if "store" not in self._made:
            self._made["store"] = self.open_store()
        found: Store = self._made["store"]
        return found

    @property
    def scheduler(self) -> Scheduler[Any]:
        """Who runs the jobs."""
        if "scheduler" not in self._made:
            self._made["scheduler"] = self.make_scheduler()
        found: Scheduler[Any] = self._made["scheduler"]
        return found

    def open_store(self) -> Store:
        """Open the store; by default a folder beside Wherry's records."""
        from wherry.store.opening import open_store

        return open_store(self._store_url or f"{home()}/store")

    def make_scheduler(self) -> Scheduler[Any]:
        """Make the scheduler."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return the arguments, as plain data, from which this executor can be made again."""
        url = self._store_url
        return {"session": self.session, **({"store": self.store.url} if url else {})}

    def cfg(self, options: Options) -> dict[str, CfgVal]:
        """Return the scheduler's run options."""
        del options
        return {}

    def check(self, options: Options) -> None:
        """Refuse options that cannot be honoured here, by name.

        Raises:
            UsageError: there is such an option.
        """
        del options

    def warm_up(self) -> None:
        """Begin to start what a call will need, while the call is packed; does not wait for it."""

    def localize(self, call: Call, options: Options) -> None:
        """Add to a call document what holds only here, such as folders."""

    def role(self, call_url: str, call: Call, options: Options, children: int) -> Role:
        """Return the role that runs a call's processes."""
        raise NotImplementedError

    def app_id(self, job: str, name: str) -> str:
        """Choose the id of an app at its scheduler.

        Args:
            job: the job's id, with a number behind a dot when it has several apps.
            name: the app's name.
        """
        del name
        return job

    def dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str) -> AppDryRunInfo[Any]:
        """Make the request for an app, under the id that was chosen for it."""
        info = self.scheduler.submit_dryrun(app, cfg)
        info.request.app_id = app_id
        return info

    def provider_id(self, app_id: str, part: int | None) -> str:
        """Return what the provider calls an app, or a part of it."""
        return app_id if part is None else f"{app_id}/{part}"

    def is_started(self, app_id: str) -> bool:
        """Tell whether somebody has started the app of this name already."""
        return self.scheduler.exists(app_id)

    def cores(self) -> int:
        """Return how many processes of a map may run at once, as far as is known."""
        import os

        return len(os.sched_getaffinity(0))

    def step(self, name: str, job: str) -> None:
        """Say how far a submission has got."""
        if self._on_step is not None:
            self._on_step(name, job)

    def submitted(self, job: Any) -> None:
        """Take note of a job that was submitted here."""
        import weakref

        self._made.setdefault("jobs", weakref.WeakSet()).add(job)

    def _record(self, job: str) -> JobRecord:
        return records.read(job, self.store)

    def _forget(self, app_id: str) -> None:
        """Remove an app's record; one whose result is there may take a moment to end."""
        try:
            self.scheduler.forget(app_id)
        except StateError:
            self.scheduler.wait_for_change(app_id, _ENDS_WITHIN, until_end=True)
            self.scheduler.forget(app_id)

    def _require_open(self) -> None:
        if self._closed[0]:
            raise RuntimeError("cannot schedule new futures after shutdown")


def _results(runs: ArrayJob, timeout: float | None) -> Iterator[Any]:
    try:
        yield from runs.results(timeout=timeout)
    finally:
        runs.cancel("nobody wants the rest of the map")
