"""SubmitJob, exactly once: whatever happens on the way, there is one job, and only one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.config import Config

from support import cloud
from support.aws_calls import HandClock, Script, calls_of, define, refusal
from wherry.aws import lookup
from wherry.aws.jobs import SUBMITTED
from wherry.aws.submission import TWIN, Submitted, submit
from wherry.emulator.faults import Fault
from wherry.errors import AwsError, LostReply, ThrottledError, UsageError

QUEUE = "main"
HARMS = {
    "replies lost": [Fault("lost-reply", operation="SubmitJob", rate=0.3)],
    "all replies lost": [Fault("lost-reply", operation="SubmitJob")],
    "every 5th call a 500": [Fault("server-error", every=5)],
    "half throttled": [Fault("throttle", rate=0.5)],
    "slow": [Fault("latency", value="0.05")],
    "all at once": [
        Fault("lost-reply", rate=0.2),
        Fault("server-error", every=7),
        Fault("throttle", rate=0.3),
    ],
}


@pytest.fixture(scope="module")
def emulator():
    """An emulator that starts nothing: only submissions matter here."""
    with cloud.emulator() as running:
        running.faults.add(Fault("hold", value="SUBMITTED"))
        yield running


@pytest.fixture
def faults(emulator):
    """Faults of one test; the hold stays."""
    held = {number for number, _, _ in emulator.faults.active()}
    yield emulator.faults
    for number, _, _ in emulator.faults.active():
        if number not in held:
            emulator.faults.remove(number)


@pytest.fixture(scope="module")
def definition(emulator):
    return define(calls_of(emulator), cloud.unique("def"), ["true"])


def request(definition: str, name: str) -> dict[str, object]:
    return {"jobName": name, "jobQueue": QUEUE, "jobDefinition": definition}


def named(emulator, name: str) -> list[lookup.JobView]:
    return lookup.find(calls_of(emulator), QUEUE, name)


def summary(name: str, job_id: str, created: int = 1, status: str = SUBMITTED) -> dict[str, object]:
    return {"jobId": job_id, "jobName": name, "createdAt": created, "status": status}


LISTED_NOTHING: dict[str, object] = {"jobSummaryList": []}


def test_a_submission_is_one_call(emulator, definition):
    calls, name = calls_of(emulator), cloud.unique("job")

    made = submit(calls, request(definition, name), name)

    assert made.job_name == name
    assert [job.id for job in named(emulator, name)] == [made.job_id]
    assert made.job_arn.endswith(made.job_id)
    assert calls.counts == {"SubmitJob": 1}


@pytest.mark.parametrize("harm", HARMS)
def test_there_are_no_duplicates_and_none_is_lost(emulator, faults, definition, harm):
    names = [cloud.unique("many") for _ in range(200)]
    calls = calls_of(emulator)
    for fault in HARMS[harm]:
        faults.add(fault)

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda name: submit(calls, request(definition, name), name), names))

    jobs = lookup.describe(calls, [each.job_id for each in made])
    assert [jobs[each.job_id].name for each in made] == names
    prefix = "many-"
    known = {job.id for job in lookup.listed(calls, queue=QUEUE, filter=("JOB_NAME", prefix + "*"))}
    ours = [job for job in lookup.describe(calls, known).values() if job.name in set(names)]
    assert len(ours) == 200


def test_a_lost_reply_costs_one_look_and_no_second_request(emulator, faults, definition):
    calls, name = calls_of(emulator), cloud.unique("lost")
    faults.add(Fault("lost-reply", operation="SubmitJob", times=1))

    made = submit(calls, request(definition, name), name)

    assert [job.id for job in named(emulator, name)] == [made.job_id]
    assert calls.counts == {"SubmitJob": 1, "ListJobs": 1}


def test_a_job_that_is_listed_late_is_waited_for():
    clock, name = HandClock(), "job-token"
    client = Script(
        lost(), LISTED_NOTHING, LISTED_NOTHING, {"jobSummaryList": [summary(name, "1")]}
    )

    made = submit(calls_of(client, clock), request("d", name), "token")

    assert made.job_id == "1"
    assert [method for method, _ in client.asked].count("submit_job") == 1
    assert sum(clock.slept) > 0


def lost() -> Exception:
    from botocore.exceptions import ConnectionClosedError

    return ConnectionClosedError(endpoint_url="http://x")


def test_a_request_that_did_not_arrive_is_sent_again_after_some_looks():
    name = "job-token"
    client = Script(
        refusal("ServerException", 500),
        *[LISTED_NOTHING] * 3,
        {"jobId": "2", "jobName": name},
        {"jobSummaryList": [summary(name, "2")]},
    )

    made = submit(calls_of(client), request("d", name), "token")

    assert made.job_id == "2"
    assert [method for method, _ in client.asked] == [
        "submit_job",
        "list_jobs",
        "list_jobs",
        "list_jobs",
        "submit_job",
        "list_jobs",
    ]


def test_a_first_job_that_shows_up_late_wins_over_the_second():
    name = "job-token"
    both = {"jobSummaryList": [summary(name, "second", 20), summary(name, "first", 10)]}
    client = Script(lost(), *[LISTED_NOTHING] * 5, {"jobId": "second", "jobName": name}, both, {})

    made = submit(calls_of(client), request("d", name), "token")

    assert made.job_id == "first"
    assert client.asked[-1] == ("terminate_job", {"jobId": "second", "reason": TWIN})


def test_a_client_that_repeats_by_itself_leaves_no_twin(emulator, faults, definition):
    given = emulator.environment()
    client = boto3.client(  # as people make them: five attempts, also after a lost reply
        "batch",
        region_name="us-east-1",
        endpoint_url=emulator.url,
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        config=Config(proxies={}, retries={"mode": "legacy"}),
    )
    name = cloud.unique("twins")
    faults.add(Fault("lost-reply", operation="SubmitJob", times=2))

    made = submit(calls_of(client), request(definition, name), name)

    found = named(emulator, name)
    assert len(found) == 3
    assert [job.id for job in found if not job.is_terminated and not job.ended] == [made.job_id]


def test_a_name_that_begins_alike_or_differs_in_case_is_another_job():
    name = "job-token"
    other = {"jobSummaryList": [summary("JOB-TOKEN", "9"), summary(name + "-1", "8")]}
    client = Script(
        refusal("ServerException", 500), *[other] * 3, {"jobId": "2", "jobName": name}, other
    )

    assert submit(calls_of(client), request("d", name), "token").job_id == "2"


def test_throttles_are_known_not_to_have_happened_and_need_no_look():
    throttle = refusal("TooManyRequestsException", 429)
    client = Script(throttle, throttle, {"jobId": "1", "jobArn": "arn:1", "jobName": "job-token"})

    made = submit(calls_of(client), request("d", "job-token"), "token")

    assert made == Submitted("1", "arn:1", "job-token")
    assert [method for method, _ in client.asked] == ["submit_job"] * 3


def test_throttles_for_ever_are_told_and_there_is_no_job():
    client = Script(*[refusal("TooManyRequestsException", 429)] * 500)

    with pytest.raises(ThrottledError):
        submit(calls_of(client, patience=30), request("d", "job-token"), "token")


def test_where_nobody_may_look_nothing_is_sent_again_and_the_name_is_told():
    client = Script(lost(), refusal("AccessDeniedException", 403, "batch:ListJobs"))

    with pytest.raises(LostReply, match=r"'job-token' in the queue 'main'") as caught:
        submit(calls_of(client), request("d", "job-token"), "token")

    assert "batch:ListJobs" in str(caught.value)
    assert [method for method, _ in client.asked] == ["submit_job", "list_jobs"]


def test_a_look_that_fails_does_not_count_as_one():
    name = "job-token"
    found = {"jobSummaryList": [summary(name, "1")]}
    client = Script(lost(), *[refusal("ServerException", 500)] * 8, found)

    assert submit(calls_of(client), request("d", name), "token").job_id == "1"
    assert [method for method, _ in client.asked].count("submit_job") == 1


def test_replies_that_are_lost_for_ever_are_given_up():
    steps = [step for _ in range(100) for step in (lost(), *[LISTED_NOTHING] * 5)]
    client = Script(*steps)

    with pytest.raises(LostReply, match="job-token"):
        submit(calls_of(client), request("d", "job-token"), "token", patience=30)


def test_a_refusal_is_told_at_once(emulator, definition):
    calls = calls_of(emulator)
    wanted = {**request(definition, "x-token"), "jobQueue": "no-such-queue"}

    with pytest.raises(AwsError, match="no-such-queue"):
        submit(calls, wanted, "token")

    assert calls.counts == {"SubmitJob": 1}


def test_a_name_without_the_token_is_refused_before_anything_is_sent():
    client = Script()

    for token in ("token", ""):
        with pytest.raises(UsageError, match=r"'job' does not have ('token'|'')"):
            submit(calls_of(client), request("d", "job"), token)

    assert client.asked == []


def test_the_request_is_left_as_it_was(emulator, definition):
    wanted = request(definition, cloud.unique("kept"))
    before = dict(wanted)

    submit(calls_of(emulator), wanted, "kept")

    assert wanted == before
