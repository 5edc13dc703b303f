"""What the Engine's words for a container's state mean, and what Docker makes of an app."""

from __future__ import annotations

from wherry.specs.states import AppState

CREATED, RUNNING, PAUSED, RESTARTING, REMOVING, EXITED, DEAD = (
    "created",
    "running",
    "paused",
    "restarting",
    "removing",
    "exited",
    "dead",
)

STATES = {
    CREATED: AppState.PENDING,
    RUNNING: AppState.RUNNING,
    PAUSED: AppState.RUNNING,
    RESTARTING: AppState.RUNNING,
    REMOVING: AppState.RUNNING,
    DEAD: AppState.FAILED,
}
"""A container's state → an attempt's. Of one that has exited, the code decides."""

# Podman's words that Docker does not have.
STATES |= {
    "configured": AppState.PENDING,
    "initialized": AppState.PENDING,
    "stopping": AppState.RUNNING,
}


def attempt_state(word: str, exit_code: int | None) -> AppState:
    """Return the state of the attempt that a container is.

    Args:
        word: the Engine's word for the container's state.
        exit_code: of its program.
    """
    if word in (EXITED, "stopped"):
        return AppState.SUCCEEDED if exit_code == 0 else AppState.FAILED
    return STATES.get(word, AppState.UNKNOWN)


ENFORCED, IGNORED = "enforced", "ignored"

HONOURED = {
    "image": "enforced; pulled when it is missing (option `pull`)",
    "entrypoint, args": "enforced: the command; the image's own ENTRYPOINT stays before it",
    "env, macros": "enforced; `${img_root}` is empty",
    "num_replicas, min_replicas": ENFORCED,
    "array": "enforced: replicas wait for the machine's cores",
    "max_retries, retry_policy": "enforced: each attempt is a new container; timeouts are not "
    "retried",
    "timeout": "enforced: the image's stop signal, the grace, SIGKILL",
    "depends_on": "enforced for apps of this machine; others are refused",
    "resource.cpu": "enforced: no more time than that of so many cores",
    "resource.gpu": "enforced: that many GPUs, the same ones for each replica; option `gpus` for "
    "certain ones",
    "resource.memMB": "enforced: a limit, without swap; also the size of /dev/shm",
    "resource.devices": "enforced for EFA and Neuron; of a named resource, those that are there",
    "mounts": "enforced: bind, volume, device",
    "port_map": "enforced: published on 127.0.0.1 (option `bind`)",
    "secrets": "enforced: env:NAME and file:PATH; others are refused",
    "ulimits": ENFORCED,
    "metadata": IGNORED,
}
"""Part of an app → how far `DockerScheduler` keeps to it. The documentation shows this table."""
