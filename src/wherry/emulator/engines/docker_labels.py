"""The labels by which an emulator finds again what it made in the Engine."""

from __future__ import annotations

EMULATOR = "org.wherry.emulator"
"""Value: the emulator's name. On everything: containers, networks, volumes."""

LIFE = "org.wherry.emulator.life"
"""Value: differs each time that an emulator of the same name starts."""

TASK = "org.wherry.emulator.task"
"""Value: the task's id."""

CONTAINER = "org.wherry.emulator.container"
"""Value: the container's name within its task."""


def label_filter(label: str, value: str) -> dict[str, list[str]]:
    """Return a filter for the Engine's lists that lets one label's value through."""
    return {"label": [f"{label}={value}"]}
