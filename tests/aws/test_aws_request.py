"""From an app and options to what is sent: kinds of jobs, containers, retries, what is refused."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.batch_requests import (
    EC2,
    EXECUTION_ROLE,
    FARGATE,
    JOB_ROLE,
    SECRET,
    TOKEN,
    app,
    assert_aws_would_take,
    container_of,
    env_of,
    made,
    request_of,
    requirements_of,
    role,
    warnings_of,
)
from wherry.errors import InvalidOptionError, InvalidSpecError, StateError, UsageError
from wherry.schedulers.aws_batch.facts import Platform, QueueFacts, queue_facts
from wherry.schedulers.aws_batch.request import Kind, UpstreamJob, fitted, resolved
from wherry.specs import (
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    RetryRule,
    RetryScope,
    VolumeMount,
    resource,
    to_plain,
)

UPSTREAM = "aws_batch://tests/main:first-01"
SPOT = QueueFacts(Platform.EC2, gangs=False)
ON_FARGATE = {"execution_role_arn": EXECUTION_ROLE}


def first(request):
    return request.submissions()[0]


def groups(request):
    return request.job_def["nodeProperties"]["nodeRangeProperties"]


# -- kinds of jobs --------------------------------------------------------------------------------


def test_one_replica_is_a_container_job():
    """TorchX makes a multi-node job of everything."""
    request = request_of(app())

    assert request.kind is Kind.SINGLE
    assert request.job_def["type"] == "container"
    assert "arrayProperties" not in first(request)
    assert_aws_would_take(request)


def test_an_array_is_an_array_job():
    request = request_of(app(role(num_replicas=10_000), array=True))

    assert request.kind is Kind.ARRAY
    assert first(request)["arrayProperties"] == {"size": 10_000}
    assert len(request.parts) == 1
    assert_aws_would_take(request)


def test_an_array_of_one_is_a_container_job():
    request = request_of(app(array=True))

    assert request.kind is Kind.SINGLE
    assert "arrayProperties" not in first(request)


@given(st.integers(2, 60_000))
@settings(max_examples=40, deadline=None)
def test_a_large_array_is_several_that_hold_each_replica_once(count):
    request = request_of(app(role(num_replicas=count), array=True))

    covered = [part.first + index for part in request.parts for index in range(part.count)]
    assert covered == list(range(count))
    for part, document in zip(request.parts, request.submissions(), strict=True):
        env = env_of(document["containerOverrides"])
        assert 2 <= document["arrayProperties"]["size"] == part.count <= 10_000
        assert int(env.get("WHERRY_INDEX_OFFSET", "0")) == part.first
        assert env["WHERRY_NUM_REPLICAS"] == str(count)
    assert len({document["jobName"] for document in request.submissions()}) == len(request.parts)


def test_roles_of_a_gang_are_node_groups_in_order():
    request = request_of(app(role("a", num_replicas=4), role("b", num_replicas=2), role("c")))

    properties = request.job_def["nodeProperties"]
    assert request.kind is Kind.GANG
    assert [group["targetNodes"] for group in groups(request)] == ["0:3", "4:5", "6:6"]
    assert (properties["numNodes"], properties["mainNode"]) == (7, 0)
    overrides = first(request)["nodeOverrides"]["nodePropertyOverrides"]
    assert [node["targetNodes"] for node in overrides] == ["0:3", "4:5", "6:6"]
    assert [(group.role, group.first, group.count) for group in request.groups] == [
        ("a", 0, 4),
        ("b", 4, 2),
        ("c", 6, 1),
    ]
    assert_aws_would_take(request)


def test_more_roles_than_node_groups_are_refused():
    with pytest.raises(InvalidSpecError, match="at most 5 node groups"):
        request_of(app(*(role(name) for name in "abcdef")))


def test_more_replicas_than_nodes_are_refused():
    with pytest.raises(InvalidSpecError, match=r"1000 nodes.*array=True"):
        request_of(app(role(num_replicas=1001)))


def test_the_nodes_of_a_gang_have_the_instance_type_of_their_resource():
    request = request_of(app(role(resource=resource(h="aws_m5.2xlarge"), num_replicas=2)))

    assert groups(request)[0]["container"]["instanceType"] == "m5.2xlarge"


def test_a_role_without_an_instance_type_gets_that_of_the_others():
    roles = role("a", resource=resource(h="aws_m5.2xlarge")), role("b")
    request, warnings = made(app(*roles))

    assert [group["container"]["instanceType"] for group in groups(request)] == ["m5.2xlarge"] * 2
    assert "'b' states no instance type and gets m5.2xlarge" in warnings[0]


def test_instance_types_that_differ_are_refused():
    roles = [role(name, resource=resource(h=f"aws_{name}.large")) for name in ("m5", "c5")]

    with pytest.raises(InvalidSpecError, match=r"m5: m5\.large, c5: c5\.large"):
        request_of(app(*roles))


def test_the_instance_type_of_a_job_that_is_no_gang_is_said_not_to_count():
    request, warnings = made(app(role(resource=resource(h="aws_m5.2xlarge"))))

    assert "instanceType" not in container_of(request)
    assert "m5.2xlarge counts only for" in warnings[0]


def test_what_a_gang_cannot_have_is_said():
    one = role(num_replicas=3, min_replicas=2, port_map={"http": 80})
    said = " ".join(warnings_of(app(one)))

    assert "min_replicas is not used" in said
    assert "port_map is not used" in said


# -- containers -----------------------------------------------------------------------------------


def test_a_container_has_what_the_role_and_the_options_say():
    one = role(
        resource=Resource(cpu=4, gpu=1, memMB=8192),
        ulimits={"nofile": 1024, "stack": (1, 2)},
        secrets={"DB": SECRET},
    )
    request = request_of(
        app(one),
        privileged=True,
        job_role_arn=JOB_ROLE,
        execution_role_arn=EXECUTION_ROLE,
        log_group="/my/logs",
        secrets={"KEY": "/app/key"},
    )

    container = container_of(request)
    assert requirements_of(container) == {"VCPU": "4", "MEMORY": "8192", "GPU": "1"}
    assert container["privileged"] is True
    assert container["jobRoleArn"] == JOB_ROLE
    assert container["executionRoleArn"] == EXECUTION_ROLE
    assert container["ulimits"] == [
        {"name": "nofile", "softLimit": 1024, "hardLimit": 1024},
        {"name": "stack", "softLimit": 1, "hardLimit": 2},
    ]
    assert container["secrets"] == [
        {"name": "KEY", "valueFrom": "/app/key"},
        {"name": "DB", "valueFrom": SECRET},
    ]
    assert container["logConfiguration"] == {
        "logDriver": "awslogs",
        "options": {"awslogs-group": "/my/logs"},
    }
    assert container["linuxParameters"] == {"sharedMemorySize": 8192}
    assert_aws_would_take(request)


def test_a_resource_that_states_nothing_gets_something():
    container = container_of(request_of(app(role(resource=Resource()))))

    assert requirements_of(container) == {"VCPU": "1", "MEMORY": "2048"}


def test_part_of_a_vcpu_is_rounded_up_on_ec2_and_said_so():
    request, warnings = made(app(role(resource=Resource(cpu=0.5, memMB=512))))

    assert requirements_of(container_of(request))["VCPU"] == "1"
    assert "0.5 vCPU is rounded up to 1" in warnings[0]


def test_memory_that_no_container_can_have_is_refused():
    with pytest.raises(InvalidSpecError, match="3 MiB"):
        request_of(app(role(resource=Resource(memMB=3))))


def test_secrets_need_an_execution_role():
    with pytest.raises(InvalidOptionError, match=r"secrets \(DB\).*execution_role_arn"):
        request_of(app(role(secrets={"DB": SECRET})))


@pytest.mark.parametrize("place", ["env:DB", "file:/secret"])
def test_secrets_of_this_machine_are_refused(place):
    with pytest.raises(InvalidSpecError, match="Secrets Manager"):
        request_of(app(role(secrets={"DB": place})), execution_role_arn=EXECUTION_ROLE)


def test_a_variable_is_a_secret_or_not():
    one = role(secrets={"DB": SECRET}, env={"DB": "x"})

    with pytest.raises(InvalidSpecError, match="both a secret and in env"):
        request_of(app(one), execution_role_arn=EXECUTION_ROLE)


def test_an_unknown_limit_is_refused_with_the_nearest():
    with pytest.raises(InvalidSpecError, match="did you mean 'nofile'"):
        request_of(app(role(ulimits={"nofiles": 1})))


def test_a_role_without_an_image_is_refused():
    with pytest.raises(InvalidSpecError, match="has no image"):
        request_of(app(role(image="")))


def test_a_local_image_is_pushed_to_the_repository():
    request = request_of(app(role(image="sha256:abc")), image_repo="example.com/team/app")

    assert container_of(request)["image"] == "example.com/team/app:abc"
    assert request.images_to_push == {"sha256:abc": ("example.com/team/app", "abc")}


def test_a_local_image_without_a_repository_is_refused():
    with pytest.raises(InvalidOptionError, match="image_repo"):
        request_of(app(role(image="sha256:abc")))


# -- mounts and devices ---------------------------------------------------------------------------


def test_mounts_become_volumes_and_devices():
    mounts = [
        BindMount("/data", "/in", read_only=True),
        VolumeMount("fs-0123456789abcdef0", "/efs"),
        VolumeMount("fs-01234567:/sub", "/sub"),
        DeviceMount("/dev/fuse", permissions="rw"),
    ]
    request = request_of(app(role(mounts=mounts)))

    container = container_of(request)
    assert container["volumes"] == [
        {"name": "mount-0", "host": {"sourcePath": "/data"}},
        {"name": "mount-1", "efsVolumeConfiguration": {"fileSystemId": "fs-0123456789abcdef0"}},
        {
            "name": "mount-2",
            "efsVolumeConfiguration": {"fileSystemId": "fs-01234567", "rootDirectory": "/sub"},
        },
    ]
    assert container["mountPoints"] == [
        {"containerPath": "/in", "readOnly": True, "sourceVolume": "mount-0"},
        {"containerPath": "/efs", "readOnly": False, "sourceVolume": "mount-1"},
        {"containerPath": "/sub", "readOnly": False, "sourceVolume": "mount-2"},
    ]
    assert container["linuxParameters"]["devices"] == [
        {
            "hostPath": "/dev/fuse",
            "containerPath": "/dev/fuse",
            "permissions": ["READ", "WRITE"],
        }
    ]
    assert_aws_would_take(request)


@pytest.mark.parametrize(
    ("mounts", "complaint"),
    [
        ([VolumeMount("data", "/x")], "no EFS file system"),
        ([BindMount("/a", "x")], "begins with '/'"),
        ([BindMount("/a", "/x"), BindMount("/b", "/x")], "two mounts at '/x'"),
    ],
)
def test_mounts_that_cannot_be_are_refused(mounts, complaint):
    with pytest.raises(InvalidSpecError, match=complaint):
        request_of(app(role(mounts=mounts)))


def efa_devices(**options):
    one = role(resource=resource(h="aws_p4d.24xlarge"), num_replicas=2)
    request, warnings = made(app(one), **options)
    container = groups(request)[0]["container"]
    paths = [device["hostPath"] for device in container["linuxParameters"].get("devices", [])]
    return paths, container.get("ulimits"), warnings


def test_the_most_efa_that_an_instance_type_can_have_is_not_asked_for_unasked():
    paths, ulimits, warnings = efa_devices()

    assert paths == []
    assert ulimits is None
    assert "efa=yes adds them" in warnings[0]


def test_efa_is_used_when_it_is_asked_for():
    paths, ulimits, warnings = efa_devices(efa=True)

    assert paths == [f"/dev/infiniband/uverbs{index}" for index in range(4)]
    assert ulimits == [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]
    assert warnings == []


def test_efa_of_a_resource_made_by_hand_is_asked_for():
    one = role(resource=Resource(cpu=1, memMB=64, devices={"vpc.amazonaws.com/efa": 1}))

    devices = container_of(request_of(app(one)))["linuxParameters"]["devices"]
    assert [device["permissions"] for device in devices] == [["READ", "WRITE", "MKNOD"]]
    assert container_of(request_of(app(one), efa=False))["linuxParameters"].get("devices") is None


def test_a_device_that_is_mounted_and_stated_is_there_once():
    one = role(
        resource=Resource(cpu=1, memMB=64, devices={"vpc.amazonaws.com/efa": 1}),
        mounts=[DeviceMount("/dev/infiniband/uverbs0")],
    )

    assert len(container_of(request_of(app(one)))["linuxParameters"]["devices"]) == 1


def test_neuron_devices_come_with_their_hosts():
    one = role(resource=resource(h="aws_trn1.2xlarge"))

    devices = container_of(request_of(app(one)))["linuxParameters"]["devices"]
    assert [device["hostPath"] for device in devices] == ["/dev/neuron0"]


def test_an_unknown_device_is_refused():
    with pytest.raises(InvalidSpecError, match="unknown device of role 'main'"):
        request_of(app(role(resource=Resource(devices={"example.com/tpu": 1}))))


# -- Fargate --------------------------------------------------------------------------------------


def test_on_fargate_resources_are_rounded_up_to_a_legal_pair_and_said_so():
    one = role(resource=Resource(cpu=1, memMB=9000))
    request, warnings = made(app(one), FARGATE, **ON_FARGATE)

    container = container_of(request)
    assert requirements_of(container) == {"VCPU": "2", "MEMORY": "9216"}
    assert "1 vCPU and 9000 MiB is rounded up to 2 vCPU and 9216 MiB" in warnings[0]
    assert request.job_def["platformCapabilities"] == ["FARGATE"]
    assert "linuxParameters" not in container
    assert container["networkConfiguration"] == {"assignPublicIp": "ENABLED"}
    assert_aws_would_take(request)


def test_arm_on_fargate_and_no_public_address():
    one = role(resource=Resource(cpu=1, memMB=2048, capabilities={"arch": "arm64"}))

    container = container_of(request_of(app(one), FARGATE, public_ip=False, **ON_FARGATE))
    assert container["runtimePlatform"]["cpuArchitecture"] == "ARM64"
    assert container["networkConfiguration"] == {"assignPublicIp": "DISABLED"}


@pytest.mark.parametrize(
    ("fields", "options", "what"),
    [
        ({"resource": Resource(gpu=1)}, {}, "GPUs"),
        ({}, {"privileged": True}, "privileged"),
        ({"ulimits": {"nofile": 1}}, {}, "ulimits"),
        ({"mounts": [DeviceMount("/dev/fuse")]}, {}, "devices"),
        ({"resource": Resource(devices={"vpc.amazonaws.com/efa": 1})}, {}, "devices"),
        ({"mounts": [BindMount("/a", "/a")]}, {}, "paths of the host"),
    ],
)
def test_what_fargate_has_not_is_refused_with_the_way_out(fields, options, what):
    with pytest.raises(InvalidSpecError, match=f"Fargate has no .*{what}.*queue of EC2"):
        request_of(app(role(**fields)), FARGATE, **ON_FARGATE, **options)


def test_fargate_needs_an_execution_role():
    with pytest.raises(InvalidOptionError, match="execution_role_arn"):
        request_of(app(), FARGATE)


def test_a_task_larger_than_any_is_refused():
    with pytest.raises(UsageError, match="the largest is"):
        request_of(app(role(resource=Resource(cpu=64))), FARGATE, **ON_FARGATE)


@pytest.mark.parametrize(
    ("facts", "options"), [(FARGATE, ON_FARGATE), (None, {"platform": "fargate", **ON_FARGATE})]
)
def test_a_gang_on_fargate_is_refused_with_the_way_out(facts, options):
    with pytest.raises(InvalidSpecError, match=r"no multi-node jobs.*array=True"):
        request_of(app(role(num_replicas=2)), facts, **options)


def test_a_gang_on_spot_is_refused():
    with pytest.raises(InvalidSpecError, match="Spot or unmanaged"):
        request_of(app(role(num_replicas=2)), SPOT)


def test_an_instance_type_on_fargate_is_said_not_to_be_used():
    one = role(resource=resource(h="aws_m5.large"))

    assert any("m5.large is not used" in w for w in warnings_of(app(one), FARGATE, **ON_FARGATE))


# -- the queue, now or later ----------------------------------------------------------------------


def test_without_word_of_the_queue_ec2_is_assumed_and_said_so():
    request, warnings = made(app(), None)

    assert request.platform is Platform.EC2
    assert request.platform_assumed
    assert "was not asked" in warnings[0]


def test_an_assumption_that_was_right_changes_nothing():
    request = request_of(app(), None)

    settled, warnings = resolved(request, EC2)

    assert settled.submissions() == request.submissions()
    assert settled.definition() == request.definition()
    assert (settled.platform_assumed, warnings) == (False, [])


def test_an_assumption_that_was_wrong_is_made_good():
    request = request_of(app(role(resource=Resource(cpu=1, memMB=9000))), None, **ON_FARGATE)

    settled, warnings = resolved(request, FARGATE)

    assert settled.job_def["platformCapabilities"] == ["FARGATE"]
    assert (settled.name, settled.token) == (request.name, TOKEN)
    assert "rounded up" in warnings[0]
    assert_aws_would_take(settled)


def test_an_edited_request_is_not_made_again_behind_the_users_back():
    request = request_of(app(), None, **ON_FARGATE)
    request.job_def["containerProperties"]["image"] = "other"

    with pytest.raises(StateError, match=r"it was edited.*platform=fargate"):
        resolved(request, FARGATE)
    assert resolved(request, EC2)[0].job_def["containerProperties"]["image"] == "other"


def test_a_platform_that_the_queue_is_not_is_refused():
    with pytest.raises(InvalidOptionError, match="runs on FARGATE"):
        request_of(app(), FARGATE, platform="ec2")
    with pytest.raises(InvalidOptionError, match="runs on EC2"):
        resolved(request_of(app(), None, platform="fargate", **ON_FARGATE), EC2)


@pytest.mark.parametrize("platform", [Platform.EKS, Platform.MANAGED_INSTANCES])
def test_a_queue_of_another_kind_is_refused(platform):
    with pytest.raises(UsageError, match=str(platform)):
        request_of(app(), QueueFacts(platform))


def test_a_share_is_named_if_and_only_if_the_queue_has_shares():
    with pytest.raises(UsageError, match="must name its share"):
        request_of(app(), QueueFacts(scheduling_policy=True))
    with pytest.raises(UsageError, match="has no scheduling policy"):
        resolved(request_of(app(), None, share_id="a"), QueueFacts(scheduling_policy=False))


def test_share_and_priority_are_sent():
    document = first(request_of(app(), share_id="teamA", priority=7))

    assert document["shareIdentifier"] == "teamA"
    assert document["schedulingPriorityOverride"] == 7


# -- retries, timeouts, tags ----------------------------------------------------------------------


def strategy(*roles, facts=EC2, **options):
    return first(request_of(app(*roles), facts, **options)).get("retryStrategy")


def test_one_retry_is_two_attempts():
    """TorchX gives one attempt for max_retries=1."""
    assert strategy(role(max_retries=1)) == {"attempts": 2}
    assert strategy(role()) is None


def test_more_retries_than_aws_allows_are_refused():
    with pytest.raises(InvalidSpecError, match="at most 9, not 10"):
        request_of(app(role(max_retries=10)))


SPOT_RULES = [
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onReason": "CannotPullContainerError*", "action": "RETRY"},
    {"onReason": "*", "action": "EXIT"},
]


def test_the_spot_policy_in_awss_words():
    policy = role(max_retries=2, retry_policy=RetryPolicy.spot())

    assert strategy(policy) == {"attempts": 3, "evaluateOnExit": SPOT_RULES}
    assert strategy(role(), retries="5:spot") == {"attempts": 6, "evaluateOnExit": SPOT_RULES}
    assert strategy(role(), retries="spot")["attempts"] == 4
    assert strategy(role(max_retries=1), retries="spot")["attempts"] == 2


def test_fargate_has_words_of_its_own_for_a_lost_host():
    rules = strategy(role(), facts=FARGATE, retries="spot", **ON_FARGATE)["evaluateOnExit"]

    assert rules[0] == {"onStatusReason": "Your Spot Task was interrupted*", "action": "RETRY"}


def test_no_retries_means_one_attempt_whatever_the_app_says():
    assert strategy(role(max_retries=5), retries="none") == {"attempts": 1}


def test_rules_become_conditions_in_order():
    policy = RetryPolicy(
        RetryScope.REPLICA,
        [
            RetryRule(True, exit_code="13*", reason="Out of memory"),
            RetryRule(False, exit_code="*"),
        ],
    )

    assert strategy(role(max_retries=1, retry_policy=policy))["evaluateOnExit"] == [
        {"onReason": "Out of memory", "onExitCode": "13*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]


def test_a_pattern_that_aws_cannot_hold_is_cut_and_said_so():
    policy = RetryPolicy(RetryScope.REPLICA, [RetryRule(True, status_reason="Host EC2 (i-1)*")])
    request, warnings = made(app(role(max_retries=1, retry_policy=policy)))

    rules = first(request)["retryStrategy"]["evaluateOnExit"]
    assert rules == [{"onStatusReason": "Host EC2 *", "action": "RETRY"}]
    assert "'Host EC2 (i-1)*' is sent as 'Host EC2 *'" in warnings[0]
    assert_aws_would_take(request)


def test_a_pattern_of_which_nothing_is_left_is_refused():
    policy = RetryPolicy(RetryScope.REPLICA, [RetryRule(True, reason="(x)")])

    with pytest.raises(InvalidSpecError, match=r"'\(x\)' cannot be had"):
        request_of(app(role(max_retries=1, retry_policy=policy)))


def test_more_rules_than_aws_takes_are_refused():
    policy = RetryPolicy(rules=[RetryRule(True, exit_code=str(code)) for code in range(6)])

    with pytest.raises(InvalidSpecError, match="takes 5 retry rules, and here are 6"):
        request_of(app(role(max_retries=1, retry_policy=policy)))


def test_a_gang_is_retried_as_a_whole_and_said_so():
    roles = role("a", max_retries=1), role("b", max_retries=3)
    request, warnings = made(app(*roles))

    assert first(request)["retryStrategy"]["attempts"] == 4
    assert "retries all nodes together" in warnings[0]


def test_timeouts():
    document = first(request_of(app(timeout=3600)))
    assert document["timeout"] == {"attemptDurationSeconds": 3600}
    assert first(request_of(app(timeout=3600), timeout=60))["timeout"] == {
        "attemptDurationSeconds": 60
    }
    assert "rounded up to 91" in warnings_of(app(timeout=90.5))[0]
    assert "14 days" in warnings_of(app(timeout=2e6), FARGATE, **ON_FARGATE)[0]
    assert "timeout" not in first(request_of(app()))


@pytest.mark.parametrize("seconds", [59, 0.5])
def test_a_timeout_that_aws_cannot_keep_is_refused(seconds):
    with pytest.raises(InvalidSpecError, match="60 seconds or more"):
        request_of(app(timeout=seconds))


def test_tags_are_ours_the_users_and_the_metadata():
    request = request_of(
        app(metadata={"team": "ml", "cost": "1"}), tags={"cost": "2"}, propagate_tags=False
    )

    tags = first(request)["tags"]
    assert {name: tags[name] for name in tags if name != "wherry/version"} == {
        "team": "ml",
        "cost": "2",
        "wherry/app": "demo",
        "wherry/session": "tests",
        "wherry/user": "ada",
        "wherry/token": TOKEN,
    }
    assert first(request)["propagateTags"] is False
    assert first(request_of(app(), user="bob"))["tags"]["wherry/user"] == "bob"


def test_metadata_that_cannot_be_a_tag_is_left_out_and_said_so():
    request, warnings = made(app(metadata={"note": "a\u2713b"}))

    assert "note" not in first(request)["tags"]
    assert "metadata 'note' is not made a tag" in warnings[0]


def test_too_many_tags_are_refused():
    with pytest.raises(UsageError, match="tags and AWS allows 49"):
        request_of(app(), tags={f"k{index}": "" for index in range(45)})


def test_consumable_resources_go_where_each_kind_has_them():
    taken = {"consumableResourceList": [{"consumableResource": "license", "quantity": 2}]}
    options = {"consumable_resources": {"license": 2}}

    single, gang = request_of(app(), **options), request_of(app(role("a"), role("b")), **options)
    assert single.job_def["consumableResourceProperties"] == taken
    assert [group["consumableResourceProperties"] for group in groups(gang)] == [taken, taken]
    assert_aws_would_take(single)
    assert_aws_would_take(gang)


# -- dependencies ---------------------------------------------------------------------------------


def test_dependencies_are_handles_until_their_jobs_are_known():
    request = request_of(app(depends_on=[UPSTREAM]))

    assert first(request)["dependsOn"] == [{"jobId": f"<{UPSTREAM}>"}]
    jobs = {UPSTREAM: [UpstreamJob("id-1", 5000, 0), UpstreamJob("id-2", 5001, 5000)]}
    assert request.submissions("demo:1", jobs)[0]["dependsOn"] == [
        {"jobId": "id-1"},
        {"jobId": "id-2"},
    ]


def test_each_replica_may_wait_for_the_one_of_its_number():
    array = app(role(num_replicas=20_000), array=True, depends_on=[UPSTREAM])
    request = request_of(array, dependency="n_to_n")

    jobs = {UPSTREAM: [UpstreamJob("id-1", 10_000), UpstreamJob("id-2", 10_000, 10_000)]}
    waits = [document["dependsOn"] for document in request.submissions("demo:1", jobs)]
    assert waits == [[{"jobId": "id-1", "type": "N_TO_N"}], [{"jobId": "id-2", "type": "N_TO_N"}]]


def test_each_for_each_needs_arrays_of_the_same_size():
    array = app(role(num_replicas=3), array=True, depends_on=[UPSTREAM])
    request = request_of(array, dependency="n_to_n")

    with pytest.raises(UsageError, match="has 4, and this one 3"):
        request.submissions("demo:1", {UPSTREAM: [UpstreamJob("id-1", 4)]})
    with pytest.raises(InvalidOptionError, match="for arrays"):
        request_of(app(depends_on=[UPSTREAM]), dependency="n_to_n")


def test_an_app_elsewhere_cannot_be_waited_for():
    with pytest.raises(InvalidSpecError, match=r"local_cwd://.*wherry wait"):
        request_of(app(depends_on=["local_cwd://tests/echo-1"]))


def test_more_dependencies_than_aws_allows_are_refused():
    handles = [f"{UPSTREAM}{index}" for index in range(21)]
    with pytest.raises(InvalidSpecError, match="allows 20 dependencies"):
        request_of(app(depends_on=handles))
    request = request_of(app(depends_on=[UPSTREAM]))
    with pytest.raises(UsageError, match="wait for 21 jobs"):
        request.submissions("d", {UPSTREAM: [UpstreamJob(str(index)) for index in range(21)]})


# -- a definition of the user's own ---------------------------------------------------------------


def test_a_definition_of_the_users_own_is_used_and_overridden():
    one = role(image="", resource=Resource(memMB=4096), max_retries=2)
    request = request_of(
        app(one, timeout=60), job_definition="mine:3", consumable_resources={"license": 1}
    )

    document = first(request)
    assert request.definition() is None
    assert document["jobDefinition"] == "mine:3"
    assert document["containerOverrides"]["resourceRequirements"] == [
        {"type": "MEMORY", "value": "4096"}
    ]
    assert document["retryStrategy"] == {"attempts": 3}
    assert "consumableResourcePropertiesOverride" in document
    assert_aws_would_take(request)


@pytest.mark.parametrize(
    ("fields", "options", "what"),
    [
        ({"mounts": [BindMount("/a", "/a")]}, {}, "mounts"),
        ({"ulimits": {"nofile": 1}}, {}, "ulimits"),
        ({"secrets": {"A": SECRET}}, {}, "secrets"),
        ({}, {"privileged": True, "log_group": "x"}, "privileged, log_group"),
        ({}, {"launcher": "sidecar"}, "launcher=sidecar"),
    ],
)
def test_what_a_submission_cannot_override_is_refused(fields, options, what):
    with pytest.raises(InvalidOptionError, match=f"{what} cannot be had with job_definition=mine"):
        request_of(app(role(**fields)), job_definition="mine", **options)


def test_the_image_is_said_not_to_be_used():
    assert "the image 'alpine:3' is not used" in warnings_of(app(), job_definition="mine")[0]


# -- sharing, and leaving inputs alone ------------------------------------------------------------


WORDS = st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=8), max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    args=st.tuples(WORDS, WORDS),
    env=st.tuples(st.text(max_size=5), st.text(max_size=5)).filter(
        lambda pair: "\0" not in "".join(pair)
    ),
    retries=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    kind=st.sampled_from([{}, {"array": True}, {"gang": True}]),
)
def test_two_runs_of_an_app_share_a_definition(args, env, retries, kind):
    def definition(run):
        one = role(
            args=args[run],
            env={"E": env[run]},
            max_retries=retries[run],
            num_replicas=3 if kind else 1,
        )
        whole = app(one, array="array" in kind, timeout=60 + run, metadata={"run": str(run)})
        request, _ = made(whole, token=f"01k2m3n4p5q6{run}", session=f"s{run}", user=f"u{run}")
        return request.definition()

    assert definition(0) == definition(1)


def test_what_cannot_be_overridden_makes_another_definition():
    changed = [
        ({}, {}),
        ({"image": "alpine:4"}, {}),
        ({"resource": Resource(cpu=2, memMB=2048)}, {}),
        ({"mounts": [BindMount("/a", "/a")]}, {}),
        ({"ulimits": {"nofile": 1}}, {}),
        ({"secrets": {"A": SECRET}}, {}),
        ({"secrets": {"A": SECRET + "2"}}, {}),
        ({}, {"job_role_arn": JOB_ROLE}),
        ({}, {"privileged": True}),
        ({}, {"log_group": "x"}),
        ({"num_replicas": 2}, {}),
        ({"num_replicas": 3}, {}),
    ]
    names = {
        request_of(app(role(**fields)), execution_role_arn=EXECUTION_ROLE, **options).definition()[
            "jobDefinitionName"
        ]
        for fields, options in changed
    }

    assert len(names) == len(changed)


def test_nothing_that_was_handed_in_is_changed():
    """TorchX adds mounts to the caller's role."""
    given_app = app(role(resource=resource(h="aws_trn1.32xlarge"), num_replicas=2))
    before = copy.deepcopy(to_plain(given_app))
    cfg = {"tags": {"a": "b"}, "secrets": {}, "efa": True}
    kept = copy.deepcopy(cfg)

    request = request_of(given_app, **cfg)
    shown = str(request)
    request.submissions("x:1")

    assert to_plain(given_app) == before
    assert cfg == kept
    assert str(request) == shown


def test_an_edit_of_the_request_is_what_is_sent():
    request = request_of(app())
    name = request.definition()["jobDefinitionName"]
    request.job_def["containerProperties"]["image"] = "busybox"
    request.job["timeout"] = {"attemptDurationSeconds": 99}

    assert request.definition()["containerProperties"]["image"] == "busybox"
    assert request.definition()["jobDefinitionName"] != name
    assert first(request)["jobDefinition"] == request.definition()["jobDefinitionName"]
    assert first(request)["timeout"] == {"attemptDurationSeconds": 99}
    assert '"busybox"' in str(request)


# -- what AWS says of the queue and of a definition -----------------------------------------------


def environment(kind="EC2", **fields):
    given = {"computeEnvironmentName": "env", "type": "MANAGED", "computeResources": {"type": kind}}
    return {**given, **fields}


@pytest.mark.parametrize(
    ("environments", "platform", "gangs"),
    [
        ([environment()], Platform.EC2, True),
        ([environment("SPOT")], Platform.EC2, False),
        ([environment("SPOT"), environment("EC2")], Platform.EC2, True),
        ([environment("FARGATE_SPOT")], Platform.FARGATE, False),
        ([environment("ECS_MANAGED_INSTANCES")], Platform.MANAGED_INSTANCES, False),
        ([environment(containerOrchestrationType="EKS")], Platform.EKS, True),
        ([environment(type="UNMANAGED", computeResources=None)], Platform.EC2, False),
    ],
)
def test_a_queue_is_what_its_environments_are(environments, platform, gangs):
    facts = queue_facts({"schedulingPolicyArn": "arn"}, environments)

    assert (facts.platform, facts.gangs, facts.scheduling_policy) == (platform, gangs, True)
    assert facts.environments[0] == "env"


def test_a_definition_of_another_kind_does_not_fit():
    single = request_of(app(), job_definition="mine")
    gang = request_of(app(role(num_replicas=2)), job_definition="mine")

    assert fitted(single, {"type": "container"}) == single
    with pytest.raises(InvalidOptionError, match="type multinode, and the app is a single job"):
        fitted(single, {"type": "multinode"})
    with pytest.raises(InvalidOptionError, match="needs one of type multinode"):
        fitted(gang, {"type": "container"})
    with pytest.raises(InvalidOptionError, match="ecsProperties"):
        fitted(single, {"type": "container", "ecsProperties": {"taskProperties": [{}]}})
    with pytest.raises(InvalidOptionError, match="is for FARGATE"):
        fitted(single, {"type": "container", "platformCapabilities": ["FARGATE"]})


def test_the_number_of_nodes_is_overridden_where_the_definition_leaves_it_open():
    gang = request_of(app(role(num_replicas=3)), job_definition="mine")

    def definition(nodes, target):
        ranges = [{"targetNodes": target}]
        properties = {"numNodes": nodes, "nodeRangeProperties": ranges}
        return {"type": "multinode", "nodeProperties": properties}

    assert fitted(gang, definition(3, "0:2")) == gang
    assert fitted(gang, definition(2, "0:")).job["nodeOverrides"]["numNodes"] == 3
    with pytest.raises(InvalidOptionError, match="has 2 nodes and no range without an end"):
        fitted(gang, definition(2, "0:1"))


def test_resources_for_a_definition_on_fargate_are_rounded_too():
    one = role(image="", resource=Resource(cpu=1, memMB=9000))
    request = request_of(app(one), FARGATE, job_definition="mine")

    overrides = first(request)["containerOverrides"]
    assert requirements_of(overrides) == {"VCPU": "2", "MEMORY": "9216"}
