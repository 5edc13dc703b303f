"""What an exit code, or the signal that ended a program, usually means, and what to do then.

A table and a few lines. It knows shells' conventions (POSIX, "Exit Status for Commands"; Docker's
``docker run``), not where the program ran.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

_SIGNALS_FROM = 128
_MORE_MEMORY = "Ask for more memory, or let the program use less."


@dataclass(frozen=True)
class Exit:
    """The meaning of an exit code.

    Args:
        code: its name for programs.
        means: completes "The program …".
        resolution: what to do.
    """

    code: str
    means: str
    resolution: str = ""


READ_THE_LOG = "Read the end of the log; the program's own message is there."
"""What there is to do where only the program knows more."""

CODES: Mapping[int, Exit] = {
    0: Exit("succeeded", "ended well"),
    1: Exit("program-failed", "reported a failure of its own", READ_THE_LOG),
    2: Exit(
        "bad-usage",
        "did not accept its arguments, or a shell did not understand a command",
        "Check the command's words, and the quoting where a shell reads them.",
    ),
    125: Exit("runtime-failed", "was not run: the container runtime failed first"),
    126: Exit(
        "not-executable",
        "was found but could not be executed",
        "Make the file executable (chmod +x), give it a first line such as #!/bin/sh, and check "
        "that it was built for the architecture of the machine.",
    ),
    127: Exit(
        "not-found",
        "was not found: there is no such command, or not on the PATH",
        "Check the command's first word, and that the image or environment has it; an image "
        "without a shell has no sh either.",
    ),
    128: Exit("bad-exit", "ended with an exit code that it should not use", READ_THE_LOG),
    255: Exit(
        "out-of-range",
        "ended with -1 or another code outside 0 to 255; ssh and some runtimes use it for failures",
        READ_THE_LOG,
    ),
}
"""Exit codes that are not signals."""

SIGNALS: Mapping[str, Exit] = {
    "SIGHUP": Exit("hung-up", "was ended by SIGHUP: its terminal or parent went away"),
    "SIGINT": Exit("interrupted", "was interrupted (SIGINT), as with Ctrl-C"),
    "SIGQUIT": Exit("quit", "was ended by SIGQUIT"),
    "SIGILL": Exit(
        "illegal-instruction",
        "used an instruction that the processor does not have (SIGILL)",
        "Use a build for an older processor, or machines that have what the build needs "
        "(AVX-512, say).",
    ),
    "SIGABRT": Exit(
        "aborted",
        "aborted itself (SIGABRT): a failed assertion, an uncaught C++ exception, or a library "
        "that gave up",
        READ_THE_LOG,
    ),
    "SIGBUS": Exit(
        "bus-error",
        "was ended by SIGBUS: often a full /dev/shm, or a file that shrank while it was mapped",
        "Ask for more shared memory; PyTorch's data loaders need it.",
    ),
    "SIGFPE": Exit("arithmetic", "divided by zero or overflowed (SIGFPE)", READ_THE_LOG),
    "SIGKILL": Exit(
        "killed",
        "was killed (SIGKILL): most often because it used more memory than it may, else because "
        "it did not end in time when it was asked to",
        _MORE_MEMORY,
    ),
    "SIGSEGV": Exit(
        "segmentation-fault",
        "accessed memory that is not its own (SIGSEGV)",
        "Look for a native library that does not fit the others; PYTHONFAULTHANDLER=1 shows where "
        "a Python program was.",
    ),
    "SIGPIPE": Exit("broken-pipe", "wrote to a pipe that nobody reads (SIGPIPE)"),
    "SIGALRM": Exit("alarm", "ran into an alarm that it had set itself (SIGALRM)"),
    "SIGTERM": Exit(
        "asked-to-end",
        "was asked to end (SIGTERM): a timeout, a cancellation, or a machine that went away",
    ),
    "SIGXCPU": Exit("cpu-limit", "used more processor time than its limit (SIGXCPU)"),
}
"""Signals by name."""


def signal_of(exit_code: int) -> str | None:
    """Name the signal that an exit code above 128 stands for.

    >>> signal_of(137), signal_of(1)
    ('SIGKILL', None)
    """
    try:
        return signal.Signals(exit_code - _SIGNALS_FROM).name if exit_code > _SIGNALS_FROM else None
    except ValueError:
        return None


def meaning(exit_code: int | None, signal_name: str | None = None) -> Exit | None:
    """Return what a program's end means.

    Args:
        exit_code: the program's; ``None`` where there is none.
        signal_name: the signal, where it is known apart from the code.

    Returns:
        The meaning, or ``None`` when there is neither a code nor a signal.
    """
    name = signal_name or (None if exit_code is None else signal_of(exit_code))
    if name is not None:
        return SIGNALS.get(name) or Exit("signal", f"was ended by {name}")
    if exit_code is None:
        return None
    return CODES.get(exit_code) or Exit(
        "program-failed", f"ended with {exit_code}, a code whose meaning is its own", READ_THE_LOG
    )
