"""A scheduler in memory whose apps end when a test says so, and a journal to write to."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from wherry.errors import StateError, UnknownAppError
from wherry.schedulers import journal
from wherry.schedulers.api import (
    AppDryRunInfo,
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
)
from wherry.specs import AppDef, AppState, Role, is_terminal, make_app_handle, runopts


class Desk(Scheduler[dict]):
    """Apps are entries in a dict; with a journal it keeps it as the local scheduler does."""

    def __init__(self, backend: str, session: str, notes: Path | None = None) -> None:
        super().__init__(backend, session)
        self.journaled = notes is not None
        self.apps: dict[str, dict] = {}
        self.questions: list[list[str]] = []
        self.cancelled: list[tuple[str, str, bool]] = []
        self.detached: list[str] = []
        self.closed = 0
        self.naps: list[float] = []
        self.napping = threading.Event()
        self.down: Exception | None = None
        self._notes = notes
        self._changed = threading.Condition()

    def run_opts(self) -> runopts:
        opts = runopts()
        opts.add("queue", help="where to wait", default="main")
        opts.add("size", type_=int, help="how much", default=1)
        opts.add("quiet", type_=bool, help="say less", default=False)
        opts.add("tags", type_=list, help="words")
        opts.add("labels", type_=dict, help="pairs")
        return opts

    def submit_dryrun(self, app, cfg):
        options = self.run_opts().resolve(cfg)
        request = {"name": app.name, "replicas": app.roles[0].num_replicas, "cfg": options}
        return AppDryRunInfo(request, scheduler=self.backend, app=app, cfg=options)

    def schedule(self, dryrun_info):
        request = dryrun_info.request
        return self.add(f"{request['name']}-{len(self.apps):04x}", **request)

    def add(self, app_id: str, at: float | None = None, **request) -> str:
        """Make an app, as if somebody had scheduled it."""
        at = time.time() if at is None else at
        request = {"name": app_id.rpartition("-")[0], "replicas": 1, **request}
        self.apps[app_id] = {**request, "state": AppState.RUNNING, "msg": "", "at": at, "end": None}
        self._note(
            {
                "e": "created",
                "handle": self.handle(app_id),
                "name": request["name"],
                "replicas": request["replicas"],
                "t": at,
            }
        )
        return app_id

    def end(self, app_id: str, state: AppState, msg: str = "", *, noted: bool = True) -> None:
        """End an app; without a note, it is as if its supervisor had been killed."""
        with self._changed:
            self.apps[app_id].update(state=state, msg=msg, end=time.time())
            self._changed.notify_all()
        entry = {"e": "ended", "handle": self.handle(app_id), "state": state.name, "msg": msg}
        if noted:
            self._note({**entry, "t": self.apps[app_id]["end"]})

    def handle(self, app_id: str) -> str:
        return make_app_handle(self.backend, self.session_name, app_id)

    def describe(self, app_id):
        if self.down:
            raise self.down
        app = self.apps.get(app_id)
        return app and DescribeAppResponse(app_id, app["state"], msg=app["msg"])

    def statuses(self, app_ids):
        self.questions.append(list(app_ids))
        return super().statuses(app_ids)

    def list(self, chosen=None):
        if self.down:
            raise self.down
        for app_id, app in sorted(self.apps.items(), key=lambda item: -item[1]["at"]):
            yield ListAppResponse(
                app_id,
                app["state"],
                self.handle(app_id),
                name=app["name"],
                created_at=app["at"],
                ended_at=app["end"],
                msg=app["msg"],
                replicas=app["replicas"],
                session=self.session_name,
            )

    def cancel(self, app_id, reason="", *, kill=False):
        self._required(app_id)
        self.cancelled.append((app_id, reason, kill))
        self.end(app_id, AppState.CANCELLED, reason)

    def log_iter(self, app_id, role_name, k=0, *args, **kwargs):
        self._required(app_id)
        return [f"{role_name}/{k} of {app_id}\n"]

    def wait_for_change(self, app_id, timeout, *, until_end=False):
        self.naps.append(timeout)
        with self._changed:
            self.napping.set()
            if not is_terminal(self.apps[app_id]["state"]):
                self._changed.wait(timeout)

    def detach(self, app_id):
        self.detached.append(app_id)

    def forget(self, app_id):
        if not is_terminal(self._required(app_id)["state"]):
            raise StateError(f"{app_id} still runs")
        del self.apps[app_id]

    def close(self):
        self.closed += 1

    def _required(self, app_id):
        if app_id not in self.apps:
            raise UnknownAppError
        return self.apps[app_id]

    def _note(self, entry: dict) -> None:
        if self._notes is not None:
            self._notes.parent.mkdir(parents=True, exist_ok=True)
            journal.append(str(self._notes), json.dumps(entry).encode() + b"\n")


@pytest.fixture
def notes(own_home: Path) -> Path:
    """The journal's path."""
    return own_home / "journal.jsonl"


@pytest.fixture
def desk(notes: Path) -> Desk:
    """A scheduler ``desk`` that keeps the journal."""
    return Desk("desk", "wherry", notes)


@pytest.fixture
def cloud() -> Desk:
    """A scheduler ``cloud`` that keeps no journal."""
    return Desk("cloud", "wherry")


@pytest.fixture
def runner(desk: Desk, cloud: Desk, tmp_path: Path):
    """A Runner over both, in a folder without settings."""
    from wherry.runner import Config, Runner

    factories = {"desk": lambda session: desk, "cloud": lambda session: cloud}
    with Runner(schedulers=factories, config=Config(paths=(), environ={})) as made:
        yield made


@pytest.fixture
def app() -> AppDef:
    """An app of one role."""
    return AppDef("echo", [Role("echo", "img", entrypoint="echo", args=["hi"])])
