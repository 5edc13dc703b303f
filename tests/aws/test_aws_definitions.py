"""Job definitions: one for all who agree, found again on the emulator and on moto's own Batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import cloud
from support.aws_calls import Script, calls_of, define, definition, refusal, start
from wherry.aws.calls import Calls
from wherry.aws.definition_garbage import deregister, garbage, in_use_by_jobs
from wherry.aws.definitions import (
    DEFINITION_TAG,
    Definitions,
    agree,
    canonical,
    content_hash,
    ensure,
    full_hash,
    registered_at,
)
from wherry.emulator.faults import Fault
from wherry.errors import AwsError, UsageError

DAY = 86_400.0
GPU = definition(
    ["train"],
    resourceRequirements=[
        {"type": "VCPU", "value": "4"},
        {"type": "MEMORY", "value": "16000"},
        {"type": "GPU", "value": "1"},
    ],
    environment=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
    volumes=[{"name": "v", "host": {"sourcePath": "/data"}}],
    mountPoints=[{"sourceVolume": "v", "containerPath": "/data", "readOnly": True}],
    linuxParameters={"sharedMemorySize": 64},
    logConfiguration={"logDriver": "awslogs", "options": {"awslogs-group": "/mine"}},
)
FARGATE = {
    **definition(
        ["true"],
        resourceRequirements=[
            {"type": "VCPU", "value": "0.25"},
            {"type": "MEMORY", "value": "512"},
        ],
        executionRoleArn="arn:aws:iam::123456789012:role/execution",
    ),
    "platformCapabilities": ["FARGATE"],
}
GANG = {
    "type": "multinode",
    "nodeProperties": {
        "numNodes": 4,
        "mainNode": 0,
        "nodeRangeProperties": [
            {"targetNodes": "0:1", "container": definition(["a"])["containerProperties"]},
            {"targetNodes": "2:3", "container": definition(["b"])["containerProperties"]},
        ],
    },
}
SIDECAR = {
    "type": "container",
    "ecsProperties": {
        "taskProperties": [
            {
                "containers": [
                    {
                        "name": "copy",
                        "image": "busybox",
                        "essential": False,
                        "command": ["true"],
                        "resourceRequirements": [
                            {"type": "VCPU", "value": "1"},
                            {"type": "MEMORY", "value": "64"},
                        ],
                    },
                    {
                        "name": "main",
                        "image": "scratch",
                        "essential": True,
                        "dependsOn": [{"containerName": "copy", "condition": "SUCCESS"}],
                        "resourceRequirements": [
                            {"type": "VCPU", "value": "1"},
                            {"type": "MEMORY", "value": "64"},
                        ],
                    },
                ],
                "volumes": [{"name": "shell", "host": {}}],
            }
        ]
    },
}
# moto keeps nodes to itself, and knows nothing of several containers.
ON_MOTO = {"single": definition(["true"]), "gpu": GPU, "fargate": FARGATE}
ON_EMULATOR = {**ON_MOTO, "gang": GANG, "sidecar": SIDECAR}


@pytest.fixture(scope="module")
def emulator():
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def faults(emulator):
    yield emulator.faults
    emulator.faults.clear()


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    """moto's server alone: its own Batch."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(moto_url: str) -> Calls:
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "batch",
        region_name="us-east-1",
        endpoint_url=moto_url,
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(proxies={}, retries={"total_max_attempts": 1}),
    )
    return calls_of(client)


def revisions(calls: Calls, name: str) -> list[int]:
    known = calls.pages("DescribeJobDefinitions", "jobDefinitions", jobDefinitionName=name)
    return sorted(each["revision"] for each in known if each["status"] == "ACTIVE")


def described(calls: Calls, arn: str) -> dict[str, object]:
    return calls.call("DescribeJobDefinitions", jobDefinitions=[arn])["jobDefinitions"][0]


# -- one for all ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_EMULATOR)
def test_a_definition_is_registered_once_and_found_ever_after(emulator, kind):
    calls, name, wanted = calls_of(emulator), cloud.unique("wherry-a"), ON_EMULATOR[kind]

    first = ensure(calls, name, wanted, {"team": "x"})
    again = [ensure(calls, name, wanted, {"team": "x"}) for _ in range(3)]

    assert again == [first] * 3
    assert first.endswith(f"{name}:1")
    assert calls.counts == {"DescribeJobDefinitions": 4, "RegisterJobDefinition": 1}
    assert described(calls, first)["tags"]["team"] == "x"


@pytest.mark.parametrize("kind", ON_MOTO)
def test_it_is_found_again_on_motos_own_batch_too(moto, kind):
    name, wanted = cloud.unique("wherry-m"), ON_MOTO[kind]

    first = ensure(moto, name, wanted, {"team": "x"})

    assert ensure(moto, name, wanted) == first
    assert moto.counts["RegisterJobDefinition"] == 1
    assert described(moto, first)["tags"]["team"] == "x"


def test_the_tag_has_the_whole_hash_and_the_time(emulator):
    calls = calls_of(emulator)

    arn = ensure(calls, cloud.unique("wherry-t"), GPU, now=lambda: 1_700_000_000.4)

    found = described(calls, arn)
    assert found["tags"][DEFINITION_TAG] == f"{full_hash(GPU)} 2023-11-14T22:13:20Z"
    assert registered_at(found) == 1_700_000_000


def test_a_revision_that_somebody_made_by_hand_is_not_ours(emulator):
    calls, name = calls_of(emulator), cloud.unique("wherry-h")
    ours = ensure(calls, name, GPU)
    deregister(calls, [ours])
    other = definition(["rm", "-rf", "/"])
    tags = {DEFINITION_TAG: f"{full_hash(GPU)} 2023-11-14T22:13:20Z"}  # copied with the rest
    calls.call("RegisterJobDefinition", **other, jobDefinitionName=name, tags=tags)

    found = ensure(calls, name, GPU)

    assert found.endswith(":3")
    assert described(calls, found)["containerProperties"]["command"] == ["train"]


def test_one_that_was_deregistered_is_registered_again(emulator):
    calls, name = calls_of(emulator), cloud.unique("wherry-d")
    deregister(calls, [ensure(calls, name, GPU)])

    assert ensure(calls, name, GPU).endswith(f"{name}:2")


def test_of_two_who_register_at_once_both_use_the_lower_revision():
    name = "wherry-x"
    mine = {**GPU, "jobDefinitionName": name, "status": "ACTIVE"}
    theirs = [
        {**mine, "revision": 2, "jobDefinitionArn": "arn:2"},
        {**mine, "revision": 1, "jobDefinitionArn": "arn:1"},
    ]
    client = Script(
        {"jobDefinitions": []},
        {"jobDefinitionArn": "arn:2", "revision": 2},
        {"jobDefinitions": theirs},
    )

    assert ensure(calls_of(client), name, GPU) == "arn:1"


def test_many_at_once_agree_on_one(emulator):
    name, found = cloud.unique("wherry-r"), []
    threads = [
        threading.Thread(target=lambda: found.append(ensure(calls_of(emulator), name, GPU)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(found) == {ensure(calls_of(emulator), name, GPU)}
    assert found[0].endswith(":1")


def test_a_lost_reply_to_a_registration_makes_no_second_one(emulator, faults):
    calls, name = calls_of(emulator), cloud.unique("wherry-l")
    faults.add(Fault("lost-reply", operation="RegisterJobDefinition", times=1))

    assert ensure(calls, name, GPU).endswith(":1")
    assert revisions(calls, name) == [1]


def test_it_comes_through_throttles_and_failures(emulator, faults):
    calls = calls_of(emulator)
    faults.add(Fault("throttle", rate=0.3))
    faults.add(Fault("server-error", every=4))

    for _ in range(10):
        name = cloud.unique("wherry-f")
        assert ensure(calls, name, GPU) == ensure(calls, name, GPU)


def test_what_aws_refuses_is_told_in_its_words(emulator):
    wrong = definition(["true"], resourceRequirements=[{"type": "VCPU", "value": "1"}])

    with pytest.raises(AwsError, match="RegisterJobDefinition"):
        ensure(calls_of(emulator), cloud.unique("wherry-w"), wrong)


def test_what_botocore_refuses_is_a_mistake_of_the_caller(emulator):
    with pytest.raises(UsageError, match="containerProperties"):
        ensure(calls_of(emulator), "wherry-w", {"type": "container", "containerProperties": 1})


def test_names_and_tags_in_a_document_are_not_its_content(emulator):
    calls, name = calls_of(emulator), cloud.unique("wherry-n")
    dressed = {**GPU, "jobDefinitionName": "another", "tags": {"x": "y"}}

    assert ensure(calls, name, dressed) == ensure(calls, name, GPU)
    assert content_hash(dressed) == content_hash(GPU)
    assert dressed["jobDefinitionName"] == "another"


# -- a process asks once --------------------------------------------------------------------------


def test_a_process_asks_once_for_each_definition(emulator):
    calls = calls_of(emulator)
    known, name = Definitions(calls), cloud.unique("wherry-p")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(known.ensure(name, GPU))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1
    assert calls.counts == {"DescribeJobDefinitions": 1, "RegisterJobDefinition": 1}


def test_one_that_is_gone_can_be_asked_for_again(emulator):
    calls = calls_of(emulator)
    known, name = Definitions(calls), cloud.unique("wherry-g")
    gone = known.ensure(name, GPU)
    deregister(calls, [gone])

    known.forget(gone)

    assert known.ensure(name, GPU) != gone


# -- what is the same -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_EMULATOR)
def test_what_aws_returns_agrees_with_what_it_was_given_without_any_tag(emulator, kind):
    calls, wanted = calls_of(emulator), ON_EMULATOR[kind]
    answer = calls.call("RegisterJobDefinition", **wanted, jobDefinitionName=cloud.unique("bare"))

    assert agree(wanted, described(calls, answer["jobDefinitionArn"]))


@pytest.mark.parametrize("kind", ON_EMULATOR)
def test_different_kinds_do_not_agree(kind):
    others = [each for name, each in ON_EMULATOR.items() if name != kind]

    assert not any(agree(ON_EMULATOR[kind], other) for other in others)


def container(**members: object) -> dict[str, object]:
    return {"type": "container", "containerProperties": {"image": "i", **members}}


SAME = [
    (container(), container(command=[], environment=[], volumes=[], privileged=False)),
    (container(), {**container(), "parameters": {}, "containerOrchestrationType": "ECS"}),
    (container(), {**container(), "platformCapabilities": ["EC2"], "status": "ACTIVE"}),
    (
        container(environment=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        container(environment=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]),
    ),
    (container(environment=[{"name": "A", "value": ""}]), container()),
    (
        container(resourceRequirements=[{"type": "VCPU", "value": "1"}]),
        container(resourceRequirements=[{"type": "VCPU", "value": "1.0"}]),
    ),
]
DIFFERENT = [
    (container(), container(privileged=True)),
    (container(command=["a", "b"]), container(command=["b", "a"])),
    (container(command=["a"]), container()),
    (container(), container(jobRoleArn="arn:aws:iam::1:role/admin")),
    (
        container(environment=[{"name": "A", "value": "1"}]),
        container(environment=[{"name": "A", "value": "2"}]),
    ),
    (
        container(linuxParameters={"swappiness": 0, "maxSwap": 0}),
        container(linuxParameters={"swappiness": 60, "maxSwap": 0}),
    ),
    ({"essential": False}, {"essential": True}),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME)
def test_what_aws_adds_makes_no_difference(ours, theirs):
    assert agree(ours, theirs)
    assert canonical(ours) == canonical(theirs)


@pytest.mark.parametrize(("ours", "theirs"), DIFFERENT)
def test_what_somebody_means_makes_one(ours, theirs):
    assert not agree(ours, theirs)
    assert content_hash(ours) != content_hash(theirs)


def test_a_default_that_aws_invents_tomorrow_is_let_pass_with_our_tag_alone():
    tomorrow = container(newThing={"mode": "CLASSIC"})
    tagged = {
        **tomorrow,
        "tags": {DEFINITION_TAG: f"{full_hash(container())} 2026-01-01T00:00:00Z"},
    }

    assert agree(container(), tagged)
    assert not agree(container(), tomorrow)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_document_agrees_with_itself_and_has_one_hash(value):
    document = {"containerProperties": value}

    assert agree(document, document)
    assert content_hash(document) == content_hash(document)
    assert len(content_hash(document)) == 16


# -- garbage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(emulator) -> dict[str, str]:
    """Definitions of ours of different ages, and one of somebody else."""
    calls = calls_of(emulator)
    ages = {"ancient": 0.0, "used": 0.0, "young": 1_000 * DAY}
    found = {
        word: ensure(calls, cloud.unique(f"wherry-{word}"), GPU, now=lambda age=age: age)
        for word, age in ages.items()
    }
    found["other"] = define(calls, cloud.unique("theirs"), ["true"])
    found["untagged"] = define(calls, cloud.unique("wherry-by-hand"), ["true"])
    return found


def test_garbage_is_ours_old_and_in_no_job(emulator, old):
    calls = calls_of(emulator)

    found = garbage(calls, 900 * DAY, {old["used"]}, now=lambda: 1_001 * DAY)

    arns = {each.arn for each in found}
    assert old["ancient"] in arns
    assert not arns & {old["used"], old["young"], old["other"], old["untagged"]}
    assert [each.registered_at for each in found] == sorted(each.registered_at for each in found)


def test_what_a_job_that_has_not_ended_uses_is_known(emulator, faults, old):
    calls = calls_of(emulator)
    faults.add(Fault("hold", value="RUNNABLE"))
    job = start(calls, old["other"])

    try:
        assert old["other"] in in_use_by_jobs(calls)
        assert old["other"] in in_use_by_jobs(calls, ["main"])
        assert old["other"] not in in_use_by_jobs(calls, ["spot"])
    finally:
        calls.call("TerminateJob", jobId=job, reason="done")


def test_what_is_gone_already_is_passed_over(emulator):
    calls = calls_of(emulator)
    arn = ensure(calls, cloud.unique("wherry-z"), GPU)
    missing = arn.rpartition(":")[0] + ":99"

    assert deregister(calls, [missing, arn]) == [arn]
    assert described(calls, arn)["status"] == "INACTIVE"


def test_deregistering_that_is_not_allowed_is_told():
    client = Script(refusal("AccessDeniedException", 403, "batch:DeregisterJobDefinition"))

    with pytest.raises(AwsError, match="DeregisterJobDefinition"):
        deregister(calls_of(client), ["arn:1"])


def test_garbage_is_found_and_let_go_on_motos_own_batch_too(moto):
    old = ensure(moto, cloud.unique("wherry-old"), GPU, now=lambda: 0.0)
    young = ensure(moto, cloud.unique("wherry-young"), GPU)

    found = [each.arn for each in garbage(moto, 30 * DAY, set())]

    assert old in found
    assert young not in found
    assert deregister(moto, found) == found
    assert old not in [each.arn for each in garbage(moto, 30 * DAY, set())]
