"""From Python values to the records that a job is given: pickled once, and copied nowhere.

A function goes by value where the job could not import it by name (``__main__``, notebooks, local
functions, modules that no path leads to), else by name. Large buffers, such as numpy's arrays,
stay where they are in memory until they are written to the store.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wherry.errors import PayloadError
from wherry.functions import culprits
from wherry.worker.formats import pack_index, record_parts

if TYPE_CHECKING:
    from types import ModuleType

    from wherry.store.api import Buffer, Store
    from wherry.worker.formats import Part

_PROTOCOL = 5
_WRAPPED_FROM = 1 << 20
_registering = threading.RLock()


@dataclass(frozen=True)
class Record:
    """One pickled value.

    Args:
        parts: the record's parts, in order.
        size: bytes.
    """

    parts: list[Buffer]
    size: int

    @property
    def pickled(self) -> Buffer:
        """The pickle itself, without the buffers beside it."""
        return self.parts[1]


class _Whole:
    """A large ``bytes`` or ``bytearray`` on its way: its bytes are not copied into the pickle."""

    def __init__(self, value: bytes | bytearray) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        import pickle

        return type(self._value), (pickle.PickleBuffer(self._value),)


def function_record(fn: Callable[..., Any], modules: Sequence[ModuleType | str] = ()) -> Record:
    """Pickle what is called.

    Args:
        fn: the callable.
        modules: modules that go along by value, as objects or by name.

    Raises:
        PayloadError: it cannot be pickled; the message says what in it, and what to do.
    """
    if not callable(fn):
        raise PayloadError(f"submit takes a function and its arguments; {fn!r} cannot be called")
    with by_value(fn, modules):
        return _record(fn, lambda error: culprits.of_function(fn, error))


def arguments_record(
    args: Sequence[Any], kwargs: Mapping[str, Any], room: int | None = None
) -> Record:
    """Pickle the arguments of one call.

    Args:
        args, kwargs: the arguments.
        room: bytes of memory that the pickle may take; not looked at when ``None``.

    Raises:
        PayloadError: one cannot be pickled, or there is no room for it; the message names it.
    """
    culprits.check_arguments(args, kwargs)
    _check_memory(args, kwargs, room)
    value = (tuple(map(_wrapped, args)), {name: _wrapped(arg) for name, arg in kwargs.items()})
    return _record(value, lambda error: culprits.of_arguments(args, kwargs, error))


def initializer_record(
    fn: Callable[..., Any], args: Sequence[Any], modules: Sequence[ModuleType | str] = ()
) -> Record:
    """Pickle what each process begins with.

    Raises:
        PayloadError: it cannot be pickled.
    """
    if not callable(fn):
        raise PayloadError(f"initializer is a function; {fn!r} cannot be called")
    culprits.check_arguments(args, {})

    def explained(error: Exception) -> PayloadError:
        told = culprits.of_arguments(args, {}, error) if culprits.any_refused(args) else None
        return PayloadError(f"initializer: {told or culprits.of_function(fn, error)}")

    with by_value(fn, modules):
        return _record((fn, tuple(args)), explained)


def items_record(items: Iterable[tuple[Any, ...]]) -> tuple[list[Buffer], int]:
    """Pickle the items of a map into one pack.

    Args:
        items: the arguments of each call.

    Returns:
        The pack's parts, and how many items it has.

    Raises:
        PayloadError: an item cannot be pickled; the message names it.
    """
    parts: list[Buffer] = []
    lengths = []
    for number, args in enumerate(items):
        culprits.check_arguments(args, {}, item=number)
        record = _record((args, {}), _telling_item(args, number))
        parts += record.parts
        lengths.append(record.size)
    return [pack_index(lengths), *parts], len(lengths)


def stored(store: Store, parts: Sequence[Buffer]) -> Part:
    """Store a record or a pack by its content, unless it is there; returns where it is.

    Raises:
        PayloadError: there is no room for it.
    """
    from wherry.store.blobs import put_blob

    check_disk(store.url, sum(memoryview(part).nbytes for part in parts))
    digest, size = put_blob(store, parts)
    return {"blob": digest, "size": size}


def check_disk(url: str, size: int, free: int | None = None) -> None:
    """Refuse what the store's disk has no room for, before anything is written.

    Args:
        url: the store's URL; only a folder's disk is looked at.
        size: bytes that are about to be written.
        free: bytes that there are; looked up when ``None``.

    Raises:
        PayloadError: it does not fit; the message names both sizes.
    """
    if size < _WRAPPED_FROM or not url.startswith("file://"):
        return
    room = _free_disk(url) if free is None else free
    if room is not None and size > room:
        raise PayloadError(
            f"the call needs {culprits.size_text(size)} in the store and {url} has "
            f"{culprits.size_text(room)} left; free some of its disk (`wherry prune`), use another "
            "store (store=…), or pass the name of a file instead of its content"
        )


def free_memory() -> int | None:
    """Return the bytes of memory that may be taken without swapping (proc(5), meminfo)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        return None
    return None


def _record(value: Any, explained: Callable[[Exception], PayloadError]) -> Record:
    buffers: list[Buffer] = []

    def keep(buffer: Any) -> None:
        buffers.append(buffer.raw())

    try:
        pickled = _dumps(value, keep)
    except MemoryError as error:
        raise PayloadError(f"there is too little memory to pickle the call: {error}") from error
    except Exception as error:
        raise explained(error) from error
    parts = record_parts(pickled, buffers)
    return Record(parts, sum(memoryview(part).nbytes for part in parts))


def _dumps(value: Any, keep: Callable[[Any], Any]) -> bytes:
    import pickle

    import cloudpickle  # type: ignore[import-untyped]

    if _plain(value):
        return pickle.dumps(value, _PROTOCOL)
    pickled: bytes = cloudpickle.dumps(value, protocol=_PROTOCOL, buffer_callback=keep)
    return pickled


_PLAIN = frozenset((int, float, str, bytes, bool, type(None)))


def _plain(value: Any) -> bool:
    """Tell arguments that are numbers and short texts, which need no cloudpickle."""
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not tuple:
        return False
    args, kwargs = value
    return type(kwargs) is dict and all(type(arg) in _PLAIN for arg in (*args, *kwargs.values()))


def _wrapped(value: Any) -> Any:
    large = type(value) in (bytes, bytearray) and len(value) >= _WRAPPED_FROM
    return _Whole(value) if large else value


def _telling_item(args: tuple[Any, ...], number: int) -> Callable[[Exception], PayloadError]:
    return lambda error: culprits.of_arguments(args, {}, error, item=number)


def _check_memory(args: Sequence[Any], kwargs: Mapping[str, Any], room: int | None) -> None:
    """Refuse arguments whose pickle is a copy that memory has no room for."""
    named = [*((f"argument {n + 1}", arg) for n, arg in enumerate(args))]
    named += [(f"argument {name!r}", arg) for name, arg in kwargs.items()]
    for name, arg in named:
        size = len(arg) if isinstance(arg, str) else 0
        if size < _WRAPPED_FROM:
            continue
        free = free_memory() if room is None else room
        if free is not None and size > free:
            raise PayloadError(
                f"{name} is a text of {culprits.size_text(size)} and {culprits.size_text(free)} "
                "of memory are free; pass a file's name, or bytes or an array, which are not copied"
            )


def _free_disk(url: str) -> int | None:
    import os
    from urllib.parse import unquote

    folder = unquote(url[len("file://") :])
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


@contextlib.contextmanager
def by_value(fn: Callable[..., Any], modules: Sequence[ModuleType | str]) -> Iterator[None]:
    """Let modules go along by value: those named, and the function's own if no path leads to it.

    Raises:
        PayloadError: one of them cannot be imported here.
    """
    import cloudpickle

    wanted = [_module(module) for module in modules]
    home = sys.modules.get(getattr(fn, "__module__", None) or "")
    if home is not None and not importable(home):
        wanted.append(home)
    if not wanted:
        yield
        return
    with _registering:
        added = []
        known = set(cloudpickle.list_registry_pickle_by_value())
        for module in wanted:
            if module.__name__ not in known:
                cloudpickle.register_pickle_by_value(module)
                added.append(module)
                known.add(module.__name__)
        try:
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def _module(module: ModuleType | str) -> ModuleType:
    import importlib

    if not isinstance(module, str):
        return module
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PayloadError(f"modules: {module!r} cannot be imported here: {error}") from error


def importable(module: ModuleType) -> bool:
    """Tell whether another process with the same ``sys.path`` would find this very module."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if name == "__main__" or name in sys.builtin_module_names:
        return name != "__main__"
    key = (name, file)
    found = _importable.get(key)
    if found is None:
        found = _importable[key] = _is_found(name, file)
    return found


_importable: dict[tuple[str, str | None], bool] = {}


def _is_found(name: str, file: str | None) -> bool:
    """Look the module up as an import would, from the top and without running anything."""
    import os
    from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

    path: Sequence[str] | None = None
    spec = None
    words = name.split(".")
    for count in range(1, len(words) + 1):
        part = ".".join(words[:count])
        spec = (
            BuiltinImporter.find_spec(part)
            or FrozenImporter.find_spec(part)
            or PathFinder.find_spec(part, path)
        )
        if spec is None:
            # Importers of a package's own (editable installs) are believed.
            return any(part == known for known in sys.modules) and _has_own_importer(words[0])
        path = list(spec.submodule_search_locations or ())
    if spec is None or file is None or spec.origin is None:
        return True
    return spec.origin == "frozen" or os.path.realpath(spec.origin) == os.path.realpath(file)


def _has_own_importer(top: str) -> bool:
    spec = getattr(sys.modules.get(top), "__spec__", None)
    loader = getattr(spec, "loader", None)
    return type(loader).__module__.partition(".")[0] not in (
        "_frozen_importlib_external",
        "_frozen_importlib",
        "importlib",
        "_pytest",
        "NoneType",
        "builtins",
    )
