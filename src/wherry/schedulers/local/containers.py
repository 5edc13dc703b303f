"""From a replica's plan to the container of one attempt: name, variables, labels, network."""

from __future__ import annotations

from wherry.engine.docker import labels
from wherry.engine.docker.attempt import Container
from wherry.engine.docker.names import container_name, host_name
from wherry.specs.substitution import substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from wherry.engine.slots import Grant
    from wherry.schedulers.local.plan import ContainerPlan, EnginePlan, Plan, RolePlan

NAMELESS = frozenset(("", "default", "bridge", "host", "none"))
"""Networks in which names do not resolve."""

LOCALHOST = "localhost"


def make_container(plan: Plan, role: RolePlan, index: int, number: int, grant: Grant) -> Container:
    """Say what one attempt of a replica is run in.

    Args:
        plan: the app.
        role: the replica's role, which has a container.
        index: the replica.
        number: the attempt, from 1.
        grant: the GPUs that it was given.
    """
    wanted, engine = role["container"], plan["engine"]
    assert wanted is not None and engine is not None  # noqa: S101, PT018 — asked before
    host = host_name(wanted["name"], plan["app_id"], role["name"], index)
    create = _filled(wanted, {"replica_id": str(index)})
    create["Env"] = _environment(create.get("Env") or [], plan, role, index, number)
    create["Labels"] = {
        **(create.get("Labels") or {}),
        **engine["labels"],
        labels.APP_ID: plan["app_id"],
        labels.ROLE: role["name"],
        labels.REPLICA: str(index),
        labels.REPLICAS: str(role["replicas"]),
        labels.ATTEMPT: str(number),
    }
    create["HostConfig"] = {"NetworkMode": engine["network"], **(create.get("HostConfig") or {})}
    _join(create, host)
    if grant.gpus:
        create["HostConfig"]["DeviceRequests"] = [
            {"DeviceIDs": list(grant.gpus.values()), "Capabilities": [["gpu"]]}
        ]
    return Container(
        container_name(host, number), create, wanted["stop_signal"] or "SIGTERM",
        error_file(index, number),
    )  # fmt: skip


def error_file(index: int, number: int) -> str:
    """Return where inside the container an attempt may leave word of what went wrong."""
    return f"/tmp/wherry-error-{index}-{number}.json"  # noqa: S108 — the container's own


def rank0_host(plan: Plan) -> str:
    """Return the name under which every replica reaches the first one of the first role."""
    first = plan["roles"][0]
    wanted, engine = first["container"], plan["engine"]
    alone = plan["array"] or sum(role["replicas"] for role in plan["roles"]) == 1
    if alone or wanted is None or engine is None or not _resolves(_network(engine, wanted)):
        return LOCALHOST
    return host_name(wanted["name"], plan["app_id"], first["name"], 0)


def _network(engine: EnginePlan, wanted: ContainerPlan) -> str:
    host_config = wanted["create"].get("HostConfig") or {}
    return str(host_config.get("NetworkMode") or engine["network"])


def _resolves(network: str) -> bool:
    return network not in NAMELESS and not network.startswith("container:")


def _filled(wanted: ContainerPlan, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the body with its macros replaced; the plan stays as it is."""
    create = dict(wanted["create"])
    for name in ("Cmd", "Entrypoint"):
        words = create.get(name)
        if isinstance(words, str):
            create[name] = substitute(words, values)
        elif words:
            create[name] = [substitute(word, values) for word in words]
    create["Env"] = [_filled_variable(line, values) for line in create.get("Env") or []]
    return create


def _filled_variable(line: str, values: Mapping[str, str]) -> str:
    name, equals, value = line.partition("=")
    return name + equals + substitute(value, values)


def _environment(
    given: list[str], plan: Plan, role: RolePlan, index: int, number: int
) -> list[str]:
    file = error_file(index, number)
    ours = {
        "WHERRY_APP_ID": plan["app_id"],
        "WHERRY_ROLE_NAME": role["name"],
        "WHERRY_REPLICA_ID": str(index),
        "WHERRY_NUM_REPLICAS": str(role["replicas"]),
        "WHERRY_ATTEMPT": str(number),
        "WHERRY_RANK0_HOST": rank0_host(plan),
        "WHERRY_ERROR_FILE": file,
        "TORCHELASTIC_ERROR_FILE": file,
    }
    kept = [line for line in given if line.partition("=")[0] not in ours]
    return [*kept, *(f"{name}={value}" for name, value in ours.items())]


def _join(create: dict[str, Any], host: str) -> None:
    """Give the container its host name, and the network a name for it where names resolve."""
    network = create["HostConfig"]["NetworkMode"]
    if network.startswith("container:"):
        return
    create.setdefault("Hostname", host)
    if _resolves(network):
        config = dict(create.get("NetworkingConfig") or {})
        endpoints = dict(config.get("EndpointsConfig") or {})
        endpoint = dict(endpoints.get(network) or {})
        endpoint["Aliases"] = [*(endpoint.get("Aliases") or []), host]
        endpoints[network] = endpoint
        config["EndpointsConfig"] = endpoints
        create["NetworkingConfig"] = config
