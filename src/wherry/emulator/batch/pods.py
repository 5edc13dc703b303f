"""Pods of EKS, as tasks: ``podProperties`` to what an engine runs.

There is no Kubernetes here. Init containers come first, one after another, and each has to succeed;
``command`` is the entry point and ``args`` the command; ``$(NAME)`` stands for a variable of the
container. A pod is over when all its containers have ended, and has succeeded when all of them have
ended with 0. What AWS Batch says then is not documented; status reasons are those of ECS. Output
goes to CloudWatch Logs as with ECS: on EKS it would be up to the cluster where it goes. The
host's network is used only where a definition asks for it in so many words, though Kubernetes jobs
of AWS Batch have it by default: jobs that share this machine's ports would meet each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wherry.emulator.batch import parameters, sizes, starting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.starting import Start
from wherry.emulator.engines.api import Container, Dependency, Mount

_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_DEFAULT_NAME = "Default"


def containers(start: Start, pod: Document) -> list[Container]:
    """Return the containers of a pod; opens their log streams.

    Args:
        start: the attempt.
        pod: the effective ``podProperties``.

    Raises:
        CannotStart: the attempt must fail.
    """
    surrounding = start.surroundings.task_environment(start.task_id, start.region, start.role(None))
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or ()}
    entries = _entries(pod)
    built: list[Container] = []
    before: tuple[Dependency, ...] = ()
    for number, (name, entry) in enumerate(zip(names(pod), entries, strict=True)):
        is_init = number < len(entries) - len(pod["containers"])
        explicit = _explicit(start, entry)
        env = starting.environment(
            start, explicit.items(), surrounding, name, is_only=len(entries) == 1
        )
        log = starting.log_of(start, None, name)
        starting.open_stream(start, None, name, log)
        built.append(
            _container(
                start,
                entry,
                env,
                _mounts(start, entry, volumes),
                (name, log, pod.get("securityContext") or {}),
                before,
                essential=not is_init,
            )
        )
        if is_init:
            before = (Dependency(name, "SUCCESS"),)
    return built


def names(pod: Document) -> list[str]:
    """Return the names of the containers of a pod, those that come first before the others."""
    return [entry.get("name") or _DEFAULT_NAME for entry in _entries(pod)]


def _entries(pod: Document) -> list[Document]:
    return [*(pod.get("initContainers") or ()), *pod["containers"]]


def _explicit(start: Start, entry: Document) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in entry.get("env") or ():
        # A variable may refer to those before it.
        found[each["name"]] = _expanded(each.get("value") or "", found)
    node = start.place.instance_id or start.task_id
    found["AWS_BATCH_JOB_KUBERNETES_NODE_UID"] = node
    return found


def _container(
    start: Start,
    entry: Document,
    env: tuple[tuple[str, str], ...],
    mounts: tuple[Mount, ...],
    shown: tuple[str, starting.Log, Document],
    before: tuple[Dependency, ...],
    *,
    essential: bool,
) -> Container:
    name, log, of_pod = shown
    security = {**of_pod, **(entry.get("securityContext") or {})}
    vcpus, memory, gpus = sizes.of_pod_container(entry)
    resources = entry.get("resources") or {}
    return Container(
        name=name,
        image=entry.get("image") or "",
        entrypoint=_words(start, entry.get("command") or (), dict(env)),
        command=_words(start, entry.get("args") or (), dict(env)),
        env=env,
        vcpus=vcpus,
        hard_cpu=bool((resources.get("limits") or {}).get("cpu")),
        memory_mib=memory,
        gpus=gpus,
        user=_user(security),
        privileged=bool(security.get("privileged")),
        read_only_root=bool(security.get("readOnlyRootFilesystem")),
        mounts=mounts,
        essential=essential,
        depends_on=before,
        log_group=log.group,
        log_stream=log.stream,
    )


def _words(start: Start, words: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    substituted = parameters.substituted(tuple(words), start.parameters)
    return tuple(_expanded(word, env) for word in substituted)


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Put values for ``$(NAME)``; names without one stay, and ``$$`` is a dollar sign.

    "If the referenced environment variable doesn't exist, the reference in the command isn't
    changed" (API reference, EksContainer.command).
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else env.get(found[1], found[0])

    return _VARIABLE.sub(value, text)


def _user(security: Document) -> str:
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    if user is None:
        return ""
    return str(user) if group is None else f"{user}:{group}"


def _mounts(start: Start, entry: Document, volumes: Mapping[str, Document]) -> tuple[Mount, ...]:
    return tuple(
        _mount(start, point, volumes.get(point["name"]) or {})
        for point in entry.get("volumeMounts") or ()
    )


def _mount(start: Start, point: Document, volume: Document) -> Mount:
    sub_path = (point.get("subPath") or "").strip("/")
    source = (volume.get("hostPath") or {}).get("path") or ""
    claim = volume.get("persistentVolumeClaim")
    if claim:
        source = starting.shared_folder(start, "claims", claim["claimName"], sub_path)
    elif source and sub_path:
        source = f"{source.rstrip('/')}/{sub_path}"
    name = f"{point['name']}-{sub_path.replace('/', '-')}" if sub_path else point["name"]
    is_read_only = bool(point.get("readOnly") or (claim or {}).get("readOnly"))
    return starting.mount(point["mountPath"], source, name, read_only=is_read_only)
