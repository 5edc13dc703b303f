"""Every import goes down: a module uses only the layers below its own, and its own room.

Imports inside functions and under ``TYPE_CHECKING`` count, and so do modules that are named in a
text (``import_module("wherry.runner")``, a table of lazy names).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import wherry

PACKAGE = Path(wherry.__file__).parent

# Low to high. A room is a folder of src/wherry, or a module beside them.
LAYERS = (
    ("ground", "formats"),
    ("specs",),
    ("engine", "store", "worker"),
    ("workspace", "aws"),
    ("components", "schedulers"),
    ("runner",),
    ("functions",),
    ("workflow",),
    ("covalent", "cli", "ui"),
)
# Modules that belong to a room without being in its folder.
GROUND = ("errors", "home", "_lazy", "_version")
ROOM_OF_MODULE = {**dict.fromkeys(GROUND, "ground"), "__main__": "cli"}
# What the worker reads and writes is data, for everybody above the ground to know; the worker
# itself carries it into the job.
FORMATS = "wherry.worker.formats"
# What a job's zip holds of Wherry: nothing but the worker.
STAYS_OUTSIDE = "worker/shipping.py"
# Rooms beside the house: what they may use, and who may use them.
BESIDE = {
    "testing": ({*(room for layer in LAYERS[:6] for room in layer), "emulator"}, set()),
    "emulator": ({"ground", "formats", "specs", "engine"}, {"cli", "testing"}),
}

RANKS = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}
ROOMS = {*RANKS, *BESIDE}
_DOTTED = re.compile(r"wherry(\.\w+)+(:\w+)?\Z")


def test_every_import_goes_down():
    assert violations(PACKAGE) == []


def test_every_module_has_a_room():
    rooms = {room_of(path, PACKAGE) for path in modules(PACKAGE)}

    assert rooms - {None} <= ROOMS


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("specs/app.py", "from wherry.engine import loop", "specs imports engine"),
        ("specs/app.py", "import wherry.schedulers.api", "specs imports schedulers"),
        ("specs/app.py", "def f():\n    from wherry.runner import Runner", "specs imports runner"),
        ("specs/app.py", "if TYPE_CHECKING:\n    from wherry import cli", "specs imports cli"),
        ("specs/app.py", "from ..engine import loop", "specs imports engine"),
        ("specs/app.py", "from .. import engine", "specs imports engine"),
        ("specs/app.py", "from wherry import Runner", "specs imports runner"),
        ("specs/app.py", "import_module('wherry.runner')", "specs imports runner"),
        ("specs/app.py", "_HOMES = {'x': 'wherry.engine.loop:run'}", "specs imports engine"),
        ("specs/app.py", "import wherry", "specs imports wherry itself; name the room"),
        ("specs/app.py", "from wherry.attic import x", "specs imports attic, a room not known"),
        ("attic/old.py", "x = 1", "attic is a room not known"),
        ("errors.py", "from wherry.specs import AppDef", "ground imports specs"),
        ("components/utils.py", "from wherry.schedulers import api", "components imports schedul"),
        ("engine/a.py", "from wherry.emulator import x", "engine imports emulator"),
        ("store/a.py", "from wherry.worker.main import x", "store imports worker"),
        ("worker/a.py", "from wherry.home import home", "worker imports ground"),
        ("emulator/a.py", "from wherry.aws import x", "emulator imports aws"),
        ("emulator/a.py", "from wherry.testing import x", "emulator imports testing"),
        ("runner/a.py", "from wherry import emulator", "runner imports emulator"),
        ("runner/a.py", "from wherry.testing import Clock", "runner imports testing"),
        ("testing/a.py", "from wherry.functions import Job", "testing imports functions"),
    ],
)
def test_an_import_that_goes_up_is_found(tmp_path, module, text, complaint):
    write(tmp_path, module, text)

    (found,) = violations(tmp_path)

    assert module in found
    assert complaint in found


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("specs/app.py", "from wherry.errors import UsageError\nfrom wherry.specs import x"),
        (
            "specs/app.py",
            "from . import mounts\nfrom .mounts import BindMount\nfrom .. import home",
        ),
        ("runner/a.py", "from wherry import __version__, specs"),
        ("runner/a.py", "'''Not wherry.cli.'''\nTEXT = 'see wherry.cli'"),
        ("runner/a.py", "FILE = 'wherry.toml'"),
        ("cli/a.py", "from wherry.emulator import x\nfrom wherry.functions import y"),
        ("testing/a.py", "from wherry.runner import Runner\nfrom wherry.testing import Clock"),
        ("testing/a.py", "from wherry.emulator import running"),
        ("emulator/a.py", "from wherry.engine import loop"),
        ("store/a.py", "from wherry.worker.formats import blob_key"),
        ("worker/shipping.py", "from wherry.home import home"),
        ("__init__.py", "from wherry.runner import Runner"),
        ("__main__.py", "from wherry.cli.main import main"),
    ],
)
def test_an_import_that_goes_down_is_not(tmp_path, module, text):
    write(tmp_path, module, text)

    assert violations(tmp_path) == []


def write(package: Path, module: str, text: str) -> None:
    (package / module).parent.mkdir(exist_ok=True)
    (package / module).write_text(text + "\n")


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def room_of(path: Path, package: Path) -> str | None:
    """Name a module's room; the package's own ``__init__`` has none, since it only points."""
    first = path.relative_to(package).parts[0].removesuffix(".py")
    if first == "__init__":
        return None
    return ROOM_OF_MODULE.get(first, first)


def violations(package: Path) -> list[str]:
    """Describe each import that does not go down."""
    found = []
    for path in modules(package):
        room = room_of(path, package)
        name = path.relative_to(package)
        if room is None:
            continue
        if room not in ROOMS:
            found.append(f"{name}: {room} is a room not known; add it to the table of layers")
            continue
        for line, target in imported(path, package):
            complaint = judged(room, target, str(name))
            if complaint:
                found.append(f"{name}:{line}: {complaint}")
    return found


def judged(room: str, target: str, module: str = "") -> str | None:
    if room == "worker" and target not in (room, "formats") and module != STAYS_OUTSIDE:
        return f"worker imports {target}, and has to do without the rest of Wherry"
    if target == "wherry":
        return f"{room} imports wherry itself; name the room"
    if target not in ROOMS:
        return f"{room} imports {target}, a room not known"
    if room == target or may_use(room, target):
        return None
    return f"{room} imports {target}, which is not below it"


def may_use(room: str, target: str) -> bool:
    if room in BESIDE:
        return target in BESIDE[room][0]
    if target in BESIDE:
        return room in BESIDE[target][1]
    return RANKS[target] < RANKS[room]


def imported(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Give the line and the room of everything of Wherry that a module names."""
    tree = ast.parse(path.read_text(), str(path))
    here = ["wherry", *path.relative_to(package).with_suffix("").parts]
    for node in ast.walk(tree):
        for name in dotted_names(node, here):
            yield node.lineno, target_room(name)
        if isinstance(node, ast.Constant) and is_module_name(node.value):
            yield node.lineno, target_room(node.value)


def dotted_names(node: ast.AST, here: list[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] == "wherry"]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        base = ".".join([*here[: -node.level], *([node.module] if node.module else [])])
    if base.split(".")[0] != "wherry":
        return []
    return [f"wherry.{alias.name}" for alias in node.names] if base == "wherry" else [base]


def target_room(name: str) -> str:
    parts = name.partition(":")[0].split(".")
    if parts[:3] == FORMATS.split("."):
        return "formats"
    if len(parts) == 1:
        return "wherry"
    home = wherry._HOMES.get(parts[1], name).split(".")[1]  # a public name of the package
    return "ground" if home == "__version__" else ROOM_OF_MODULE.get(home, home)


def is_module_name(value: object) -> bool:
    """Tell a text that is a module's name and nothing more."""
    if not isinstance(value, str) or not _DOTTED.match(value):
        return False
    return target_room(value) in ROOMS
