"""The process that runs one app: it starts the replicas, watches them and writes down what happens.

It is the only writer of the app's event log while it lives. Clients talk to it through files: the
plan arrives on standard input, one line on the ready pipe says how the launch went, the control
pipe takes `cancel` and `kill`, and the attach pipe ends when the client does.
"""

from __future__ import annotations

import errno
import os
import resource
import time

from wherry.engine import kernel, processes, signals
from wherry.engine.attempt import Family
from wherry.engine.loop import Loop, disregard
from wherry.engine.output import OpenFiles
from wherry.engine.slots import Slots
from wherry.schedulers import journal
from wherry.schedulers.local.dependencies import Dependencies
from wherry.schedulers.local.events import CONTROL_FILE, READ, EventLog, encode
from wherry.schedulers.local.launching import ArrayLaunch, GangLaunch
from wherry.schedulers.local.plan import DETACH, READY
from wherry.schedulers.local.replica import CANCELLED, FAILED, SUCCEEDED, Replica, Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.engine.docker.calls import Reply
    from wherry.schedulers.local.launching import Launch
    from wherry.schedulers.local.plan import Plan

CLIENT_GONE = "its client ended, and it was not detached"

_LOOK_AGAIN = 1.0
_EVENTS_RETRY = 0.25
_EVENTS_PATIENCE = 30.0
_FDS_APART = 80
_FDS_PER_REPLICA = 5
_NO_NETWORK, _IN_THE_MAKING, _MADE = range(3)
_CONFLICT = 409


class Supervisor:
    """Runs one app to its end.

    Args:
        plan: what to do.
        events: the events file, locked.
        ready: descriptor on which the outcome of the launch is told.
        attach: descriptor that ends with the client.
    """

    def __init__(self, plan: Plan, events: int, ready: int, attach: int) -> None:
        self._plan = plan
        self._ready = ready
        self._attach = attach
        self._loop = Loop()
        self._family = Family()
        self._events = EventLog(events)
        self._slots = Slots(plan["slots_dir"], plan["cores"], plan["gpu_pool"])
        self._control = -1
        self._client = -1
        self._cancel_reason = ""
        self._last_wait = ""
        self._watch: kernel.Watch | None = None
        self._dependencies = Dependencies(plan["depends_on"])
        self._launch = self._make_launch()
        self._network_state = _NO_NETWORK
        self._problem = ""
        self._under_way = False

    def run(self) -> None:
        """Run the app until it has finished and all is written down."""
        kernel.become_subreaper()
        engine = self._plan["engine"]
        self._events.write(
            "supervising",
            pid=os.getpid(),
            boot=_boot_id(),
            **({"engine": engine["address"]} if engine else {}),
        )
        # Whoever finds no word of it here may start it again.
        self._events.flush()
        problem = self._prepare()
        if problem:
            self._finish(FAILED, problem)
            self._tell(problem.encode())
            return
        self._listen()
        self._proceed()
        self._loop.run_until(lambda: self._launch.over, self._between_rounds)
        self._launch.stage.close()
        if self._family.has_orphans():
            processes.kill_descendants()
        if not self._launch_error():
            self._accept()
        self._finish(*self._verdict())
        self._clear_engine()
        self._tell(self._launch_error())

    def _make_launch(self) -> Launch:
        kind = ArrayLaunch if self._plan["array"] else GangLaunch
        stage = Stage(self._plan, self._loop, self._family, OpenFiles())
        stage.on_trouble = self._on_trouble
        return kind(
            stage,
            self._slots,
            self._on_start,
            self._on_end,
            self._on_queue,
            self._on_wait,
            self._on_restart,
        )

    # What must be so before anything starts.

    def _prepare(self) -> str:
        """Open what the launch needs; returns what is in the way."""
        try:
            self._slots.open()
        except OSError as error:
            return f"cannot count cores and GPUs: {error.strerror}: {error.filename}"
        return self._make_room_for_descriptors()

    def _make_room_for_descriptors(self) -> str:
        replicas = len(self._launch.replicas)
        if self._plan["array"]:
            replicas = min(replicas, self._plan["max_parallel"] or replicas, self._plan["cores"])
        wanted = _FDS_APART + _FDS_PER_REPLICA * replicas
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Programs get the limits that the client had; only this process raises its own.
        for role in self._plan["roles"]:
            role["limits"].insert(0, (resource.RLIMIT_NOFILE, soft, hard))
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return ""
        try:
            enough = hard == resource.RLIM_INFINITY or hard >= wanted
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard if enough else wanted))
        except (ValueError, OSError):
            return (
                f"{replicas} replicas at once need {wanted} file descriptors, and the limit is "
                f"{hard} (ulimit -Hn); raise it, or run them as an array with max_parallel"
            )
        return ""

    def _listen(self) -> None:
        self._loop.on_signal(signals.SIGCHLD, self._on_child)
        self._loop.on_signal(
            signals.SIGTERM, lambda: self._cancel("its supervisor was asked to end (SIGTERM)")
        )
        for number in (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE, signals.SIGXFSZ):
            signals.handle(number, disregard)
        # Opened for writing too, so that it never is at its end.
        self._control = os.open(f"{self._plan['directory']}/{CONTROL_FILE}", os.O_RDWR)
        os.set_blocking(self._control, False)
        self._loop.add(self._control, lambda _: self._on_control())
        if self._attach >= 0:
            os.set_blocking(self._attach, False)
            self._loop.add(self._attach, lambda _: self._on_attach())
            self._watch_client()

    def _watch_client(self) -> None:
        """Notice the client's death even if one of its children keeps its pipe open."""
        try:
            self._client = os.pidfd_open(self._plan["client"])
        except ProcessLookupError:
            self._cancel(CLIENT_GONE)
        except OSError:
            return  # An old kernel; the attach pipe serves alone.
        else:
            self._loop.add(self._client, lambda _: self._on_attach())

    # Starting.

    def _proceed(self) -> None:
        """Start what can be started, and arrange to look again if something is in the way."""
        if self._launch.over or self._cancel_reason:
            return
        unmet = self._dependencies.unmet()
        if self._dependencies.failed:
            self._launch.stop(self._dependencies.failed, 0)
        elif unmet:
            self._on_wait(f"waits for {unmet}")
        elif self._has_network():
            self._launch.begin()
        else:
            return
        if unmet or self._launch.waiting_for_slots:
            self._look_again_on_change()
        self._under_way = True

    def _between_rounds(self) -> None:
        """Tell what can be told: to the client, and to the record."""
        if self._under_way and not self._launch.taking_off and not self._launch_error():
            self._accept()
        self._events.flush()

    def _has_network(self) -> bool:
        """Tell whether the app's network is there; have it made, if not."""
        engine = self._plan["engine"]
        if engine is None or not engine["own_network"] or self._network_state == _MADE:
            return True
        if self._network_state == _NO_NETWORK:
            self._network_state = _IN_THE_MAKING
            body = {"Name": engine["network"], "CheckDuplicate": True, "Labels": engine["labels"]}
            calls = self._launch.stage.engine_calls()
            calls.ask("POST", "/networks/create", self._on_network, body=body)
        return False

    def _on_network(self, reply: Reply) -> None:
        if reply.ok or reply.status == _CONFLICT:  # It is there, by a request that was repeated.
            self._network_state = _MADE
            self._proceed()
        else:
            self._problem = f"its network could not be made: {reply.words}"
            self._launch.stop(self._problem, 0)

    def _clear_engine(self) -> None:
        """Remove the app's network, and after a start that failed its containers too."""
        engine = self._plan["engine"]
        rolled_back = self._ready >= 0 and bool(self._launch_error())
        if engine is None or not (rolled_back or engine["own_network"]):
            return
        from wherry.engine.docker.sweeping import end_app

        end_app(engine["address"], self._plan["app_id"], remove=rolled_back)

    def _accept(self) -> None:
        """Tell the client, and the ledger, that the app is under way."""
        if self._ready >= 0:
            self._announce("created", name=self._plan["name"], replicas=len(self._launch.replicas))
            self._tell(READY)

    def _announce(self, event: str, **fields: str | int) -> None:
        line = encode({"e": event, "handle": self._plan["handle"], "t": time.time(), **fields})
        journal.append(self._plan["journal"], line)

    def _look_again_on_change(self) -> None:
        if self._watch is not None:
            return
        watch = self._watch = kernel.Watch(
            [self._plan["slots_dir"]], kernel.IN_CLOSE_WRITE | kernel.IN_MODIFY
        )
        self._dependencies.watched_by(watch)

        def on_change(_: int) -> None:
            watch.clear()
            self._proceed()

        self._loop.add(watch.fd, on_change)
        self._loop.call_later(_LOOK_AGAIN, self._look_again)

    def _look_again(self) -> None:
        self._proceed()
        self._loop.call_later(_LOOK_AGAIN, self._look_again)

    # What happens meanwhile.

    def _on_start(self, replica: Replica) -> None:
        attempt = replica.attempt
        gpus = ",".join(replica.grant.gpus.values()) if replica.grant else ""
        container = getattr(attempt, "container_id", "")
        self._events.write(
            "started",
            role=replica.role["name"],
            k=replica.index,
            n=replica.number,
            pid=attempt.pid if attempt else 0,
            **({"gpus": gpus} if gpus else {}),
            **({"container": container} if container else {}),
        )

    def _on_end(self, replica: Replica) -> None:
        self._events.write(
            "ended",
            role=replica.role["name"],
            k=replica.index,
            n=replica.number,
            code=replica.exit_code,
            sig=replica.signal,
            state=replica.state,
            why=replica.why,
            **({"error": replica.error} if replica.error else {}),
            **({"oom": True} if replica.out_of_memory else {}),
        )

    def _on_queue(self, replica: Replica) -> None:
        self._events.write("queued", role=replica.role["name"], k=replica.index)

    def _on_wait(self, why: str) -> None:
        if why != self._last_wait:
            self._last_wait = why
            self._events.write("waiting", why=why)

    def _on_trouble(self, why: str) -> None:
        """Hear that the Engine is waited for, or that it is back."""
        if why:
            self._on_wait(why)
        elif self._last_wait:
            self._last_wait = ""
            self._events.write("resumed")

    def _on_restart(self, why: str) -> None:
        self._events.write("restarting", why=why)

    def _on_child(self) -> None:
        for pid, status, cpu_seconds, max_rss_kib in processes.reap():
            attempt = self._family.programs.get(pid)
            if attempt is not None:
                attempt.program_ended(status, cpu_seconds, max_rss_kib)
        for attempt in list(self._family.leaving):
            attempt.settle()

    def _on_control(self) -> None:
        try:
            data = os.read(self._control, 65536)
        except BlockingIOError:
            return
        for line in data.decode(errors="replace").splitlines():
            verb, _, reason = line.partition("\t")
            if verb in ("cancel", "kill"):
                self._cancel(reason or "cancelled", kill=verb == "kill")
            elif verb == READ:
                self._read_for(*reason.partition(" ")[::2])

    def _read_for(self, pid: str, answer: str) -> None:
        """Read what an attempt has written so far, and tell it that all is in its log."""
        attempt = self._family.programs.get(int(pid)) if pid.isdigit() else None
        if attempt is not None:
            attempt.drain()
        try:
            fd = os.open(answer, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return  # It is gone.
        os.write(fd, b"!")
        os.close(fd)

    def _on_attach(self) -> None:
        """Hear the client's last word, or its silence."""
        try:
            last_word = os.read(self._attach, 1)
        except BlockingIOError:
            last_word = b""  # The client is gone, and a child of it holds the pipe.
        self._loop.remove(self._attach)
        self._forget_client()
        if last_word == DETACH:
            self._events.write("detached")
        else:
            self._cancel(CLIENT_GONE)

    def _forget_client(self) -> None:
        if self._client >= 0:
            self._loop.remove(self._client)
            os.close(self._client)
            self._client = -1

    def _cancel(self, reason: str, *, kill: bool = False) -> None:
        if not self._cancel_reason:
            self._cancel_reason = reason
            self._events.write("cancelling", why=reason)
        self._launch.stop(self._cancel_reason, 0 if kill else self._plan["grace"])

    # The end.

    def _verdict(self) -> tuple[str, str]:
        """Say how the app as a whole ended, and why."""
        replicas = self._launch.replicas
        if self._dependencies.failed or self._problem:
            return FAILED, self._dependencies.failed or self._problem
        if self._cancel_reason and any(r.state == CANCELLED for r in replicas):
            return CANCELLED, self._cancel_reason
        failure = self._launch.failure
        if failure is None:
            return SUCCEEDED, ""
        if isinstance(self._launch, GangLaunch) or len(replicas) == 1:
            return FAILED, _because(failure)
        failed = sum(replica.state == FAILED for replica in replicas)
        return (
            FAILED,
            f"{failed} of {len(replicas)} replicas failed; the first: {_because(failure)}",
        )

    def _finish(self, state: str, why: str) -> None:
        self._events.write("finished", state=state, why=why)
        self._outlast_full_disk()
        if self._ready < 0:
            self._announce("ended", state=state, msg=why)
        self._events.sync()

    def _outlast_full_disk(self) -> None:
        end = time.monotonic() + _EVENTS_PATIENCE
        while not self._events.flush() and time.monotonic() < end:
            time.sleep(_EVENTS_RETRY)

    def _launch_error(self) -> bytes:
        error = self._problem or self._launch.launch_error
        return error.encode(errors="surrogateescape")

    def _tell(self, message: bytes) -> None:
        """Tell the client how the launch went; only the first word counts."""
        ready, self._ready = self._ready, -1
        if ready < 0 or not message:
            self._ready = ready
        else:
            self._events.flush()
            try:
                os.write(ready, message)
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
            os.close(ready)
            os.dup2(0, 2)  # Standard error went to the client too; from here on it goes nowhere.


def _because(replica: Replica) -> str:
    return f"{replica.name} {replica.why}"


def _boot_id() -> str:
    """Return the id of this boot of the machine: a supervisor of another one cannot be alive."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
