"""Which GPUs this machine has for its apps."""

from __future__ import annotations

import os
from collections.abc import Mapping

_SECONDS = 15.0
VISIBLE = "CUDA_VISIBLE_DEVICES"


def gpu_pool(env: Mapping[str, str] = os.environ) -> tuple[list[str], str]:
    """List the GPUs that may be given out, by index or by id.

    An inherited ``CUDA_VISIBLE_DEVICES`` is respected: only what it lists is given out.

    Returns:
        The GPUs, and why there are none, in words.
    """
    inherited = env.get(VISIBLE)
    if inherited is not None:
        chosen = [name.strip() for name in inherited.split(",") if name.strip()]
        # CUDA stops reading at the first -1 (CUDA programming guide, "CUDA environment variables").
        if "-1" in chosen:
            chosen = chosen[: chosen.index("-1")]
        return chosen, f"{VISIBLE} is set to {inherited!r}"
    return _from_nvidia_smi()


def _from_nvidia_smi() -> tuple[list[str], str]:
    import subprocess

    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return [], "nvidia-smi is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi did not answer: {error}"
    if answer.returncode:
        return [], f"nvidia-smi failed: {(answer.stderr or answer.stdout).strip()}"
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()], "it lists none"
