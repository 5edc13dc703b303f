"""How DescribeJobs shows pods of Amazon EKS: the present one, and those of earlier attempts.

A pod is called as in the user guide, "Map a running job to a pod and a node"; its node has the
host name that EC2 makes of an instance's id, so that a person can tell which instance it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wherry.emulator.batch import arns
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Attempt

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

_GROUPS = ("containers", "initContainers")
_SHOWN = ("exitCode", "reason")


def present(plane: Plane, pod: Document, run: Attempt | None) -> Document:
    """Return ``podProperties`` with what the last attempt has made of them.

    Args:
        plane: knows where it runs.
        pod: the effective ``podProperties``.
        run: the last attempt, if there was any.
    """
    if run is None:
        return pod
    ends = _ends(run)
    groups = {
        group: [{**one, **ends.get(_name_of(one), {})} for one in pod[group]]
        for group in _GROUPS
        if group in pod
    }
    return {**pod, **groups, **_names(plane, run)}


def attempt(plane: Plane, pod: Document, run: Attempt) -> Document:
    """Return the ``EksAttemptDetail`` of an attempt that has ended, without its times."""
    environment = plane.catalog.find_environment(run.environment_arn)
    eks = environment.eks if environment else {}
    namespace = (pod.get("metadata") or {}).get("namespace") or eks.get("kubernetesNamespace")
    optional = {"eksClusterArn": eks.get("eksClusterArn"), "podNamespace": namespace}
    ends = _ends(run)
    return {
        **{group: list(_ended(pod.get(group) or (), ends)) for group in _GROUPS},
        **{member: value for member, value in optional.items() if value},
        **_names(plane, run),
    }


def _ended(containers: Iterable[Document], ends: Mapping[str, Document]) -> Iterable[Document]:
    names = (_name_of(container) for container in containers)
    return ({"name": name, **ends.get(name, {})} for name in names)


def _ends(run: Attempt) -> dict[str, Document]:
    """Return exit code and reason of each container by name, as far as there are any."""
    return {
        end["name"]: {member: end[member] for member in _SHOWN if member in end}
        for end in run.containers
    }


def _names(plane: Plane, run: Attempt) -> Document:
    names = {"podName": f"aws-batch.{uuid.UUID(run.task_id)}"}
    if run.instance_id:
        names["nodeName"] = arns.host_name(plane.region, run.instance_id)
    return names


def _name_of(container: Document) -> str:
    return container.get("name") or "Default"
