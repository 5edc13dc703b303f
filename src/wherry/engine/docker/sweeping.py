"""End, or remove, whatever the Engine has of an app; for whoever can wait for it.

What belongs to an app is told by its labels alone, so that this needs no record and no supervisor.
"""

from __future__ import annotations

import time

from wherry.engine.docker.connection import Engine
from wherry.engine.docker.labels import APP_ID
from wherry.errors import DockerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from wherry.engine.docker.connection import Pending

_GONE, _CONFLICT, _IN_USE = 404, 409, 403
_TIMEOUT = 20.0
_PAUSE = 0.25
_SOON = 0.05
_NETWORK_PATIENCE = 3.0


def kill_containers(engine: Engine, app_id: str) -> int:
    """Kill every container of an app that runs, so that its log stays; returns how many did.

    Raises:
        DockerError: the Engine is not there, or refuses.
    """
    return _each(
        (
            engine.begin("POST", f"/containers/{found['Id']}/kill")
            for found in _containers(engine, app_id)
            if found.get("State") in ("running", "paused", "restarting")
        ),
    )


def remove_containers(engine: Engine, app_id: str) -> int:
    """Remove every container of an app, running or not; returns how many there were.

    Raises:
        DockerError: the Engine is not there, or refuses.
    """
    options = {"force": True, "v": True}
    first = found = _containers(engine, app_id)
    deadline = time.monotonic() + _TIMEOUT
    while found and time.monotonic() < deadline:
        _each([engine.begin("DELETE", f"/containers/{each['Id']}", options) for each in found])
        # One that somebody else is removing already is there until that is done.
        found = _containers(engine, app_id)
        if found:
            time.sleep(_SOON)
    return len(first)


def remove_networks(engine: Engine, app_id: str) -> int:
    """Remove the networks that were made for an app; containers that ended do not hold them.

    Raises:
        DockerError: the Engine is not there, or refuses.
    """
    networks = engine.request("GET", "/networks", {"filters": _of(app_id)})
    for network in networks:
        _remove_network(engine, f"/networks/{network['Id']}")
    return len(networks)


def end_app(address: str, app_id: str, *, remove: bool = False, patience: float = 0.0) -> str:
    """End what runs of an app, and remove its networks.

    Args:
        address: of the Engine.
        app_id: the app.
        remove: whether its containers are removed too, with their logs.
        patience: seconds to wait for an Engine that is not there.

    Returns:
        What was in the way, in words; empty when nothing was.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            with Engine(address, timeout=_TIMEOUT) as engine:
                (remove_containers if remove else kill_containers)(engine, app_id)
                remove_networks(engine, app_id)
        except DockerError as error:
            if error.status or time.monotonic() >= deadline:
                return str(error)
        else:
            return ""
        time.sleep(_PAUSE)


def _containers(engine: Engine, app_id: str) -> list[Any]:
    found = engine.request("GET", "/containers/json", {"all": True, "filters": _of(app_id)})
    return list(found)


def _of(app_id: str) -> dict[str, list[str]]:
    return {"label": [f"{APP_ID}={app_id}"]}


def _remove_network(engine: Engine, path: str) -> None:
    # A container that has just ended may hold its place in the network for a moment.
    deadline = time.monotonic() + _NETWORK_PATIENCE
    while True:
        try:
            engine.request("DELETE", path)
        except DockerError as error:
            if error.status == _GONE:
                return
            if error.status != _IN_USE or time.monotonic() > deadline:
                raise
        else:
            return
        _disconnect(engine, path)
        time.sleep(_SOON)


def _disconnect(engine: Engine, path: str) -> None:
    for container in engine.request("GET", path).get("Containers") or {}:
        body = {"Container": container, "Force": True}
        engine.request("POST", f"{path}/disconnect", body=body)


def _each(requests: Iterable[Pending]) -> int:
    """Send requests side by side; that something is gone or has ended is no failure."""
    pending = list(requests)
    for request in pending:
        try:
            request.finish()
        except DockerError as error:
            if error.status not in (_GONE, _CONFLICT):
                raise
    return len(pending)
