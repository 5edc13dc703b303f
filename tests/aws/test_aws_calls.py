"""One call of AWS: what is repeated, what never is, and what people are told."""

from __future__ import annotations

import threading

import pytest

from support import cloud
from support.aws_calls import HandClock, Script, calls_of, refusal
from wherry.aws.calls import Calls, method_of
from wherry.aws.pacing import Limiter
from wherry.emulator.faults import Fault
from wherry.errors import (
    AwsError,
    CredentialsError,
    LostReply,
    ThrottledError,
    UnreachableError,
    UsageError,
)

THROTTLES = [
    ("TooManyRequestsException", 429),
    ("ThrottlingException", 400),
    ("Throttling", 400),
    ("RequestLimitExceeded", 503),
    ("SlowDown", 503),
    ("SomethingNew", 429),
]
UNSAFE = ["SubmitJob", "RegisterJobDefinition", "CreateJobQueue"]
SAFE = ["DescribeJobs", "ListJobs", "TerminateJob", "CancelJob", "DeregisterJobDefinition"]


@pytest.fixture(scope="module")
def emulator():
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def faults(emulator):
    yield emulator.faults
    emulator.faults.clear()


def broken() -> Exception:
    from botocore.exceptions import ConnectionClosedError

    return ConnectionClosedError(endpoint_url="http://x")


def slow() -> Exception:
    from botocore.exceptions import ReadTimeoutError

    return ReadTimeoutError(endpoint_url="http://x")


def cut() -> Exception:
    from botocore.parsers import ResponseParserError

    return ResponseParserError("half an answer")


def unreachable() -> Exception:
    from botocore.exceptions import EndpointConnectionError

    return EndpointConnectionError(endpoint_url="http://x")


LOST = [broken, slow, cut, lambda: refusal("ServerException", 500), lambda: refusal("", 503)]


# -- repeating ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "status"), THROTTLES)
@pytest.mark.parametrize("operation", [*UNSAFE, *SAFE])
def test_a_throttled_call_is_repeated_whatever_it_does(operation, code, status):
    client = Script(refusal(code, status), refusal(code, status), {"answer": 1})

    assert calls_of(client).call(operation, x=1) == {"answer": 1}
    assert client.asked == [(method_of(operation), {"x": 1})] * 3


@pytest.mark.parametrize("failure", LOST)
@pytest.mark.parametrize("operation", SAFE)
def test_what_does_no_harm_twice_is_repeated_when_its_fate_is_unknown(operation, failure):
    client = Script(failure(), {"answer": 1})

    assert calls_of(client).call(operation) == {"answer": 1}


@pytest.mark.parametrize("failure", LOST)
@pytest.mark.parametrize("operation", UNSAFE)
def test_what_makes_one_more_is_not(operation, failure):
    client = Script(failure())

    with pytest.raises(LostReply) as caught:
        calls_of(client).call(operation)

    assert len(client.asked) == 1
    assert caught.value.operation == operation
    assert operation in str(caught.value)


@pytest.mark.parametrize("failure", LOST)
def test_once_is_once_even_for_what_would_do_no_harm(failure):
    client = Script(failure())

    with pytest.raises(LostReply):
        calls_of(client).once("DescribeJobs")

    assert len(client.asked) == 1


def test_what_was_never_sent_is_repeated_even_if_it_makes_one_more():
    client = Script(unreachable(), {"jobId": "1"})

    assert calls_of(client).once("SubmitJob") == {"jobId": "1"}


def test_a_refusal_is_not_repeated():
    client = Script(refusal("ClientException", 400, "Job queue x does not exist"))

    with pytest.raises(AwsError, match="Job queue x does not exist") as caught:
        calls_of(client).call("DescribeJobs")

    assert (caught.value.code, caught.value.status) == ("ClientException", 400)
    assert len(client.asked) == 1


def test_pauses_grow_are_jittered_and_keep_to_what_aws_asks_for():
    clock = HandClock()
    throttle = refusal("TooManyRequestsException", 429)
    asked_for = refusal("TooManyRequestsException", 429, "no", **{"retry-after": "7"})
    client = Script(throttle, throttle, throttle, asked_for, {})

    calls_of(client, clock, chance=lambda: 1.0).call("DescribeJobs")

    assert clock.slept == [0.5, 1.0, 2.0, 7.0]


def test_a_throttled_call_is_given_up_in_the_end():
    clock = HandClock()
    client = Script(*[refusal("TooManyRequestsException", 429)] * 1000)

    with pytest.raises(ThrottledError, match="asked too often"):
        calls_of(client, clock, patience=60).call("SubmitJob")

    assert 30 < sum(clock.slept) <= 60


def test_a_caller_may_be_less_patient():
    clock = HandClock()
    client = Script(*[refusal("TooManyRequestsException", 429)] * 1000)

    with pytest.raises(ThrottledError):
        calls_of(client, clock, patience=60).call("SubmitJob", patience=2)

    assert sum(clock.slept) <= 2


def test_a_service_that_fails_for_ever_is_named():
    client = Script(*[refusal("ServerException", 500, "oh dear")] * 100)

    with pytest.raises(AwsError, match="AWS Batch failed at DescribeJobs again and again: oh dear"):
        calls_of(client).call("DescribeJobs")

    assert len(client.asked) < 20


def test_a_throttle_slows_down_all_that_share_the_limiter():
    clock = HandClock()
    limiter = Limiter(time=clock.time)
    one, other = Script(refusal("ThrottlingException"), {}), Script()
    calls_of(one, clock, limiter=limiter).call("SubmitJob")

    rate = calls_of(other, clock, limiter=limiter).limiter.lane("SubmitJob").rate

    assert rate < Limiter().lane("SubmitJob").rate


def test_calls_are_counted_with_their_repetitions_by_all_threads():
    calls = calls_of(Script(refusal("ThrottlingException"), *[{}] * 200))
    threads = [
        threading.Thread(target=lambda: [calls.call("DescribeJobs") for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert calls.counts == {"DescribeJobs": 201}


# -- pages ----------------------------------------------------------------------------------------


def test_pages_are_fetched_as_they_are_wanted():
    client = Script(
        {"jobs": [1, 2], "nextToken": "a"}, {"jobs": [], "nextToken": "b"}, {"jobs": [3]}
    )
    items = calls_of(client).pages("ListJobs", "jobs", jobQueue="q")

    assert next(items) == 1
    assert len(client.asked) == 1
    assert list(items) == [2, 3]
    assert [params.get("nextToken") for _, params in client.asked] == [None, "a", "b"]
    assert {params["jobQueue"] for _, params in client.asked} == {"q"}


def test_pages_of_services_that_write_it_otherwise_are_fetched_too():
    client = Script({"Items": [1], "NextToken": "a"}, {"Items": [2]})

    assert list(calls_of(client).pages("DescribeInstanceTypes", "Items")) == [1, 2]
    assert client.asked[1][1] == {"NextToken": "a"}


def test_a_page_that_points_to_itself_is_the_last():
    client = Script({"jobs": [1], "nextToken": "a"}, {"jobs": [2], "nextToken": "a"})

    assert list(calls_of(client).pages("ListJobs", "jobs")) == [1, 2]


# -- credentials ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["SubmitJob", "DescribeJobs"])
def test_expired_credentials_are_renewed_once(operation):
    stale, fresh = Script(refusal("ExpiredTokenException", 403)), Script({"answer": 1})

    calls = calls_of(stale, renew=lambda client: fresh if client is stale else None)

    assert calls.call(operation) == {"answer": 1}
    assert calls.client is fresh


def test_credentials_that_have_expired_for_good_are_an_error_that_says_so():
    client = Script(*[refusal("ExpiredTokenException", 403, "The security token is expired")] * 3)

    with pytest.raises(CredentialsError, match="expired"):
        calls_of(client, renew=lambda stale: stale).call("DescribeJobs")

    assert len(client.asked) == 2


@pytest.mark.parametrize(
    "code", ["UnrecognizedClientException", "InvalidClientTokenId", "SignatureDoesNotMatch"]
)
def test_credentials_that_aws_does_not_know_are_an_error_of_their_own(code):
    with pytest.raises(CredentialsError):
        calls_of(Script(refusal(code, 403))).call("DescribeJobs")


def test_a_right_that_is_missing_is_named():
    words = "User: arn:aws:iam::1:user/x is not authorized to perform: batch:SubmitJob"
    client = Script(refusal("AccessDeniedException", 403, words))

    with pytest.raises(AwsError, match="batch:SubmitJob") as caught:
        calls_of(client).call("SubmitJob")

    assert caught.value.denied
    assert not isinstance(caught.value, CredentialsError)


# -- over HTTP ------------------------------------------------------------------------------------


def test_every_second_call_is_throttled_and_all_are_answered(emulator, faults):
    calls = calls_of(emulator)
    number = faults.add(Fault("throttle", every=2))

    for _ in range(50):
        assert calls.call("DescribeJobQueues")["jobQueues"]

    struck = next(times for known, _, times in faults.active() if known == number)
    assert struck >= 25
    assert calls.counts["DescribeJobQueues"] == 50 + struck


def test_lost_replies_and_failures_of_the_service_do_not_show(emulator, faults):
    calls = calls_of(emulator)
    faults.add(Fault("lost-reply", every=3))
    faults.add(Fault("server-error", every=5))

    assert all(calls.call("DescribeJobQueues")["jobQueues"] for _ in range(30))


def test_a_lost_reply_to_what_makes_one_more_is_told(emulator, faults):
    faults.add(Fault("lost-reply", operation="SubmitJob", times=1))

    with pytest.raises(LostReply):
        calls_of(emulator).once(
            "SubmitJob", jobName="x", jobQueue="main", jobDefinition="no-such-definition"
        )


def test_the_words_of_aws_come_without_their_frame(emulator):
    with pytest.raises(AwsError) as caught:
        calls_of(emulator).call("DescribeJobs", jobs=[])

    assert str(caught.value).startswith("AWS Batch refused DescribeJobs: At least one job ID")
    assert "Error executing request" not in str(caught.value)
    assert caught.value.request_id


def test_what_botocore_would_not_send_is_a_mistake_of_the_caller(emulator):
    with pytest.raises(UsageError, match="jobName"):
        calls_of(emulator).call("SubmitJob", jobName=7, jobQueue="main", jobDefinition="d")


def test_an_address_where_nobody_listens_is_told_soon():
    import boto3
    from botocore.config import Config

    clock = HandClock()
    client = boto3.client(
        "batch",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )

    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9"):
        calls_of(client, clock).call("DescribeJobs", jobs=["x"])

    assert sum(clock.slept) < 10


def test_what_a_client_does_not_have_can_be_seen(emulator):
    calls = Calls(cloud.client(emulator, "batch"))

    assert calls.has("TerminateJobs")
    assert not calls.has("TerminateEverything")
