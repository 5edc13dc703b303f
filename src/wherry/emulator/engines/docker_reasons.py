"""What the Engine refuses, in the words of ECS's agent.

The agent names the step that failed and puts Docker's own text behind it:
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
"""

from __future__ import annotations

PULL = "CannotPullContainerError"
CREATE = "CannotCreateContainerError"
START = "CannotStartContainerError"
TIMEOUT = "DockerTimeoutError"
STATE = "DockerStateError"

_STEPS = {PULL: "pulled", CREATE: "created", START: "started"}


def reason(step: str, error: Exception) -> str:
    """Word the reason for a container that did not come to run.

    Args:
        step: `PULL`, `CREATE` or `START`.
        error: what the `docker` package raised.

    Returns:
        Such as ``CannotStartContainerError: Error response from daemon: …``.
    """
    if _is_timeout(error):
        return f"{TIMEOUT}: Could not transition to {_STEPS[step]}; timed out"
    return f"{step}: {explanation(error)}"


def explanation(error: Exception) -> str:
    """Return Docker's own text, as its command line and ECS's agent show it."""
    said = getattr(error, "explanation", None)
    if said:
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return f"Error response from daemon: {text.strip()}"
    return f"Error response from daemon: {error}"


def _is_timeout(error: Exception) -> bool:
    return any("Timeout" in kind.__name__ for kind in type(error).__mro__)
