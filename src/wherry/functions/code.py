"""The user's own modules: which a call needs, and how they get to where it runs.

On this machine modules are imported where they are. Elsewhere the folders that hold them go along
as an archive, by their ignore rules; only folders that the call's function needs.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wherry.errors import UsageError
from wherry.functions import payload

if TYPE_CHECKING:
    from wherry.functions.executor import Executor
    from wherry.functions.options import Options
    from wherry.worker.formats import Call

AUTO = "auto"
TARGET = ".wherry-code"
_SEARCHED = 4 << 20


def add_code(
    call: Call, executor: Executor, fn: Any, pickles: Sequence[Any], options: Options
) -> None:
    """Add to a call document the folders of code that it needs.

    Args:
        call: the document.
        executor: where it runs.
        fn: the function.
        pickles: the pickles whose modules it needs; very large ones are not searched.
        options: says which code goes along.

    Raises:
        UsageError: ``code`` is neither "auto", ``None``, a folder, nor modules.
        WorkspaceError: a folder cannot be shipped as it is.
    """
    code = options.code
    if code is None or isinstance(code, (list, tuple)):
        return
    if not isinstance(code, (str, os.PathLike)):
        raise UsageError(f'code is "auto", None, a folder, or a list of modules, not {code!r}')
    if code == AUTO:
        folders = [] if executor.in_place else sorted(set(_own_folders(fn, pickles)))
    else:
        folders = [os.path.abspath(os.fspath(code))]
    if not folders:
        return
    if executor.in_place:
        call["syspath"] = [*folders, *call.get("syspath", [])]
        return
    trees = []
    for number, folder in enumerate(folders):
        target = f"{TARGET}/{number}"
        trees.append({"manifest": _shipped(folder, executor), "target": target})
    call["code"] = trees  # type: ignore[typeddict-item]  # a tree, as `formats.Tree` has it
    call["syspath"] = [tree["target"] for tree in trees] + call.get("syspath", [])


def _shipped(folder: str, executor: Executor) -> str:
    from wherry.workspace.archive import pack, upload
    from wherry.workspace.tree import scan

    archive = pack(scan(folder))
    upload(archive, executor.store)
    return archive.digest


def _own_folders(fn: Any, pickles: Sequence[Any]) -> Iterator[str]:
    """Give the folders of ``sys.path`` that hold modules of the user's which a call names."""
    named: set[str] = set()
    for pickled in pickles:
        if memoryview(pickled).nbytes <= _SEARCHED:
            named.update(_words(bytes(pickled)))
    named.add(getattr(fn, "__module__", None) or "")
    seen: set[str] = set()
    while named:
        name = named.pop()
        seen.add(name)
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or file is None or not _is_own(file) or not payload.importable(module):
            continue
        named.update(_used_by(module) - seen)
        folder = os.path.dirname(os.path.abspath(file))
        up = name.count(".") + (os.path.basename(file).startswith("__init__."))
        for _ in range(up):
            folder = os.path.dirname(folder)
        yield folder


def _used_by(module: ModuleType) -> set[str]:
    """Return the modules that a module has imported, or imported something from."""
    used = set()
    for value in list(vars(module).values()):
        name = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
        if isinstance(name, str):
            used.add(name)
    return used


def _words(pickled: bytes) -> Iterator[str]:
    """Give the short texts in a pickle, among which are the modules that it names."""
    import pickletools

    for opcode, value, _ in pickletools.genops(pickled):
        if isinstance(value, str) and opcode.name.endswith(("UNICODE", "UNICODE8")):
            yield value
        elif opcode.name == "GLOBAL" and isinstance(value, str):
            yield value.partition(" ")[0]


def _is_own(file: str) -> bool:
    path = os.path.abspath(file)
    if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
        return False
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    others = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), own]
    others += [*site.getsitepackages(), site.getusersitepackages()]
    return not any(path.startswith(f"{folder}{os.sep}") for folder in others)
