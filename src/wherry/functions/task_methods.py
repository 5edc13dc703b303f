"""The methods by which a workflow engine drives an executor, task by task, under Covalent's names.

They are asynchronous where Covalent's are, and do with the executor's own `submit`, `attach` and
jobs what their names say. A task is known by its dispatch and its node; which job it became is
kept in the store, so that another process can ask for its result.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from wherry._version import __version__
from wherry.errors import MissingObjectError, PayloadError, StateError, UsageError
from wherry.functions.handle import Job

if TYPE_CHECKING:
    from wherry.store.api import Store

Metadata = Mapping[str, Any]

_STATUSES = frozenset(
    (
        *("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED"),
        *("NEW_OBJECT", "STARTED", "COMPLETED", "CANCELLED", "POSTPROCESSING", "DISPATCHED"),
    )
)
"""AWS Batch's words and Covalent's."""

_ENDS = {"SUCCEEDED": "COMPLETED", "CANCELLED": "CANCELLED"}
_NO_EXIT_CODE = -1

_current: ContextVar[tuple[str, int] | None] = ContextVar("wherry_task", default=None)


class TaskMethods:
    """Runs single tasks of somebody else's workflow; mixed into an executor."""

    if TYPE_CHECKING:
        store: Store

        def attach(self, job: str) -> Any: ...  # noqa: D102 — the executor's

        def _submit_named(
            self,
            name: str,
            function: Callable[..., Any],
            args: Sequence[Any],
            kwargs: Mapping[str, Any],
        ) -> Job: ...

        def _attributes(self) -> dict[str, Any]: ...

    # -- one task, from beginning to end --------------------------------------------------------

    async def _run_task(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        task_metadata: Metadata,
    ) -> Any:
        """Submit one call and wait for its value."""
        job = await asyncio.to_thread(self._send_task, function, args, kwargs, task_metadata)
        return await job

    async def setup(self, task_metadata: Metadata) -> dict[str, str]:
        """See that the executor can be used, before a task is sent.

        Returns:
            Who will submit it, as `submit_task` takes it: ``{"Account": …}``.

        Raises:
            AwsError: there are no credentials, or AWS does not take them.
        """
        _task(task_metadata)
        return {"Account": await asyncio.to_thread(self._account)}

    async def teardown(self, task_metadata: Metadata) -> None:
        """Let go of a task; its job, its result and its log stay where they are."""
        self._packed().pop(_task(task_metadata), None)

    def pack_task(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        task_metadata: Metadata,
    ) -> None:
        """Say what a task is to do, for `submit_task`.

        Args:
            function, args, kwargs: the call.
            task_metadata: ``dispatch_id`` and ``node_id``.
        """
        self._packed()[_task(task_metadata)] = (function, tuple(args), dict(kwargs))

    async def submit_task(self, task_metadata: Metadata, identity: Metadata | None = None) -> str:
        """Submit what `pack_task` was given.

        Args:
            task_metadata: ``dispatch_id`` and ``node_id``.
            identity: who submits, from `setup`; the executor knows it itself.

        Returns:
            The job's id.

        Raises:
            StateError: nothing was packed for this task.
        """
        del identity
        task = _task(task_metadata)
        packed = self._packed().get(task)
        if packed is None:
            raise StateError(
                f"nothing was packed for node {task[1]} of {task[0]}; call pack_task(function, "
                "args, kwargs, task_metadata) first, or run(), which does both"
            )
        job = await asyncio.to_thread(self._send_task, *packed, task_metadata)
        return str(job.id)

    async def get_status(self, job_id: str) -> tuple[str, int]:
        """Tell a job's status in the provider's word, and its exit code.

        Args:
            job_id: ours, or the provider's.

        Returns:
            The status, and the exit code; -1 while there is none.
        """

        def ask() -> tuple[str, int]:
            job = self.attach(job_id)
            status = job.raw_status or str(job.status)
            code = job.exit_code
            return status, _NO_EXIT_CODE if code is None else code

        return await asyncio.to_thread(ask)

    async def query_result(self, task_metadata: Metadata) -> tuple[Any, str, str]:
        """Return what came of a task that has ended: its value, stdout and stderr.

        Raises:
            Exception: what the task has raised; a `JobError` if it ended in another way.
        """
        job = await asyncio.to_thread(self._job_of, task_metadata)
        value = await job
        outcome = await asyncio.to_thread(job.outcome)
        return value, outcome.stdout, outcome.stderr

    async def cancel(self, task_metadata: Metadata, job_handle: str = "") -> bool:
        """End a task's job.

        Args:
            task_metadata: ``dispatch_id`` and ``node_id``.
            job_handle: the job's id; looked up when empty.

        Returns:
            Whether it will end for that reason; false if it had ended already.
        """

        def ask() -> bool:
            job = self.attach(job_handle) if job_handle else self._job_of(task_metadata)
            if job.done():
                return False
            self._note(_task(task_metadata), cancel_requested=True)
            return bool(job.cancel(f"cancelled by dispatch {_task(task_metadata)[0]}"))

        return await asyncio.to_thread(ask)

    # -- many tasks, with the engine's own files ------------------------------------------------

    async def send(
        self, task_specs: Sequence[Metadata], resources: Any, task_group_metadata: Metadata
    ) -> list[str]:
        """Submit tasks whose functions and arguments were pickled into files.

        Args:
            task_specs: for each task ``function_id``, ``args_ids`` and ``kwargs_ids``.
            resources: where they are: ``functions`` and ``inputs``, id → path or ``file://`` URL.
            task_group_metadata: ``dispatch_id``, ``node_ids`` and ``task_group_id``.

        Returns:
            The jobs' ids, in the order of the tasks; they are to be given to `poll`.
        """
        nodes = list(task_group_metadata["node_ids"])
        if len(nodes) != len(task_specs):
            raise UsageError(f"{len(task_specs)} tasks were sent for {len(nodes)} node_ids")
        functions, inputs = _of(resources, "functions"), _of(resources, "inputs")
        ids = []
        for node, spec in zip(nodes, task_specs, strict=True):
            call = (
                _load(functions[spec["function_id"]]),
                [_load(inputs[number]) for number in spec.get("args_ids", ())],
                {name: _load(inputs[n]) for name, n in spec.get("kwargs_ids", {}).items()},
            )
            metadata = {"dispatch_id": task_group_metadata["dispatch_id"], "node_id": node}
            job = await asyncio.to_thread(self._send_task, *call, metadata)
            ids.append(job.id)
        return ids

    async def poll(self, task_group_metadata: Metadata, data: Sequence[str]) -> list[str]:
        """Wait until all jobs of a group have ended.

        Args:
            task_group_metadata: of the group.
            data: what `send` has returned.

        Returns:
            The same ids, for `receive`.
        """
        del task_group_metadata
        jobs = [self.attach(job_id) for job_id in data]
        await asyncio.gather(*(_ended(job) for job in jobs))
        return list(data)

    async def receive(
        self, task_group_metadata: Metadata, data: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Tell how the tasks of a group ended, and where what they left can be read.

        Args:
            task_group_metadata: of the group.
            data: what `poll` has returned.

        Returns:
            For each task ``dispatch_id``, ``node_id``, ``status`` and ``assets``: the URLs of a
            pickle of its value, and of its stdout and stderr.
        """
        dispatch, nodes = task_group_metadata["dispatch_id"], task_group_metadata["node_ids"]
        return [
            {
                "dispatch_id": dispatch,
                "node_id": node,
                **await asyncio.to_thread(self._left, self.attach(job_id)),
            }
            for node, job_id in zip(nodes, data, strict=True)
        ]

    # -- what an engine notes about a task ------------------------------------------------------

    @contextmanager
    def get_dispatch_context(self, dispatch_info: Any) -> Iterator[Any]:
        """Make a task the current one, of which the next methods speak.

        Args:
            dispatch_info: has a ``dispatch_id`` and perhaps a ``node_id``.
        """
        dispatch = str(_of(dispatch_info, "dispatch_id"))
        node = _of(dispatch_info, "node_id", -1)
        token = _current.set((dispatch, int(node)))
        try:
            yield dispatch_info
        finally:
            _current.reset(token)

    async def get_cancel_requested(self) -> bool:
        """Tell whether `cancel` was asked for the current task."""
        notes = await asyncio.to_thread(self._notes, _current_task())
        return bool(notes.get("cancel_requested"))

    async def set_job_handle(self, handle: str) -> str:
        """Note which job the current task has become; returns it."""
        await asyncio.to_thread(self._note, _current_task(), job=handle)
        return handle

    async def set_job_status(self, status: str) -> bool:
        """Note the status of the current task; tells whether it is one that there is."""
        if not self.validate_status(status):
            return False
        await asyncio.to_thread(self._note, _current_task(), status=str(status))
        return True

    def validate_status(self, status: object) -> bool:
        """Tell whether a text is a status of AWS Batch or of Covalent."""
        return str(status).rpartition(".")[2] in _STATUSES

    async def get_version_info(self) -> dict[str, str]:
        """Return the versions of Python and of this package, which stands in for Covalent."""
        return {"python": platform.python_version(), "covalent": __version__}

    @staticmethod
    async def run_async_subprocess(cmd: str) -> tuple[asyncio.subprocess.Process, bytes, bytes]:
        """Run a command line with the shell; returns the ended process, its stdout and stderr."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(cmd, stdout=pipe, stderr=pipe)
        stdout, stderr = await process.communicate()
        return process, stdout, stderr

    async def write_streams_to_file(
        self,
        stream_strings: Iterable[str],
        filepaths: Iterable[str],
        dispatch_id: str,
        results_dir: str,
    ) -> None:
        """Append texts to files; those with a relative path are below the dispatch's results."""

        def write() -> None:
            for text, path in zip(stream_strings, filepaths, strict=False):
                if not path:
                    continue
                whole = os.path.join(results_dir, dispatch_id, os.path.expanduser(path))
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                with open(whole, "a", encoding="utf-8") as file:
                    file.write(text)

        await asyncio.to_thread(write)

    def to_dict(self) -> dict[str, Any]:
        """Return the executor's settings as JSON-like data; no credentials are in it."""
        return {
            "type": type(self).__name__,
            "short_name": "awsbatch",
            "attributes": self._attributes(),
        }

    # -- inside ---------------------------------------------------------------------------------

    def _account(self) -> str:
        raise NotImplementedError

    def _packed(self) -> dict[tuple[str, int], tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        found: dict[tuple[str, int], Any] = self.__dict__.setdefault("_packed_tasks", {})
        return found

    def _send_task(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        task_metadata: Metadata,
    ) -> Job:
        dispatch, node = task = _task(task_metadata)
        job = self._submit_named(f"{dispatch}-{node}", function, args, kwargs)
        self._note(task, job=job.id)
        return job

    def _job_of(self, task_metadata: Metadata) -> Job:
        dispatch, node = task = _task(task_metadata)
        job_id = self._notes(task).get("job")
        if job_id is None:
            raise StateError(f"node {node} of dispatch {dispatch} has not been submitted here")
        found: Job = self.attach(job_id)
        return found

    def _notes(self, task: tuple[str, int]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.store.read(_key(task)))
        except MissingObjectError:
            return {}
        return found

    def _note(self, task: tuple[str, int], **news: Any) -> None:
        notes = {**self._notes(task), **news, "at": time.time()}
        self.store.write(_key(task), [json.dumps(notes).encode()])

    def _left(self, job: Job) -> dict[str, Any]:
        """Put what a job left into objects of its own, and tell where they are."""
        import cloudpickle  # type: ignore[import-untyped]

        outcome = job.outcome()
        texts = {"stdout": outcome.stdout.encode(), "stderr": outcome.stderr.encode()}
        if outcome.ok:
            texts["output"] = cloudpickle.dumps(outcome.value)
        assets = {}
        for name, data in texts.items():
            key = f"jobs/{job.id}/task/{name}"
            self.store.write(key, [data])
            assets[name] = {"remote_uri": f"{self.store.url}/{key}"}
        return {"status": _ENDS.get(str(job.status), "FAILED"), "assets": assets}


def _task(metadata: Metadata) -> tuple[str, int]:
    missing = [name for name in ("dispatch_id", "node_id") if name not in metadata]
    if missing:
        raise UsageError(
            f"task_metadata needs dispatch_id and node_id, and lacks {' and '.join(missing)}: "
            f"{dict(metadata)!r}"
        )
    return str(metadata["dispatch_id"]), int(metadata["node_id"])


def _current_task() -> tuple[str, int]:
    task = _current.get()
    if task is None:
        raise StateError(
            "no task is the current one; use `with executor.get_dispatch_context(info):`"
        )
    return task


def _key(task: tuple[str, int]) -> str:
    dispatch, node = task
    return f"tasks/{dispatch.replace('/', '_')}/{node}.json"


def _of(source: Any, name: str, default: Any = None) -> Any:
    if isinstance(source, Mapping):
        return source.get(name, default)
    return getattr(source, name, default)


def _load(address: str) -> Any:
    import cloudpickle

    path = str(address).removeprefix("file://")
    try:
        with open(path, "rb") as file:
            found = cloudpickle.load(file)
    except OSError as error:
        raise PayloadError(f"{address} cannot be read: {error.strerror}") from None
    unpack = getattr(found, "get_deserialized", None)  # Covalent's TransportableObject
    return found if unpack is None else unpack()


async def _ended(job: Job) -> None:
    """Wait for a job's end, however it ends."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    await done.wait()
