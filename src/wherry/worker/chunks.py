"""A chunk's items shared by several processes.

Each process is given a few items at a time, and puts the records of its values into a file that
nobody else can see, from which they go into the store. When one dies, the item it was at is lost
and said to be; another process goes on with the rest.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
import struct
import sys

from . import failures, items
from .faults import Fault
from .files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .formats import Buffer, Failure, Item
    from .items import Done

    Work = Sequence[tuple[int, Callable[[], Any]]]

_LENGTH = struct.Struct("<I")
_SPAN = struct.Struct("<II")
_SHARES = 4


def run(
    function: Callable[..., Any], work: Work, initialize: Callable[[], None], parallel: int
) -> list[Done]:
    """Run items in processes of their own.

    Args:
        function: the user's.
        work: the items' numbers, and what loads their arguments.
        initialize: run once in each process.
        parallel: how many processes.

    Returns:
        What came of each item, in their order, as `items.run_item` tells it.

    Raises:
        Fault: the initializer raised, or no file can be made for the values.
    """
    pool = _Pool(function, work, initialize, parallel)
    try:
        return pool.run()
    finally:
        pool.close()


class _Helper:
    """One of the processes, as the one above sees it."""

    def __init__(self, pid: int, channel: socket.socket, spool: int) -> None:
        self.pid = pid
        self.channel = channel
        self.spool = spool
        self.given: list[int] = []
        self.data = b""
        self.ready = False


class _Pool:
    """Gives items out, and collects what comes of them."""

    def __init__(
        self,
        function: Callable[..., Any],
        work: Work,
        initialize: Callable[[], None],
        parallel: int,
    ) -> None:
        self._function = function
        self._work = work
        self._initialize = initialize
        self._parallel = parallel
        self._waiting = list(range(len(work)))
        self._helpers: dict[int, _Helper] = {}
        self._done: dict[int, Done] = {}
        self._spools: dict[int, list[tuple[int, int, list[int]]]] = {}
        self._fault: Failure | None = None

    def run(self) -> list[Done]:
        poll = select.poll()
        self._poll = poll
        for _ in range(self._parallel):
            self._start()
        while self._helpers:
            for descriptor, _ in poll.poll():
                helper = self._helpers[descriptor]
                more = _receive(helper.channel)
                if more:
                    self._hear(helper, more)
                else:
                    self._lose(helper)
        if self._fault is not None:
            raise Fault(self._fault["message"], "initializer", self._fault)
        self._map_values()
        return [self._done[place] for place in range(len(self._work))]

    def close(self) -> None:
        for helper in self._helpers.values():
            helper.channel.close()
            _end(helper.pid)
        for spool in self._spools:
            os.close(spool)

    def _start(self) -> None:
        spool = _open_spool()
        self._spools[spool] = []
        upper, lower = socket.socketpair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = _fork()
        if not pid:
            for helper in self._helpers.values():
                helper.channel.close()
            upper.close()
            _serve(lower, spool, self._function, self._work, self._initialize)
        lower.close()
        self._helpers[upper.fileno()] = _Helper(pid, upper, spool)
        self._poll.register(upper, select.POLLIN)

    def _hear(self, helper: _Helper, more: bytes) -> None:
        helper.data += more
        while len(helper.data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(helper.data)
            end = _LENGTH.size + length
            if len(helper.data) < end:
                return
            told = json.loads(helper.data[_LENGTH.size : end])
            helper.data = helper.data[end:]
            self._note(helper, told)
        if not helper.given:
            self._give(helper)

    def _note(self, helper: _Helper, told: dict[str, Any]) -> None:
        helper.ready = True
        if "fault" in told:
            self._fault = told["fault"]
            self._waiting.clear()
        elif "item" in told:
            place = helper.given.pop(0)
            self._done[place] = (told["item"], [], told["code"])
            self._spools[helper.spool].append((place, told["at"], told["sizes"]))

    def _give(self, helper: _Helper) -> None:
        share = max(1, len(self._waiting) // (_SHARES * self._parallel))
        helper.given = self._waiting[:share]
        del self._waiting[:share]
        span = (helper.given[0], len(helper.given)) if helper.given else (0, 0)
        while len(helper.given) > 1 and helper.given[-1] - helper.given[0] != len(helper.given) - 1:
            self._waiting.insert(0, helper.given.pop())
            span = (helper.given[0], len(helper.given))
        try:
            helper.channel.sendall(_SPAN.pack(*span))
        except OSError:
            pass  # It died; the end of its channel says so.

    def _lose(self, helper: _Helper) -> None:
        self._poll.unregister(helper.channel)
        del self._helpers[helper.channel.fileno()]
        helper.channel.close()
        _, status = os.waitpid(helper.pid, 0)
        if not helper.ready:
            self._waiting.clear()
            self._fault = failures.plain("initializer", f"A process {_how(status)} in its start.")
        if not helper.given:
            return
        place, *rest = helper.given
        said = failures.plain("lost", f"The process that ran this item {_how(status)}.")
        item: Item = {"item": self._work[place][0], "ok": False, "error": said}
        self._done[place] = (item, [], 1)
        self._waiting[:0] = rest
        if self._waiting:
            self._start()

    def _map_values(self) -> None:
        for spool, told in self._spools.items():
            size = os.fstat(spool).st_size
            if not size:
                continue
            view = memoryview(mmap.mmap(spool, size, prot=mmap.PROT_READ))
            for place, at, sizes in told:
                for length in sizes:
                    self._done[place][1].append(view[at : at + length])
                    at += length


def _serve(
    channel: socket.socket,
    spool: int,
    function: Callable[..., Any],
    work: Work,
    initialize: Callable[[], None],
) -> None:
    """Run what is given, until nothing is; then end the process."""
    code = 1
    try:
        try:
            initialize()
        except Fault as fault:
            cause = fault.__cause__ or fault
            _tell(channel, {"fault": failures.describe(cause, fault.kind)})
            os._exit(1)
        _tell(channel, {})
        at = 0
        while True:
            first, count = _SPAN.unpack(_receive_all(channel, _SPAN.size))
            if not count:
                break
            for place in range(first, first + count):
                number, arguments = work[place]
                item, parts, item_code = items.run_item(function, arguments, number)
                item, sizes = _spool(spool, item, parts)
                told = {"item": item, "code": item_code or int(not item["ok"])}
                _tell(channel, {**told, "at": at, "sizes": sizes})
                at += sum(sizes)
        code = 0
    except OSError:
        pass  # The process above is gone.
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(code)


def _spool(spool: int, item: Item, parts: list[Buffer]) -> tuple[Item, list[int]]:
    try:
        begin = os.lseek(spool, 0, os.SEEK_CUR)
        write_all(spool, parts)
    except OSError as error:
        os.ftruncate(spool, begin)
        os.lseek(spool, begin, os.SEEK_SET)
        said = failures.plain("store", f"The value cannot be put aside: {error.strerror}.")
        return {**item, "ok": False, "error": said}, []
    return item, [memoryview(part).nbytes for part in parts]


def _tell(channel: socket.socket, what: dict[str, Any]) -> None:
    text = json.dumps(what, separators=(",", ":")).encode()
    channel.sendall(_LENGTH.pack(len(text)) + text)


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(1 << 16)
    except ConnectionError:
        return b""


def _receive_all(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            raise BrokenPipeError
        data += more
    return data


def _open_spool() -> int:
    folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 — nobody else sees the file
    path = f"{folder}/wherry-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        spool = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    except OSError as error:
        raise Fault(f"No file can be made in {folder}: {error.strerror}.", "store") from None
    return spool


def _fork() -> int:
    import warnings

    with warnings.catch_warnings():
        # The user's initializer may have started threads; the items were shared out all the same.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"was ended by {name}"
    return f"left with code {os.WEXITSTATUS(status)} before the item was done"


def _end(pid: int) -> None:
    import signal

    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
