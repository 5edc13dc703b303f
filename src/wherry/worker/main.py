"""The worker's command line.

call [URL]                                   run the call, or the one that $WHERRY_CALL names
unpack URL TARGET -- PROGRAM [ARGUMENT …]    lay a workspace, and become the program in it
"""

from __future__ import annotations

import os
import sys

from .formats import CALL_ENV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_USAGE = 2
EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126


def main(argv: Sequence[str]) -> int:
    """Run a command; return the exit code."""
    verb, *words = [*argv, ""][: len(argv) or 1]
    if verb == "call" and len(words) <= 1:
        return _call(words[0] if words else os.environ.get(CALL_ENV, ""))
    if verb == "unpack" and len(words) >= 4 and words[2] == "--":
        return _unpack(words[0], words[1], words[3:])
    sys.stderr.write(f"wherry: not a command of the worker: {' '.join(argv)!r}\n{__doc__}\n")
    return EXIT_USAGE


def _call(url: str) -> int:
    from . import context, running

    try:
        running.split_url(url)
    except ValueError as error:
        sys.stderr.write(f"wherry: {error}\n")
        return EXIT_USAGE
    # Modules of the working directory are found, but never in the place of Python's own.
    sys.path.append("")
    return running.run_call(
        url, child=context.child_number(os.environ), attempt=context.attempt_number(os.environ)
    )


def _unpack(url: str, target: str, command: list[str]) -> int:
    from . import unpack
    from .faults import Fault
    from .objects import Objects

    root, found, rest = url.rpartition("/blobs/")
    digest = rest.rpartition("/")[2]
    if not found:
        sys.stderr.write(f"wherry: {url!r} is not the URL of a manifest: STORE/blobs/…\n")
        return EXIT_USAGE
    objects = Objects(root)
    try:
        manifest = bytes(objects.read_blob({"blob": digest}))
        unpack.unpack(manifest, lambda blob: bytes(objects.read_blob({"blob": blob})), target)
        os.chdir(target)
    except (Fault, OSError, ValueError) as error:
        sys.stderr.write(f"wherry: the workspace could not be laid in {target}: {error}\n")
        return 1
    return _become(command)


def _become(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        sys.stderr.write(f"wherry: {command[0]}: not found\n")
        return EXIT_NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"wherry: {command[0]}: {error.strerror}\n")
        return EXIT_NOT_EXECUTABLE
