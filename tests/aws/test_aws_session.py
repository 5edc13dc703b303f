"""Who we are at AWS: found as boto3 finds it, and told in words when it is not there."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from support import cloud
from support.aws_calls import Script, refusal
from wherry.aws.session import Session, session_of
from wherry.emulator import exports
from wherry.emulator.faults import Fault
from wherry.errors import (
    AwsError,
    CredentialsError,
    LostReply,
    UnknownNameError,
    UnreachableError,
    UsageError,
)


@pytest.fixture(scope="module")
def emulator():
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine that has neither credentials nor configuration of AWS, and is no instance."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in exports.blind(os.environ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@pytest.fixture
def at_emulator(nowhere, monkeypatch, emulator):
    """A machine whose environment leads to the emulator."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    yield emulator
    emulator.faults.clear()


def configure(folder, text: str) -> None:
    (folder / "config").write_text(text)


# -- what is found --------------------------------------------------------------------------------


def test_region_endpoint_and_credentials_come_from_the_environment(at_emulator):
    session = Session()

    assert session.region == "us-east-1"
    assert session.endpoint() == at_emulator.url
    assert session.calls().call("DescribeJobQueues")["jobQueues"]
    assert session.account_id() == "123456789012"


def test_a_credentials_file_that_was_named_is_taken_before_the_environment(at_emulator, tmp_path):
    file = tmp_path / "of-the-lab"
    file.write_text(
        "[default]\naws_access_key_id = LAB\naws_secret_access_key = x\n"
        "[other]\naws_access_key_id = OTHER\naws_secret_access_key = x\n"
    )

    keys = {
        profile: Session(profile, credentials_file=str(file))
        .client("sts")
        ._request_signer._credentials.access_key
        for profile in (None, "other")
    }

    assert keys == {None: "LAB", "other": "OTHER"}


def test_a_credentials_file_that_is_not_there_is_named(at_emulator):
    with pytest.raises(UsageError, match=r"credentials file '/no/such/file' does not exist"):
        Session(credentials_file="/no/such/file").client("batch")


def test_a_region_that_was_asked_for_is_taken_before_that_of_the_environment(at_emulator):
    session = Session(region="eu-west-1")

    assert session.region == "eu-west-1"
    assert session.client("logs").meta.region_name == "eu-west-1"


def test_a_profile_brings_region_and_credentials(nowhere, monkeypatch, emulator):
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
    configure(
        nowhere,
        "[profile work]\nregion = eu-central-1\n"
        "aws_access_key_id = AKIAWORK\naws_secret_access_key = secret\n",
    )

    session = Session(profile="work")

    assert (session.profile, session.region) == ("work", "eu-central-1")
    assert session.calls().call("DescribeJobQueues")["jobQueues"]


def test_ready_clients_are_used_as_they_are():
    batch, logs = Script(), Script()
    session = session_of({"batch": batch, "logs": logs})

    assert session.client("batch") is batch
    assert session.calls("logs").client is logs


def test_the_account_of_a_ready_client_is_not_taken_from_elsewhere(at_emulator):
    sts = Script({"Account": "222222222222"})

    assert session_of({"batch": Script()}).account_id() == ""
    assert session_of({"batch": Script(), "sts": sts}).account_id() == "222222222222"


def test_a_client_that_was_not_given_is_made_for_the_region_of_the_one_that_was(
    at_emulator, monkeypatch
):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    session = session_of({"batch": cloud.client(at_emulator, "batch", region="eu-west-2")})

    assert session.region == "eu-west-2"
    assert session.client("logs").meta.region_name == "eu-west-2"


def test_clients_and_calls_are_made_once_whoever_asks(at_emulator):
    session = Session()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(session.calls())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(map(id, found))) == 1
    assert session.calls("logs") is not session.calls("batch")


def test_nothing_is_loaded_nor_looked_at_before_something_is_asked_for():
    program = (
        "import sys\n"
        "from wherry.aws.session import Session\n"
        "Session('no-such-profile')\n"
        "sys.exit('botocore' in sys.modules or 'boto3' in sys.modules)\n"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- what is shared -------------------------------------------------------------------------------


def test_sessions_of_one_identity_share_limiter_and_poller(at_emulator):
    one, other = Session(), Session()

    assert one.identity == other.identity
    assert one.calls().limiter is other.calls().limiter
    assert one.poller() is other.poller()


def test_another_region_or_another_key_shares_neither(at_emulator, monkeypatch):
    one, abroad = Session(), Session(region="eu-west-1")
    assert one.poller() is not abroad.poller()
    assert one.calls().limiter is not abroad.calls().limiter

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASOMEBODYELSE")
    other = Session()
    assert other.identity != one.identity
    assert other.poller() is not one.poller()


def test_services_do_not_share_a_limiter(at_emulator):
    session = Session()

    assert session.calls("logs").limiter is not session.calls("batch").limiter


def test_ready_clients_are_identities_of_their_own(at_emulator):
    one = session_of({"batch": cloud.client(at_emulator, "batch")})
    other = session_of({"batch": cloud.client(at_emulator, "batch")})

    assert one.poller() is one.poller()
    assert one.poller() is not other.poller()


def test_a_poller_that_nobody_holds_is_let_go(at_emulator):
    session = session_of({"batch": cloud.client(at_emulator, "batch")})
    poller = weakref.ref(session.poller())

    del session
    gc.collect()

    assert poller() is None


def test_an_identity_says_nothing_of_the_credentials(at_emulator):
    identity = Session().identity

    assert os.environ["AWS_ACCESS_KEY_ID"] not in identity
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in identity


# -- never twice ----------------------------------------------------------------------------------


def test_our_clients_do_not_repeat_a_submission_behind_our_back(at_emulator, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")  # for other programs, not for this one
    session = Session()
    at_emulator.faults.add(Fault("lost-reply", operation="SubmitJob"))
    definition = cloud.define(cloud.client(at_emulator, "batch"), ["true"])
    name = cloud.unique("once")

    with pytest.raises(LostReply):
        session.calls().once("SubmitJob", jobName=name, jobQueue="main", jobDefinition=definition)

    at_emulator.faults.clear()
    filters = [{"name": "JOB_NAME", "values": [name]}]
    found = session.calls().call("ListJobs", jobQueue="main", filters=filters)
    assert len(found["jobSummaryList"]) == 1


# -- credentials that go stale --------------------------------------------------------------------


def test_credentials_that_somebody_renews_meanwhile_are_taken_up(nowhere, monkeypatch, emulator):
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
    keys = "aws_secret_access_key = secret\nregion = us-east-1\n"
    configure(nowhere, f"[default]\naws_access_key_id = AKIAOLD\n{keys}")
    session = Session()
    calls = session.calls()
    calls.call("DescribeJobQueues")
    before, identity = calls.client, session.identity

    configure(nowhere, f"[default]\naws_access_key_id = AKIANEW\n{keys}")
    emulator.faults.add(Fault("expired-token", times=1))
    assert calls.call("DescribeJobQueues")["jobQueues"]

    assert calls.client is not before
    assert calls.client is session.client("batch")
    assert calls.client._request_signer._credentials.access_key == "AKIANEW"
    assert session.identity == identity


def test_expired_credentials_are_told_with_what_to_do(at_emulator):
    at_emulator.faults.add(Fault("expired-token"))

    with pytest.raises(CredentialsError) as caught:
        Session().calls().call("DescribeJobQueues")

    told = str(caught.value)
    assert "in the environment (AWS_ACCESS_KEY_ID) have expired" in told
    assert "AWS_SESSION_TOKEN" in told


def test_those_of_a_ready_client_cannot_be_renewed(at_emulator):
    stale = Script(*[refusal("ExpiredToken", 403, "The security token has expired")] * 2)

    with pytest.raises(CredentialsError, match="security token has expired"):
        session_of({"batch": stale}).calls().call("DescribeJobQueues")

    assert len(stale.asked) == 1


# -- what is told ---------------------------------------------------------------------------------


def test_no_credentials_says_what_was_looked_at_and_three_ways_out(nowhere, emulator, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
    configure(nowhere, "[default]\nregion = us-east-1\n[profile other]\nregion = us-east-1\n")

    with pytest.raises(CredentialsError) as caught:
        Session().calls().call("DescribeJobQueues")

    told = str(caught.value)
    for word in ("AWS_ACCESS_KEY_ID", "'default'", "~/.aws/credentials", "role of this machine"):
        assert word in told
    for way in ("aws configure", "AWS_PROFILE (there are: other)", "AWS_SECRET_ACCESS_KEY"):
        assert way in told


def test_an_unknown_profile_is_told_with_the_nearest_one(nowhere):
    configure(nowhere, "[profile production]\nregion = us-east-1\n")

    with pytest.raises(UnknownNameError, match=r"'prodution'.*did you mean 'production'\?"):
        Session(profile="prodution").client("batch")


def test_an_unknown_profile_of_the_environment_says_where_it_is_from(nowhere, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nope")

    with pytest.raises(UnknownNameError, match=r"'nope' \(from AWS_PROFILE\)"):
        _ = Session().region


def test_no_region_says_how_to_give_one(nowhere, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    for ask in (lambda: Session().region, lambda: Session().client("batch")):
        with pytest.raises(
            UsageError, match=r"no AWS region.*AWS_REGION.*aws configure set region"
        ):
            ask()


def test_a_region_that_is_none_is_told(nowhere):
    with pytest.raises(UsageError, match="not a region"):
        Session(region="not a region").client("batch")


def test_an_endpoint_where_nobody_listens_names_the_variable(at_emulator, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9.*AWS_ENDPOINT_URL"):
        Session().calls().call("DescribeJobQueues", patience=0)


def test_a_region_with_a_slip_is_told_with_the_nearest_one(at_emulator, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(UnreachableError, match=r"'eu-wset-1'.*did you mean 'eu-west-1'\?"):
        Session(region="eu-wset-1").calls().call("DescribeJobQueues", patience=0)


def test_a_key_that_aws_does_not_know_is_told(at_emulator):
    unknown = refusal("UnrecognizedClientException", 403, "The security token is invalid")
    session = Session(client_factory=lambda _service: Script(unknown))

    with pytest.raises(CredentialsError, match="token is invalid"):
        session.calls().call("DescribeJobQueues")


def test_a_clock_that_is_wrong_is_told():
    from wherry.aws import complaints, failures

    error = refusal(
        "InvalidSignatureException", 403, "Signature expired: 20240101T000000Z is now earlier"
    )

    told = complaints.explained(failures.read(error), complaints.Surroundings(method="env"))

    assert "clock" in told


def test_a_package_that_is_not_there_is_told(nowhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(AwsError, match=r"pip install 'wherry\[aws\]'"):
        Session(region="us-east-1").client("batch")
