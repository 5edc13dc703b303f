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
    from typing import Any, TypedDict

    from wherry.specs.verdict import Rule

    class EnginePlan(TypedDict):
        """The Docker Engine that runs the app, and what is made there for the whole of it.

        Attributes:
            address: as `wherry.engine.docker.address.engine_address` gives it.
            network: the network that the containers are in, such as ``bridge``.
            own_network: whether it is made for this app, and removed at its end.
            labels: for everything that is made; containers get those of their replica besides.
        """

        address: str
        network: str
        own_network: bool
        labels: dict[str, str]

    class ContainerPlan(TypedDict):
        """What a role's replicas are made from.

        Attributes:
            create: the body of ``POST /containers/create``, with ``${replica_id}`` and ``$$``
                still to be replaced in ``Cmd``, ``Entrypoint`` and the values of ``Env``.
            name: what replicas are called, with ``{app_id}``, ``{role}`` and ``{replica}`` to be
                replaced: container, host and network alias. Later attempts' containers get
                ``-aN``.
            stop_signal: what asks the program to end, such as ``SIGTERM``.
        """

        create: dict[str, Any]
        name: str
        stop_signal: str

    class CallPlan(TypedDict):
        """A function call that a role stands for, run by a fork where that can be.

        Attributes:
            url: of the call document.
            syspath: the client's ``sys.path``.
            cwd: the working directory; the role's when empty.
            umask: the client's; ``None`` for the supervisor's own.
        """

        url: str
        syspath: list[str]
        cwd: str
        umask: int | None

    class RolePlan(TypedDict):
        """One role, with ``${replica_id}`` and ``$$`` still to be replaced.

        ``program``, ``argv``, ``env``, ``cwd`` and ``limits`` are of no account where there is a
        ``container``.
        """

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
        container: ContainerPlan | None
        call: CallPlan | None

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
        engine: EnginePlan | None
        client: int
        attached: bool
        environ: dict[str, str] | None  # the client's; the supervisor's own when not told
