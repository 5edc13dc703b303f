"""Waiting for jobs: few calls, no change missed, no trouble of AWS taken for one of the job."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import cloud
from support.aws_calls import HandClock, Script, calls_of, define, refusal, start
from support.batch_model import ENDED, ArrayModel
from support.waiting import until
from wherry.aws import jobs
from wherry.aws.cadence import IDLE_CALLS, MOST_CALLS, Cadence
from wherry.aws.calls import Calls
from wherry.aws.polling import Poller, Watch
from wherry.aws.rounds import DESCRIBE_CALLS, LARGE, LIST_CALLS, Rounds
from wherry.emulator.faults import Fault
from wherry.errors import AwsError, CredentialsError

SECONDS = 30.0


@pytest.fixture(scope="module")
def emulator():
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def faults(emulator):
    yield emulator.faults
    emulator.faults.clear()


@pytest.fixture
def calls(emulator) -> Calls:
    return calls_of(emulator)


@pytest.fixture
def poller(calls) -> Iterator[Poller]:
    found = Poller(calls, cadence=Cadence(quick=0.02, slow=0.2), visible_within=1.0)
    yield found
    gc.collect()
    until(lambda: found.idle, "the end of the poller's thread")


def shell(calls: Calls, script: str) -> str:
    return define(calls, cloud.unique("def"), ["sh", "-c", script])


def finish(watch: Watch) -> list[dict[str, str]]:
    """Wait until nothing changes any more; return what was seen after each change."""
    end, seen = time.monotonic() + SECONDS, []
    while not watch.done:
        assert time.monotonic() < end, f"gave up waiting; {watch.latest}"
        if watch.wait(1.0):
            seen.append({job_id: job.status for job_id, job in watch.latest.items()})
    return seen


def rounds_of(client: object, clock: HandClock | None = None) -> Rounds:
    clock = clock or HandClock()
    return Rounds(calls_of(client, clock), time=clock.time)


# -- how long to wait -----------------------------------------------------------------------------


@pytest.mark.parametrize("calls_of_a_look", range(1, MOST_CALLS + 1))
def test_a_minute_in_which_nothing_changes_costs_30_calls_at_most(calls_of_a_look):
    cadence, now = Cadence(), 0.0
    moments = []
    now += cadence.after(changed=True, calls=calls_of_a_look)
    while now < 600:
        moments.append(now)
        now += cadence.after(changed=False, calls=calls_of_a_look)

    for start_of_minute in moments:
        looks = [each for each in moments if start_of_minute <= each < start_of_minute + 60]
        assert len(looks) * calls_of_a_look <= IDLE_CALLS


@pytest.mark.parametrize("cost", [1, MOST_CALLS])
def test_looks_are_never_more_than_30_seconds_apart(cost):
    cadence = Cadence()

    assert max(cadence.after(changed=False, calls=cost) for _ in range(100)) == 30.0


def test_a_change_makes_it_quick_again():
    cadence = Cadence()
    for _ in range(50):
        cadence.after(changed=False, calls=1)

    assert cadence.after(changed=True, calls=1) == 0.5


def test_the_counts_of_an_array_are_looked_at_every_few_seconds():
    cadence = Cadence()

    assert {cadence.after(changed=False, counted=True, calls=1) for _ in range(9)} == {2.0}


def test_trouble_makes_it_slower_and_slower():
    cadence = Cadence()

    assert [cadence.troubled() for _ in range(6)] == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


# -- one look -------------------------------------------------------------------------------------


def test_a_hundred_jobs_cost_one_call():
    client = Script({"jobs": [{"jobId": f"j{n}", "status": "RUNNING"} for n in range(100)]})

    found = rounds_of(client).look(frozenset(f"j{n}" for n in range(100)))

    assert found.calls == 1
    assert len(found.moved) == 100


def test_of_ten_thousand_single_jobs_some_are_looked_at_each_time_and_none_is_left_out():
    class Client:
        def describe_jobs(self, jobs):
            asked.extend(jobs)
            return {"jobs": [{"jobId": each, "status": "RUNNABLE"} for each in jobs]}

    asked: list[str] = []
    wanted = frozenset(f"j{number}" for number in range(10_000))
    rounds = rounds_of(Client())

    costs = [rounds.look(wanted).calls for _ in range(12)]

    assert max(costs) <= DESCRIBE_CALLS
    assert set(asked) == wanted


def test_what_a_look_has_shown_before_it_failed_is_not_lost():
    first = {"jobs": [{"jobId": f"j{n:03}", "status": "RUNNING"} for n in range(150)]}
    client = Script(first, *[refusal("ServerException", 500)] * 50)

    found = rounds_of(client).look(frozenset(f"j{n:03}" for n in range(150)))

    assert len(found.moved) >= 100
    assert isinstance(found.error, AwsError)


def test_new_ones_alone_can_be_looked_at():
    client = Script({"jobs": [{"jobId": "a", "status": "RUNNING"}]}, {"jobs": []}, {"jobs": []})
    rounds = rounds_of(client)
    rounds.look(frozenset("a"))

    rounds.look(frozenset("ab"), only_new=True)

    assert client.asked[-1][1] == {"jobs": ["b"]}


def test_a_change_without_another_state_is_told_apart():
    array = {"jobId": "a", "status": "PENDING", "arrayProperties": {"size": 2}}
    counted = {**array, "arrayProperties": {"size": 2, "statusSummary": {"RUNNING": 1}}}
    rounds = rounds_of(Script({"jobs": [array]}, {"jobs": [counted]}, {"jobs": [counted]}))
    wanted = frozenset("a")

    looks = [rounds.look(wanted) for _ in range(3)]

    assert [(len(each.moved), len(each.counted)) for each in looks] == [(1, 0), (0, 1), (0, 0)]


def test_a_job_that_was_never_seen_may_yet_come():
    clock, nothing = HandClock(), {"jobs": []}
    rounds = rounds_of(Script(nothing, nothing, nothing), clock)
    wanted = frozenset("a")

    assert rounds.look(wanted).gone == set()
    assert rounds.look(wanted).gone == set()
    clock.turn(60)
    assert rounds.look(wanted).gone == {"a"}


def test_a_job_that_was_seen_is_gone_when_it_is_missing_twice():
    rounds = rounds_of(Script({"jobs": [{"jobId": "a", "status": "RUNNING"}]}, *[{"jobs": []}] * 2))
    wanted = frozenset("a")

    assert [rounds.look(wanted).gone for _ in range(3)] == [set(), set(), {"a"}]


# -- the children of a large array ----------------------------------------------------------------


def children_of(array: ArrayModel) -> frozenset[str]:
    return frozenset(jobs.child_id(array.id, index) for index in range(len(array.states)))


def test_ten_thousand_children_cost_four_calls_a_look_at_most_and_one_when_nothing_changes():
    array = ArrayModel(10_000, seed=1)
    rounds, wanted = rounds_of(array), children_of(array)
    last: dict[str, str] = {}
    for _ in range(200):
        array.move(700)
        found = rounds.look(wanted)
        assert found.calls <= 1 + LIST_CALLS
        last.update({job_id: job.status for job_id, job in found.moved.items()})
        wanted -= {job_id for job_id, status in last.items() if status in ENDED}
        if not wanted:
            break
    assert last == {f"array:{index}": state for index, state in enumerate(array.states)}


def test_children_that_wait_are_never_listed():
    array = ArrayModel(5_000)
    rounds, wanted = rounds_of(array), children_of(array)

    found = rounds.look(wanted)
    idle = [rounds.look(wanted).calls for _ in range(3)]

    assert len(found.moved) == 5_000
    assert {job.status for job in found.moved.values()} == {"SUBMITTED"}
    assert array.calls["ListJobs"] == 0
    assert idle == [1, 1, 1]


def test_when_all_have_succeeded_the_counts_say_so():
    array = ArrayModel(5_000)
    rounds, wanted = rounds_of(array), children_of(array)
    rounds.look(wanted)
    array.states = ["SUCCEEDED"] * 5_000

    found = rounds.look(wanted)

    assert found.calls == 1
    assert {job.status for job in found.moved.values()} == {"SUCCEEDED"}
    assert found.moved["array:7"].index == 7


def test_when_the_array_has_ended_only_the_shorter_list_is_asked_for():
    array = ArrayModel(5_000)
    rounds, wanted = rounds_of(array), children_of(array)
    rounds.look(wanted)
    array.states = ["FAILED" if index % 100 == 0 else "SUCCEEDED" for index in range(5_000)]

    found = rounds.look(wanted)

    assert array.calls["ListJobs"] == 1
    assert found.moved["array:100"].status == "FAILED"
    assert found.moved["array:101"].status == "SUCCEEDED"
    assert len(found.moved) == 5_000


def test_a_few_children_are_described_as_any_job():
    array = ArrayModel(10_000)
    rounds = rounds_of(array)

    found = rounds.look(frozenset(jobs.child_id("array", index) for index in range(LARGE)))

    assert len(found.moved) == LARGE
    assert array.calls == {"DescribeJobs": 1}


def test_children_that_are_wanted_later_are_known_from_the_next_look():
    array = ArrayModel(1_000)
    rounds = rounds_of(array)
    rounds.look(frozenset(jobs.child_id("array", index) for index in range(100)))

    found = rounds.look(children_of(array))

    assert len(found.moved) == 900


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(LARGE + 1, 150),
    seed=st.integers(0, 10_000),
    page=st.integers(10, 80),
    moves=st.integers(0, 12),
    wanted=st.integers(LARGE + 1, 150),
)
def test_whatever_moves_between_two_pages_no_end_is_told_that_was_none(
    size, seed, page, moves, wanted
):
    array = ArrayModel(size, seed, page=page, moves=moves)
    rounds = rounds_of(array)
    waiting = {jobs.child_id("array", index) for index in range(min(size, wanted))}
    for _ in range(2_000):
        array.move(size // 8)
        found = rounds.look(frozenset(waiting))
        for job_id, job in found.moved.items():
            if job.ended:
                waiting.discard(job_id)
                assert array.states[jobs.index_of(job_id)] == job.status
        if not waiting:
            return
    raise AssertionError(f"{len(waiting)} children are never told to have ended")


# -- watching -------------------------------------------------------------------------------------


def test_a_job_is_watched_to_its_end(calls, poller):
    job_id = start(calls, shell(calls, "exit 3"))

    with poller.watch([job_id]) as watch:
        seen = finish(watch)

    assert seen[-1] == {job_id: "FAILED"}
    assert watch.latest[job_id].exit_code == 3
    assert watch.wait(0) is False


def test_a_wait_is_for_changes_since_the_one_before(calls, faults, poller):
    faults.add(Fault("hold", value="RUNNABLE"))
    job_id = start(calls, shell(calls, "true"))
    with poller.watch([job_id]) as watch:
        until(lambda: watch.wait(1) and watch.latest[job_id].status == "RUNNABLE", "RUNNABLE")

        assert watch.wait(0.2) is False

        faults.clear()
        assert watch.wait(SECONDS) is True
        finish(watch)


def test_somebody_new_is_served_at_once_and_told_what_is_known(calls, faults):
    faults.add(Fault("hold", value="RUNNABLE"))
    slow = Poller(calls, cadence=Cadence(quick=1_000, slow=1_000))
    first, second = (start(calls, shell(calls, "true")) for _ in range(2))
    with slow.watch([first]) as one:
        assert one.wait(SECONDS)
        with slow.watch([first, second]) as other:
            until(lambda: len(other.latest) == 2, "both jobs")
            assert other.wait(0)


def test_many_who_come_at_once_cost_a_few_calls(calls, faults):
    faults.add(Fault("hold", value="RUNNABLE"))
    arn = shell(calls, "true")
    ids = [start(calls, arn) for _ in range(60)]
    before = calls.counts.get("DescribeJobs", 0)
    slow = Poller(calls, cadence=Cadence(quick=1_000, slow=1_000))

    watches = [slow.watch([job_id]) for job_id in ids]
    assert all(watch.wait(SECONDS) for watch in watches)

    assert calls.counts["DescribeJobs"] - before <= 6
    for watch in watches:
        watch.close()


def test_each_is_told_of_its_own_jobs_alone(calls, poller):
    quick, slow = start(calls, shell(calls, "true")), start(calls, shell(calls, "sleep 0.3"))
    with poller.watch([quick]) as one, poller.watch([slow]) as other:
        finish(one)
        finish(other)

        assert set(one.latest) == {quick}
        assert set(other.latest) == {slow}


def test_nobody_who_waits_means_no_thread(calls, poller):
    job_id = start(calls, shell(calls, "true"))
    assert poller.idle

    watch = poller.watch([job_id])
    finish(watch)

    until(lambda: poller.idle, "the end of the thread")
    again = poller.watch([job_id])
    assert finish(again)[-1] == {job_id: "SUCCEEDED"}


def test_a_watch_that_is_dropped_keeps_no_thread(calls, faults, poller):
    faults.add(Fault("hold", value="RUNNABLE"))
    watch = poller.watch([start(calls, shell(calls, "true"))])
    assert watch.wait(SECONDS)

    del watch
    gc.collect()

    until(lambda: poller.idle, "the end of the thread")


def test_a_watch_can_bound_the_pause_between_looks(calls, faults):
    slow = Poller(calls, cadence=Cadence(quick=600, slow=600))
    job = calls.call(
        "SubmitJob", jobName="j", jobQueue="main", jobDefinition=shell(calls, "sleep 0.5")
    )["jobId"]

    with slow.watch([job], within=0.1) as watch:
        finish(watch)

        assert watch.latest[job].ended


def test_closing_a_watch_wakes_who_waits(calls, faults, poller):
    faults.add(Fault("hold", value="RUNNABLE"))
    watch = poller.watch([start(calls, shell(calls, "true"))])
    until(lambda: watch.wait(1) and not watch.wait(0.3), "a quiet moment")
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(watch.wait(SECONDS)))
    thread.start()

    watch.close()

    thread.join(SECONDS)
    assert answers == [False]
    watch.close()


def test_watching_nothing_is_over_at_once(poller):
    with poller.watch([]) as watch:
        assert watch.done
        assert watch.wait(SECONDS) is False


def test_an_array_is_watched_by_its_counts(calls, poller):
    array = start(calls, shell(calls, "true"), arrayProperties={"size": 20})

    with poller.watch([array]) as watch:
        finish(watch)

    assert watch.latest[array].status == "SUCCEEDED"
    assert watch.latest[array].counts == {"SUCCEEDED": 20}


def test_the_children_of_an_array_are_watched_each_to_its_own_end(calls, poller):
    size = LARGE + 30
    script = "[ $AWS_BATCH_JOB_ARRAY_INDEX != 7 ]"
    array = start(calls, shell(calls, script), arrayProperties={"size": size})
    ids = [jobs.child_id(array, index) for index in range(size)]

    with poller.watch(ids) as watch:
        finish(watch)

    failed = [job.index for job in watch.latest.values() if job.status == "FAILED"]
    assert failed == [7]
    assert len(watch.latest) == size


def test_throttles_and_failures_change_nothing_that_is_known(calls, faults, poller):
    faults.add(Fault("hold", value="RUNNABLE"))
    job_id = start(calls, shell(calls, "true"))
    with poller.watch([job_id]) as watch:
        until(lambda: watch.wait(1) and watch.latest[job_id].status == "RUNNABLE", "RUNNABLE")
        faults.add(Fault("throttle"))
        faults.add(Fault("server-error", every=2))
        until(lambda: not watch.wait(0.5), "a quiet moment")

        assert watch.latest[job_id].status == "RUNNABLE"
        assert not watch.gone

        faults.clear()
        assert finish(watch)[-1] == {job_id: "SUCCEEDED"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("throttle", rate=0.5),
        Fault("server-error", every=5),
        Fault("lost-reply", rate=0.3),
        Fault("latency", value="0.2"),
    ],
    ids=lambda fault: fault.kind,
)
def test_jobs_are_watched_to_their_right_ends_in_bad_weather(calls, faults, poller, fault):
    good, bad = shell(calls, "true"), shell(calls, "exit 1")
    expected = {start(calls, bad if n % 5 == 0 else good): n % 5 == 0 for n in range(20)}
    faults.add(fault)

    with poller.watch(expected) as watch:
        finish(watch)

    ends = {job_id: job.status == "FAILED" for job_id, job in watch.latest.items()}
    assert ends == expected
    assert not watch.gone


def test_a_job_that_aws_forgets_in_mid_watch_is_gone_and_not_failed(emulator, calls, faults):
    faults.add(Fault("hold", value="RUNNABLE", times=0))
    job_id = start(calls, shell(calls, "true"))
    sleepy = Poller(calls, cadence=Cadence(quick=0.02, slow=0.2))
    with sleepy.watch([job_id]) as watch:
        until(lambda: watch.wait(1) and watch.latest[job_id].status == "RUNNABLE", "RUNNABLE")
        faults.add(Fault("throttle", operation="DescribeJobs"))  # it ends, and nobody sees it
        held = next(n for n, fault, _ in faults.active() if fault.kind == "hold")
        faults.remove(held)
        plane = emulator.service().plane
        until(lambda: plane.book.jobs[job_id].ended, "the end of the job")
        emulator.service().expire(job_id)
        faults.clear()

        until(lambda: watch.done, "the news of it")

        assert watch.gone == {job_id}
        assert not watch.latest[job_id].ended


def test_a_job_that_never_was_is_gone_after_a_while(poller):
    with poller.watch(["00000000-0000-0000-0000-000000000000"]) as watch:
        until(lambda: watch.wait(1) or watch.done, "the news of it")

    assert watch.gone == watch.ids
    assert watch.latest == {}


def test_credentials_that_expire_are_told_and_new_ones_go_on(calls, faults, poller):
    faults.add(Fault("hold", value="RUNNABLE"))
    job_id = start(calls, shell(calls, "true"))
    with poller.watch([job_id]) as watch:
        until(lambda: watch.wait(1) and watch.latest[job_id].status == "RUNNABLE", "RUNNABLE")
        faults.add(Fault("expired-token"))

        with pytest.raises(CredentialsError, match="expired"):
            until(lambda: watch.wait(1) and None, "the error")

        assert watch.latest[job_id].status == "RUNNABLE"
        faults.clear()
        until(lambda: settled(watch), "the end")
        assert watch.latest[job_id].status == "SUCCEEDED"


def settled(watch: Watch) -> bool:
    try:
        watch.wait(0.1)
    except CredentialsError:
        pass  # one that was on its way
    return watch.done


def test_a_right_that_is_missing_is_told(calls, faults, poller):
    faults.add(Fault("access-denied", operation="DescribeJobs"))

    with poller.watch(["x"]) as watch, pytest.raises(AwsError, match="batch:DescribeJobs"):
        watch.wait(SECONDS)


def test_trouble_that_nobody_foresaw_is_told_rather_than_waited_through():
    odd = Poller(calls_of(Script(*[TypeError("what is this?")] * 100)))

    with odd.watch(["x"]) as watch, pytest.raises(AwsError, match="what is this"):
        watch.wait(SECONDS)


def test_jobs_may_be_named_by_their_arns(calls, poller):
    job_id = start(calls, shell(calls, "true"))

    with poller.watch([f"arn:aws:batch:us-east-1:123456789012:job/{job_id}"]) as watch:
        finish(watch)

    assert watch.latest[job_id].status == "SUCCEEDED"
