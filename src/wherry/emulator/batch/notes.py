"""What job definitions ask for and nobody here carries out: accepted, as AWS accepts it, and said.

What an engine cannot do is said by the engine itself; this is about what does not even reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import JobDefinition

_NAMED = 3
"""How many definitions a note names."""


def about(definitions: Iterable[JobDefinition]) -> list[str]:
    """Return a sentence for each thing that is left out, with the definitions that ask for it."""
    asking: dict[str, list[str]] = {}
    for definition in definitions:
        for sentence in of(definition.document):
            asking.setdefault(sentence, []).append(f"{definition.name}:{definition.revision}")
    return [f"{sentence} Asked for by {_listed(names)}." for sentence, names in asking.items()]


def of(document: Document) -> list[str]:
    """Return a sentence for each thing that a definition asks for and that is left out."""
    parts = list(_parts(document))
    return [sentence for concerns, sentence in LEFT_OUT if any(map(concerns, parts))]


def _parts(document: Document) -> Iterator[Document]:
    """Iterate over all containers, tasks and pods of a definition."""
    for node in (document.get("nodeProperties") or {}).get("nodeRangeProperties") or ():
        yield from _parts(node)
    for member in ("containerProperties", "container"):
        if document.get(member):
            yield document[member]
    for task in (document.get("ecsProperties") or {}).get("taskProperties") or ():
        yield task
        yield from task.get("containers") or ()
    pod = (document.get("eksProperties") or {}).get("podProperties")
    if pod:
        yield pod
        yield from (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))


def _has(member: str) -> Callable[[Document], bool]:
    return lambda part: bool(part.get(member))


def _has_volume(kind: str) -> Callable[[Document], bool]:
    return lambda part: any(kind in volume for volume in part.get("volumes") or ())


def _log(part: Document) -> Document:
    found: Document = part.get("logConfiguration") or {}
    return found


def _is_for_windows(part: Document) -> bool:
    family = (part.get("runtimePlatform") or {}).get("operatingSystemFamily") or "LINUX"
    return bool(family != "LINUX")


LEFT_OUT: tuple[tuple[Callable[[Document], bool], str], ...] = (
    (
        _has("repositoryCredentials"),
        "repositoryCredentials are not used: images are pulled as the Docker Engine is set up.",
    ),
    (
        _has("imagePullSecrets"),
        "imagePullSecrets are not used: images are pulled as the Docker Engine is set up.",
    ),
    (
        _has("imagePullPolicy"),
        "imagePullPolicy is not used: an image is pulled when it is not there.",
    ),
    (
        _has("firelensConfiguration"),
        "firelensConfiguration is not used: the container runs, but no logs are routed through it.",
    ),
    (
        lambda part: _log(part).get("logDriver", "awslogs") != "awslogs",
        "Log drivers other than awslogs are not used: such containers have no logs.",
    ),
    (
        lambda part: bool(_log(part).get("secretOptions")),
        "secretOptions of log drivers are not used.",
    ),
    (
        _has("enableExecuteCommand"),
        "enableExecuteCommand is not used: there is no ECS Exec.",
    ),
    (
        _has("ephemeralStorage"),
        "The size of ephemeralStorage is not used: a task may fill this machine's disk.",
    ),
    (
        _is_for_windows,
        "runtimePlatform decides where a job is placed; Windows containers do not run.",
    ),
    (
        _has_volume("efsVolumeConfiguration"),
        "EFS file systems are folders of this machine; encryption and IAM are not used.",
    ),
    (
        _has_volume("s3filesVolumeConfiguration"),
        "S3 Files file systems are empty folders of this machine, without what is in S3.",
    ),
    (
        _has_volume("secret"),
        "Kubernetes secrets are not there: such volumes are empty.",
    ),
    (
        _has_volume("persistentVolumeClaim"),
        "Persistent volume claims are folders of this machine.",
    ),
    (
        _has("serviceAccountName"),
        "serviceAccountName is not used: a pod has the role of its instances.",
    ),
    (
        _has("dnsPolicy"),
        "dnsPolicy is not used: names are resolved as this machine does.",
    ),
)
"""What is left out: when a container, a task or a pod asks for it, and the sentence."""


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
