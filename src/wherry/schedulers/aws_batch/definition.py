"""The job definition of an app: its roles' containers, as a single one or as groups of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wherry.aws.documents import Document
from wherry.schedulers.aws_batch.containers import asked_together, container, with_shell
from wherry.schedulers.aws_batch.facts import Platform
from wherry.schedulers.aws_batch.options import Options
from wherry.schedulers.aws_batch.overrides import environment
from wherry.schedulers.aws_batch.shape import Group, Kind, instance_type_of, target_nodes
from wherry.specs.app import Role


@dataclass(frozen=True)
class Defining:
    """What a definition depends on, besides the roles.

    Args:
        kind: what the app is.
        platform: what the queue is made of.
        options: the run options.
        images: the image of each role, by the role's name.
        variables: what is the same in all of a role's runs, by the role's name.
        warn: is told what is not as it was asked for.
    """

    kind: Kind
    platform: Platform
    options: Options
    images: Mapping[str, str]
    variables: Mapping[str, Mapping[str, str]]
    warn: Callable[[str], None]

    def definition(self, roles: Sequence[tuple[Group, Role]], *, sidecar: bool) -> Document:
        """Return the parameters of RegisterJobDefinition, without a name.

        Args:
            roles: the roles and their places.
            sidecar: whether each container is given a shell by a second one.

        Raises:
            UsageError: a role asks for something that cannot be had.
        """
        if self.kind is Kind.GANG:
            return {"type": "multinode", "nodeProperties": self._nodes(roles, sidecar=sidecar)}
        return {
            "type": "container",
            "platformCapabilities": [str(self.platform)],
            **self._container(roles[0][1], sidecar=sidecar),
            **consumables(self.options, "consumableResourceProperties"),
        }

    def _container(self, role: Role, *, sidecar: bool) -> Document:
        image, node = self.images[role.name], self.kind is Kind.GANG
        document = container(role, image, self.options, self.platform, self.warn, node=node)
        variables = self.variables.get(role.name)
        if variables:
            document["environment"] = environment(variables)
        if not sidecar:
            return {"containerProperties": document}
        made = with_shell(document, self.platform, self.options.launcher_image)
        self.warn(
            f"role {role.name!r}: with the container that brings the shell, "
            f"{asked_together(made)} are asked for"
        )
        return {"ecsProperties": made}

    def _nodes(self, roles: Sequence[tuple[Group, Role]], *, sidecar: bool) -> Document:
        found = {role.name: instance_type_of(role) for _, role in roles}
        instance_type = next((name for name in found.values() if name), None)
        for name, own in found.items():
            if own != instance_type:
                self.warn(
                    f"role {name!r} states no instance type and gets {instance_type}: "
                    "all nodes of a multi-node job have the same"
                )
        return {
            "numNodes": sum(group.count for group, _ in roles),
            "mainNode": 0,
            "nodeRangeProperties": [
                {
                    "targetNodes": target_nodes(group),
                    **self._node(role, instance_type, sidecar=sidecar),
                    **consumables(self.options, "consumableResourceProperties"),
                }
                for group, role in roles
            ],
        }

    def _node(self, role: Role, instance_type: str | None, *, sidecar: bool) -> Document:
        made = self._container(role, sidecar=sidecar)
        if sidecar:
            # In a job of several containers the node has the type, not the container.
            return {**made, **({"instanceTypes": [instance_type]} if instance_type else {})}
        type_ = {"instanceType": instance_type} if instance_type else {}
        return {"container": {**made["containerProperties"], **type_}}


def consumables(options: Options, key: str) -> Document:
    """Return the consumable resources that a job or node takes, under a key; empty without any."""
    taken = options.consumable_resources
    if not taken:
        return {}
    items = [{"consumableResource": name, "quantity": taken[name]} for name in taken]
    return {key: {"consumableResourceList": items}}
