"""Installs what a call needs, once for each machine, Python and set of requirements.

The folder's name is a hash of all that is asked for. Who comes second waits for the first.
"""

from __future__ import annotations

import os
import sys

from . import digests
from .faults import Fault
from .formats import blob_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .formats import Install
    from .objects import Objects

_TAIL_LINES = 15
_LINE_MOST = 4096


def install(wanted: Install, objects: Objects) -> None:
    """Install, and put the result first on `sys.path`; the output goes to the log.

    Raises:
        Fault: of kind "deps", with the last lines of what the installer said.
    """
    import fcntl

    base = _base()
    folder = f"{base}/{_hash(wanted)}"
    lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f"{folder}/.done"):
            _fill(folder, wanted, objects)
            with open(f"{folder}/.done", "w", encoding="ascii"):
                pass
    except OSError as error:
        raise Fault(f"The dependencies cannot be laid in {folder}: {error}", "deps") from None
    finally:
        os.close(lock)
    _use(folder, wanted)


def _base() -> str:
    home = os.path.expanduser("~")
    tried = [
        os.environ.get("WHERRY_DEPS_DIR", ""),
        f"{os.environ.get('XDG_CACHE_HOME') or f'{home}/.cache'}/wherry/deps",
        f"{os.environ.get('TMPDIR') or '/tmp'}/wherry-{os.getuid()}/deps",  # noqa: S108
    ]
    for folder in filter(None, tried):
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) and os.stat(folder).st_uid == os.getuid():
            return os.path.abspath(folder)
    raise Fault(
        f"No folder for dependencies can be written: {', '.join(filter(None, tried))}. "
        "Name one by WHERRY_DEPS_DIR.",
        "deps",
    )


def _hash(wanted: Install) -> str:
    import json

    facts = [sys.version, sys.prefix, os.uname().machine, json.dumps(wanted, sort_keys=True)]
    return digests.digest_of(["\n".join(facts).encode()])[:24]


def _fill(folder: str, wanted: Install, objects: Objects) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/site")
    for line in wanted.get("bash", []):
        _run(["bash" if shutil.which("bash") else "sh", "-ec", line], f"the shell line {line!r}")
    for place, part in enumerate(wanted.get("modules", [])):
        objects.read_file(blob_key(part["blob"]), f"{folder}/{place}.zip")
    lists = {"requirements": "requirements.txt", "lock": "lock.txt"}
    if wanted.get("lock", "").lstrip().startswith(("lock-version", "#")) and (
        "[[packages]]" in wanted["lock"]
    ):
        lists["lock"] = "pylock.toml"
    arguments: list[list[str]] = []
    for name, file_name in lists.items():
        text = wanted.get(name, "")
        if text:
            with open(f"{folder}/{file_name}", "w", encoding="utf-8") as file:  # type: ignore[arg-type,unused-ignore]
                file.write(str(text))
            arguments.append(["-r", f"{folder}/{file_name}"])
    if wanted.get("pip"):
        arguments.append(list(wanted["pip"]))
    if arguments:
        tool = _installer(folder)
        for words in arguments:
            _run([*tool, *words], _named(words, wanted))


def _named(words: list[str], wanted: Install) -> str:
    if words[0] != "-r":
        return ", ".join(words)
    return (
        "the lock file"
        if "lock" in os.path.basename(words[1])
        else ("the requirements: " + ", ".join(str(wanted.get("requirements", "")).split("\n")[:5]))
    )


def _installer(folder: str) -> list[str]:
    """Return the command that installs into a folder, up to the requirements."""
    import importlib.util
    import shutil

    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable, "--target", f"{folder}/site"]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["--no-input", "--root-user-action=ignore", "--target", f"{folder}/site"]
    if importlib.util.find_spec("pip"):
        return pip
    if importlib.util.find_spec("ensurepip"):
        target = f"{folder}/pip"
        _run(
            [sys.executable, "-c", _ENSURE_PIP, target],
            "pip itself, which this image does not have (ensurepip)",
        )
        return ["env", f"PYTHONPATH={target}", *pip]
    raise Fault(
        f"There is neither uv nor pip for {sys.executable}, nor ensurepip to get it: use an image "
        "that has one of them, or one with the packages in it.",
        "deps",
    )


_ENSURE_PIP = """\
import ensurepip, glob, os, sys, zipfile
folder = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
for wheel in glob.glob(os.path.join(folder, "pip-*.whl")):
    zipfile.ZipFile(wheel).extractall(sys.argv[1])
    break
else:
    sys.exit("ensurepip has no wheel of pip")
"""


def _run(command: list[str], what: str) -> None:
    """Run a command with its output in the log.

    Raises:
        Fault: it failed, or cannot be run.
    """
    import collections
    import subprocess

    last: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise Fault(f"{command[0]} cannot be run: {error.strerror}.", "deps") from None
    with process:
        assert process.stdout is not None  # noqa: S101 — it was asked for
        while line := process.stdout.readline(_LINE_MOST):
            sys.stderr.write(line.decode("utf-8", "replace"))
            last.append(line.decode("utf-8", "replace").rstrip())
    if process.returncode:
        raise Fault(
            f"The dependencies could not be installed: {what} "
            f"(exit code {process.returncode}). It said at last:\n" + "\n".join(last),
            "deps",
        )


def _use(folder: str, wanted: Install) -> None:
    zips = [f"{folder}/{place}.zip" for place in range(len(wanted.get("modules", [])))]
    found = [*zips, f"{folder}/site"]
    sys.path[:0] = [path for path in found if path not in sys.path]
    # What the call starts finds them as well.
    after = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*found, *([after] if after else [])])
    programs = f"{folder}/site/bin"
    if os.path.isdir(programs):
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
    import importlib

    importlib.invalidate_caches()
