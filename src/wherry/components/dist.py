"""Built-in components for distributed PyTorch: ``ddp`` and ``spmd``, both by ``torchrun``."""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple

from wherry.components.hosts import ask
from wherry.components.image import DEFAULT_IMAGE
from wherry.components.naming import program_name, run_name
from wherry.specs.app import AppDef, RetryPolicy, Role
from wherry.specs.macro import macros
from wherry.specs.mounts import parse_mounts

_DEBUG_ENV = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}
_PORT = 29500
_NODES = re.compile(r"(?:(?:(?P<least>[0-9]+):)?(?P<most>[0-9]+)x)?(?P<processes>[0-9]+)")


class Nodes(NamedTuple):
    """How many nodes there are, and how many processes on each."""

    least: int
    most: int
    processes: int

    @property
    def elastic(self) -> bool:
        """Whether the app goes on with fewer nodes."""
        return self.least < self.most

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.elastic else str(self.most)


def ddp(
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = DEFAULT_IMAGE,
    name: str = "/",
    h: str | None = None,
    cpu: float | None = None,
    gpu: int | None = None,
    memMB: int | None = None,
    j: str = "1x2",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = _PORT,
    rdzv_backend: str = "c10d",
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> AppDef:
    """Train on several nodes with several processes each (distributed data parallel).

    Runs torchrun on every node; the image has to have it. With one node, a free port is used;
    with more, all nodes meet at the first one's address.

    Args:
        script_args: the program's arguments
        script: script to run
        m: module to run
        image: image to run in
        name: experiment/run; either part may be left out (the run is then named after the program)
        h: a named resource for each node, in place of cpu, gpu and memMB
        cpu: CPUs for each node (2 when not given)
        gpu: GPUs for each node (0 when not given)
        memMB: memory for each node, in MiB (1024 when not given)
        j: [[LEAST:]NODES x]PROCESSES, such as 2x8 or, elastic, 1:2x8; one number is the processes
            on one node
        env: environment variables (A=1,B=2)
        max_retries: attempts after the first; all nodes start again together
        rdzv_port: port on the first node where the nodes meet
        rdzv_backend: how they meet: c10d, etcd, static
        mounts: what to mount: type=bind,src=/host,dst=/job,readonly (or volume, device)
        debug: set the variables that make PyTorch say more
        tee: which output of the processes is shown and kept: 0 none, 1 stdout, 2 stderr, 3 both
    """
    if bool(script) == bool(m):
        raise ValueError(f"give exactly one of --script and -m, not {'both' if m else 'none'}")
    nodes = parse_nodes(j)
    program = program_name(script, m, "ddp")
    experiment, run = run_name(name, program)
    torchrun = [
        f"--rdzv_backend={rdzv_backend}",
        f"--rdzv_id={macros.app_id}",
        f"--nnodes={nodes}",
        f"--nproc_per_node={nodes.processes}",
        f"--tee={tee}",
        "--role=",
        *([f"--node_rank={macros.replica_id}"] if rdzv_backend == "static" else []),
        *([script] if script else ["-m", str(m)]),
        *script_args,
    ]
    entrypoint, args = _command(nodes, rdzv_backend, rdzv_port, torchrun)
    role = Role(
        name=program,
        image=image,
        entrypoint=entrypoint,
        args=args,
        env=_environment(experiment, env, debug),
        num_replicas=nodes.most,
        min_replicas=nodes.least if nodes.elastic else None,
        max_retries=max_retries,
        retry_policy=RetryPolicy.APPLICATION,
        resource=ask(cpu, gpu, memMB, h, default_cpu=2),
        port_map={"c10d": rdzv_port},
        mounts=parse_mounts(mounts or []),
    )
    return AppDef(name=run, roles=[role])


def spmd(
    *args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = DEFAULT_IMAGE,
    name: str = "/",
    h: str = "gpu.small",
    j: str = "1x1",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    debug: bool = False,
) -> AppDef:
    """Run the same program in many processes on hosts of one kind.

    `dist.ddp` for a named host: `-j 2 -h aws_p4d.24xlarge` is two nodes with one process for each
    of their GPUs. Nodes meet at port 29500 of the first one.

    Args:
        args: the program's arguments
        script: script to run
        m: module to run
        image: image to run in
        name: experiment/run; either part may be left out (the run is then named after the program)
        h: the named resource that each node is
        j: NODES x PROCESSES, or NODES alone for one process on each GPU of the host
        env: environment variables (A=1,B=2)
        max_retries: attempts after the first; all nodes start again together
        mounts: what to mount: type=bind,src=/host,dst=/job,readonly (or volume, device)
        debug: set the variables that make PyTorch say more
    """
    return ddp(
        *args,
        script=script,
        m=m,
        image=image,
        name=name,
        h=h,
        j=_with_processes(j, h),
        env=env,
        max_retries=max_retries,
        mounts=mounts,
        debug=debug,
    )


def parse_nodes(j: str) -> Nodes:
    """Read ``[[LEAST:]NODESx]PROCESSES``.

    Raises:
        ValueError: the text is not of that form, a number is 0, or there are fewer nodes than the
            least.

    >>> parse_nodes("1:2x8")
    Nodes(least=1, most=2, processes=8)
    """
    match = _NODES.fullmatch(j)
    if match is None:
        raise ValueError(
            f"-j takes processes (4), NODESxPROCESSES (2x4) or LEAST:NODESxPROCESSES (1:2x4), "
            f"not {j!r}"
        )
    most = int(match["most"] or 1)
    nodes = Nodes(int(match["least"] or most), most, int(match["processes"]))
    if 0 in nodes:
        raise ValueError(f"-j {j}: every number must be 1 or more")
    if nodes.least > nodes.most:
        raise ValueError(f"-j {j}: the least ({nodes.least}) is more than the nodes ({nodes.most})")
    return nodes


def _with_processes(j: str, h: str) -> str:
    """Add to a number of nodes the processes that fill the host's GPUs."""
    if not (j.isascii() and j.isdigit()):
        return j
    gpus = ask(None, None, None, h).gpu
    if not gpus:
        raise ValueError(
            f"-j {j} leaves the processes to the host's GPUs, and {h} has none; "
            f"write -j {j}xPROCESSES"
        )
    return f"{j}x{gpus}"


def _command(nodes: Nodes, backend: str, port: int, torchrun: list[str]) -> tuple[str, list[str]]:
    """Return entrypoint and arguments; a shell only where the address is in a variable."""
    if nodes.most == 1:
        # Port 0 is a free one, which the static backend cannot tell its processes.
        endpoint = f"localhost:{port if backend == 'static' else 0}"
        return "torchrun", [f"--rdzv_endpoint={endpoint}", *torchrun]
    # Schedulers name the variable; on AWS the first node itself does not have it.
    address = f'"$${{{macros.rank0_env}:-localhost}}:{port}"'
    script = f"exec torchrun --rdzv_endpoint={address} {shlex.join(torchrun)}"
    return "sh", ["-c", script]


def _environment(experiment: str, env: dict[str, str] | None, debug: bool) -> dict[str, str]:
    return {
        "LOGLEVEL": os.environ.get("LOGLEVEL", "WARNING"),
        **(_DEBUG_ENV if debug else {}),
        **(env or {}),
        "WHERRY_EXPERIMENT_NAME": experiment,
    }
