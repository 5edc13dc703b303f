"""What the last lines of a log tell about why a program ended.

A table of patterns, most telling first, and one function. It knows no scheduler; the words are
those of kernels, shells, Python, CUDA and AWS's own clients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hint:
    """What a line tells.

    Args:
        code: its name for programs.
        summary: what is the matter, in one sentence; ``{0}`` stands for what the pattern caught.
        resolution: what to do; the same.
        line: the line that told it.
    """

    code: str
    summary: str
    resolution: str = ""
    line: str = ""


_UNREACHABLE = (
    "Could not resolve host|Name or service not known|failure in name resolution|"
    "Connection timed out|Network is unreachable"
)

_TABLE: tuple[tuple[str, Hint], ...] = (
    (
        r"exec format error",
        Hint(
            "wrong-architecture",
            "The program was built for another processor architecture than the machine's.",
            "Build the image for the machine's architecture (docker build --platform "
            "linux/amd64 or linux/arm64), or run it where that architecture is. A script "
            "without a first line such as #!/bin/sh says the same.",
        ),
    ),
    (
        r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation",
        Hint(
            "gpu-memory",
            "The GPU's own memory was not enough.",
            "Use a smaller batch, or a GPU with more memory.",
        ),
    ),
    (
        r"no NVIDIA driver|CUDA driver version is insufficient|no CUDA-capable device",
        Hint(
            "no-gpu-inside",
            "The program found no GPU, or no driver for it.",
            "Ask for a GPU, and use an image whose CUDA version the machine's driver knows.",
        ),
    ),
    (
        r"No space left on device",
        Hint(
            "disk-full",
            "The disk was full.",
            "Write less, give the machine a larger disk (launch template; ephemeralStorage on "
            "Fargate), or mount a volume.",
        ),
    ),
    (
        r"Unable to locate credentials|NoCredentialsError|Could not load credentials",
        Hint(
            "no-credentials-inside",
            "The program found no AWS credentials.",
            "Give the job a role (job_role_arn), whose trust policy lets ecs-tasks.amazonaws.com "
            "assume it.",
        ),
    ),
    (
        r"(?:is not authorized to perform|AccessDenied|Access Denied)(?::? ?([a-z0-9-]+:\w+))?",
        Hint(
            "not-permitted-inside",
            "The program was not permitted to do something in AWS.",
            "Allow it in the policies of the job's role (job_role_arn).",
        ),
    ),
    (
        r"(?:ModuleNotFoundError|ImportError): (.+)",
        Hint(
            "missing-module",
            "A Python module is missing: {0}.",
            "Install it in the image or environment that the program runs in.",
        ),
    ),
    (
        r"bus error|DataLoader worker .* is killed by signal: Bus error",
        Hint(
            "shared-memory",
            "The shared memory (/dev/shm) was full.",
            "Ask for more shared memory, or use fewer workers of the data loader.",
        ),
    ),
    (
        r"(?:\bsh|bash|exec): (?:line )?\d*:? ?(.+?): (?:command )?not found",
        Hint(
            "not-found",
            "A command is missing: {0}.",
            "Install it in the image or environment that the program runs in, or correct its name.",
        ),
    ),
    (
        _UNREACHABLE,
        Hint(
            "no-network",
            "The program could not reach something over the network.",
            "Check the subnet's route (NAT gateway or public address), the security group's "
            "outbound rules, and the name.",
        ),
    ),
    (
        r"^MemoryError\b|std::bad_alloc|Cannot allocate memory|java\.lang\.OutOfMemoryError",
        Hint(
            "out-of-memory",
            "The program could not get the memory that it wanted.",
            "Ask for more memory, or let the program use less.",
        ),
    ),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), hint) for pattern, hint in _TABLE)
_EXCEPTION = re.compile(r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::|\Z)")
_RAISED = Hint("exception", "The program raised {0}.")
_LONGEST = 160


def read(lines: Sequence[str]) -> Hint | None:
    """Return what the last lines of a log tell, or ``None`` when they tell nothing known.

    The most telling pattern wins, and of its lines the last one.

    >>> read(["Traceback (most recent call last):", "ValueError: no such thing"]).summary
    'The program raised ValueError: no such thing.'
    """
    for pattern, hint in _PATTERNS:
        for line in reversed(lines):
            found = pattern.search(line)
            if found:
                return _filled(hint, line, found.group(1) if pattern.groups else "")
    for line in reversed(lines):
        if _EXCEPTION.match(line.strip()):
            return _filled(_RAISED, line, line)
    return None


def _filled(hint: Hint, line: str, caught: str | None) -> Hint:
    text = (caught or "").strip().rstrip(".")
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return Hint(hint.code, hint.summary.replace("{0}", shown), hint.resolution, line.strip())
