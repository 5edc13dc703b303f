"""The worker as one zip, and the command that fetches and runs it in any image.

This is the client's side; it does not travel.
"""

from __future__ import annotations

import os
import sys

from wherry.home import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from collections.abc import Sequence

PACKAGE = "_wherry_worker"
"""The worker's package in the zip: not `wherry`, which an image may have of its own."""

_STAYS = ("boot.py", "shipping.py", "boot_text.py")
_HERE = os.path.dirname(os.path.abspath(__file__))
_START = f"""\
import sys

if __name__ == "__main__":
    from {PACKAGE}.main import main

    sys.exit(main(sys.argv[1:]))
"""
_SHELL = """\
for python in python3 python; do
command -v $python >/dev/null 2>&1 && exec $python -c "$0" "$@"
done
echo "wherry: this image has no Python: a function needs one with Python 3.9 or newer" >&2
exit 127"""

_made: tuple[bytes, str] | None = None


def worker_zip() -> tuple[bytes, str]:
    """Return the worker's zip and its SHA-256, in hexadecimal.

    The same sources and the same Python make the same bytes. Beside each source is its byte code,
    which another Python passes over. What was made is kept in the records' folder.
    """
    global _made
    if _made is None:
        _made = _kept_zip()
    return _made


def worker_zip_path() -> str:
    """Return the zip as a file of this machine, for `python FILE call URL`."""
    data, digest = worker_zip()
    path = f"{_folder()}/{digest}.zip"
    if not os.path.exists(path):
        _write(path, data)
    return path


def boot_command(
    root_url: str, zip_digest: str, words: Sequence[str], *, bare: bool = False
) -> list[str]:
    """Return the command that fetches the worker from a store and runs it.

    Args:
        root_url: of the store.
        zip_digest: of the worker's zip, which the store has.
        words: for the worker, such as ``["call", URL]``.
        bare: start ``python3`` itself, for an image without a shell. Otherwise a shell looks for
            ``python3`` or ``python``, and says so (exit code 127) where there is neither.
    """
    from .boot_text import BOOT

    if bare:
        return ["python3", "-c", BOOT, root_url, zip_digest, *words]
    return ["sh", "-c", _SHELL, BOOT, root_url, zip_digest, *words]


def _kept_zip() -> tuple[bytes, str]:
    from .digests import digest_of

    sources = _sources()
    note = f"{_folder()}/{_key(sources)}"
    try:
        with open(note, "rb") as file:
            digest, data = file.read(64).decode(), file.read()
        if digest_of([data]) == digest:
            return data, digest
    except (OSError, ValueError):
        pass
    data = _make(sources)
    digest = digest_of([data])
    try:
        _write(note, digest.encode() + data)
    except OSError:
        pass  # A full disk is met, and told, where something has to be kept.
    return data, digest


def _folder() -> str:
    return f"{home()}/cache/worker"


def _sources() -> list[tuple[str, str]]:
    """List what is in the zip: names there, and the files here."""
    import importlib.util

    found = importlib.util.find_spec("cloudpickle")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("cloudpickle, which Wherry needs, is not installed")
    folders = [(PACKAGE, _HERE), ("cloudpickle", next(iter(found.submodule_search_locations)))]
    return [
        (f"{package}/{name}", f"{folder}/{name}")
        for package, folder in folders
        for name in sorted(os.listdir(folder))
        if name.endswith(".py") and name not in _STAYS
    ]


def _key(sources: list[tuple[str, str]]) -> str:
    from .digests import digest_of

    facts = [sys.version, _START]
    for name, path in sources:
        stat = os.stat(path)
        facts.append(f"{name} {stat.st_size} {stat.st_mtime_ns}")
    return digest_of(["\n".join(facts).encode()])


def _make(sources: list[tuple[str, str]]) -> bytes:
    import io
    import zipfile

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        _add(archive, "__main__.py", _START.encode())
        for name, path in sources:
            with open(path, "rb") as file:
                source = file.read()
            _add(archive, name, source)
            _add(archive, f"{name}c", _byte_code(source, name))
    return made.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    import zipfile

    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _byte_code(source: bytes, name: str) -> bytes:
    """Compile a module to the text of a ``.pyc`` which is never compared with its source."""
    import importlib.util
    import marshal

    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    unchecked = (0b01).to_bytes(4, "little")
    # Version 2 has no references between objects, whose places differ from process to process.
    plain = marshal.dumps(code, 2)
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + plain


def boot_text() -> str:
    """Return `boot.py` as one argument of ``python -c``."""
    import ast
    import base64
    import zlib

    with open(f"{_HERE}/boot.py", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    tree.body = tree.body[2:]  # Without its docstring, and what only annotations need.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
    packed = base64.b85encode(zlib.compress(ast.unparse(tree).encode(), 9)).decode()
    return (
        "import sys\n"
        # The working directory must not come before the standard library: it has the user's files.
        "if sys.path[:1]==['']:del sys.path[0]\n"
        "if sys.version_info<(3,9):"
        "sys.exit('wherry: a function needs Python 3.9 or newer; this is '+sys.version)\n"
        "import base64,zlib\n"
        f"exec(zlib.decompress(base64.b85decode('{packed}')),{{'__name__':'wherry-boot'}})"
    )


def _write_boot_text() -> None:
    """Write `boot_text.py` anew: a constant, since compressors and Pythons differ."""
    text = boot_text()
    lines = [f"    {text[at : at + 84]!r}" for at in range(0, len(text), 84)]
    with open(f"{_HERE}/boot_text.py", "w", encoding="utf-8") as file:
        file.write(
            '"""`boot.py` as it is sent; made by ``python -m wherry.worker.shipping``."""\n\n'
            "from __future__ import annotations\n\n"
            "# fmt: off\nBOOT = (\n" + "\n".join(lines) + "\n)\n"
        )


def _write(path: str, data: bytes) -> None:
    beside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(beside, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except OSError:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise


if __name__ == "__main__":
    _write_boot_text()
