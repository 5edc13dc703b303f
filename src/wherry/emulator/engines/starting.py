"""From a container's command to a program: where it is, and ECS's words when it is not there.

The words are those of Docker, which ECS hands on as they are. What never ran has no exit code: the
ECS agent records one only for a container that has started and finished, and clients of AWS Batch
see none (nextflow #5657: ``Command exit status: -``). A file that the kernel cannot execute, or
whose interpreter is missing, is found out only inside the started container: its log has one line,
its code is 255.

Facts: amazon-ecs-agent, ``docker_client.go`` (`MetadataFromContainer`); cromwell #4604, nextflow
#5657 (the text, and that it is cut after 255 characters).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.engines.plan import End
    from wherry.engine.spawn import StartError

_FACE = (
    "CannotStartContainerError: Error response from daemon: failed to create shim task: "
    "OCI runtime create failed: runc create failed: unable to start container process: "
)
_MOST = 255
BROKEN = 255
"""The code of a container whose program was found and could not be executed."""

_ENOENT, _EACCES = 2, 13


class CannotStart(Exception):  # noqa: N818 — said of a container, as ECS says it
    """A container cannot be started.

    Args:
        words: why, as the runtime says it.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.end: End = (None, f"{_FACE}{words}: unknown"[:_MOST])


def program_of(argv: list[str], path: str, cwd: str) -> str:
    """Return the file to execute.

    Args:
        argv: the command.
        path: the container's ``PATH``.
        cwd: the folder that relative names are meant from.

    Raises:
        CannotStart: there is no such program.
    """
    name = argv[0]
    if "/" in name:
        found = name if name.startswith("/") else f"{cwd}/{name}"
        if os.access(found, os.X_OK) and not os.path.isdir(found):
            return found
        if os.path.exists(found):
            what = "is a directory" if os.path.isdir(found) else "permission denied"
            raise CannotStart(f'exec: "{name}": {what}')
        raise CannotStart(f'exec: "{name}": stat {name}: no such file or directory')
    for folder in path.split(":"):
        found = f"{folder or cwd}/{name}"
        if os.access(found, os.X_OK) and not os.path.isdir(found):
            return found if found.startswith("/") else f"{cwd}/{found}"
    raise CannotStart(f'exec: "{name}": executable file not found in $PATH')


def of_error(error: StartError, name: str) -> End:
    """Return how a container ended that could not be started for another reason."""
    words = os.strerror(error.code).lower()
    if error.stage == "limit":
        words = f"error setting rlimit for ready process: {words}"
    elif error.stage == "exec" and error.code == _EACCES:
        return CannotStart(f'exec: "{name}": {words}').end
    elif error.stage == "fork":
        return CannotStart(f"fork: {words}").end
    return CannotStart(words).end


def is_broken(error: StartError) -> bool:
    """Tell whether the container had started before its program turned out to be no program."""
    return error.stage == "exec" and error.code != _EACCES


def broken_line(error: StartError, program: str) -> bytes:
    """Return the line that such a container leaves in its log."""
    words = os.strerror(error.code).lower()
    return f"exec {program}: {words}\n".encode(errors="surrogateescape")
