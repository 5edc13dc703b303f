"""The emulator as a whole: opens everything in the right order, and closes it again.

It joins the parts and knows none of their insides. Batch is one service for each region that is
asked for; the rest of AWS is moto's, whose state is global to the process: two emulators in one
process have their own queues and jobs, and share logs, buckets and all else.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import socket
import tempfile
import threading
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING

from wherry.emulator.batch.archive import SqliteArchive
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.service import BatchService
from wherry.emulator.clock import Clock
from wherry.emulator.cloud import moto
from wherry.emulator.cloud.bootstrap import make_account, make_queues
from wherry.emulator.cloud.surroundings import Cloud
from wherry.emulator.faults import Faults
from wherry.emulator.server.admin import Admin, faults_of
from wherry.emulator.server.choosing import Making, open_engine
from wherry.emulator.server.regions import known_region
from wherry.emulator.settings import Settings
from wherry.errors import LaunchError, StateError

if TYPE_CHECKING:
    from types import TracebackType

    from wherry.emulator.engines.api import Engine, TaskEvent
    from wherry.emulator.server.front import Front
    from wherry.emulator.server.listening import Listener
    from wherry.emulator.server.s3 import Handover

ACCESS_KEY = "AKIAWHERRYEMULATOR00"
SECRET_KEY = "wherry-emulator-this-key-opens-nothing00"  # noqa: S105 — it opens nothing
"""What a client signs with. Nobody looks at signatures, but clients want to make them."""

_ARCHIVE = re.compile(r"batch-(.+)\.sqlite3")
_log = logging.getLogger("wherry.emulator")


class Emulator:
    """AWS Batch on this machine, and what belongs to it, behind one port.

    Nothing happens before `start`, which is for once; a `with` block starts and stops it.

    Args:
        settings: how it is to be.

    Attributes:
        faults: what goes wrong on purpose.
        clock: the emulated time.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.faults = Faults()
        self.clock = Clock(settings.scale)
        self._lock = threading.RLock()
        self._services: dict[str, BatchService] = {}  # ready for requests
        self._running: list[BatchService] = []  # these, and those that are getting ready
        self._archives: dict[str, SqliteArchive] = {}
        self._undo = ExitStack()
        self._front: Front | None = None
        self._listener: Listener | None = None
        self._engine: Engine | None = None
        self._engine_reason = ""
        self._efs_root = ""
        self._stopping = False
        self._s3: Handover | None = None
        self._buckets: set[str] = set()
        self._cloud = Cloud(settings, self.clock, self._endpoint, self.faults)

    def __enter__(self) -> Emulator:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- its life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to answer.

        Raises:
            LaunchError: the port, the state folder or the engine cannot be had; says which, why and
                what to do. Nothing is left behind.
            UsageError: a setting cannot be honoured.
        """
        known_region(self._settings.region)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        folder = self._folder()
        self._efs_root = os.path.join(folder, "efs")
        self._s3 = self._handover()
        self._front, self._listener = self._door()
        self._listener.bind()
        self._undo.callback(self._cloud.stop)
        self._cloud.start()
        making = Making(self._on_task_event, self._cloud.sink, self._name(), folder)
        self._engine, self._engine_reason = open_engine(self._settings.engine, making)
        self._undo.callback(self._engine.close)
        self._undo.callback(self._close_services)
        for address in self._engine.addresses():
            self._listener.bind(address)
        self._make_account()
        for region in self._regions_kept():
            self.service(region)
        self._listener.serve()
        self._warm()

    def stop(self) -> None:
        """End all jobs, threads and sockets; harmless when repeated.

        With a state folder, the jobs that ran are known at the next start as ones whose host is
        gone, so that their retries apply.
        """
        self._stopping = True
        if self._front is not None and self._listener is not None:
            self._front.close()
            self._listener.stop()
        self._undo.close()
        self._engine = None

    def _folder(self) -> str:
        """Return a folder of this emulator alone."""
        state = self._settings.state
        if state is None:
            folder = tempfile.mkdtemp(prefix="wherry-emulator-")
            self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
            return folder
        try:
            os.makedirs(state, mode=0o700, exist_ok=True)
            lock = open(os.path.join(state, "lock"), "a", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise LaunchError(f"the state folder {state!r} cannot be used: {error}") from error
        self._undo.callback(lock.close)
        _take(lock, state)
        return state

    def _handover(self) -> Handover | None:
        if self._settings.s3 is None:
            return None
        from wherry.emulator.server.s3 import Handover, target_of

        own = (ACCESS_KEY, SECRET_KEY)
        handover = Handover(target_of(self._settings.s3), self._settings.region, own)
        self._undo.callback(handover.close)
        return handover

    def _door(self) -> tuple[Front, Listener]:
        from wherry.emulator.server.front import Front
        from wherry.emulator.server.listening import Listener

        application = moto.Application()
        region = self._settings.region
        front = Front(self, self._cloud, self.faults, region, application, Admin(self), self._s3)
        return front, Listener(front, self._settings.port)

    def _name(self) -> str:
        """Return a name that no other emulator of the same Docker Engine has at the same time."""
        if self._settings.state is not None:
            path = os.path.realpath(self._settings.state)
            known = hashlib.sha256(f"{socket.gethostname()}:{path}".encode())
            return f"state-{known.hexdigest()[:12]}"
        return f"{socket.gethostname()[:20]}-{self.port}"

    def _regions_kept(self) -> list[str]:
        if self._settings.state is None:
            return []
        found = map(_ARCHIVE.fullmatch, sorted(os.listdir(self._settings.state)))
        return [match[1] for match in found if match]

    def _warm(self) -> None:
        """Get the region ready that most requests will be for, while nobody waits yet."""
        thread = threading.Thread(target=self._get_ready, name="wherry-warm", daemon=True)
        self._undo.callback(thread.join)
        thread.start()

    def _get_ready(self) -> None:
        with suppress(StateError):
            self.service()

    # -- Batch ----------------------------------------------------------------------------------

    def service(self, region: str | None = None) -> BatchService:
        """Return Batch in a region, which begins to exist when it is first asked for.

        Raises:
            ClientError: there is no such region.
            StateError: the emulator does not run.
        """
        name = region or self._settings.region
        found = self._services.get(name)
        if found is not None:
            return found
        with self._lock:
            found = self._services.get(name)
            return found if found is not None else self._open(known_region(name))

    def call(self, region: str, operation: str, request: Document) -> Document:
        """Carry out an operation of Batch.

        Raises:
            BatchError: what AWS would say.
        """
        return self.service(region).call(operation, request)

    def _open(self, region: str) -> BatchService:
        if self._stopping or self._engine is None:
            raise StateError("the emulator does not run")
        moto.known(region)
        service = BatchService(
            region,
            self._engine,
            self._cloud,
            self.clock,
            self.faults,
            self._settings,
            self._archive(region),
            efs_root=self._efs_root,
        )
        self._running.append(service)
        try:
            service.start()
            if self._settings.bootstrap:
                make_queues(region, service.call)
        except BaseException:
            self._running.remove(service)
            service.close()
            raise
        self._services[region] = service
        return service

    def stacks_changed(self) -> None:
        """Make the buckets of stacks where S3 really is."""
        if self._s3 is None:
            return
        for name in list(moto.backend("s3", self._settings.region).buckets):
            if name not in self._buckets:
                self._make_bucket(name)

    def _archive(self, region: str) -> SqliteArchive | None:
        if self._settings.state is None:
            return None
        path = os.path.join(self._settings.state, f"batch-{region}.sqlite3")
        self._archives[region] = SqliteArchive(path)
        return self._archives[region]

    def _make_account(self) -> None:
        if self._settings.bootstrap:
            make_account(self._settings.region, self._make_bucket if self._s3 else None)

    def _make_bucket(self, name: str) -> None:
        if self._s3 is None:
            return
        self._buckets.add(name)
        try:
            self._s3.make_bucket(name)
        except OSError as error:
            _log.warning("the bucket %s could not be made at the S3 server: %s", name, error)

    def _close_services(self) -> None:
        with self._lock:
            for service in self._running:
                service.close()
            for archive in self._archives.values():
                archive.close()
            self._services.clear()
            self._running.clear()
            self._archives.clear()

    def _on_task_event(self, event: TaskEvent) -> None:
        """Tell the region whose task it is; those that a reset has dropped are nobody's."""
        for service in list(self._running):
            if service.owns(event.task_id):
                service.on_task_event(event)
                return

    # -- what is seen from outside --------------------------------------------------------------

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.port if self._listener is not None else self._settings.port

    @property
    def url(self) -> str:
        """The endpoint of all of AWS, as clients on this machine see it."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that send an unmodified client here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": self._settings.region,
            "AWS_REGION": self._settings.region,
        }

    def status(self) -> Document:
        """Return what runs: engine, jobs by state, queues, instances, faults and time."""
        engine = self._engine
        regions = [service.status() for service in list(self._services.values())]
        jobs: dict[str, int] = {}
        for region in regions:
            for state, count in region["jobs"].items():
                jobs[state] = jobs.get(state, 0) + count
        return {
            "url": self.url,
            "addresses": self._listener.addresses if self._listener is not None else [],
            "engine": engine.name if engine is not None else "",
            "engine_reason": self._engine_reason,
            "notes": [
                *getattr(engine, "notes", ()),
                *dict.fromkeys(note for region in regions for note in region["notes"]),
            ],
            "region": self._settings.region,
            "state": self._settings.state or "",
            "s3": _without_key(self._settings.s3 or ""),
            "scale": self.clock.scale,
            "now": self.clock.now(),
            "jobs": jobs,
            "queues": [
                {"name": name, "region": region["region"], "jobs": counts}
                for region in regions
                for name, counts in region["queues"].items()
            ],
            "regions": regions,
            "faults": faults_of(self.faults),
            "environment": self.environment(),
        }

    def reset(self) -> None:
        """End all jobs, and forget everything but what there was at the start.

        The clock goes on as it is. moto's state is emptied for all emulators of the process.
        """
        with self._lock:
            engine = self._engine
            if engine is None:
                raise StateError("the emulator does not run")
            tasks = [task for service in self._running for task in service.plane.flights]
            regions = list(self._archives)
            self._close_services()
            for task_id in tasks:
                engine.lose(task_id, "The emulator was reset.")
            self.faults.clear()
            self._cloud.reset(tasks)
            for region in regions:
                self._remove_archive(region)
            self._make_account()
            self.service()

    def _remove_archive(self, region: str) -> None:
        for ending in ("", "-wal", "-shm"):
            path = os.path.join(self._settings.state or "", f"batch-{region}.sqlite3{ending}")
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _endpoint(self) -> str:
        engine = self._engine
        return engine.endpoint(self.port) if engine is not None else self.url


def _take(lock: IO[str], state: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LaunchError(
            f"another emulator keeps its state in {state!r}; stop it, or give this one a folder of"
            " its own"
        ) from None


def _without_key(url: str) -> str:
    """Return an address without the key and secret that may be in it."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if at else url
