"""Built-in components that run one command: ``echo``, ``touch``, ``sh``, ``python``, ``binary``."""

from __future__ import annotations

from wherry.components.image import DEFAULT_IMAGE
from wherry.specs.app import AppDef, Role
from wherry.specs.resources import Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wherry.specs.mounts import Mount

_SMALL = Resource(cpu=1, gpu=0, memMB=1024)


def echo(msg: str = "hello world", image: str = DEFAULT_IMAGE, num_replicas: int = 1) -> AppDef:
    """Print a message.

    Args:
        msg: what to print
        image: image to run in
        num_replicas: how many copies run
    """
    role = Role(
        name="echo",
        image=image,
        entrypoint="echo",
        args=[msg],
        num_replicas=num_replicas,
        resource=_SMALL,
    )
    return AppDef(name="echo", roles=[role])


def touch(file: str, image: str = DEFAULT_IMAGE) -> AppDef:
    """Create a file, or set its time to now.

    Args:
        file: the file
        image: image to run in
    """
    role = Role(name="touch", image=image, entrypoint="touch", args=[file], resource=_SMALL)
    return AppDef(name="touch", roles=[role])


def sh(
    *args: str,
    image: str = DEFAULT_IMAGE,
    num_replicas: int = 1,
    cpu: float | None = None,
    gpu: int | None = None,
    memMB: int | None = None,
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> AppDef:
    """Run a shell script or a command with `sh`.

    One argument is a script, so pipes and variables work: 'echo $HOME | wc -c'. Several are the
    words of one command, and reach it as they are. In both, macros such as `${replica_id}` are
    replaced, and `$$` gives one dollar.

    Args:
        args: a script, or a command and its arguments
        image: image to run in
        num_replicas: how many copies run
        cpu: CPUs for each copy (1 when not given)
        gpu: GPUs for each copy (0 when not given)
        memMB: memory for each copy, in MiB (1024 when not given)
        h: a named resource, in place of cpu, gpu and memMB
        env: environment variables (A=1,B=2)
        max_retries: attempts after the first
        mounts: what to mount: type=bind,src=/host,dst=/job,readonly (or volume, device)
    """
    if not args:
        raise ValueError("there is nothing to run; give a script or a command")
    role = Role(
        name="sh",
        image=image,
        entrypoint="sh",
        args=["-c", _script(args)],
        env=env or {},
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=_ask(cpu, gpu, memMB, h),
        mounts=_mounts(mounts),
    )
    return AppDef(name="sh", roles=[role])


def python(
    *args: str,
    m: str | None = None,
    c: str | None = None,
    script: str | None = None,
    image: str = DEFAULT_IMAGE,
    name: str | None = None,
    cpu: float | None = None,
    gpu: int | None = None,
    memMB: int | None = None,
    h: str | None = None,
    num_replicas: int = 1,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> AppDef:
    """Run a Python script, module or program text with `python`.

    Put `--` before the program's own arguments when they begin with a dash:
    `wherry run utils.python -m train -- --epochs 3`.

    Args:
        args: the program's arguments
        m: module to run
        c: program text to run
        script: script to run
        image: image to run in
        name: the app's name (the script's or the module's when not given)
        cpu: CPUs for each copy (1 when not given)
        gpu: GPUs for each copy (0 when not given)
        memMB: memory for each copy, in MiB (1024 when not given)
        h: a named resource, in place of cpu, gpu and memMB
        num_replicas: how many copies run
        env: environment variables (A=1,B=2)
        max_retries: attempts after the first
        mounts: what to mount: type=bind,src=/host,dst=/job,readonly (or volume, device)
    """
    from wherry.components.naming import program_name, safe_name

    program = _program({"-m": m, "-c": c, "--script": script})
    default_name = program_name(script, m, "python")
    # Hydra, run with -m, looks for its configuration beside the module named here.
    hydra = {"HYDRA_MAIN_MODULE": m} if m else {}
    role = Role(
        name="python",
        image=image,
        entrypoint="python",
        args=[*program, *args],
        env={**hydra, **(env or {})},
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=_ask(cpu, gpu, memMB, h),
        mounts=_mounts(mounts),
    )
    return AppDef(name=safe_name(name or "", default_name), roles=[role])


def binary(
    *args: str,
    entrypoint: str,
    name: str | None = None,
    image: str = DEFAULT_IMAGE,
    num_replicas: int = 1,
    cpu: float | None = None,
    gpu: int | None = None,
    memMB: int | None = None,
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> AppDef:
    """Run a program, without a shell.

    Args:
        args: the program's arguments
        entrypoint: the program: a path, or a name that the image's PATH has
        name: the app's name (the program's when not given)
        image: image to run in
        num_replicas: how many copies run
        cpu: CPUs for each copy (1 when not given)
        gpu: GPUs for each copy (0 when not given)
        memMB: memory for each copy, in MiB (1024 when not given)
        h: a named resource, in place of cpu, gpu and memMB
        env: environment variables (A=1,B=2)
        max_retries: attempts after the first
        mounts: what to mount: type=bind,src=/host,dst=/job,readonly (or volume, device)
    """
    from wherry.components.naming import safe_name

    program = entrypoint.rpartition("/")[2]
    role = Role(
        name="binary",
        image=image,
        entrypoint=entrypoint,
        args=args,
        env=env or {},
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=_ask(cpu, gpu, memMB, h),
        mounts=_mounts(mounts),
    )
    return AppDef(name=safe_name(name or program, "binary"), roles=[role])


def _script(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    import shlex

    return shlex.join(words)


def _program(ways: Mapping[str, str | None]) -> list[str]:
    """Return Python's arguments for the one way that was chosen to name the program."""
    chosen = {flag: value for flag, value in ways.items() if value is not None}
    if len(chosen) != 1:
        given = " and ".join(chosen) or "none"
        raise ValueError(f"give exactly one of -m, -c and --script, not {given}")
    flag, value = chosen.popitem()
    if not value:
        raise ValueError(f"{flag} is empty; it says what to run")
    return [value] if flag == "--script" else [flag, value]


def _ask(cpu: float | None, gpu: int | None, memMB: int | None, h: str | None) -> Resource:
    from wherry.components.hosts import ask

    return ask(cpu, gpu, memMB, h)


def _mounts(words: list[str] | None) -> list[Mount]:
    from wherry.specs.mounts import parse_mounts

    return parse_mounts(words or [])
