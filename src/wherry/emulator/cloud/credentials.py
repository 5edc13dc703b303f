"""Credentials of a job's role, as the ECS agent hands them to a container.

A task gets an address of its own; what is behind it are credentials that moto's STS has made by
assuming the role, so that ``sts get-caller-identity`` inside a job says who the job is. They are
made when first fetched, renewed when they are about to expire, and gone with the task.
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import datetime as dt
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wherry.emulator.batch.ports import Document
from wherry.emulator.cloud import moto
from wherry.emulator.settings import ACCOUNT

LIFE = 6 * 3600
"""How long credentials hold, in real seconds: SDKs compare the expiry with the machine's clock."""

RENEW_BEFORE = 15 * 60
"""Real seconds before the expiry from which a fetch makes new ones; SDKs ask at 15 minutes."""


@dataclass
class _Grant:
    task_id: str
    region: str
    role_arn: str
    role: Any = None
    expires: float = 0.0


class Credentials:
    """Who may fetch what. May be called from any thread.

    Args:
        wall: real time in seconds since the epoch.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._grants: dict[str, _Grant] = {}
        self._tokens: dict[str, str] = {}

    def grant(self, task_id: str, region: str, role_arn: str) -> str:
        """Let a task fetch credentials of a role; returns the last part of the address.

        Args:
            task_id: the task.
            region: where it runs.
            role_arn: a role, or an instance profile for the role that is in it.
        """
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[task_id] = token
            self._grants[token] = _Grant(task_id, region, _role(role_arn, region))
        return token

    def revoke(self, task_id: str) -> None:
        """Make an end of a task's credentials; unknown tasks are ignored."""
        with self._lock:
            grant = self._grants.pop(self._tokens.pop(task_id, ""), None)
            if grant is not None and grant.role is not None:
                _forget(grant)

    def fetch(self, token: str) -> Document | None:
        """Return credentials in ECS's format, or ``None`` for an address that nobody was given."""
        with self._lock:
            grant = self._grants.get(token)
            if grant is None:
                return None
            if grant.role is None or grant.expires - self._wall() < RENEW_BEFORE:
                self._assume(grant)
            return {
                "RoleArn": grant.role_arn,
                "AccessKeyId": grant.role.access_key_id,
                "SecretAccessKey": grant.role.secret_access_key,
                "Token": grant.role.session_token,
                "Expiration": _iso(grant.expires),
            }

    def reset(self) -> None:
        """Make new credentials at the next fetch, because STS has forgotten the present ones."""
        with self._lock:
            for grant in self._grants.values():
                grant.role = None

    def _assume(self, grant: _Grant) -> None:
        if grant.role is not None:
            _forget(grant)
        grant.role = moto.backend("sts", grant.region).assume_role(
            region_name=grant.region,
            role_session_name=grant.task_id,
            role_arn=grant.role_arn,
            policy=None,
            duration=LIFE,
            external_id=None,
        )
        grant.expires = self._wall() + LIFE


def _role(arn: str, region: str) -> str:
    """Return the ARN of a role, which may be given by an instance profile's ARN or name."""
    if arn.startswith("arn:") and ":instance-profile/" not in arn:
        return arn
    name = arn.rpartition("/")[2]
    for profile in moto.backend("iam", region).get_instance_profiles():
        if profile.name == name and profile.roles:
            return str(profile.roles[0].arn)
    return f"arn:{moto.partition(region)}:iam::{ACCOUNT}:role/{name}"


def _forget(grant: _Grant) -> None:
    """Take a session out of moto's list, which is searched at each call of a job."""
    sessions = moto.backend("sts", grant.region).assumed_roles
    if grant.role in sessions:
        sessions.remove(grant.role)


def _iso(seconds: float) -> str:
    moment = dt.datetime.fromtimestamp(seconds, dt.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
