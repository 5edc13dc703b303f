"""Host paths, volumes and devices that a replica sees, and the text form of each.

The text form is Docker's ``--mount`` one, flattened: a list of ``key=value`` words in which
each ``type=`` begins the next mount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wherry.errors import InvalidSpecError, unknown

DEVICE_PERMISSIONS = frozenset("rwm")


@dataclass(frozen=True)
class BindMount:
    """A path of the host, seen inside the replica.

    Args:
        src_path: the path on the host.
        dst_path: the path inside.
        read_only: whether writing is refused.
    """

    src_path: str
    dst_path: str
    read_only: bool = False

    def __post_init__(self) -> None:
        _require_paths(self, "src_path", "dst_path")
        _require_flag(self, "read_only")


@dataclass(frozen=True)
class VolumeMount:
    """A named volume (Docker) or file system (EFS), seen inside the replica.

    Args:
        src: the volume's name or the file system's id.
        dst_path: the path inside.
        read_only: whether writing is refused.
    """

    src: str
    dst_path: str
    read_only: bool = False

    def __post_init__(self) -> None:
        _require_paths(self, "src", "dst_path")
        _require_flag(self, "read_only")


@dataclass(frozen=True)
class DeviceMount:
    """A device of the host, handed to the replica.

    Args:
        src_path: the device on the host, such as ``/dev/infiniband/uverbs0``.
        dst_path: its path inside; the same path when left empty.
        permissions: any of ``r`` (read), ``w`` (write) and ``m`` (make nodes).
    """

    src_path: str
    dst_path: str = ""
    permissions: str = "rwm"

    def __post_init__(self) -> None:
        _require_paths(self, "src_path")
        if self.dst_path == "":
            object.__setattr__(self, "dst_path", self.src_path)
        _require_paths(self, "dst_path")
        if not _is_permissions(self.permissions):
            raise InvalidSpecError(
                f"device permissions must be letters of 'rwm', each once, not {self.permissions!r}"
            )


Mount = BindMount | VolumeMount | DeviceMount

# What a word may be called, and the option that it sets.
_ALIASES = {
    "type": "type",
    "src": "src",
    "source": "src",
    "dst": "dst",
    "destination": "dst",
    "target": "dst",
    "readonly": "readonly",
    "ro": "readonly",
    "perm": "perm",
}
_ALLOWED = {
    "bind": {"type", "src", "dst", "readonly"},
    "volume": {"type", "src", "dst", "readonly"},
    "device": {"type", "src", "dst", "perm"},
}
_REQUIRED = {"bind": ("src", "dst"), "volume": ("src", "dst"), "device": ("src",)}
_BOOLEANS = {"": True, "true": True, "1": True, "false": False, "0": False}


def parse_mounts(opts: Iterable[str]) -> list[Mount]:
    """Read mounts from their words.

    Args:
        opts: words such as ``["type=bind", "src=/data", "dst=/data", "readonly"]``; a word may
            hold several, separated by commas, and one such text may stand for the list. Each
            ``type=`` begins the next mount.

    Returns:
        The mounts, in the order given.

    Raises:
        InvalidSpecError: an unknown key or type, a missing or repeated key, a bad value.

    >>> parse_mounts(["type=bind,src=/data,dst=/in,readonly"])
    [BindMount(src_path='/data', dst_path='/in', read_only=True)]
    """
    return [_make_mount(group) for group in _grouped(_words(opts))]


def _words(opts: Iterable[str]) -> Iterator[str]:
    for opt in [opts] if isinstance(opts, str) else opts:
        if not isinstance(opt, str):
            raise InvalidSpecError(f"mount options are words such as 'type=bind', not {opt!r}")
        for word in opt.split(","):
            if word.strip():
                yield word.strip()


def _grouped(words: Iterable[str]) -> Iterator[dict[str, str]]:
    group: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        name = _ALIASES.get(key)
        if name is None:
            raise InvalidSpecError(unknown("mount option", key, _ALIASES) + f" (in {word!r})")
        if name == "type" and group:
            yield group
            group = {}
        if not group and name != "type":
            raise InvalidSpecError(f"a mount begins with type=bind|volume|device, not {word!r}")
        if name in group:
            raise InvalidSpecError(f"mount option {key!r} is given twice (in {word!r})")
        group[name] = value
    if group:
        yield group


def _make_mount(group: dict[str, str]) -> Mount:
    kind = group["type"]
    if kind not in _ALLOWED:
        raise InvalidSpecError(unknown("mount type", kind, _ALLOWED))
    for name in group:
        if name not in _ALLOWED[kind]:
            raise InvalidSpecError(
                f"a {kind} mount has no option {name!r}; it has {', '.join(sorted(_ALLOWED[kind]))}"
            )
    for name in _REQUIRED[kind]:
        if not group.get(name):
            raise InvalidSpecError(f"a {kind} mount needs {name}=…: {_unparsed(group)}")
    if kind == "bind":
        return BindMount(group["src"], group["dst"], _flag(group))
    if kind == "volume":
        return VolumeMount(group["src"], group["dst"], _flag(group))
    return DeviceMount(group["src"], group.get("dst", ""), group.get("perm", "rwm"))


def _flag(group: dict[str, str]) -> bool:
    if "readonly" not in group:
        return False
    value = group["readonly"]
    if value.lower() not in _BOOLEANS:
        raise InvalidSpecError(f"readonly is a flag, or true or false, not {value!r}")
    return _BOOLEANS[value.lower()]


def _unparsed(group: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" if value else key for key, value in group.items())


def _is_permissions(letters: object) -> bool:
    return (
        isinstance(letters, str)
        and letters != ""
        and DEVICE_PERMISSIONS.issuperset(letters)
        and len(set(letters)) == len(letters)
    )


def _require_flag(mount: object, name: str) -> None:
    value = getattr(mount, name)
    if not isinstance(value, bool):
        raise InvalidSpecError(
            f"{type(mount).__name__}.{name} must be True or False, not {value!r}"
        )


def _require_paths(mount: object, *names: str) -> None:
    for name in names:
        value = getattr(mount, name)
        if not isinstance(value, str) or not value or "\0" in value:
            raise InvalidSpecError(
                f"{type(mount).__name__}.{name} must be a path or a name, not {value!r}"
            )
