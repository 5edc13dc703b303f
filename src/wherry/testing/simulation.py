"""The life of one app in memory: starts, ends, retries, time limits, as a real one would go.

Everything here happens under the clock's lock, in its timers or in a call of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from wherry.errors import UnknownNameError, unknown
from wherry.schedulers.api import AppDryRunInfo, DescribeAppResponse
from wherry.specs.states import AppState, is_terminal
from wherry.specs.status import RoleStatus
from wherry.testing.clock import Clock
from wherry.testing.outcomes import Outcome
from wherry.testing.replica import Attempt, Replica
from wherry.testing.request import MemoryRequest

FindOutcome = Callable[[str, int, int], Outcome]
"""Role, replica and attempt → how it goes."""

_ENDS = {
    AppState.FAILED: "failed",
    AppState.CANCELLED: "was cancelled",
}


class SimulatedApp:
    """One app that was scheduled.

    Args:
        info: what was scheduled; only its request counts.
        handle: the app's name.
        clock: the time it lives by.
        outcome: how each attempt goes.
    """

    def __init__(
        self,
        info: AppDryRunInfo[MemoryRequest],
        handle: str,
        clock: Clock,
        outcome: FindOutcome,
    ) -> None:
        self.info = info
        self.handle = handle
        self.state = AppState.SUBMITTED
        self.msg = ""
        self.created_at = clock.now()
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.replicas = [
            Replica(role, replica.id) for role in info.request.roles for replica in role.replicas
        ]
        self._clock = clock
        self._outcome = outcome
        self._request = info.request
        self._restarts = 0
        self._first_failure: Replica | None = None
        self._when_ended: list[Callable[[], None]] = []

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return is_terminal(self.state)

    def begin(self, dependencies: Sequence[SimulatedApp]) -> None:
        """Start when all of these apps have succeeded; end when one of them did not."""
        self.state = AppState.PENDING

        def look() -> None:
            self._begin_when_ready(dependencies)

        for app in dependencies:
            app._when_ended.append(look)  # noqa: SLF001 — another of our own kind
        look()

    def cancel(self, reason: str, *, kill: bool) -> None:
        """End it, unless it has ended."""
        if not self.ended:
            words = reason or "cancelled"
            self._stop_all("SIGKILL" if kill else "SIGTERM", words)
            self._end(AppState.CANCELLED, words)

    def replica(self, role_name: str, k: int) -> Replica:
        """Return one replica.

        Raises:
            UnknownNameError: there is no such role or replica.
        """
        mates = {one.index: one for one in self.replicas if one.role.name == role_name}
        if not mates:
            names = [role.name for role in self._request.roles]
            raise UnknownNameError(unknown(f"role of {self.handle}:", role_name, names))
        if k not in mates:
            raise UnknownNameError(
                f"role {role_name!r} of {self.handle} has no replica {k}; "
                f"it has {len(mates)}, from 0"
            )
        return mates[k]

    def describe(self) -> DescribeAppResponse:
        """Return all that is known of it."""
        first = self._first_failure
        return DescribeAppResponse(
            app_id=self._request.app_id,
            state=self.state,
            num_restarts=sum(max(len(one.attempts) - 1, 0) for one in self.replicas),
            msg=self.msg,
            structured_error_msg=(first.last.error or "") if first else "",
            roles_statuses=tuple(
                RoleStatus(
                    role.name, tuple(one.status() for one in self.replicas if one.role is role)
                )
                for role in self._request.roles
            ),
            roles=tuple(self.info.app.roles),
            app=self.info.app,
            created_at=self.created_at,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )

    def _begin_when_ready(self, dependencies: Sequence[SimulatedApp]) -> None:
        if self.ended:
            return
        for app in dependencies:
            if app.ended and app.state is not AppState.SUCCEEDED:
                reason = f"depends on {app.handle}, which {_ENDS[app.state]}"
                self._stop_all("SIGTERM", reason)
                self._end(AppState.FAILED, reason)
                return
        unmet = next((app.handle for app in dependencies if not app.ended), None)
        self.msg = f"waits for {unmet}" if unmet else ""
        if not unmet:
            self._start(self.replicas)

    def _start(self, replicas: Sequence[Replica]) -> None:
        """Start replicas, those of a gang at the same time."""
        chosen = [
            (one, self._outcome(one.role.name, one.index, len(one.attempts) + 1))
            for one in replicas
        ]
        together = max(outcome.pending for _, outcome in chosen)
        for replica, outcome in chosen:
            replica.state, replica.reason = AppState.PENDING, ""
            replica.start = self._clock.call_later(
                outcome.pending if self._request.array else together,
                partial(self._run, replica, outcome),
            )

    def _run(self, replica: Replica, outcome: Outcome) -> None:
        now = self._clock.now()
        attempt = Attempt(len(replica.attempts) + 1, outcome, now)
        replica.attempts.append(attempt)
        replica.state = self.state = AppState.RUNNING
        self.started_at = now if self.started_at is None else self.started_at
        for line in outcome.log:
            if line.at > 0:  # so that a tail wakes for it
                attempt.timers.append(self._clock.call_later(line.at, self._clock.touch))
        limit = self._request.timeout
        if outcome.ends and (limit is None or outcome.after <= limit):
            end = self._clock.call_later(outcome.after, lambda: self._finish(replica))
        elif limit is not None:
            end = self._clock.call_later(limit, lambda: self._run_out(replica, limit))
        else:
            return
        attempt.timers.append(end)

    def _finish(self, replica: Replica) -> None:
        outcome = replica.last.outcome
        replica.last.end(
            self._clock.now(),
            outcome.state,
            outcome.reason,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            error=outcome.error,
        )
        self._after(replica)

    def _run_out(self, replica: Replica, limit: float) -> None:
        reason = f"timed out after {limit:g} s"
        replica.last.end(self._clock.now(), AppState.FAILED, reason, signal="SIGTERM")
        replica.last.timed_out = True
        self._after(replica)

    def _after(self, replica: Replica) -> None:
        """Decide what an attempt's end means for the app."""
        replica.state, replica.reason = replica.last.state, replica.last.reason
        if replica.state is AppState.FAILED:
            again = self._again(replica)
            if again:
                self._start(again)
                return
            self._first_failure = self._first_failure or replica
            if not self._request.array and not self._can_spare(replica):
                self._stop_all("SIGTERM", f"stopped because {replica.label} failed")
        if all(is_terminal(one.state) for one in self.replicas):
            self._conclude()

    def _again(self, replica: Replica) -> list[Replica]:
        """Name the replicas that start again because this one failed."""
        most = replica.role.max_retries
        if not replica.may_retry():
            return []
        if self._request.array or replica.retried_alone:
            return [replica] if replica.last.number <= most else []
        if self._restarts >= most:
            return []
        self._restarts += 1
        self._first_failure = None
        self._stop_all("SIGTERM", f"started again with the app: {replica.story}")
        return self.replicas

    def _can_spare(self, failed: Replica) -> bool:
        """Whether a gang has enough of this role left without a replica that failed."""
        role = failed.role
        mates = [one for one in self.replicas if one.role is role]
        living = sum(one.state is not AppState.FAILED for one in mates)
        least = len(mates) if role.min_replicas is None else role.min_replicas
        return living >= least and not failed.last.timed_out

    def _conclude(self) -> None:
        """End the app once nothing runs and nothing will."""
        failed = [one for one in self.replicas if one.state is AppState.FAILED]
        if not failed or (not self._request.array and all(map(self._can_spare, failed))):
            self._end(AppState.SUCCEEDED, "")
        elif self._request.array and len(self.replicas) > 1:
            count = f"{len(failed)} of {len(self.replicas)} replicas failed"
            self._end(AppState.FAILED, f"{count}; the first: {failed[0].story}")
        else:
            self._end(AppState.FAILED, (self._first_failure or failed[0]).story)

    def _stop_all(self, signal: str, reason: str) -> None:
        for replica in self.replicas:
            replica.stop(self._clock.now(), signal, reason)

    def _end(self, state: AppState, msg: str) -> None:
        self.state, self.msg, self.ended_at = state, msg, self._clock.now()
        for action in self._when_ended:
            action()
        self._clock.touch()
