"""The folders of tasks: made as the task needs them, and removed without ever following a link.

A container's folder stands for the root of its image: a mount at ``/data`` is a link ``data`` in
it. Used inside the agent, where every import costs start-up time and nothing may take long.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wherry.emulator.engines.plan import ContainerPlan, MountPlan

_MODE = 0o700
_SLICE = 500
_TEMPORARY = "tmp"
_VOLUMES = ".volumes"


class Scratch:
    """The folder of one task.

    Args:
        path: where it is to be; its parent exists.
        is_shared: whether several containers live in it, each in a folder of its own.
    """

    __slots__ = ("_is_shared", "path")

    def __init__(self, path: str, *, is_shared: bool) -> None:
        self.path = path
        self._is_shared = is_shared

    def make(self) -> None:
        """Make the folder.

        Raises:
            OSError: it cannot be made.
        """
        os.mkdir(self.path, _MODE)

    def root_of(self, plan: ContainerPlan) -> str:
        """Make what one container needs; returns its folder.

        Raises:
            OSError: something in it cannot be made.
        """
        root = self.path
        if self._is_shared:
            root = f"{root}/{plan['name']}"
            os.mkdir(root, _MODE)
        for mount in plan["mounts"]:
            self._show(root, mount)
        try:
            os.mkdir(temporary(root), _MODE)
        except FileExistsError:
            pass  # A mount at /tmp.
        if plan["working_dir"]:
            os.makedirs(below(root, plan["working_dir"]), exist_ok=True)
        return root

    def _show(self, root: str, mount: MountPlan) -> None:
        source = mount["source"] or f"{self.path}/{_VOLUMES}/{mount['volume']}"
        os.makedirs(source, exist_ok=True)
        link = below(root, mount["target"])
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(source, link)

    def removal(self) -> Iterator[None]:
        """Remove it piece by piece: exhaust this to remove all."""
        try:
            os.rmdir(temporary(self.path))
            os.rmdir(self.path)
        except OSError:
            yield from remove_tree(self.path)


def temporary(root: str) -> str:
    """Return the folder for temporary files of the container whose folder this is."""
    return f"{root}/{_TEMPORARY}"


def below(root: str, target: str) -> str:
    """Return where a container's path is on this machine; it never leads out of the folder."""
    return root + os.path.normpath(f"/{target}").replace("//", "/")


def remove_tree(path: str) -> Iterator[None]:
    """Remove a folder and all in it as far as possible, some hundred entries at each step."""
    folders = [(path, False)]
    removed = 0
    while folders:
        folder, is_empty = folders.pop()
        if is_empty:
            _quietly(os.rmdir, folder)
            continue
        folders.append((folder, True))
        for name, is_folder in _entries(folder):
            if is_folder:
                folders.append((f"{folder}/{name}", False))
            else:
                _quietly(os.unlink, f"{folder}/{name}")
            removed += 1
            if removed % _SLICE == 0:
                yield


def _entries(folder: str) -> list[tuple[str, bool]]:
    try:
        # A program may have taken its own rights away.
        os.chmod(folder, _MODE)
        with os.scandir(folder) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []


def _quietly(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass
