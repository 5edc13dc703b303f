"""What keeps a folder from being shipped by mistake: the disk, the home, one that is too large."""

from __future__ import annotations

import os
from collections.abc import Sequence

from wherry.errors import WorkspaceError, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.workspace.tree import Entry

DEFAULT = -1
"""Stands for the limit that is set elsewhere: ``WHERRY_WORKSPACE_LIMIT``, or `SIZE_LIMIT`."""

VARIABLE = "WHERRY_WORKSPACE_LIMIT"

SIZE_LIMIT = 512 << 20
ENTRY_LIMIT = 1_000_000
SHOWN = 5
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def check_root(folder: str) -> None:
    """Refuse a folder that nobody means to ship.

    Raises:
        WorkspaceError: it is not there, no folder, ``/``, or the home folder without an ignore
            file that says what of it goes along.
    """
    if not os.path.isdir(folder):
        raise WorkspaceError(not_a_folder(folder))
    if os.path.samefile(folder, "/"):
        raise WorkspaceError(
            f"the workspace {folder!r} is the root of all files; name the folder of your code."
        )
    own = os.path.expanduser("~")
    if not os.path.isdir(own) or not os.path.samefile(folder, own):
        return
    if any(
        os.path.isfile(os.path.join(folder, name)) for name in (".wherryignore", ".dockerignore")
    ):
        return
    raise WorkspaceError(
        f"the workspace {folder!r} is your home folder; name the folder of your code, or put a "
        ".wherryignore into it that says what stays there."
    )


def check_size(entries: Sequence[Entry], rules: Sequence[str], limit: int | None) -> None:
    """Refuse a tree that is larger than allowed, and name what makes it so.

    Args:
        entries: all of it.
        rules: the names of the ignore files that were read.
        limit: bytes; ``None`` for no limit.

    Raises:
        WorkspaceError: it is too large.
    """
    allowed = size_limit() if limit == DEFAULT else limit
    if allowed is None:
        return
    size = sum(entry.size for entry in entries)
    if size <= allowed:
        return
    lines = "".join(f"\n  {in_units(of):>9}  {path}" for path, of in offenders(entries))
    file = next((name for name in rules if name), ".wherryignore")
    raise WorkspaceError(
        f"the workspace has {in_units(size)}, and {in_units(allowed)} are allowed. The largest:"
        f"{lines}\nLeave out what the job does not need in {file}, or raise the limit: "
        f"{VARIABLE}={(size >> 20) + 1}MiB, or workspace_limit of [run] in wherry.toml."
    )


def size_limit() -> int | None:
    """Return the bytes that a workspace may have, from the environment or by default.

    Raises:
        WorkspaceError: the variable is no number of bytes.
    """
    given = os.environ.get(VARIABLE, "").strip()
    return read_limit(given, VARIABLE) if given else SIZE_LIMIT


def read_limit(text: str, source: str) -> int | None:
    """Read the bytes that a workspace may have; ``None`` for no limit.

    Args:
        text: such as ``2GiB``, ``800MiB``, or ``none``.
        source: where it stands, for the error.

    Raises:
        WorkspaceError: it is no number of bytes.

    >>> read_limit("2GiB", "x"), read_limit("none", "x")
    (2147483648, None)
    """
    given = text.strip()
    if given.lower() == "none":
        return None
    digits = given.rstrip("BKMGTiIbkmgt ")
    unit = given[len(digits) :].strip().upper().removesuffix("B").removesuffix("I")
    if not digits.isdecimal() or unit not in ("", "K", "M", "G", "T"):
        raise WorkspaceError(f"{source} is {text!r}; write bytes, such as 2GiB or 800MiB, or none.")
    return int(digits) << (10 * " KMGT".index(unit or " "))


def offenders(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return the folders and files with the most bytes, the largest first.

    A folder stands for what it holds, unless one thing in it has nearly all of it.
    """
    sizes: dict[str, int] = {}
    inner: dict[str, dict[str, None]] = {}
    for entry in entries:
        if not entry.size:
            continue
        path = entry.path
        sizes[path] = entry.size
        while path:
            above = path.rpartition("/")[0]
            inner.setdefault(above, {})[path] = None
            if above:
                sizes[above] = sizes.get(above, 0) + entry.size
            path = above
    found = []
    for path in inner.get("", ()):
        while path in inner:
            largest = max(inner[path], key=sizes.__getitem__)
            if sizes[largest] < 0.9 * sizes[path]:
                break
            path = largest
        found.append((path + "/" if path in inner else path, sizes[path]))
    return sorted(found, key=lambda pair: -pair[1])[:SHOWN]


def too_many(source: str) -> WorkspaceError:
    """Word the refusal of a folder with more entries than any code has."""
    return WorkspaceError(
        f"the workspace {source!r} has more than {ENTRY_LIMIT:,} files; name the folder of your "
        "code, or leave out the data in it in a .wherryignore."
    )


def in_units(size: int) -> str:
    """Write a number of bytes for people, such as ``1.5 GiB``."""
    value = float(size)
    for unit in UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {UNITS[-1]}"


def not_a_folder(folder: str) -> str:
    """Word the refusal of a workspace that is no folder, with the nearest one that there is."""
    if os.path.lexists(folder):
        return f"the workspace {folder!r} is not a folder; name the folder that it is in."
    above, name = os.path.split(folder.rstrip("/"))
    try:
        names = [found.name for found in os.scandir(above) if found.is_dir()]
    except OSError:
        return f"the workspace {folder!r} is not there, and neither is {above!r}."
    close = nearest(name, names)
    hint = f"; did you mean {os.path.join(above, close)!r}?" if close else "."
    return f"the workspace {folder!r} is not there{hint}"
