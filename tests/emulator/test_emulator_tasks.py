"""The task of an attempt: what an engine is told of a job, its needs, and what cannot start."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from support.definitions import (
    ON_EC2,
    ON_FARGATE,
    REGION,
    TASK_ID,
    Surroundings,
    container,
    definition,
    ecs,
    eks,
    env,
    job_of,
    multinode,
    sizes,
)
from wherry.emulator.batch import tasks
from wherry.emulator.batch.placing import NodeNeed
from wherry.emulator.engines.api import Container, Dependency, Device, Mount, Task, Tmpfs


def build(job, surroundings=None, **given) -> Task:
    defaults: dict[str, Any] = {
        "attempt": 1,
        "task_id": TASK_ID,
        "place": ON_EC2,
        "queue_name": "q",
        "region": REGION,
        "surroundings": surroundings or Surroundings(),
    }
    return tasks.build(tasks.Start(job=job, **{**defaults, **given}))


def only(job, surroundings=None, **given) -> Container:
    [container_] = build(job, surroundings, **given).containers
    return container_


def made(**properties) -> Container:
    return only(job_of(definition(**properties)))


# -- everything a container can say ---------------------------------------------------------------


def test_a_container_is_what_its_definition_says():
    found = made(
        image="python:3",
        command=["python", "-c", "pass"],
        user="1000:1000",
        privileged=True,
        readonlyRootFilesystem=True,
        resourceRequirements=sizes("2", "512", "1"),
        ulimits=[{"name": "nofile", "softLimit": 10, "hardLimit": 20}],
        linuxParameters={
            "initProcessEnabled": True,
            "sharedMemorySize": 64,
            "maxSwap": 0,
            "swappiness": 10,
            "devices": [
                {"hostPath": "/dev/a"},
                {"hostPath": "/dev/b", "containerPath": "/dev/c", "permissions": ["READ"]},
            ],
            "tmpfs": [{"containerPath": "/t", "size": 5, "mountOptions": ["noexec"]}],
        },
    )

    assert (found.name, found.image) == ("default", "python:3")
    assert found.command == ("python", "-c", "pass")
    assert (found.user, found.privileged, found.read_only_root) == ("1000:1000", True, True)
    assert (found.vcpus, found.memory_mib, found.gpus) == (2, 512, 1)
    assert found.ulimits == (("nofile", 10, 20),)
    assert (found.init, found.shm_mib, found.max_swap_mib, found.swappiness) == (True, 64, 0, 10)
    assert found.devices == (Device("/dev/a", "/dev/a"), Device("/dev/b", "/dev/c", "r"))
    assert found.tmpfs == (Tmpfs("/t", 5, ("noexec",)),)


def test_what_a_definition_does_not_say_is_the_engines_default():
    found, plain = made(), Container("default", "busybox")

    for name in ("user", "privileged", "init", "shm_mib", "max_swap_mib", "swappiness", "mounts"):
        assert getattr(found, name) == getattr(plain, name)
    assert found.command == ()
    assert found.stop_timeout == plain.stop_timeout


def test_parameters_are_put_into_the_command():
    its = definition(command=["cp", "Ref::from", "Ref::to"])
    its.document["parameters"] = {"from": "a", "to": "b"}

    assert only(job_of(its, parameters={"to": "c"})).command == ("cp", "a", "c")


def test_virtual_cpus_are_a_hard_bound_on_fargate_alone():
    assert not made().hard_cpu
    assert only(job_of(definition()), place=ON_FARGATE).hard_cpu


# -- environment ----------------------------------------------------------------------------------


def variables(job, surroundings=None, **given) -> dict[str, str]:
    return dict(only(job, surroundings, **given).env)


def test_a_job_knows_what_it_is():
    found = variables(job_of(definition()), attempt=2)

    assert {name: value for name, value in found.items() if name.startswith("AWS_BATCH")} == {
        "AWS_BATCH_JOB_ID": "id",
        "AWS_BATCH_JOB_ATTEMPT": "2",
        "AWS_BATCH_CE_NAME": "ce",
        "AWS_BATCH_JQ_NAME": "q",
    }


def test_a_child_knows_its_index_and_the_size_of_its_array():
    found = variables(job_of(definition(), "child", index=7), array_size=10)

    assert found["AWS_BATCH_JOB_ID"] == "id:7"
    assert found["AWS_BATCH_JOB_ARRAY_INDEX"] == "7"
    assert found["AWS_BATCH_JOB_ARRAY_SIZE"] == "10"


@pytest.mark.parametrize(("index", "address"), [(1, None), (0, "10.0.0.9")])
def test_a_node_knows_the_others_and_all_but_the_main_one_its_address(index, address):
    its = multinode(("0:", {"container": container()}), number=2, main=1)
    job = job_of(its, "node", index=index)

    found = variables(job, num_nodes=2, main_address="10.0.0.9")

    assert found["AWS_BATCH_JOB_NODE_INDEX"] == str(index)
    assert found["AWS_BATCH_JOB_NUM_NODES"] == "2"
    assert found["AWS_BATCH_JOB_MAIN_NODE_INDEX"] == "1"
    assert found.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS") == address


def test_nodes_of_a_job_share_a_network():
    its = multinode(("0:", {"container": container()}), number=2)

    networks = {build(job_of(its, "node", index=index)).network for index in range(2)}

    assert len(networks) == 1
    assert networks != {""}
    assert build(job_of(definition())).network == ""


def test_the_users_environment_wins_over_the_surroundings_but_not_over_batch():
    its = definition(environment=env(AWS_REGION="eu-west-1", AWS_BATCH_JOB_ID="mine", A="1"))

    found = variables(job_of(its, containerOverrides={"environment": env(A="2")}))

    assert found["AWS_REGION"] == "eu-west-1"
    assert found["AWS_BATCH_JOB_ID"] == "id"
    assert found["A"] == "2"
    assert found["AWS_ENDPOINT_URL"] == "http://host:4566"


def test_a_task_on_fargate_is_told_so():
    found = variables(job_of(definition()), place=ON_FARGATE)

    assert found["AWS_EXECUTION_ENV"] == "AWS_ECS_FARGATE"


# -- secrets and roles ----------------------------------------------------------------------------


def test_secrets_become_variables():
    surroundings = Surroundings({"arn:s": "hush"})
    its = definition(secrets=[{"name": "KEY", "valueFrom": "arn:s"}], executionRoleArn="arn:exec")

    found = variables(job_of(its), surroundings)

    assert found["KEY"] == "hush"
    assert surroundings.secret_roles == ["arn:exec"]


def test_a_secret_that_cannot_be_had_keeps_the_task_from_starting():
    surroundings = Surroundings()
    its = definition(secrets=[{"name": "KEY", "valueFrom": "arn:s"}])

    with pytest.raises(tasks.CannotStart) as caught:
        build(job_of(its), surroundings)

    assert caught.value.status_reason == "Task failed to start"
    assert caught.value.container_reason == (
        "ResourceInitializationError: unable to retrieve secret arn:s"
    )
    assert surroundings.over == [TASK_ID]


@pytest.mark.parametrize(
    ("properties", "place", "role"),
    [
        ({"jobRoleArn": "arn:job"}, ON_EC2, "arn:job"),
        ({}, ON_EC2, "arn:instance"),
        ({"jobRoleArn": "arn:job"}, ON_FARGATE, "arn:job"),
        ({}, ON_FARGATE, None),
    ],
)
def test_a_job_without_a_role_has_its_instances_role_except_on_fargate(properties, place, role):
    surroundings = Surroundings()

    build(job_of(definition(**properties)), surroundings, place=place, instance_role="arn:instance")

    assert surroundings.roles == [role]


# -- logs -----------------------------------------------------------------------------------------


def test_logs_go_to_the_documented_group_and_stream():
    surroundings = Surroundings()

    found = only(job_of(definition()), surroundings)

    assert found.log_group == "/aws/batch/job"
    assert found.log_stream == f"def/default/{TASK_ID}"
    assert surroundings.streams == [(REGION, "/aws/batch/job", found.log_stream, True)]


def test_the_streams_name_has_two_hundred_characters_of_the_definitions_name():
    its = replace(definition(), name="x" * 300)

    assert only(job_of(its)).log_stream == f"{'x' * 200}/default/{TASK_ID}"


def test_options_of_the_log_driver_are_honoured():
    surroundings = Surroundings()
    options = {
        "awslogs-group": "mine",
        "awslogs-region": "eu-west-1",
        "awslogs-stream-prefix": "pre",
        "awslogs-create-group": "true",
    }
    its = definition(logConfiguration={"logDriver": "awslogs", "options": options})

    task = build(job_of(its), surroundings)

    assert surroundings.streams == [("eu-west-1", "mine", f"pre/default/{TASK_ID}", True)]
    assert task.region == "eu-west-1"


def test_a_group_of_ones_own_is_not_made_unasked():
    surroundings = Surroundings()
    options = {"awslogs-group": "mine"}
    build(
        job_of(definition(logConfiguration={"logDriver": "awslogs", "options": options})),
        surroundings,
    )

    assert surroundings.streams[0][3] is False


def test_other_drivers_have_no_stream():
    surroundings = Surroundings()

    found = only(job_of(definition(logConfiguration={"logDriver": "json-file"})), surroundings)

    assert (found.log_group, found.log_stream, surroundings.streams) == ("", "", [])


def test_a_log_driver_that_cannot_start_keeps_the_task_from_starting():
    with pytest.raises(tasks.CannotStart) as caught:
        build(job_of(definition()), Surroundings(complaint="no such group"))

    assert caught.value.status_reason == "Task failed to start"
    assert (caught.value.container_reason, caught.value.container) == ("no such group", "default")


# -- volumes --------------------------------------------------------------------------------------


def test_volumes_are_folders_of_the_machine_or_the_tasks_own(tmp_path):
    its = definition(
        volumes=[
            {"name": "host", "host": {"sourcePath": "/data"}},
            {"name": "own", "host": {}},
            {
                "name": "efs",
                "efsVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/sub/x"},
            },
        ],
        mountPoints=[
            {"sourceVolume": "host", "containerPath": "/h", "readOnly": True},
            {"sourceVolume": "own", "containerPath": "/o"},
            {"sourceVolume": "efs", "containerPath": "/e"},
        ],
    )

    found = only(job_of(its), efs_root=str(tmp_path))

    shared = str(tmp_path / "fs-1" / "sub" / "x")
    assert found.mounts == (
        Mount("/h", "/data", read_only=True),
        Mount("/o", volume="own"),
        Mount("/e", shared),
    )
    assert os.path.isdir(shared)


def test_a_file_systems_root_cannot_be_left(tmp_path):
    efs = {"fileSystemId": "fs-1", "rootDirectory": "../../../outside"}
    its = definition(
        volumes=[{"name": "efs", "efsVolumeConfiguration": efs}],
        mountPoints=[{"sourceVolume": "efs", "containerPath": "/e"}],
    )

    [mount] = only(job_of(its), efs_root=str(tmp_path)).mounts

    assert mount.source == str(tmp_path / "fs-1" / "outside")


# -- several containers ---------------------------------------------------------------------------


def test_a_job_of_several_containers():
    surroundings = Surroundings({"arn:s": "hush"})
    its = ecs(
        container(name="setup", essential=False),
        container(
            name="main",
            dependsOn=[{"containerName": "setup", "condition": "SUCCESS"}],
            startTimeout=5,
            stopTimeout=10,
            secrets=[{"name": "KEY", "valueFrom": "arn:s"}],
            mountPoints=[{"sourceVolume": "v", "containerPath": "/v"}],
        ),
        volumes=[{"name": "v"}],
        taskRoleArn="arn:task",
        pidMode="task",
        ipcMode="host",
    )

    task = build(job_of(its), surroundings)

    setup, main = task.containers
    assert (setup.name, setup.essential, main.essential) == ("setup", False, True)
    assert main.depends_on == (Dependency("setup", "SUCCESS"),)
    assert (main.start_timeout, main.stop_timeout) == (5, 10)
    assert main.mounts == (Mount("/v", volume="v"),)
    assert "KEY" in dict(main.env)
    assert "KEY" not in dict(setup.env)
    assert main.log_stream == f"def/main/{TASK_ID}"
    assert dict(main.env)["ECS_CONTAINER_METADATA_URI_V4"].endswith("/token/main")
    assert (task.pid_mode, task.ipc_mode) == ("task", "host")
    assert surroundings.roles == ["arn:task"]


def test_a_task_is_described_to_the_metadata_endpoint():
    surroundings = Surroundings()
    build(job_of(definition()), surroundings)

    described = surroundings.described[TASK_ID]

    assert described["TaskARN"] == f"arn:aws:ecs:us-east-1:123456789012:task/c/{TASK_ID}"
    assert (described["Family"], described["Revision"]) == ("def", "3")
    [only_one] = described["Containers"]
    assert only_one["Limits"] == {"CPU": 1024, "Memory": 256}
    assert only_one["LogOptions"]["awslogs-group"] == "/aws/batch/job"


# -- pods -----------------------------------------------------------------------------------------


def test_a_pod_is_a_task_whose_init_containers_come_first():
    its = eks(
        {
            "name": "main",
            "image": "x",
            "command": ["sh"],
            "args": ["-c", "echo $(NAME) $(NOBODY) $$(NAME)"],
            "env": env(NAME="me", COPY="$(NAME)!"),
            "resources": {"limits": {"cpu": "0.5", "memory": "512Mi", "nvidia.com/gpu": "1"}},
            "securityContext": {
                "runAsUser": 5,
                "runAsGroup": 6,
                "privileged": True,
                "readOnlyRootFilesystem": True,
            },
            "volumeMounts": [
                {"name": "h", "mountPath": "/h", "subPath": "s", "readOnly": True},
                {"name": "e", "mountPath": "/e"},
            ],
        },
        initContainers=[{"name": "i1", "image": "a"}, {"name": "i2", "image": "b"}],
        volumes=[{"name": "h", "hostPath": {"path": "/data"}}, {"name": "e", "emptyDir": {}}],
        shareProcessNamespace=True,
    )

    task = build(job_of(its))

    first, second, main = task.containers
    assert (first.depends_on, first.essential) == ((), False)
    assert second.depends_on == (Dependency("i1", "SUCCESS"),)
    assert main.depends_on == (Dependency("i2", "SUCCESS"),)
    assert main.essential
    assert main.entrypoint == ("sh",)
    assert main.command == ("-c", "echo me $(NOBODY) $(NAME)")
    assert dict(main.env)["COPY"] == "me!"
    assert "AWS_BATCH_JOB_KUBERNETES_NODE_UID" in dict(main.env)
    assert (main.vcpus, main.hard_cpu, main.memory_mib, main.gpus) == (0.5, True, 512, 1)
    assert (main.user, main.privileged, main.read_only_root) == ("5:6", True, True)
    assert main.mounts == (Mount("/h", "/data/s", read_only=True), Mount("/e", volume="e"))
    assert (task.pid_mode, task.ends_with) == ("task", "all")


def test_all_containers_of_a_pod_count_and_none_waits_for_its_first_ones_only_so_long():
    first, one, other = build(
        job_of(eks(_pod("one"), _pod("other"), initContainers=[_pod("first")]))
    ).containers

    assert (first.essential, one.essential, other.essential) == (False, True, True)
    assert one.depends_on == other.depends_on == (Dependency("first", "SUCCESS"),)
    assert first.start_timeout == 0


def _pod(name: str) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}


# -- the limit of ECS -----------------------------------------------------------------------------


def with_override(size: int):
    override = {"environment": env(X="x" * size)}
    return job_of(definition(), containerOverrides=override)


def longest() -> int:
    """How long the value may be: the limit, less what else is said."""
    said = (
        '{"containerOverrides":[{"name":"default","environment":[{"name":"X","value":""},'
        '{"name":"AWS_BATCH_JOB_ID","value":"id"},{"name":"AWS_BATCH_JOB_ATTEMPT","value":"1"},'
        '{"name":"AWS_BATCH_CE_NAME","value":"ce"},{"name":"AWS_BATCH_JQ_NAME","value":"q"}]}]}'
    )
    return 8192 - len(said)


def test_overrides_of_8192_characters_start():
    assert len(variables(with_override(longest()))["X"]) == longest()


def test_longer_overrides_fail_before_anything_starts():
    surroundings = Surroundings()

    with pytest.raises(tasks.CannotStart) as caught:
        build(with_override(longest() + 1), surroundings)

    assert caught.value.status_reason == "Container Overrides length must be at most 8192"
    assert caught.value.container_reason == ""
    assert surroundings.streams == []


def test_what_the_definition_says_does_not_count():
    its = definition(environment=env(X="x" * 9000), command=["y" * 9000])

    assert variables(job_of(its))["X"]


def test_a_command_with_parameters_counts_after_substitution():
    its = definition(command=["Ref::long"])

    with pytest.raises(tasks.CannotStart):
        build(job_of(its, parameters={"long": "x" * 9000}))


# -- what a job asks for --------------------------------------------------------------------------


_CONSUMABLE = "arn:aws:batch:us-east-1:123456789012:consumable-resource"


def waiting(job, front=False):
    return tasks.waiting(job, 50.0, front)


def test_a_job_asks_for_what_its_effective_definition_says():
    its = definition(runtimePlatform={"cpuArchitecture": "ARM64"})
    its.document["platformCapabilities"] = ["FARGATE"]
    its.document["schedulingPriority"] = 5
    override = {"resourceRequirements": [{"type": "VCPU", "value": "0.5"}]}

    job = job_of(its, containerOverrides=override, shareIdentifier="s")

    found = waiting(job, front=True)

    assert found.nodes == (NodeNeed(1, 0.5, 256, 0),)
    assert (found.platforms, found.architecture) == (("FARGATE",), "ARM64")
    assert (found.share, found.priority, found.since, found.front) == ("s", 5, 50.0, True)


def test_the_requests_priority_wins():
    its = definition()
    its.document["schedulingPriority"] = 5

    assert waiting(job_of(its, schedulingPriorityOverride=0)).priority == 0


def test_a_definition_without_platforms_is_for_ec2():
    assert waiting(job_of(definition())).platforms == ("EC2",)


def test_the_old_members_say_what_a_container_asks_for_unless_a_requirement_does():
    old = container(vcpus=2, memory=64, resourceRequirements=[])
    both = container(vcpus=2, memory=64)

    assert waiting(job_of(definition(**old))).nodes == (NodeNeed(1, 2, 64, 0),)
    assert waiting(job_of(definition(**both))).nodes == (NodeNeed(1, 1, 256, 0),)
    [built] = build(job_of(definition(**old))).containers
    assert (built.vcpus, built.memory_mib) == (2, 64)


def test_the_architecture_of_nodes_is_that_of_their_range():
    arm = container(runtimePlatform={"cpuArchitecture": "ARM64"})
    its = multinode(("0:", {"container": arm}), number=2)

    assert waiting(job_of(its, "multinode")).architecture == "ARM64"


def test_containers_of_one_task_are_counted_together():
    its = ecs(container(name="a"), container(name="b", resourceRequirements=sizes("2", "512", "1")))

    assert waiting(job_of(its)).nodes == (NodeNeed(1, 3, 768, 1),)


def test_init_containers_of_a_pod_count_by_the_largest():
    def needs(cpu: str, memory: str) -> dict[str, Any]:
        return {"image": "x", "resources": {"limits": {"cpu": cpu, "memory": memory}}}

    its = eks(
        needs("1", "100Mi"),
        needs("500m", "100Mi"),
        initContainers=[needs("1", "1Gi"), needs("0.25", "1Mi")],
    )

    assert waiting(job_of(its)).nodes == (NodeNeed(1, 1.5, 1024, 0),)


def test_nodes_with_the_same_needs_are_told_together_in_their_order():
    large = container(resourceRequirements=sizes("4", "1024"))
    its = multinode(
        ("0:0", {"container": large, "instanceTypes": ["m5.xlarge"]}),
        ("1:", {"container": container()}),
        number=4,
    )

    found = waiting(job_of(its, "multinode"))

    assert found.nodes == (NodeNeed(1, 4, 1024, 0, "m5.xlarge"), NodeNeed(3, 1, 256, 0))


def test_consumable_resources_are_told_by_arn_whether_or_not_they_exist():
    arn = f"{_CONSUMABLE}/token"
    its = definition()
    its.document["consumableResourceProperties"] = {
        "consumableResourceList": [
            {"consumableResource": arn, "quantity": 2},
            {"consumableResource": "nobody", "quantity": 1},
        ]
    }

    assert waiting(job_of(its)).consumables == ((arn, 2), (f"{_CONSUMABLE}/nobody", 1))


def test_nodes_ask_for_consumable_resources_each():
    arn = f"{_CONSUMABLE}/token"
    asked = {"consumableResourceList": [{"consumableResource": arn, "quantity": 1}]}
    its = multinode(
        ("0:", {"container": container(), "consumableResourceProperties": asked}), number=3
    )
    together = {"consumableResourceList": [{"consumableResource": "token", "quantity": 5}]}

    assert waiting(job_of(its, "multinode")).consumables == ((arn, 3),)
    its.document["consumableResourceProperties"] = together
    assert waiting(job_of(its, "multinode")).consumables == ((arn, 8),)


def test_a_request_may_ask_for_consumable_resources_of_which_its_definition_knows_nothing():
    asked = {"consumableResourceList": [{"consumableResource": "token", "quantity": 2}]}

    found = waiting(job_of(definition(), consumableResourcePropertiesOverride=asked))

    assert found.consumables == ((f"{_CONSUMABLE}/token", 2),)


def test_a_request_may_ask_for_consumable_resources_for_some_nodes():
    asked = {"consumableResourceList": [{"consumableResource": "token", "quantity": 2}]}
    its = multinode(("0:", {"container": container()}), number=3)
    override = {"targetNodes": "1:", "consumableResourcePropertiesOverride": asked}
    request = {"nodeOverrides": {"nodePropertyOverrides": [override]}}

    found = waiting(job_of(its, "multinode", **request))

    assert found.consumables == ((f"{_CONSUMABLE}/token", 4),)
