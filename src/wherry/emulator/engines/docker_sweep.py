"""Removes what an emulator has in the Engine, by its labels."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from wherry.emulator.engines.docker_labels import label_filter

if TYPE_CHECKING:
    from docker import APIClient

PAUSE = 0.2


def sweep(client: APIClient, label: str, value: str, *, seconds: float = 30.0) -> bool:
    """Remove containers, networks and volumes that have a label, until there are none.

    Args:
        client: the Engine.
        label: which label.
        value: and which value of it.
        seconds: how long to try.

    Returns:
        Whether nothing is left.
    """
    deadline = time.monotonic() + seconds
    while not _once(client, label, value):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _once(client: APIClient, label: str, value: str) -> bool:
    """Remove what is there; returns whether there was nothing."""
    from docker.errors import APIError

    filters = label_filter(label, value)
    containers = client.containers(all=True, filters=filters)
    for container in containers:
        # Somebody else may be removing it.
        with contextlib.suppress(APIError):
            client.remove_container(container["Id"], force=True, v=True)
    networks = client.networks(filters=filters)
    for network in networks:
        with contextlib.suppress(APIError):
            client.remove_network(network["Id"])
    volumes = client.volumes(filters=filters)["Volumes"] or []
    for volume in volumes:
        with contextlib.suppress(APIError):
            client.remove_volume(volume["Name"], force=True)
    return not (containers or networks or volumes)
