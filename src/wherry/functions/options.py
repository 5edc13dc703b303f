"""What one asks of a call besides the call itself: resources, limits, what it needs, its files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from wherry.errors import UsageError, unknown
from wherry.functions.settings import Setting

if TYPE_CHECKING:
    from types import ModuleType

    from wherry.worker.formats import Install

MIB_OF_GIB = 1024


@dataclass(frozen=True)
class Deps:
    """What is installed for a call before it begins, once on each machine.

    Args:
        pip: requirements, such as ``"scikit-learn==1.5"``.
        requirements: the path of a requirements file.
        lock: the path of a lock file (``pylock.toml``, or one that uv has exported).
        bash: lines of shell, run in order before anything is installed.
        modules: modules of one's own that go along by value, as objects or by name.
    """

    pip: Sequence[str] = ()
    requirements: str | None = None
    lock: str | None = None
    bash: Sequence[str] = ()
    modules: Sequence[ModuleType | str] = ()

    def __post_init__(self) -> None:
        for name in ("pip", "bash"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        modules = self.modules
        one = isinstance(modules, str) or not isinstance(modules, Sequence)
        object.__setattr__(self, "modules", (modules,) if one else tuple(modules))

    def install(self) -> Install:
        """Return what the worker is told; the files are read now.

        Raises:
            UsageError: a file cannot be read.
        """
        told: Install = {}
        if self.pip:
            told["pip"] = list(self.pip)
        if self.bash:
            told["bash"] = list(self.bash)
        if self.requirements is not None:
            told["requirements"] = _text_of("requirements", self.requirements)
        if self.lock is not None:
            told["lock"] = _text_of("lock", self.lock)
        return told


class Escalate(tuple[float, ...]):
    """Amounts of memory, in GiB: the next one is taken when a job ran out of memory.

    Whoever waits for the job, or looks at it, submits it again; ``job.attempts`` has them all.

    >>> Escalate(2, 4, 8)
    Escalate(2, 4, 8)
    """

    __slots__ = ()

    def __new__(cls, *gib: float) -> Escalate:
        """Make one of amounts that grow."""
        growing = all(before < after for before, after in itertools.pairwise(gib))
        if not gib or gib[0] <= 0 or not growing:
            raise UsageError(f"Escalate takes amounts of GiB that grow, not {gib!r}")
        return super().__new__(cls, gib)

    def __repr__(self) -> str:
        return f"Escalate({', '.join(f'{gib:g}' for gib in self)})"


@dataclass(frozen=True)
class Options:
    """What holds for the calls that are submitted with it; see `Executor.options`.

    Args:
        name: the jobs' name; the function's by default.
        vcpu: cores for one process, or (on AWS Batch) ``INHERIT``.
        memory: GiB for one process, `Escalate` amounts, or (on AWS Batch) ``INHERIT`` or ``AUTO``.
        num_gpus: GPUs for one process, or (on AWS Batch) ``INHERIT``.
        timeout: seconds that one attempt may take.
        retries: attempts beyond the first, for what the function had no part in.
        retry_exceptions: whether an exception of the function is retried as well.
        deps: what is installed before.
        inputs: file name → path, bytes, or a URL; laid into the working directory.
        outputs: patterns of files that are kept with the outcome.
        nodes: processes that run the call together (a gang).
        env: environment variables.
        code: ``"auto"``, ``None``, a folder, or modules that go along.
        initializer: called once in each process, before its first item.
        initargs: the initializer's arguments.
    """

    name: str | None = None
    vcpu: float | Setting | None = None
    memory: float | Escalate | Setting | None = None
    num_gpus: int | Setting = 0
    timeout: float | None = None
    retries: int = 0
    retry_exceptions: bool = False
    deps: Deps | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    nodes: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    code: Any = "auto"
    initializer: Callable[..., Any] | None = None
    initargs: Sequence[Any] = ()

    def __post_init__(self) -> None:
        _at_least("retries", self.retries, 0)
        _at_least("nodes", self.nodes, 1)
        if not isinstance(self.num_gpus, Setting):
            _at_least("num_gpus", self.num_gpus, 0)
        for name in ("vcpu", "timeout"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Setting) and not _positive(value):
                raise UsageError(f"{name} must be above 0, not {value!r}")
        memory = self.memory
        is_number = memory is not None and not isinstance(memory, (Escalate, Setting))
        if is_number and not _positive(memory):
            raise UsageError(f"memory is GiB above 0, or Escalate(…), not {memory!r}")
        if self.deps is not None and not isinstance(self.deps, Deps):
            raise UsageError(f"deps is a Deps(pip=…, bash=…, …), not {self.deps!r}")
        if isinstance(self.outputs, str):
            object.__setattr__(self, "outputs", (self.outputs,))

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """Return these options with some of them replaced.

        Raises:
            UsageError: there is no such option, or it cannot have this value.
        """
        known = [one.name for one in fields(self)]
        for name in changes:
            if name not in known:
                raise UsageError(unknown("option of a call", name, known))
        return replace(self, **changes)

    @property
    def first_memory(self) -> float | None:
        """GiB of the first attempt."""
        if isinstance(self.memory, Setting):
            return None
        return self.memory[0] if isinstance(self.memory, Escalate) else self.memory

    @property
    def cores(self) -> float:
        """Cores for one process; 0 when no number is said."""
        return 0 if self.vcpu is None or isinstance(self.vcpu, Setting) else self.vcpu

    @property
    def gpus(self) -> int:
        """GPUs for one process; 0 when no number is said."""
        return 0 if isinstance(self.num_gpus, Setting) else self.num_gpus

    @property
    def mib(self) -> int:
        """MiB of the first attempt; 0 when nothing is said."""
        return math.ceil((self.first_memory or 0) * MIB_OF_GIB)

    @property
    def modules(self) -> list[ModuleType | str]:
        """Modules that go along by value."""
        named = self.code if isinstance(self.code, (list, tuple)) else ()
        return [*named, *(self.deps.modules if self.deps is not None else ())]


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be a whole number, {least} or more, not {value!r}")


def _positive(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value > 0


def _text_of(name: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"Deps({name}=…): {path!r} cannot be read: {error.strerror}") from None
