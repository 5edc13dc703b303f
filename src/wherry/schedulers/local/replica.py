"""One replica inside the supervisor: its attempts, and how each of them ended."""

from __future__ import annotations

import os

from wherry.engine import signals
from wherry.engine.attempt import Attempt
from wherry.engine.output import ERROR_FILE, AttemptLog
from wherry.engine.spawn import Command
from wherry.schedulers.local.events import log_prefix
from wherry.specs.substitution import substitute
from wherry.specs.verdict import may_retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from wherry.engine.attempt import Family
    from wherry.engine.docker.attempt import ContainerAttempt
    from wherry.engine.docker.calls import Calls
    from wherry.engine.docker.ending import NotStartedError
    from wherry.engine.loop import Loop, Timer
    from wherry.engine.output import OpenFiles
    from wherry.engine.slots import Grant
    from wherry.schedulers.local.calls import Nursery
    from wherry.schedulers.local.plan import Plan, RolePlan

WAITING, STARTING, RUNNING, SUCCEEDED, FAILED, CANCELLED = (
    "WAITING",
    "STARTING",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
)

_ERROR_FILE_MOST = 1 << 16
_CODE_HINTS = {126: " (a command in it is not executable)", 127: " (a command in it was not found)"}
_SIGNAL_CODES = 128


class Stage:
    """What every replica of an app needs in order to run."""

    __slots__ = (
        "calls",
        "env",
        "family",
        "files",
        "loop",
        "nursery",
        "on_trouble",
        "oom_kills",
        "plan",
        "stdin",
    )

    def __init__(self, plan: Plan, loop: Loop, family: Family, files: OpenFiles) -> None:
        self.plan = plan
        self.loop = loop
        self.family = family
        self.files = files
        self.env = dict(plan.get("environ") or os.environ)
        self.oom_kills = oom_kills()
        self.stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.nursery: Nursery | None = None
        self.calls: Calls | None = None
        self.on_trouble: Callable[[str], None] = lambda _: None

    def engine_calls(self) -> Calls:
        """Return the way to the Engine that runs the app's containers."""
        if self.calls is None:
            from wherry.engine.docker.calls import Calls

            engine = self.plan["engine"]
            assert engine is not None  # noqa: S101 — a role with a container has an Engine
            self.calls = Calls(self.loop, engine["address"])
        return self.calls

    def close(self) -> None:
        """End what serves the replicas."""
        if self.calls is not None:
            self.calls.close()
        if self.nursery is not None:
            self.nursery.close()


class Replica:
    """One of a role's copies.

    Attributes:
        state: WAITING, STARTING (containers alone), RUNNING, or how it ended.
        number: the attempt that runs or ran last, from 1; 0 before the first.
        why: why it ended, in words.
        exit_code: the last attempt's; ``None`` when a signal ended it.
        out_of_memory: whether the last attempt's container needed more than it may use.
        stopped_as: the state that a stop from outside leads to, while one is under way.
    """

    __slots__ = (
        "attempt",
        "error",
        "exit_code",
        "grant",
        "index",
        "number",
        "out_of_memory",
        "role",
        "signal",
        "state",
        "stopped_as",
        "timer",
        "why",
    )

    def __init__(self, role: RolePlan, index: int) -> None:
        self.role = role
        self.index = index
        self.state = WAITING
        self.number = 0
        self.why = ""
        self.error: str | None = None
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.out_of_memory = False
        self.stopped_as = ""
        self.attempt: Attempt | ContainerAttempt | None = None
        self.grant: Grant | None = None
        self.timer: Timer | None = None

    @property
    def name(self) -> str:
        """How people and logs call it."""
        return f"{self.role['name']}/{self.index}"

    @property
    def in_container(self) -> bool:
        """Whether it runs in a container rather than as a process."""
        return self.role["container"] is not None

    def prepare(self, stage: Stage, grant: Grant, on_end: Callable[[Replica], None]) -> None:
        """Make ready the next attempt; `set_off` and then `confirm` have to follow.

        Raises:
            OSError: its pipes could not be made.
        """
        prefix = self._next_attempt(stage, grant)
        marker = f"{stage.plan['app_id']}/{self.name}/{self.number}"
        command = self._command(stage, prefix, marker, grant)
        self.attempt = Attempt(
            stage.loop,
            stage.family,
            command,
            AttemptLog(prefix, stage.files),
            f"WHERRY_ATTEMPT_ID={marker}".encode(),
            stage.plan["disk_patience"],
            lambda attempt: self._ended(stage, attempt, prefix, on_end),
        )
        self.attempt.prepare()

    def _next_attempt(self, stage: Stage, grant: Grant) -> str:
        """Forget the attempt before; returns what the paths of the new one's files begin with."""
        self.number += 1
        self.grant = grant
        self.stopped_as = self.why = ""
        self.exit_code = self.signal = self.error = None
        self.out_of_memory = False
        return log_prefix(stage.plan["log_dir"], self.role["name"], self.index, self.number)

    def set_off(self, stage: Stage) -> None:
        """Begin to start the program.

        Raises:
            StartError: there can be no more processes.
        """
        assert isinstance(self.attempt, Attempt)  # noqa: S101 — `prepare` has made it
        self.attempt.set_off(stage.stdin)

    def confirm(self, stage: Stage) -> None:
        """Wait until the program runs.

        Raises:
            StartError: it could not be started.
        """
        assert isinstance(self.attempt, Attempt)  # noqa: S101 — `prepare` has made it
        self.attempt.confirm()
        self.begins_to_run(stage)

    def begins_to_run(self, stage: Stage) -> None:
        """Note that the program runs; its time is counted from here."""
        self.state = RUNNING
        timeout = stage.plan["timeout"]
        if timeout is not None:
            self.timer = stage.loop.call_later(timeout, lambda: self._time_out(stage.plan))

    def prepare_container(
        self,
        stage: Stage,
        grant: Grant,
        on_ready: Callable[[NotStartedError | None], None],
        on_end: Callable[[Replica], None],
    ) -> None:
        """Have the next attempt's container made; `set_off_container` has to follow.

        Args:
            stage: what it needs.
            grant: the GPUs that it was given.
            on_ready: told that it is made, or why it is not.
            on_end: told of its end, once it runs.
        """
        from wherry.engine.docker.attempt import ContainerAttempt
        from wherry.schedulers.local.containers import make_container

        prefix = self._next_attempt(stage, grant)
        self.attempt = ContainerAttempt(
            stage.engine_calls(),
            make_container(stage.plan, self.role, self.index, self.number, grant),
            AttemptLog(prefix, stage.files),
            stage.plan["disk_patience"],
            stage.on_trouble,
            lambda attempt: self._container_ended(attempt, on_end),
            patient=self.number > 1,
        )
        self.attempt.prepare(on_ready)

    def set_off_container(self, on_start: Callable[[NotStartedError | None], None]) -> None:
        """Have the container started."""
        from wherry.engine.docker.attempt import ContainerAttempt

        assert isinstance(self.attempt, ContainerAttempt)  # noqa: S101 — made before
        self.attempt.set_off(on_start)

    def stop(self, why: str, grace: float, *, state: str) -> None:
        """Tell a running attempt to end; nothing happens to one that has."""
        if self.state in (STARTING, RUNNING) and self.attempt is not None:
            self.stopped_as = self.stopped_as or state
            self.attempt.stop(why, grace)

    def not_started(self, why: str, exit_code: int | None) -> str:
        """Note that an attempt failed before its program ran; returns why."""
        self.state, self.why, self.exit_code = self.stopped_as or FAILED, why, exit_code
        self._release()
        return why

    def abandon(self, why: str) -> None:
        """Give up an attempt that was made ready and never set off."""
        if self.attempt is not None:
            self.attempt.abandon()
        self._release()
        self.cancel_waiting(why)

    def cancel_waiting(self, why: str) -> None:
        """Note that it will not be started any more."""
        self.state, self.why = CANCELLED, why

    def may_retry(self) -> bool:
        """Tell whether its failure may be answered with another attempt.

        A timeout is not retried, as on AWS Batch; nor is what was stopped from outside.
        """
        return not self.stopped_as and may_retry(self.role["rules"], self.exit_code, self.why)

    def _command(self, stage: Stage, prefix: str, marker: str, grant: Grant) -> Command:
        role, plan = self.role, stage.plan
        values = {"replica_id": str(self.index)}
        env = dict(stage.env)
        env.update((name, substitute(value, values)) for name, value in role["env"].items())
        error_file = f"{prefix}.{ERROR_FILE}"
        env.update(
            WHERRY_APP_ID=plan["app_id"],
            WHERRY_ROLE_NAME=role["name"],
            WHERRY_REPLICA_ID=str(self.index),
            WHERRY_NUM_REPLICAS=str(role["replicas"]),
            WHERRY_ATTEMPT=str(self.number),
            WHERRY_ATTEMPT_ID=marker,
            WHERRY_RANK0_HOST="localhost",
            WHERRY_ERROR_FILE=error_file,
            TORCHELASTIC_ERROR_FILE=error_file,
        )
        if grant.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(grant.gpus.values())
        argv = [substitute(arg, values) for arg in role["argv"]]
        if role.get("call"):
            return self._call_command(stage, argv, env)
        return Command(role["program"], argv, env, role["cwd"], role["limits"])

    def _call_command(self, stage: Stage, argv: list[str], env: dict[str, str]) -> Command:
        from wherry.schedulers.local.calls import CallCommand, Nursery

        if stage.nursery is None:
            stage.nursery = Nursery(stage.loop, stage.family, stage.plan)
        return CallCommand(self.role, argv, env, self.index, self.number, stage.nursery)

    def _time_out(self, plan: Plan) -> None:
        self.stop(f"timed out after {plan['timeout']:g} s", plan["grace"], state=FAILED)

    def _ended(
        self, stage: Stage, attempt: Attempt, prefix: str, on_end: Callable[[Replica], None]
    ) -> None:
        status = attempt.status or 0
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)
        self.error = _error_file(prefix)
        self.state, self.why = self._outcome(stage, attempt)
        self._release()
        on_end(self)

    def _container_ended(
        self, attempt: ContainerAttempt, on_end: Callable[[Replica], None]
    ) -> None:
        end = attempt.end
        self.exit_code, self.signal, self.error = end.exit_code, end.signal, end.error
        self.out_of_memory = end.out_of_memory
        if attempt.stop_reason:
            self.stopped_as = self.stopped_as or FAILED
            self.state, self.why = self.stopped_as, attempt.stop_reason
        else:
            self.state, self.why = (FAILED if end.why else SUCCEEDED), end.why
            if end.why.startswith("exited"):
                self.why += _code_hint(end.exit_code or 0)
        self._release()
        on_end(self)

    def _outcome(self, stage: Stage, attempt: Attempt) -> tuple[str, str]:
        if attempt.stop_reason:
            self.stopped_as = self.stopped_as or FAILED
            return self.stopped_as, attempt.stop_reason
        if self.signal is not None:
            out_of_memory = self.signal == signals.SIGKILL and oom_kills() > stage.oom_kills
            hint = ": the machine ran out of memory" if out_of_memory else ""
            return FAILED, f"killed by {signals.name_of(self.signal)}{hint}"
        if self.exit_code:
            return FAILED, f"exited with code {self.exit_code}{_code_hint(self.exit_code)}"
        return SUCCEEDED, ""

    def _release(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.grant is not None:
            self.grant.release()
        self.attempt = self.grant = self.timer = None


def oom_kills() -> int:
    """Count the processes that the kernel has killed for want of memory (proc(5), vmstat)."""
    try:
        with open("/proc/vmstat", "rb") as file:
            _, _, rest = file.read().partition(b"\noom_kill ")
    except OSError:
        return 0
    return int(rest.split(None, 1)[0]) if rest else 0


def _code_hint(code: int) -> str:
    """Say what an exit code means where shells agree on it."""
    if code > _SIGNAL_CODES:
        name = signals.name_of(code - _SIGNAL_CODES)
        return f" (a command in it was killed by {name})" if name.startswith("SIG") else ""
    return _CODE_HINTS.get(code, "")


def _error_file(prefix: str) -> str | None:
    try:
        with open(f"{prefix}.{ERROR_FILE}", "rb") as file:
            return file.read(_ERROR_FILE_MOST).decode(errors="replace")
    except OSError:
        return None
