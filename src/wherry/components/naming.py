"""Names for apps and roles, made of what a user calls the program."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

DEFAULT_EXPERIMENT = "default-experiment"

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 128


class RunName(NamedTuple):
    """A run, and the experiment that it belongs to."""

    experiment: str
    run: str


def safe_name(text: str, fallback: str) -> str:
    """Turn text into a name that an app or a role may have.

    >>> safe_name("my train (2)", "app")
    'my-train-2'
    """
    name = _NOT_IN_NAMES.sub("-", text).lstrip("-_.")[:_LONGEST].rstrip("-")
    return name or fallback


def program_name(script: str | None, m: str | None, fallback: str) -> str:
    """Name a program after its script, without folder and extension, or its module's last part."""
    if script:
        return safe_name(os.path.splitext(os.path.basename(script))[0], fallback)
    return safe_name((m or "").rpartition(".")[2], fallback)


def run_name(name: str, program: str) -> RunName:
    """Read ``experiment/run``, ``experiment/``, ``/run`` or ``run``.

    Args:
        name: as the user wrote it; either part may be empty.
        program: the run's name when it has none.

    >>> run_name("mnist/", "train")
    RunName(experiment='mnist', run='train')
    """
    experiment, slash, run = name.partition("/")
    if not slash:
        experiment, run = "", name
    return RunName(experiment or DEFAULT_EXPERIMENT, safe_name(run, program))
