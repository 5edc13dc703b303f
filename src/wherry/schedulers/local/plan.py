"""What a supervisor is to do, as the plain data that the client sends it through a pipe.

`marshal` carries it: both ends are the same Python, and it needs no import. Secrets travel in it
and nowhere else; nothing of it is written to the disk.
"""

from __future__ import annotations

READY = b"ok"
"""The supervisor's word when the app is under way; anything else is what went wrong."""

DETACH = b"d"
"""The client's word when the app is to outlive it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from wherry.specs.verdict import Rule

    class RolePlan(TypedDict):
        """One role, with ``${replica_id}`` and ``$$`` still to be replaced."""

        name: str
        program: str
        argv: list[str]
        env: dict[str, str]
        cwd: str
        replicas: int
        min_replicas: int
        retries: int
        retry_alone: bool
        rules: list[Rule]
        cores: int
        gpus: int
        limits: list[tuple[int, int, int]]

    class Plan(TypedDict):
        """One app."""

        app_id: str
        name: str
        handle: str
        directory: str
        log_dir: str
        journal: str
        array: bool
        timeout: float | None
        grace: float
        disk_patience: float
        max_parallel: int | None
        roles: list[RolePlan]
        slots_dir: str
        cores: int
        gpu_pool: list[str]
        depends_on: list[tuple[str, str]]
        client: int
        attached: bool
