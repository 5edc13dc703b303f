"""Random lives of jobs against a small model of what AWS Batch allows."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.emulated import MemoryArchive, World, multinode
from wherry.emulator.batch import actions, expiry
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.records import ENDED, STATES

ACTIVE = ("STARTING", "RUNNING")
BUSY = {"RUNNABLE", "FAILED"}
ALLOWED: dict[str, set[str]] = {
    "SUBMITTED": {"PENDING", *BUSY},
    "PENDING": BUSY,
    "RUNNABLE": {"STARTING", "FAILED"},
    "STARTING": {"RUNNING", *BUSY},
    "RUNNING": {"SUCCEEDED", *BUSY},
    "SUCCEEDED": set(),
    "FAILED": set(),
}
"""Where a single job, a child or a multi-node job may go from each state."""

ALLOWED_ARRAY: dict[str, set[str]] = {
    "SUBMITTED": {"PENDING", "SUCCEEDED", "FAILED"},
    "PENDING": {"SUCCEEDED", "FAILED"},
    "SUCCEEDED": set(),
    "FAILED": set(),
}
ALLOWED_NODE = {
    **ALLOWED,
    "STARTING": {"RUNNING", "SUCCEEDED", *BUSY},
    "SUCCEEDED": {"RUNNABLE"},
    "FAILED": {"RUNNABLE"},
}
"""A node may be started again, with all others, when its main node is retried."""

TABLES = {"array": ALLOWED_ARRAY, "node": ALLOWED_NODE}

picks = st.integers(min_value=0, max_value=10**6)


class Lives(RuleBasedStateMachine):
    """Submits, starts, ends, cancels, terminates, reclaims, expires, restarts, lets time go by."""

    def __init__(self) -> None:
        super().__init__()
        self.archive = MemoryArchive()
        self.world = World(vcpus=8, archive=self.archive)
        self.world.define("gang", multinode(2))
        self.kinds: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.seen = 0
        self.kept: set[str] = set()
        self.gone: set[str] = set()

    # -- what may happen --------------------------------------------------------------------------

    @rule(attempts=st.integers(1, 3), needs=st.lists(picks, max_size=2), timeout=st.booleans())
    def submit_single(self, attempts: int, needs: list[int], timeout: bool) -> None:
        more = {"timeout": {"attemptDurationSeconds": 60}} if timeout else {}
        self._submit("single", attempts, dependsOn=self._after(needs), **more)

    @rule(attempts=st.integers(1, 2), size=st.integers(2, 4), needs=st.lists(picks, max_size=2))
    def submit_array(self, attempts: int, size: int, needs: list[int]) -> None:
        self._submit(
            "array", attempts, dependsOn=self._after(needs), arrayProperties={"size": size}
        )

    @rule(size=st.integers(2, 4))
    def submit_sequence(self, size: int) -> None:
        needs = [{"type": "SEQUENTIAL"}]
        self._submit("array", 1, dependsOn=needs, arrayProperties={"size": size})

    @rule(pick=picks)
    def submit_pairs(self, pick: int) -> None:
        arrays = [job for job in self._jobs() if job.kind == "array"]
        assume(arrays)
        other = arrays[pick % len(arrays)]
        needs = [{"jobId": other.id, "type": "N_TO_N"}]
        self._submit("array", 1, dependsOn=needs, arrayProperties={"size": other.children})

    @rule(attempts=st.integers(1, 2), needs=st.lists(picks, max_size=1))
    def submit_gang(self, attempts: int, needs: list[int]) -> None:
        self._submit("multinode", attempts, "gang", dependsOn=self._after(needs))

    @precondition(lambda self: self._in("STARTING"))
    @rule(pick=picks)
    def begin(self, pick: int) -> None:
        job = self._one_of(self._in("STARTING"), pick)
        self.world.begin(job.id)
        assert job.status == "RUNNING"

    @precondition(lambda self: self._in("RUNNING"))
    @rule(pick=picks, code=st.sampled_from([0, 0, 1, 137]))
    def end(self, pick: int, code: int) -> None:
        job = self._one_of(self._in("RUNNING"), pick)
        expected = self._expected(job, code)
        self.world.end(job.id, code)
        if expected:
            assert job.status in expected, (job.status, expected)

    @precondition(lambda self: self._in("STARTING"))
    @rule(pick=picks)
    def fail_to_start(self, pick: int) -> None:
        job = self._one_of(self._in("STARTING"), pick)
        self.world.fail_to_start(job.id, "CannotPullContainerError: no")

    @precondition(lambda self: self._jobs())
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        job = self._one_of(self._jobs(), pick)
        before = job.status
        self._call("CancelJob", job, "cancelled by hand")
        if job.kind == "single" and before in ("SUBMITTED", "RUNNABLE"):
            assert (job.status, job.status_reason) == ("FAILED", "cancelled by hand")
        if before in (*ACTIVE, *ENDED):
            assert job.status == before

    @precondition(lambda self: self._jobs())
    @rule(pick=picks)
    def terminate(self, pick: int) -> None:
        job = self._one_of(self._jobs(), pick)
        before = job.status
        self._call("TerminateJob", job, "terminated by hand")
        if job.kind in ("single", "child") and before in ("SUBMITTED", "PENDING", "RUNNABLE"):
            assert (job.status, job.status_reason) == ("FAILED", "terminated by hand")

    @precondition(lambda self: self.world.plane.flights)
    @rule(pick=picks)
    def reclaim(self, pick: int) -> None:
        flights = list(self.world.plane.flights.values())
        instance = flights[pick % len(flights)].place.instance_id
        actions.reclaim(self.world.plane, instance)
        self.gone.add(instance)
        self.world.settle()

    @rule()
    def engine_obeys(self) -> None:
        self.world.obey()

    @rule()
    def expire(self) -> None:
        expiry.expire(self.world.plane)
        self.world.settle()

    @rule(seconds=st.sampled_from([1.0, 60.0, 3600.0, 8 * 86_400.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.world.turn(seconds)

    @rule()
    def restart(self) -> None:
        self._learn()
        ended = {job.id: job.status for job in self._jobs() if job.ended and job.kind != "node"}
        self.archive.crash()
        self.world = World(archive=self.archive, clock=self.world.clock)
        self.seen = 0
        for job_id, status in ended.items():
            assert self.world.plane.book.jobs[job_id].status == status

    # -- what must be true ------------------------------------------------------------------------

    @invariant()
    def no_transition_is_impossible_and_no_job_is_lost(self) -> None:
        self._learn()
        jobs = self.world.plane.book.jobs
        for job_id in self.kept - set(jobs):
            assert self.states[job_id] in ENDED, f"{job_id} is gone, and was not ended"
        self.kept = {job_id for job_id in self.kept if job_id in jobs}
        for job_id in self.kept:
            assert jobs[job_id].status == self.states[job_id], "a change without an event"

    @invariant()
    def counts_add_up(self) -> None:
        jobs = self._jobs()
        totals = self.world.plane.book.totals()
        assert totals == {state: sum(job.status == state for job in jobs) for state in STATES}
        for parent in jobs:
            if parent.kind == "array":
                statuses = [child.status for child in self.world.plane.book.family_of(parent)]
                shown = self.world.describe(parent.id)["arrayProperties"]["statusSummary"]
                assert shown == {state: statuses.count(state) for state in STATES}
                assert parent.ended == all(status in ENDED for status in statuses)

    @invariant()
    def places_are_held_by_those_that_run_and_by_no_others(self) -> None:
        holding = {job for one in self.world.placement.instances() for job in one["jobs"]}
        active = {job for job in self._jobs() if job.status in ACTIVE and job.kind != "node"}
        assert all(job.places for job in active)
        gone = {
            job.id for job in active if any(place.instance_id in self.gone for place in job.places)
        }
        assert holding - gone == {job.id for job in active} - gone

    @invariant()
    def tasks_belong_to_what_runs(self) -> None:
        flights = self.world.plane.flights
        assert set(flights) == set(self.world.engine.tasks)
        for flight in flights.values():
            assert flight.job.status in ACTIVE
        running = {flight.job.id for flight in flights.values()}
        for job in self._jobs():
            if job.kind in ("single", "child") and job.status in ACTIVE:
                assert job.id in running
            if job.kind == "multinode" and job.status in ACTIVE:
                nodes = {node.id for node in self.world.plane.book.family_of(job)}
                assert len(nodes & running) == job.flying > 0

    @invariant()
    def nobody_runs_before_what_it_waits_for(self) -> None:
        jobs = self.world.plane.book.jobs
        for job in self._jobs():
            if job.status in ("SUBMITTED", "PENDING", "FAILED") or job.parent:
                continue
            for need in job.request.get("dependsOn", ()):
                if not need.get("type") and need["jobId"] in jobs:
                    assert jobs[need["jobId"]].status == "SUCCEEDED"

    @invariant()
    def attempts_stay_within_their_number(self) -> None:
        for job in self._jobs():
            assert len(job.runs) <= job.request["retryStrategy"]["attempts"]
            assert not (job.is_terminated and job.status == "SUCCEEDED")

    def teardown(self) -> None:
        """Let everything end; whatever is left must then be over."""
        for _ in range(400):
            self.world.obey()
            running = [flight.job for flight in self.world.plane.flights.values()]
            if not running:
                break
            for job in running:
                if job.status == "STARTING":
                    self.world.begin(job.id)
                if any(flight.job is job for flight in self.world.plane.flights.values()):
                    self.world.end(job.id, 0)
        assert all(job.ended for job in self._jobs()), "a job is stuck"
        assert not self.world.placement.instances()

    # -- the model --------------------------------------------------------------------------------

    def _submit(self, kind: str, attempts: int, definition: str = "simple", **more: Any) -> None:
        job_id = self.world.submit(
            definition, retryStrategy={"attempts": attempts}, settle=False, **more
        )
        job = self.world.plane.book.jobs[job_id]
        for each in (job, *self.world.plane.book.family_of(job)):
            self.kinds[each.id], self.states[each.id] = each.kind, "SUBMITTED"
            self.kept.add(each.id)
        assert job.kind == kind
        self.world.settle()

    def _learn(self) -> None:
        """Take what events tell, and compare each change with the table."""
        events = self.world.surroundings.events
        for kind, _, detail in events[self.seen :]:
            if kind != "Batch Job State Change":
                continue
            job_id, new = detail["jobId"], detail["status"]
            old, table = self.states[job_id], TABLES.get(self.kinds[job_id], ALLOWED)
            assert new in table[old], f"{self.kinds[job_id]} {job_id}: {old} -> {new}"
            self.states[job_id] = new
        self.seen = len(events)

    def _expected(self, job: Entry, code: int) -> set[str]:
        """Return the states in which a single job may be right after its container ended."""
        if job.kind != "single":
            return set()
        if job.is_terminated or job.timed_out:
            return {"FAILED"}
        if code == 0:
            return {"SUCCEEDED"}
        if len(job.runs) < job.request["retryStrategy"]["attempts"]:
            return {"RUNNABLE", "STARTING"}
        return {"FAILED"}

    def _call(self, operation: str, job: Entry, reason: str) -> None:
        try:
            self.world.call(operation, jobId=job.id, reason=reason)
        except ClientError:
            assert job.kind == "node"
        self.world.settle()

    def _jobs(self) -> list[Entry]:
        return list(self.world.plane.book.jobs.values())

    def _in(self, status: str) -> list[Entry]:
        """Return the jobs in a state that have a task the engine knows."""
        flights = self.world.plane.flights.values()
        return [flight.job for flight in flights if flight.job.status == status]

    def _after(self, needs: list[int]) -> list[dict[str, str]]:
        jobs = [job.id for job in self._jobs() if job.kind != "node"]
        chosen = {jobs[need % len(jobs)] for need in needs} if jobs else set()
        return [{"jobId": job_id} for job_id in sorted(chosen)]

    @staticmethod
    def _one_of(jobs: list[Entry], pick: int) -> Entry:
        return jobs[pick % len(jobs)]


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
