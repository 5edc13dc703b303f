"""The networks of an emulator's jobs.

Programs that use an AWS SDK get a job role's credentials over plain HTTP, which the SDKs do only
for ``localhost`` and for the one address at which ECS serves them, 169.254.170.2. So this address
is what this machine has on the bridge of the jobs. A bridge is the machine's own, and containers
of other bridges reach that address too: they send to their gateway, which is the same machine.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from wherry.emulator.engines.docker_reasons import explanation

if TYPE_CHECKING:
    from docker import APIClient

_log = logging.getLogger(__name__)

CREDENTIAL_HOST = "169.254.170.2"
"""https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html"""

SUBNET = "169.254.170.0/23"
"""As large as it can be (510 addresses; a bridge takes no more than 1,023) without
169.254.169.254, at which cloud machines find their own metadata."""

SPARE_SUBNETS = IPv4Network("100.96.0.0/13")
"""Where networks go when the Engine has no free subnet left in its own pools."""

_HOST_HAS_CREDENTIALS_THERE = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "ECS_CONTAINER_METADATA_URI",
    "ECS_CONTAINER_METADATA_URI_V4",
)


class Networks:
    """Makes and removes networks. Methods may be called from any thread.

    Args:
        client: the Engine.
        name: of the emulator; begins the networks' names.
        labels: what all of them get.
    """

    def __init__(self, client: APIClient, name: str, labels: Mapping[str, str]) -> None:
        self._client = client
        self._prefix = re.sub(r"[^A-Za-z0-9_.-]", "-", f"wherry-{name}")
        self._labels = dict(labels)
        self._lock = threading.Lock()
        self._made: dict[str, str] = {}
        self.gateway = ""
        self.notes: tuple[str, ...] = ()

    @property
    def common(self) -> str:
        """The network of all jobs that have none of their own."""
        return self._prefix

    @property
    def credential_host(self) -> str:
        """The host at which SDKs accept credentials; empty where it could not be had."""
        return CREDENTIAL_HOST if self.gateway == CREDENTIAL_HOST else ""

    def open(self) -> None:
        """Make the common network.

        Raises:
            docker.errors.APIError: the Engine cannot.
        """
        blocked = self._blocked()
        if not blocked:
            try:
                self._create(self.common, (SUBNET, CREDENTIAL_HOST))
            except Exception as error:
                if not _is_taken(error):
                    raise
                blocked = f"another network has it ({explanation(error)})"
        if blocked:
            note = (
                f"jobs cannot reach {CREDENTIAL_HOST}, since {blocked}; "
                "they get their role's credentials as environment variables"
            )
            self.notes = (note,)
            self._create_anywhere(self.common)
        self.gateway = self._gateway_of(self.common)

    def ensure(self, network: str) -> str:
        """Return Docker's name of a network, which is made if it does not exist.

        Args:
            network: as a task names it; empty for the common one.

        Raises:
            docker.errors.APIError: the Engine cannot make it.
        """
        if not network:
            return self.common
        with self._lock:
            if network not in self._made:
                full = f"{self._prefix}-{network}"
                self._create_anywhere(full)
                self._made[network] = full
            return self._made[network]

    def forget(self, network: str) -> None:
        """Remove a network; containers that are just going are waited for."""
        with self._lock:
            full = self._made.pop(network, None)
        if full is None:
            return
        for attempt in range(50):
            try:
                self._client.remove_network(full)
            except Exception as error:  # noqa: BLE001 — a sweep at the end gets what is left
                if getattr(error, "status_code", None) == 404:
                    return
                if attempt == 49:
                    _log.warning("network %s could not be removed: %s", full, error)
                time.sleep(0.1)
            else:
                return

    def _blocked(self) -> str:
        """Say why this machine cannot have the address, or nothing."""
        present = [name for name in _HOST_HAS_CREDENTIALS_THERE if os.environ.get(name)]
        return f"this machine gets its own credentials there ({present[0]})" if present else ""

    def _create_anywhere(self, name: str) -> None:
        try:
            self._create(name, None)
            return
        except Exception as error:
            if not _is_taken(error):
                raise
            exhausted = error
        for subnet in SPARE_SUBNETS.subnets(new_prefix=24):
            try:
                self._create(name, (str(subnet), str(subnet[1])))
                return
            except Exception as error:
                if not _is_taken(error):
                    raise
        raise exhausted

    def _create(self, name: str, pool: tuple[str, str] | None) -> None:
        from docker.types import IPAMConfig, IPAMPool

        pools = [IPAMPool(subnet=pool[0], gateway=pool[1])] if pool else []
        ipam = IPAMConfig(pool_configs=pools) if pools else None
        self._client.create_network(
            name, driver="bridge", ipam=ipam, labels=self._labels, check_duplicate=True
        )

    def _gateway_of(self, name: str) -> str:
        pools: list[dict[str, str]] = self._client.inspect_network(name)["IPAM"]["Config"]
        return next(pool["Gateway"].partition("/")[0] for pool in pools if "." in pool["Gateway"])


def _is_taken(error: Exception) -> bool:
    """Whether the Engine refused because of the addresses."""
    text = str(error).lower()
    return any(
        words in text for words in ("overlap", "non-overlapping", "already in use", "in use")
    )
