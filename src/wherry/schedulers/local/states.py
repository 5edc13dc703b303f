"""What each part of an app definition means on this machine."""

from __future__ import annotations

ENFORCED, ADVISORY, IGNORED = "enforced", "advisory", "ignored"

HONOURED = {
    "image": "local_dir: the directory to run in; local_cwd: ignored",
    "entrypoint, args, env, macros": ENFORCED,
    "num_replicas, min_replicas": ENFORCED,
    "array": "enforced: replicas wait for the machine's cores and GPUs",
    "max_retries, retry_policy": "enforced; timeouts are not retried",
    "timeout": "enforced: SIGTERM, the grace, SIGKILL",
    "depends_on": "enforced for apps of this machine; others are refused",
    "resource.cpu": "arrays: counted when they are admitted; otherwise advisory",
    "resource.gpu": "enforced with auto_set_cuda_visible_devices; otherwise advisory",
    "resource.memMB": ADVISORY,
    "resource.devices": "ignored, with a warning",
    "mounts": "ignored, with a warning",
    "port_map": "ignored: replicas share the machine's network",
    "secrets": "enforced: env:NAME and file:PATH; others are refused",
    "ulimits": ENFORCED,
    "metadata": IGNORED,
}
"""Part of an app → how far `LocalScheduler` keeps to it. The documentation shows this table."""
