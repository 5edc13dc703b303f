"""Runs one child of a call: fetches, installs, calls, and stores what came of it."""

from __future__ import annotations

import os
import sys

from . import context, failures, items, keeping, values
from .faults import Fault, MissingObject, StoreFault
from .formats import FORMAT, PHASES, beat_key, call_key, out_key
from .objects import Objects
from .outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .formats import Buffer, Call, Item

EXIT_UNSTORED = 74
"""The process leaves with this code when not even the failure could be stored."""


def split_url(url: str) -> tuple[str, str]:
    """Take a call's URL apart: the store's URL, and the job.

    Raises:
        ValueError: it is not one.
    """
    root, found, rest = url.rpartition("/jobs/")
    job, _, name = rest.partition("/")
    if not found or name != "call.json":
        raise ValueError(f"{url!r} is not the URL of a call: STORE/jobs/JOB/call.json")
    return root, job


def fetch_call(objects: Objects, job: str) -> Call:
    """Return a call's document.

    Raises:
        Fault: it is not there, or of a format that is not known here.
    """
    import json

    try:
        call: Call = json.loads(objects.read(call_key(job)))
    except MissingObject as fault:
        raise MissingObject(f"The call is not in its store: {fault}") from None
    except ValueError as error:
        raise Fault(f"{objects.url}/{call_key(job)} is no call document: {error}") from None
    if call.get("version", FORMAT) > FORMAT:
        raise Fault(
            f"The call is of format {call['version']}; this worker knows up to {FORMAT}. "
            "The worker's zip is older than the client that made the call."
        )
    return call


def load_function(call: Call, objects: Objects) -> Callable[..., Any]:
    """Return a call's function; puts the call's folders where modules are found.

    Raises:
        Fault: it cannot be fetched, or does not load here.
    """
    context.find_modules(call)
    data = objects.read_blob(call["function"])
    function: Callable[..., Any] = values.load(data, "the function", call.get("python", ""))
    return function


def run_call(
    url: str,
    *,
    child: int,
    attempt: int,
    objects: Objects | None = None,
    loaded: Callable[..., Any] | None = None,
    keep: Callable[..., int] | None = None,
) -> int:
    """Run a child of a call in a process below this one, and wait for its end.

    Args:
        url: of the call document.
        child: which replica this is, from 0.
        attempt: from 1.
        objects: the call's store, when it is open already.
        loaded: the call's function, when a process above this one has loaded it.
        keep: what stands in for `keeping.keep`, where something else reads the call's output.

    Returns:
        The exit code. A function that was ended by a signal ends this process by the same one.
    """
    root, job = split_url(url)

    def run(line: keeping.Line) -> int:
        return _Run(objects or Objects(root), job, child, attempt, line, loaded).run()

    def pulse(seconds: float, number: int, phase: Callable[[], int]) -> None:
        _pulse(Objects(root), beat_key(job, number), attempt, seconds, phase)

    return (keep or keeping.keep)(run, pulse)


class _Run:
    """One child, from its call document to its outcome."""

    def __init__(
        self,
        objects: Objects,
        job: str,
        child: int,
        attempt: int,
        line: keeping.Line,
        loaded: Callable[..., Any] | None,
    ) -> None:
        self._objects = objects
        self._child = child
        self._line = line
        self._loaded = loaded
        self._outcome = Outcome(job, child, attempt)
        self._job = job

    def run(self) -> int:
        """Run it; return the exit code."""
        try:
            code = self._attempt()
        except Fault as fault:
            code = self._give_up(fault)
        header = self._outcome.header
        header["exit"] = code
        self._enter("storing")
        self._keep_output()
        try:
            key = out_key(self._job, header["child"])
            if not self._outcome.store(self._objects, key):
                self._say_unstored()
        except StoreFault as fault:
            failures.say(failures.plain("store", f"The outcome could not be stored. {fault}"))
            return EXIT_UNSTORED
        return header["exit"]

    def _attempt(self) -> int:
        self._enter("fetching")
        call = fetch_call(self._objects, self._job)
        number = call.get("first", 0) + self._child
        self._outcome.header["child"] = number
        if call.get("beat"):
            self._line.beat(call["beat"], number)
        self._prepare(call)
        self._enter("fetching")
        function = self._loaded
        if function is None:
            function = load_function(call, self._objects)
        work = self._work(call, number)
        self._objects.close()  # The function finds no descriptors but its own.
        self._enter("running")
        code = self._call(call, function, work)
        if call.get("outputs"):
            self._enter("storing")
            code = self._store_outputs(call, number, code)
        return code

    def _prepare(self, call: Call) -> None:
        try:
            context.set_up(call, self._child)
        except OSError as error:
            where = call.get("cwd")
            raise Fault(f"The working directory {where} is not here: {error.strerror}.") from None
        if call.get("code"):
            from . import transfer

            transfer.unpack_code(call, self._objects)
        if call.get("deps"):
            from . import deps

            self._enter("installing")
            deps.install(call["deps"], self._objects)
        if call.get("inputs"):
            from . import transfer

            self._enter("fetching")
            transfer.fetch_inputs(call["inputs"], self._objects)

    def _work(self, call: Call, number: int) -> Sequence[tuple[int, Callable[[], Any]]]:
        """Return the items of this child: their numbers, and what loads their arguments."""
        python = call.get("python", "")
        if "items" in call:
            from . import packs

            return packs.chunk(call, number, self._objects)
        if "arguments" not in call:
            return [(0, lambda: ((), {}))]
        data = self._objects.read_blob(call["arguments"])
        return [(0, lambda: values.load(data, "the arguments", python))]

    def _call(
        self,
        call: Call,
        function: Callable[..., Any],
        work: Sequence[tuple[int, Callable[[], Any]]],
    ) -> int:
        initialize = self._initializer(call)
        parallel = min(call.get("parallel", 1) or context.processors(), len(work))
        if parallel > 1:
            from . import chunks

            done = chunks.run(function, work, initialize, parallel)
        else:
            initialize()
            done = []
            for number, arguments in work:
                came = items.run_item(function, arguments, number)
                done.append(_detached(came) if len(work) > 1 else came)
        codes = []
        for item, parts, code in done:
            self._add(item, parts)
            codes.append(code)
        return codes[0] if len(codes) == 1 else int(any(codes))

    def _initializer(self, call: Call) -> Callable[[], None]:
        if "initializer" not in call:
            return lambda: None
        data = self._objects.read_blob(call["initializer"])
        start, args = values.load(data, "the initializer", call.get("python", ""))

        def initialize() -> None:
            try:
                start(*args)
            except BaseException as error:
                raise Fault("The initializer raised.", "initializer") from error

        return initialize

    def _add(self, item: Item, parts: list[Buffer]) -> None:
        self._outcome.add_item(item, parts)

    def _store_outputs(self, call: Call, number: int, code: int) -> int:
        from . import transfer

        try:
            self._outcome.header["outputs"] = transfer.store_outputs(
                call["outputs"], self._objects, self._job, number
            )
        except Fault as fault:
            if code == 0:
                return self._give_up(fault)
            failures.say(failures.plain(fault.kind, str(fault)))
        return code

    def _give_up(self, fault: Fault) -> int:
        cause = fault.__cause__
        if cause is None:
            said = fault.said or failures.plain(fault.kind, str(fault))
            if isinstance(fault, StoreFault):
                said["type"] = type(fault).__name__
            failures.say(said)
            self._outcome.fail(said)
            return 1
        said = failures.describe(cause, fault.kind)
        failures.say(said)
        if fault.kind == "initializer":
            self._outcome.fail(said, failures.record_of(cause))
            return items.exit_code(cause)
        said["message"] = str(fault)
        failures.say(failures.plain(fault.kind, str(fault)))
        self._outcome.fail(said)
        return 1

    def _say_unstored(self) -> None:
        for item in self._outcome.header["items"]:
            if "error" in item and item["error"]["kind"] == "store":
                failures.say(item["error"])
                return

    def _keep_output(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        out, err = self._line.output()
        if out:
            self._outcome.header["stdout"] = self._outcome.add(out)
        if err:
            self._outcome.header["stderr"] = self._outcome.add(err)

    def _enter(self, phase: str) -> None:
        self._outcome.enter(phase)
        self._line.enter(PHASES.index(phase))


def _detached(done: items.Done) -> items.Done:
    """Copy a value's buffers: the next item may write into an array that this one returned."""
    item, parts, code = done
    return item, [bytes(part) for part in parts], code


def _pulse(
    objects: Objects, key: str, attempt: int, seconds: float, phase: Callable[[], int]
) -> None:
    """Tell the store again and again that the call is alive, and what it is doing."""
    import json
    import time

    told, told_at = "", 0.0
    while True:
        time.sleep(min(1.0, seconds))
        now = PHASES[phase()]
        if now == told and time.monotonic() - told_at < seconds:
            continue
        beat = {"phase": now, "time": time.time(), "attempt": attempt, "host": os.uname().nodename}
        try:
            objects.write(key, [json.dumps(beat).encode()])
        except StoreFault:
            continue
        told, told_at = now, time.monotonic()
