"""What keeps an app from running in a container, before it is started and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wherry.engine.docker.connection import Engine
from wherry.engine.docker.http import quote
from wherry.errors import DockerError, LaunchError, WherryError
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.docker import planning, pulling
from wherry.schedulers.docker.facts import Facts, read_facts
from wherry.schedulers.docker.mounts import check_sources
from wherry.schedulers.docker.request import DockerRequest
from wherry.specs.diagnosis import Certainty, Diagnosis, Finding, ranked
from wherry.workspace.image_names import is_workspace_image

OUT_OF_MEMORY = "out of memory"

_NOT_FOUND = 404
# What an Engine says when a container does not start → the finding's code, and what to do.
_REFUSALS = (
    (
        "port is already allocated",
        "port-taken",
        "Publish another port, or end who has it (`docker ps` shows the containers).",
    ),
    (
        "address already in use",
        "port-taken",
        "Publish another port, or end the program that has it (`ss -ltnp` shows them).",
    ),
    (
        "could not select device driver",
        "no-gpus",
        "Install the NVIDIA Container Toolkit, or ask for no GPUs.",
    ),
    (
        "executable file not found",
        "not-found",
        "Check the command's first word, and that the image has it.",
    ),
    ("no space left on device", "disk-full", "Make room: `docker system df`, `wherry prune`."),
    ("docker-init", "no-init", "Set init=no: this Engine has no init program."),
)


def with_causes(diagnosis: Diagnosis, described: DescribeAppResponse | None) -> Diagnosis:
    """Add what only containers end of.

    Args:
        diagnosis: what the exit codes and the log tell.
        described: the app.
    """
    reasons = [] if described is None else [*_reasons(described)]
    found = [*_memory(reasons), *_refused(reasons)]
    if not found:
        return diagnosis
    return replace(diagnosis, findings=ranked([*found, *diagnosis.findings]))


def _reasons(described: DescribeAppResponse) -> Iterator[str]:
    yield described.msg
    for role in described.roles_statuses:
        for replica in role.replicas:
            yield from (attempt.reason for attempt in replica.attempts)


def _memory(reasons: list[str]) -> Iterator[Finding]:
    for reason in reasons:
        if OUT_OF_MEMORY in reason:
            yield Finding(
                "out-of-memory",
                "The program needed more memory than its container may have.",
                reason,
                "Ask for more (the resource's memMB), or let the program use less; /dev/shm "
                "counts too.",
                Certainty.CERTAIN,
            )
            return


def _refused(reasons: list[str]) -> Iterator[Finding]:
    for words, code, resolution in _REFUSALS:
        telling = next((reason for reason in reasons if words in reason), None)
        if telling is not None:
            yield Finding(
                code, "The container did not start.", telling, resolution, Certainty.CERTAIN
            )


def foreseen(request: DockerRequest, connect: Callable[[], Engine]) -> list[Finding]:
    """Say what would keep a request from running.

    Args:
        request: the request.
        connect: makes a client of the Engine.

    Returns:
        Findings, surest first.
    """
    try:
        with connect() as engine:
            facts = read_facts(engine.address, engine.request("GET", "/info"))
            return list(ranked([*_images(request, engine), *_machine(request, facts)]))
    except DockerError as error:
        return [Finding("no-engine", _sentence(error), certainty=Certainty.CERTAIN)]


def _images(request: DockerRequest, engine: Engine) -> Iterator[Finding]:
    for image in dict.fromkeys(role.create["Image"] for role in request.roles):
        if is_workspace_image(image):
            continue  # it is built when the app is scheduled
        try:
            engine.request("GET", f"/images/{quote(image)}/json")
        except DockerError as error:
            if error.status != _NOT_FOUND:
                raise
            never = request.pull == pulling.NEVER
            yield Finding(
                "no-image",
                f"There is no image {image!r} here.",
                "pull=never keeps it from being pulled." if never else "It will be pulled.",
                "Build it, pull it, or check its name." if never else "",
                Certainty.CERTAIN if never else Certainty.POSSIBLE,
            )


def _machine(request: DockerRequest, facts: Facts) -> Iterator[Finding]:
    def check_mounts() -> None:
        for role in request.roles:
            host_config = role.create.get("HostConfig", {})
            check_sources(role.name, host_config.get("Mounts", ()), host_config.get("Devices", ()))

    checks: list[tuple[str, Callable[[], None]]] = [
        ("no-gpus", lambda: planning.check_gpus(request.roles, facts))
    ]
    if facts.is_here:
        checks.append(("no-mount-source", check_mounts))
    for code, check in checks:
        try:
            check()
        except LaunchError as error:
            yield Finding(code, _sentence(error), certainty=Certainty.CERTAIN)
    for warning in planning.size_warnings(request.roles, facts):
        yield Finding("too-large", warning[:1].upper() + warning[1:] + ".")


def _sentence(error: WherryError) -> str:
    words = str(error)
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")
