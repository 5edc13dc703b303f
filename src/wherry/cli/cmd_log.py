"""``wherry log``: print the logs of some or all replicas of an app, or follow them."""

from __future__ import annotations

import sys
from datetime import datetime

from wherry.cli.output import is_terminal, one_line, say
from wherry.cli.parsing import checked, set_completer, whole_number
from wherry.cli.session import Session, place_of
from wherry.cli.sinks import Sink
from wherry.cli.targets import read_target
from wherry.cli.times import read_time
from wherry.errors import UsageError, WherryError
from wherry.schedulers.api import Stream, compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from wherry.cli.parsing import Parser
    from wherry.cli.targets import Target
    from wherry.runner import Runner

    Piece = tuple[str, int, bytes]

_EPILOG = """\
TARGET is HANDLE, HANDLE/ROLE or HANDLE/ROLE/REPLICAS, such as echo-1/echo/0,3-5. An app's id, or
enough of its beginning, is a HANDLE, too; so is the id of a call (`wherry jobs`), and ID:3 is
item 3 of a map. Lines of several replicas begin with their name.
TIME is an ISO time (2026-01-31T08:00, local unless it has a zone) or an age (10m, 2h).
"""
_BATCH = 1 << 16
_MOST_FOLLOWED = 64
"""How many replicas are followed one by one, each with a thread that waits for its lines."""


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.epilog = _EPILOG
    target = parser.add_argument("target", metavar="TARGET", help="whose logs; see below")
    set_completer(target, "targets")
    parser.add_argument(
        "-f", "--follow", "--tail", action="store_true", help="go on until the app has ended"
    )
    parser.add_argument("--regex", help="only lines in which this is found")
    parser.add_argument("--since", type=checked(read_time), metavar="TIME", help="only lines since")
    parser.add_argument("--until", type=checked(read_time), metavar="TIME", help="only lines until")
    parser.add_argument(
        "--streams",
        type=checked(read_stream),
        default=Stream.COMBINED,
        metavar="STREAM",
        help="stdout, stderr or combined (the default)",
    )
    parser.add_argument(
        "--attempt", type=whole_number(1), metavar="N", help="only this attempt, counted from 1"
    )
    parser.add_argument(
        "--raw", action="store_true", help="let control codes in logs reach the terminal"
    )
    parser.set_defaults(func=run)


def read_stream(text: str) -> Stream:
    """Read a stream's name.

    Raises:
        UsageError: there is no such stream.
    """
    from wherry.errors import unknown

    try:
        return Stream(text.lower())
    except ValueError:
        raise UsageError(unknown("stream", text, [str(stream) for stream in Stream])) from None


def run(args: Namespace) -> int:
    """Print logs."""
    compiled(args.regex)  # a mistake in it is told before anything is printed
    with Session(args) as runner:
        target = read_target(runner, args.target)
        sink = Sink(sys.stdout, prefixed=len(target.replicas) > 1, raw=args.raw)
        written = 0
        try:
            for role, replica, data in _pieces(runner, target, args):
                sink.write(role, replica, data)
                written += len(data)
            sink.finish()
        except ValueError as error:
            if isinstance(error, WherryError):
                raise
            raise UsageError(str(error)) from error
    if not written and is_terminal(sys.stderr):
        _explain_silence(target, args)
    return 0


def _pieces(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    """Choose the fastest way to what is asked for."""
    by_line = args.since is not None or args.until is not None
    if args.follow and not by_line and args.attempt is None:
        return _followed(runner, target, args)
    if args.follow:
        return _followed_one_by_one(runner, target, args)
    if by_line or args.regex is not None:
        return _chosen_lines(runner, target, args)
    return _all_bytes(runner, target, args)


def _all_bytes(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    scheduler, app_id = place_of(runner, target.handle)
    for role, k in target.replicas:
        for data in scheduler.log_bytes(app_id, role, k, args.streams, attempt=args.attempt):
            yield role, k, data


def _chosen_lines(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    for role, k in target.replicas:
        batch: list[str] = []
        size = 0
        for line in _lines(runner, target, args, role, k):
            batch.append(line)
            size += len(line)
            if size >= _BATCH:
                yield role, k, _encoded("".join(batch))
                batch, size = [], 0
        if batch:
            yield role, k, _encoded("".join(batch))


def _followed(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    scheduler, app_id = place_of(runner, target.handle)
    wanted = None if target.is_all else frozenset(target.replicas)
    pattern = compiled(args.regex)
    matching = None if pattern is None else _Matching(pattern)
    for chunk in scheduler.follow(app_id, args.streams):
        key = (chunk.role, chunk.replica)
        if wanted is not None and key not in wanted:
            continue
        data = chunk.data if matching is None else matching.feed(key, chunk.data)
        if data:
            yield *key, data
    if matching is not None:
        yield from matching.rest()


def _followed_one_by_one(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    """Follow with conditions that only a replica's own log can answer."""
    if len(target.replicas) == 1:
        role, k = target.replicas[0]
        for line in _lines(runner, target, args, role, k):
            yield role, k, _encoded(line)
        return
    if len(target.replicas) > _MOST_FOLLOWED:
        raise UsageError(
            f"--follow with --since, --until or --attempt takes at most {_MOST_FOLLOWED} replicas, "
            f"not {len(target.replicas)}; name fewer, such as {args.target}/ROLE/0-9"
        )
    yield from _in_threads(runner, target, args)


def _in_threads(runner: Runner, target: Target, args: Namespace) -> Iterator[Piece]:
    import queue
    import threading

    pieces: queue.Queue[Piece | Exception | None] = queue.Queue(maxsize=1000)

    def copy(role: str, k: int) -> None:
        try:
            for line in _lines(runner, target, args, role, k):
                pieces.put((role, k, _encoded(line)))
            pieces.put(None)
        except Exception as error:  # noqa: BLE001 — raised again by the reader of the queue
            pieces.put(error)

    for role, k in target.replicas:
        threading.Thread(target=copy, args=(role, k), daemon=True).start()
    running = len(target.replicas)
    while running:
        piece = pieces.get()
        if isinstance(piece, Exception):
            raise piece
        if piece is None:
            running -= 1
        else:
            yield piece


def _lines(runner: Runner, target: Target, args: Namespace, role: str, k: int) -> Iterable[str]:
    return runner.log_lines(
        target.handle,
        role,
        k,
        args.regex,
        _moment(args.since),
        _moment(args.until),
        should_tail=args.follow,
        streams=args.streams,
        attempt=args.attempt,
    )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds).astimezone()


def _encoded(line: str) -> bytes:
    return line.encode(errors="surrogateescape")


class _Matching:
    """Lets only lines through in which a pattern is found; they may come in pieces."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._begun: dict[tuple[str, int], bytes] = {}

    def feed(self, key: tuple[str, int], data: bytes) -> bytes:
        """Return the lines that are complete and match."""
        whole, end, begun = data.rpartition(b"\n")
        if not end:
            self._begun[key] = self._begun.get(key, b"") + data
            return b""
        whole = self._begun.pop(key, b"") + whole + end
        if begun:
            self._begun[key] = begun
        return b"".join(line for line in whole.splitlines(keepends=True) if self._matches(line))

    def rest(self) -> Iterator[Piece]:
        """Return last lines that match and have no end."""
        for (role, k), line in self._begun.items():
            if self._matches(line):
                yield role, k, line

    def _matches(self, line: bytes) -> bool:
        return self._pattern.search(line.decode(errors="replace")) is not None


def _explain_silence(target: Target, args: Namespace) -> None:
    """Tell a person that there was nothing to print, since silence looks like a mistake."""
    narrowed = args.regex or args.since or args.until or args.attempt
    which = "no lines fit" if narrowed else "no output"
    reason = one_line(target.described.msg)
    say(f"({which}; the app is {target.described.state}{': ' + reason if reason else ''})")
