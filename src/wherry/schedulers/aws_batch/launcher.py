"""The few lines of shell that tell a replica, inside its container, who it is.

AWS Batch gives every child of an array and every node of a gang the same command and environment;
only inside is it known which one it is. The command is therefore wrapped in

    /bin/sh -c '<SCRIPT>' wherry MARKER EMPTY [NAME …] -- PROGRAM [ARGUMENT …]

The script is constant; the user's words are words of the command, and nothing is quoted into a
script. It sets ``WHERRY_REPLICA_ID``, ``WHERRY_ATTEMPT`` and ``WHERRY_RANK0_HOST`` from AWS's own
variables, puts the replica's number where MARKER stands in the words and in the variables NAME,
makes what is exactly EMPTY an empty text (AWS refuses empty words, and drops variables with an
empty value: boto/boto3#3612, hashicorp/terraform-provider-aws#29820), and becomes the program with
``exec``: signals and the exit code are the program's.

It is POSIX shell without external commands; dash, busybox and bash run it. MARKER and EMPTY are
chosen so that they occur nowhere else in what the user wrote.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wherry.errors import InvalidSpecError
from wherry.specs.substitution import substitute

HOLE = "\0"
"""Stands for the replica's number until a marker is chosen; no word may have it."""

INDEX_OFFSET_ENV = "WHERRY_INDEX_OFFSET"
RANK0_ENV = "WHERRY_RANK0_HOST"
NATIVE_RANK0_ENV = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"

SHELL = "/bin/sh"
NAME = "wherry"

SCRIPT = """\
_wm=$1;_we=$2;shift 2
WHERRY_REPLICA_ID=$((${AWS_BATCH_JOB_ARRAY_INDEX:-${AWS_BATCH_JOB_NODE_INDEX:-0}}\
+${WHERRY_INDEX_OFFSET:-0}))
WHERRY_ATTEMPT=${AWS_BATCH_JOB_ATTEMPT:-1}
WHERRY_RANK0_HOST=${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-localhost}
export WHERRY_REPLICA_ID WHERRY_ATTEMPT WHERRY_RANK0_HOST
_w(){ _wv=;[ "$_ws" = "$_we" ]&&_ws=
while :;do case $_ws in *"$_wm"*)_wv=$_wv${_ws%%"$_wm"*}$WHERRY_REPLICA_ID;_ws=${_ws#*"$_wm"};;\
*)break;;esac;done;_wv=$_wv$_ws;}
while [ "$1" != -- ];do eval "_ws=\\$$1";_w;eval "$1=\\$_wv";shift;done;shift
_wn=$#;while [ $_wn -gt 0 ];do _ws=$1;shift;_w;set -- "$@" "$_wv";_wn=$((_wn-1));done
exec "$@"
"""

_MARKER = "${replica_id}"
_EMPTY = "''"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN_NAMES = frozenset(("_wm", "_we", "_ws", "_wv", "_wn"))
# What a shell sets itself, whatever it was given.
_SHELL_NAMES = (
    *("IFS", "PPID", "PWD", "OLDPWD", "OPTIND", "OPTERR", "SHLVL", "LINENO", "RANDOM", "SECONDS"),
    *("UID", "EUID", "_", "BASHOPTS", "SHELLOPTS", "EPOCHSECONDS", "PS1", "PS2", "PS4"),
)


@dataclass(frozen=True)
class Launch:
    """A command and an environment.

    Args:
        words: the program and its arguments; `HOLE` stands for the replica's number.
        env: variables; the same in their values.
    """

    words: Sequence[str]
    env: Mapping[str, str]

    @property
    def has_holes(self) -> bool:
        """Whether the replica's number is wanted somewhere."""
        return any(HOLE in text for text in _texts(self))

    @property
    def has_empties(self) -> bool:
        """Whether there is a word or value that AWS would refuse or drop."""
        return "" in _texts(self)

    def filled(self, replica_id: str) -> Launch:
        """Return it with the replica's number in its place."""
        return Launch(
            [word.replace(HOLE, replica_id) for word in self.words],
            {name: value.replace(HOLE, replica_id) for name, value in self.env.items()},
        )


def wrapped(launch: Launch, shell: str = SHELL) -> Launch:
    """Wrap a command in the script.

    Args:
        launch: what to run.
        shell: the shell's path in the container.

    >>> list(wrapped(Launch(["echo", HOLE], {})).words[3:])
    ['wherry', '${replica_id}', "''", '--', 'echo', '${replica_id}']
    """
    marker = _marker(launch)
    marked = launch.filled(marker)
    empty = _empty(marked)
    names = [name for name, value in launch.env.items() if HOLE in value or not value]
    words = [shell, "-c", SCRIPT, NAME, marker, empty, *names, "--"]
    return Launch(
        [*words, *(word or empty for word in marked.words)],
        {name: value or empty for name, value in marked.env.items()},
    )


def unwrapped(command: Sequence[str], env: Mapping[str, str]) -> Launch:
    """Return what was wrapped, with macros where the replica's number goes; the reverse of it.

    A command that was not wrapped, and other people's, come back as they are.
    """
    if len(command) < 8 or tuple(command[1:4]) != ("-c", command[2], NAME):
        return Launch(list(command), dict(env))
    marker, empty, *rest = command[4:]
    if "--" not in rest:
        return Launch(list(command), dict(env))
    end = rest.index("--")
    names = set(rest[:end])

    def as_written(text: str) -> str:
        return "" if text == empty else _as_written(text.split(marker))

    return Launch(
        [as_written(word) for word in rest[end + 1 :]],
        {
            name: as_written(value) if name in names else _as_written([value])
            for name, value in env.items()
        },
    )


def check_names(where: str, names: Iterable[str]) -> None:
    """Refuse variables that would not come through a shell as they are.

    Raises:
        InvalidSpecError: a name that a shell drops, or one that it sets itself.
    """
    for name in names:
        if not _IDENTIFIER.match(name):
            why = "a shell passes on only names of letters, digits and '_'"
        elif name in _SHELL_NAMES or name in _OWN_NAMES:
            why = "a shell sets it itself"
        else:
            continue
        raise InvalidSpecError(
            f"{where}: the variable {name!r} would not reach the program, as {why}; "
            "rename it, or use -cfg launcher=none, which sets no WHERRY_REPLICA_ID"
        )


def _marker(launch: Launch) -> str:
    """Return a text for the holes that can be told from all that the user wrote."""
    texts = _texts(launch)
    candidates = (f"${{replica_id{mark}}}" for mark in _marks())
    return next(marker for marker in candidates if all(_is_told(marker, text) for text in texts))


def _is_told(marker: str, text: str) -> bool:
    return text.replace(HOLE, marker).split(marker) == text.split(HOLE)


def _empty(launch: Launch) -> str:
    texts = set(_texts(launch))
    return next(empty for mark in _marks() if (empty := _EMPTY + mark) not in texts)


def _marks() -> Iterator[str]:
    yield ""
    yield from map(str, itertools.count(1))


def _texts(launch: Launch) -> list[str]:
    return [*launch.words, *launch.env.values()]


def _as_written(pieces: Sequence[str]) -> str:
    """Return text that gives the pieces, and the replica's number between them."""
    plain = _MARKER.join(pieces)
    if substitute(plain, _HOLES) == HOLE.join(pieces):
        return plain
    return _MARKER.join(piece.replace("$", "$$") for piece in pieces)


_HOLES = {"img_root": "", "app_id": "", "rank0_env": "", "replica_id": HOLE}
