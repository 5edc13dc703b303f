"""The situations of docs/why.md, each made on the emulator: real jobs, real faults.

A situation is a function that lets something happen and returns the id to ask about. Its docstring
is what the page says of it; the code is that of the cause that must come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.waiting import until
from support.why_world import ACCOUNT, REGION, ROLE, World, trust, wants

Make = Callable[[World], str]


@dataclass(frozen=True)
class Situation:
    """One situation.

    Args:
        chapter: of the page.
        code: of the cause that must come first.
        make: lets it happen.
    """

    chapter: str
    code: str
    make: Make

    @property
    def name(self) -> str:
        """Its name on the page."""
        return self.make.__name__.replace("_", "-")

    @property
    def tells(self) -> str:
        """What the page says of it."""
        return " ".join((self.make.__doc__ or "").split())


SITUATIONS: list[Situation] = []

WAITS, STARTS, RUNS, FAILS, MANY, UNSEEN = (
    "It waits",
    "It does not start",
    "It runs",
    "It failed",
    "Arrays, gangs, retries",
    "AWS does not tell",
)
CHAPTERS = (WAITS, STARTS, RUNS, FAILS, MANY, UNSEEN)


def situation(chapter: str, code: str) -> Callable[[Make], Make]:
    """Make a function a situation."""

    def add(make: Make) -> Make:
        SITUATIONS.append(Situation(chapter, code, make))
        return make

    return add


# -- it waits: for others -------------------------------------------------------------------------


@situation(WAITS, "waits-for-others")
def depends_on_a_job_that_runs(world: World) -> str:
    """It depends on a job that has not ended."""
    first = world.submit(world.define("prepare", "sleep", "60"))
    world.until(first, "RUNNING")
    job = world.submit(world.define("train", "true"), dependsOn=[{"jobId": first}])
    return world.until(job, "PENDING")


@situation(WAITS, "waits-for-others")
def child_waits_for_its_counterpart(world: World) -> str:
    """A child of an array waits for the child of the same number of another (`N_TO_N`)."""
    pair = {"arrayProperties": {"size": 2}}
    first = world.submit(world.define("prepare", "sleep", "60"), **pair)
    world.until(f"{first}:1", "RUNNING")
    job = world.submit(
        world.define("train", "true"), dependsOn=[{"jobId": first, "type": "N_TO_N"}], **pair
    )
    return world.until(f"{job}:1", "PENDING")


@situation(WAITS, "cancelled-while-pending")
def cancelled_while_it_depends_on_others(world: World) -> str:
    """It was cancelled, and stays PENDING all the same."""
    job = depends_on_a_job_that_runs(world)
    world.batch.cancel_job(jobId=job, reason="not needed")
    return job


@situation(WAITS, "just-submitted")
def just_submitted(world: World) -> str:
    """It was submitted a moment ago."""
    return world.held("SUBMITTED", 1)


@situation(WAITS, "not-looked-at")
def submitted_long_ago(world: World) -> str:
    """It has been SUBMITTED for an hour."""
    return world.held("SUBMITTED", 60)


# -- it waits: it can never fit -------------------------------------------------------------------


@situation(WAITS, "too-much-memory")
def too_much_memory(world: World) -> str:
    """No instance of its queue has so much memory."""
    return _misfit(world, memory=64_000)


@situation(WAITS, "memory-of-a-whole-host")
def memory_of_a_whole_host(world: World) -> str:
    """It asks for all the memory that its instance type is said to have."""
    return _misfit(world, memory=8192)


@situation(WAITS, "too-many-vcpus")
def too_many_vcpus(world: World) -> str:
    """No instance of its queue has so many vCPUs."""
    return _misfit(world, vcpus=8)


@situation(WAITS, "too-many-gpus")
def gpu_on_a_queue_without(world: World) -> str:
    """It asks for a GPU, and no instance of its queue has one."""
    return _misfit(world, gpus=1)


@situation(WAITS, "above-max-vcpus")
def above_max_vcpus(world: World) -> str:
    """It asks for more vCPUs than its environment may have in all."""
    world.queue("small", {"instanceTypes": ["optimal"], "maxvCpus": 4})
    job = world.submit(world.define("train", "true", vcpus=8), "small")
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


@situation(WAITS, "no-multi-node")
def gang_on_spot(world: World) -> str:
    """A multi-node job in a queue of Spot capacity."""
    job = world.submit(world.define_gang("gang", "true"), "spot")
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


def _misfit(world: World, **wanted: float) -> str:
    world.queue("small", {})
    job = world.submit(world.define("train", "true", **wanted), "small")  # type: ignore[arg-type]
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


# -- it waits: for room ---------------------------------------------------------------------------


@situation(WAITS, "environments-closed")
def environment_disabled(world: World) -> str:
    """The only compute environment of its queue is disabled."""
    world.queue("small", {})
    world.batch.update_compute_environment(computeEnvironment="small", state="DISABLED")
    job = world.submit(world.define("train", "true"), "small")
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


@situation(WAITS, "environments-closed")
def environment_invalid(world: World) -> str:
    """The only compute environment of its queue is INVALID, and AWS says why."""
    world.queue("small", {})
    catalog = world.aws.emulator.service().catalog
    environment = catalog.environment("small")
    environment.status = "INVALID"
    environment.status_reason = "CLIENT_ERROR - You are not authorized to use launch template lt-1"
    world.aws.emulator.service().plane.placing.changed()
    job = world.submit(world.define("train", "true"), "small")
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


@situation(WAITS, "environment-full")
def environment_full(world: World) -> str:
    """Other jobs use all vCPUs that its environment may have."""
    world.queue("small", {"maxvCpus": 2})
    busy = world.submit(world.define("long", "sleep", "60", vcpus=2), "small")
    world.until(busy, "RUNNING")
    job = world.submit(world.define("train", "true", vcpus=2), "small")
    world.until(job, "RUNNABLE")
    world.after(30)
    return job


@situation(WAITS, "behind-others")
def behind_others(world: World) -> str:
    """Jobs before it wait for room; nothing is wrong."""
    world.queue("small", {"maxvCpus": 4, "instanceTypes": ["m5.xlarge"]})
    busy = world.submit(world.define("long", "sleep", "60", vcpus=1), "small")
    world.until(busy, "RUNNING")
    first = world.submit(world.define("large", "true", vcpus=4), "small")
    world.until(first, "RUNNABLE")
    job = world.submit(world.define("train", "true"), "small")
    world.until(job, "RUNNABLE")
    world.after(30)
    return job


@situation(WAITS, "behind-a-stuck-job")
def behind_a_stuck_job(world: World) -> str:
    """The first job of its queue can never run, and holds up the others."""
    world.fault("stuck-runnable", value="UNDETERMINED", job="large")
    world.fault("stuck-runnable", value="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", job="train")
    first = world.submit(world.define("large", "true"))
    world.until(first, "RUNNABLE")
    job = world.submit(world.define("train", "true"))
    world.until(job, "RUNNABLE")
    world.after(30)
    world.until_said(first)
    return job


@situation(WAITS, "other-shares-first")
def other_shares_first(world: World) -> str:
    """The queue shares its vCPUs out, and others are to go first."""
    _fair_queue(world, {"maxvCpus": 4, "instanceTypes": ["m5.xlarge"]})
    share = {"shareIdentifier": "red"}
    busy = world.submit(world.define("long", "sleep", "60", vcpus=2), "fair", **share)
    world.until(busy, "RUNNING")
    other = world.submit(world.define("large", "true", vcpus=4), "fair", shareIdentifier="blue")
    world.until(other, "RUNNABLE")
    job = world.submit(world.define("train", "true", vcpus=1), "fair", **share)
    world.until(job, "RUNNABLE")
    world.after(30)
    return job


@situation(WAITS, "reserved-for-others")
def reserved_for_others(world: World) -> str:
    """Room is free, and the fair-share policy keeps it for shares that do not run yet."""
    _fair_queue(world, {"maxvCpus": 4, "instanceTypes": ["m5.large"]}, computeReservation=50)
    share = {"shareIdentifier": "red"}
    busy = world.submit(world.define("long", "sleep", "60", vcpus=2), "fair", **share)
    world.until(busy, "RUNNING")
    job = world.submit(world.define("train", "true", vcpus=2), "fair", **share)
    world.until(job, "RUNNABLE")
    world.after(30)
    return job


def _fair_queue(world: World, resources: dict[str, object], **policy: int) -> None:
    made = world.batch.create_scheduling_policy(name="shares", fairsharePolicy=policy)
    world.queue("fair", resources, schedulingPolicyArn=made["arn"])


@situation(WAITS, "consumable-in-use")
def consumable_in_use(world: World) -> str:
    """Other jobs have the licence that it asks for."""
    definition = _licensed(world, 1, total=1)
    world.until(world.submit(definition, name="first"), "RUNNING")
    job = world.submit(definition)
    world.until(job, "RUNNABLE")
    world.after(5)
    return job


@situation(WAITS, "consumable-too-small")
def consumable_too_small(world: World) -> str:
    """It asks for more licences than there are."""
    job = world.submit(_licensed(world, 3, total=2))
    world.until(job, "RUNNABLE")
    world.after(5)
    return world.until_said(job)


def _licensed(world: World, count: int, *, total: int) -> str:
    world.batch.create_consumable_resource(
        consumableResourceName="licence", totalQuantity=total, resourceType="REPLENISHABLE"
    )
    asked = {"consumableResourceList": [{"consumableResource": "licence", "quantity": count}]}
    return world.define("train", "sleep", "60", consumableResourceProperties=asked)


# -- it waits: what AWS says, and when it says nothing --------------------------------------------


@situation(WAITS, "scaling-up")
def scaling_up(world: World) -> str:
    """AWS complains of capacity, but the job has waited for four minutes only: this can be false
    while an environment scales up.
    """
    return world.stuck("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", minutes=4)


@situation(WAITS, "scaling-up")
def scaling_up_in_silence(world: World) -> str:
    """It has waited for two minutes, and AWS says nothing."""
    return world.held("RUNNABLE", 2)


@situation(WAITS, "no-capacity")
def no_capacity(world: World) -> str:
    """AWS has no instances of the wanted types."""
    return world.stuck("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")


@situation(WAITS, "above-max-vcpus")
def aws_says_max_resource(world: World) -> str:
    """AWS says that the environments are too small; by the tables they are not."""
    return world.stuck("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE")


@situation(WAITS, "does-not-fit")
def aws_says_requirement(world: World) -> str:
    """AWS says that it does not fit; by the tables it does."""
    return world.stuck("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")


@situation(WAITS, "unsupported-instances")
def unsupported_instances(world: World) -> str:
    """The environment's instance types cannot be launched."""
    return world.stuck("MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED")


@situation(WAITS, "service-role")
def service_role_without_permission(world: World) -> str:
    """AWS Batch lacks a permission; this is believed at once."""
    return world.stuck("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS", minutes=4)


@situation(WAITS, "service-role-missing")
def service_role_missing(world: World) -> str:
    """The service role of its environment was deleted."""
    job = world.stuck("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS", minutes=4)
    world.client("iam").delete_role(RoleName="wherry-batch-service")
    return job


@situation(WAITS, "environments-invalid")
def action_required(world: World) -> str:
    """AWS says that the environments are invalid, although they were valid when asked."""
    return world.stuck("ACTION_REQUIRED", minutes=4)


@situation(WAITS, "undetermined")
def undetermined(world: World) -> str:
    """AWS does not know either."""
    return world.stuck("UNDETERMINED")


@situation(WAITS, "no-capacity")
def will_be_cancelled_by_its_queue(world: World) -> str:
    """Its queue cancels jobs that wait too long for a reason of AWS's."""
    limits = [
        {
            "state": "RUNNABLE",
            "reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
            "maxTimeSeconds": 14_400,
            "action": "CANCEL",
        }
    ]
    world.queue("impatient", {"instanceTypes": ["optimal"]}, jobStateTimeLimitActions=limits)
    world.fault("stuck-runnable", value="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    job = world.until(world.submit(world.define("train", "true"), "impatient"), "RUNNABLE")
    world.after(15)
    return world.until_said(job)


@situation(WAITS, "no-instances")
def waits_in_silence(world: World) -> str:
    """It has waited for half an hour, and nothing that can be looked at is in its way."""
    return world.held("RUNNABLE", 30)


@situation(WAITS, "instance-role-missing")
def instance_role_missing(world: World) -> str:
    """The instance profile of its environment was deleted."""
    iam = world.client("iam")
    names = {"InstanceProfileName": "ecsInstanceRole"}
    iam.remove_role_from_instance_profile(**names, RoleName="ecsInstanceRole")
    iam.delete_instance_profile(**names)
    return world.held("RUNNABLE", 30)


@situation(WAITS, "instance-role-not-trusting")
def instance_role_not_trusting(world: World) -> str:
    """The instance role of its environment is made for something else."""
    world.client("iam").update_assume_role_policy(
        RoleName="ecsInstanceRole", PolicyDocument=trust("lambda.amazonaws.com")
    )
    return world.held("RUNNABLE", 30)


@situation(WAITS, "nothing-goes-out")
def security_group_lets_nothing_out(world: World) -> str:
    """The security group of its environment has no outbound rules."""
    ec2 = world.client("ec2")
    group = ec2.create_security_group(GroupName="closed", Description="closed")["GroupId"]
    [made] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=made["IpPermissionsEgress"])
    world.queue("closed", {"securityGroupIds": [group]})
    return world.held("RUNNABLE", 30, queue="closed")


# -- it does not start ----------------------------------------------------------------------------


@situation(STARTS, "starting")
def starting(world: World) -> str:
    """It has a place, and its image is being pulled."""
    return world.held("STARTING", 2)


@situation(STARTS, "starting-for-long")
def starting_for_long(world: World) -> str:
    """It has been STARTING for an hour."""
    return world.held("STARTING", 60)


@situation(STARTS, "image-not-found")
def repository_missing(world: World) -> str:
    """ECR has no such repository."""
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/train:v2"
    return world.held("STARTING", 2, world.define("train", "true", image=image))


@situation(STARTS, "image-not-found")
def tag_missing(world: World) -> str:
    """ECR has the repository, but not the tag."""
    world.client("ecr").create_repository(repositoryName="team/train")
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/train:v2"
    return world.held("STARTING", 2, world.define("train", "true", image=image))


@situation(STARTS, "image-name")
def image_name_impossible(world: World) -> str:
    """What stands for the image cannot be a name of one."""
    return world.held("STARTING", 2, world.define("train", "true", image="Team/Train:v2"))


@situation(STARTS, "execution-role-missing")
def execution_role_missing(world: World) -> str:
    """The execution role does not exist."""
    role = {"executionRoleArn": f"{ROLE}ecsTaskExecutionRole2"}
    return world.held("STARTING", 2, world.define("train", "true", container=role))


@situation(STARTS, "job-role-not-trusting")
def job_role_not_trusting(world: World) -> str:
    """The job role exists, but ECS tasks may not assume it."""
    world.client("iam").create_role(
        RoleName="train", AssumeRolePolicyDocument=trust("batch.amazonaws.com")
    )
    role = {"jobRoleArn": f"{ROLE}train"}
    return world.held("STARTING", 2, world.define("train", "true", container=role))


@situation(STARTS, "log-group-missing")
def log_group_missing(world: World) -> str:
    """Its log group does not exist, and nobody told the log driver to make it."""
    log = {"logDriver": "awslogs", "options": {"awslogs-group": "/team/train"}}
    return world.run("true", container={"logConfiguration": log})


@situation(STARTS, "secret-not-read")
def secret_missing(world: World) -> str:
    """One of its secrets does not exist."""
    secret = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:token-AbCdEf"
    container = {
        "secrets": [{"name": "TOKEN", "valueFrom": secret}],
        "executionRoleArn": f"{ROLE}ecsTaskExecutionRole",
    }
    return world.run("true", container=container)


def _pull(code: str, text: str, name: str, tells: str) -> None:
    def make(world: World) -> str:
        world.fault("pull-failure", value=text)
        return world.run("true")

    make.__name__, make.__doc__ = name, tells
    situation(STARTS, code)(make)


_pull("image-not-found", "", "image_does_not_exist", "The registry has no such image.")
_pull(
    "pull-rate-limit",
    "toomanyrequests: You have reached your pull rate limit. You may increase the limit by "
    "authenticating and upgrading",
    "pull_rate_limit",
    "Docker Hub gives out no more images for now.",
)
_pull(
    "image-not-allowed",
    "Error response from daemon: pull access denied for team/train, repository does not exist or "
    "may require 'docker login'",
    "pull_denied",
    "The image may not be pulled.",
)
_pull(
    "registry-unreachable",
    "Error response from daemon: Get https://registry-1.docker.io/v2/: net/http: request canceled "
    "while waiting for connection (Client.Timeout exceeded while awaiting headers)",
    "registry_unreachable",
    "The host has no way to the registry.",
)
_pull(
    "host-disk-full",
    "write /var/lib/docker/tmp/GetImageBlob12345: no space left on device",
    "disk_full_while_pulling",
    "The host's disk is full.",
)
_pull(
    "image-architecture",
    "image Manifest does not contain descriptor matching platform 'linux/arm64'",
    "image_of_another_architecture",
    "The image has no build for the host's architecture.",
)


@situation(STARTS, "host-too-slow")
def host_too_slow(world: World) -> str:
    """The host did not make the container in time."""
    world.fault("start-failure")
    return world.run("true")


@situation(STARTS, "not-found")
def command_not_in_the_image(world: World) -> str:
    """The container runtime did not find the command."""
    world.fault(
        "start-failure",
        value="CannotStartContainerError: Error response from daemon: failed to create task for "
        'container: exec: "trian": executable file not found in $PATH',
    )
    return world.run("true")


# -- it runs --------------------------------------------------------------------------------------


@situation(RUNS, "running")
def running(world: World) -> str:
    """Nothing is wrong."""
    job = world.run("echo step 1; sleep 60", "RUNNING")
    return world.until_logged(job, "step 1")


@situation(RUNS, "running")
def running_in_silence(world: World) -> str:
    """It has written nothing for an hour."""
    job = world.run("sleep 60", "RUNNING")
    world.after(60)
    return job


@situation(RUNS, "running")
def timeout_is_near(world: World) -> str:
    """Its timeout will end it soon."""
    job = world.run("echo step 1; sleep 60", "RUNNING", timeout={"attemptDurationSeconds": 3600})
    world.until_logged(job, "step 1")
    world.after(55)
    return job


# -- it failed: the program -----------------------------------------------------------------------


def _ends(code: str, script: str, name: str, tells: str) -> None:
    def make(world: World) -> str:
        return world.run(script)

    make.__name__, make.__doc__ = name, tells
    situation(FAILS, code)(make)


_ends(
    "exception",
    'printf \'Traceback (most recent call last):\\n  File "train.py", line 3, in <module>\\n'
    "ValueError: no such column: price\\n'; exit 1",
    "python_exception",
    "A Python program raised an exception.",
)
_ends(
    "missing-module",
    "echo \"ModuleNotFoundError: No module named 'torch'\"; exit 1",
    "python_module_missing",
    "A Python module is not in the image.",
)
_ends("program-failed", "echo done with errors; exit 1", "exit_1", "The program ended with 1.")
_ends("bad-usage", "exit 2", "exit_2", "The program ended with 2.")
_ends("program-failed", "exit 42", "exit_42", "The program ended with a code of its own.")
_ends("not-executable", "exit 126", "exit_126", "A file could not be executed.")
_ends("not-found", "trian --epochs 3", "exit_127", "A shell did not find a command.")
_ends("aborted", "kill -ABRT $$", "exit_134", "The program aborted itself.")
_ends("killed", "exit 137", "exit_137", "The program was killed, and AWS does not say why.")
_ends("segmentation-fault", "kill -SEGV $$", "exit_139", "The program accessed wrong memory.")
_ends("asked-to-end", "kill -TERM $$", "exit_143", "The program got SIGTERM.")
_ends(
    "wrong-architecture",
    "echo 'exec /app/train: exec format error'; exit 255",
    "exec_format_error",
    "The image was built on another architecture, on an Apple laptop, say.",
)
_ends(
    "gpu-memory",
    "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1",
    "gpu_out_of_memory",
    "The GPU's memory was not enough.",
)
_ends(
    "disk-full",
    "echo 'OSError: [Errno 28] No space left on device'; exit 1",
    "disk_full",
    "The container's disk is full.",
)
_ends(
    "not-permitted-inside",
    "echo 'botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the "
    "GetObject operation: User is not authorized to perform: s3:GetObject'; exit 1",
    "role_may_not",
    "The job's role may not do what the program does.",
)


@situation(FAILS, "out-of-memory")
def out_of_memory(world: World) -> str:
    """It used more memory than it asks for."""
    hungry = "python3 -c 'import time; data = bytearray(300 << 20); time.sleep(60)'"
    return world.run(hungry, memory=64)


# -- it failed: around the program ----------------------------------------------------------------


@situation(FAILS, "timed-out")
def timed_out(world: World) -> str:
    """It took longer than its timeout."""
    job = world.run("sleep 600", "RUNNING", timeout={"attemptDurationSeconds": 3600})
    world.after(61)
    return world.until(job, "FAILED")


@situation(FAILS, "host-lost")
def host_lost(world: World) -> str:
    """Its instance went away."""
    job = world.run("sleep 60", "RUNNING")
    world.aws.reclaim(job)
    return world.until(job, "FAILED")


@situation(FAILS, "host-lost")
def spot_reclaimed(world: World) -> str:
    """Its Spot instance was taken back."""
    job = world.submit(world.define("train", "sleep", "60"), "spot")
    world.until(job, "RUNNING")
    world.aws.reclaim(job)
    return world.until(job, "FAILED")


@situation(FAILS, "host-lost")
def fargate_spot_reclaimed(world: World) -> str:
    """Fargate Spot took its capacity back."""
    world.queue("cheap", {"type": "FARGATE_SPOT"})
    job = world.submit(
        world.define("train", "sleep", "60", memory=2048, platformCapabilities=["FARGATE"]),
        "cheap",
    )
    world.until(job, "RUNNING")
    world.aws.reclaim(job)
    return world.until(job, "FAILED")


@situation(FAILS, "agent-lost")
def agent_lost(world: World) -> str:
    """The ECS agent of its host was lost."""
    job = world.run("sleep 60", "RUNNING")
    world.aws.lose_agent(job)
    return world.until(job, "FAILED")


@situation(FAILS, "dependency-failed")
def dependency_failed(world: World) -> str:
    """A job that it depends on failed."""
    first = world.submit(world.define("prepare", "sh", "-c", "sleep 1; exit 1"))
    job = world.submit(world.define("train", "true"), dependsOn=[{"jobId": first}])
    return world.until(job, "FAILED")


@situation(FAILS, "overrides-too-long")
def overrides_too_long(world: World) -> str:
    """Its command is longer than ECS takes."""
    command = ["true", *("x" * 1000 for _ in range(9))]
    job = world.submit(world.define("train", "true"), containerOverrides={"command": command})
    return world.until(job, "FAILED")


@situation(FAILS, "too-many-tags")
def too_many_tags(world: World) -> str:
    """Its tags and its definition's are more than fifty."""
    world.define("train", "true", tags={f"d{n}": "" for n in range(30)})
    job = world.submit("train", tags={f"j{n}": "" for n in range(30)}, propagateTags=True)
    return world.until(job, "FAILED")


@situation(FAILS, "cancelled")
def cancelled(world: World) -> str:
    """Somebody cancelled it before it ran."""
    job = world.held("RUNNABLE", 1)
    world.batch.cancel_job(jobId=job, reason="wrong data set")
    return world.until(job, "FAILED")


@situation(FAILS, "cancelled")
def terminated(world: World) -> str:
    """Somebody terminated it while it ran."""
    job = world.run("sleep 60", "RUNNING")
    world.batch.terminate_job(jobId=job, reason="wrong data set")
    return world.until(job, "FAILED")


@situation(FAILS, "cancelled-by-queue")
def cancelled_by_its_queue(world: World) -> str:
    """Its queue's time limit for stuck jobs took it away."""
    limits = [
        {
            "state": "RUNNABLE",
            "reason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
            "maxTimeSeconds": 600,
            "action": "CANCEL",
        }
    ]
    world.queue("impatient", {}, jobStateTimeLimitActions=limits)
    job = world.submit(world.define("train", "true", memory=64_000), "impatient")
    world.until(job, "RUNNABLE")
    world.after(15)
    return world.until(job, "FAILED")


# -- arrays, gangs, retries -----------------------------------------------------------------------


@situation(MANY, "too-much-memory")
def array_waits(world: World) -> str:
    """An array whose children can never run; the array itself only says PENDING."""
    world.queue("small", {})
    job = world.submit(
        world.define("sweep", "true", memory=64_000), "small", arrayProperties={"size": 3}
    )
    world.until(f"{job}:0", "RUNNABLE")
    world.until(job, "PENDING")
    world.after(5)
    world.until_said(f"{job}:0")
    return job


@situation(MANY, "children-run")
def array_runs(world: World) -> str:
    """An array stays PENDING while its children run."""
    job = world.submit(world.define("sweep", "sleep", "60"), arrayProperties={"size": 3})
    for index in range(3):
        world.until(f"{job}:{index}", "RUNNING")
    until(lambda: world.look(job)["arrayProperties"]["statusSummary"]["RUNNING"] == 3, "counts")
    return job


@situation(MANY, "program-failed")
def array_failed(world: World) -> str:
    """Children of an array failed for different causes."""
    script = (
        "case $AWS_BATCH_JOB_ARRAY_INDEX in 0) echo bad row; exit 3;; 1) sleep 0.7; exit 3;; "
        "2) sleep 1.4; kill -SEGV $$;; esac"
    )
    job = world.submit(world.define("sweep", "sh", "-c", script), arrayProperties={"size": 5})
    return world.until(job, "FAILED")


@situation(MANY, "program-failed")
def gang_failed(world: World) -> str:
    """The main node of a multi-node job failed, which ends the job."""
    script = "[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] && { sleep 1; exit 3; }; sleep 60"
    job = world.submit(world.define_gang("gang", "sh", "-c", script))
    return world.until(job, "FAILED")


@situation(MANY, "node-failed-first")
def node_failed_first(world: World) -> str:
    """Another node died first, and the main node gave up later."""
    script = "[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] && { sleep 2; exit 3; }; kill -SEGV $$"
    job = world.submit(world.define_gang("gang", "sh", "-c", script))
    return world.until(job, "FAILED")


@situation(MANY, "node-died")
def node_died(world: World) -> str:
    """A node died, and the job goes on without it."""
    script = "[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] && { echo waiting; exec sleep 60; }; kill -SEGV $$"
    job = world.submit(world.define_gang("gang", "sh", "-c", script))
    world.until(f"{job}#1", "FAILED")
    world.until_logged(f"{job}#0", "waiting")
    return job


@situation(MANY, "stopped-with-main-node")
def node_stopped_with_the_main_node(world: World) -> str:
    """A node, asked for by its id, that was stopped because the main node ended."""
    script = "[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] && { sleep 1; exit 3; }; exec sleep 60"
    job = world.submit(world.define_gang("gang", "sh", "-c", script))
    world.until(job, "FAILED")
    return f"{job}#1"


@situation(MANY, "program-failed")
def retries_used_up(world: World) -> str:
    """It was retried, and failed again."""
    return world.run("exit 3", retryStrategy={"attempts": 2})


@situation(MANY, "program-failed")
def retry_forbidden_by_a_rule(world: World) -> str:
    """It had attempts left, and a rule said no."""
    strategy = {
        "attempts": 3,
        "evaluateOnExit": [
            {"onStatusReason": "Host EC2*", "action": "RETRY"},
            {"onReason": "*", "action": "EXIT"},
        ],
    }
    return world.run("exit 3", retryStrategy=strategy)


@situation(MANY, "no-capacity")
def waits_for_another_attempt(world: World) -> str:
    """It has failed once, and waits for room to try again."""
    job = world.run("sleep 1; exit 3", "RUNNING", retryStrategy={"attempts": 2})
    world.fault("stuck-runnable", value="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    world.until(job, "RUNNABLE")
    world.after(15)
    return world.until_said(job)


@situation(MANY, "program-failed")
def one_of_several_containers(world: World) -> str:
    """A job of two containers; the one that matters failed."""
    containers = [
        {
            "name": "main",
            "image": "alpine:3",
            "command": ["sh", "-c", "echo no input; exit 3"],
            "resourceRequirements": wants(1, 128),
            "essential": True,
        },
        {
            "name": "proxy",
            "image": "alpine:3",
            "command": ["sleep", "60"],
            "resourceRequirements": wants(1, 128),
            "essential": False,
        },
    ]
    world.batch.register_job_definition(
        jobDefinitionName="pair",
        type="container",
        ecsProperties={"taskProperties": [{"containers": containers}]},
    )
    return world.until(world.submit("pair"), "FAILED")


# -- AWS does not tell ----------------------------------------------------------------------------


@situation(UNSEEN, "succeeded")
def succeeded(world: World) -> str:
    """Nothing is wrong."""
    return world.run("echo done")


@situation(UNSEEN, "forgotten")
def forgotten(world: World) -> str:
    """AWS has forgotten it."""
    job = world.run("true")
    world.aws.expire(job)
    return job


@situation(UNSEEN, "not-permitted")
def jobs_may_not_be_looked_at(world: World) -> str:
    """The credentials may not even describe jobs."""
    job = world.run("true")
    world.fault("access-denied", operation="DescribeJobs")
    return job


@situation(UNSEEN, "undetermined")
def sources_may_not_be_looked_at(world: World) -> str:
    """Some of what would tell may not be looked at; the rest is told all the same."""
    job = world.stuck("UNDETERMINED")
    for operation in ("GetJobQueueSnapshot", "DescribeComputeEnvironments"):
        world.fault("access-denied", operation=operation)
    return job


@situation(UNSEEN, "starting")
def roles_may_not_be_looked_at(world: World) -> str:
    """IAM and ECR may not be asked: the job's role and image are left out."""
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/train:v2"
    role = {"jobRoleArn": f"{ROLE}train"}
    job = world.held("STARTING", 2, world.define("train", "true", image=image, container=role))
    world.fault("access-denied", service="*", operation="GetRole")
    world.fault("access-denied", service="*", operation="DescribeImages")
    return job


@situation(UNSEEN, "program-failed")
def log_never_came(world: World) -> str:
    """The log stream that AWS names does not exist."""
    world.fault("no-log-stream")
    return world.run("exit 3")
