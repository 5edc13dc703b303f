"""Keeps an emulator going in this process until a signal ends it.

The foreground command and the detached process do the same: say that they are the one, start,
tell somebody, wait, end all jobs, and take the record away. Only the main thread can do it, since
signals go there.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from wherry.emulator import exports, record
from wherry.emulator.batch.errors import BatchError
from wherry.emulator.record import Record
from wherry.emulator.settings import Settings
from wherry.errors import LaunchError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from wherry.emulator.server.emulator import Emulator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REQUESTS = "wherry.emulator.requests"
"""The logger that hears of each request, at level INFO."""

# What the extra brings. One that is missing means that the extra is; any other is a defect.
_EXTRA = {"moto", "boto3", "botocore", "werkzeug", "flask", "flask_cors", "docker"}


def host(
    settings: Settings,
    *,
    log: str = "",
    verbose: bool = False,
    ready: Callable[[Record], None],
    ending: Callable[[str, int], None],
) -> None:
    """Run an emulator until SIGINT, SIGTERM or SIGHUP.

    Args:
        settings: how it is to be.
        log: the file that this process writes to, for the record; empty for a terminal.
        verbose: whether to write each request to stderr.
        ready: told once, when it answers.
        ending: told the signal's name and how many jobs are ended with it.

    Raises:
        LaunchError: it cannot run here; the message says why.
        StateError: there is one already.
        UsageError: a setting cannot be honoured.
    """
    own = replace(record.own_record(), log=log, region=settings.region, state=settings.state or "")
    with _signals() as wait, exports.applied(exports.blind(os.environ)):
        record.claim(own)
        try:
            if verbose:
                _show_requests()
            emulator = make(settings)
            try:
                start(emulator, settings)
                own = _serving(own, emulator)
                record.claim(own)
                ready(own)
                name = wait()
                ending(name, jobs_at_work(emulator))
            finally:
                emulator.stop()
        finally:
            record.release(own)


def make(settings: Settings) -> Emulator:
    """Make an emulator, or say what is not installed.

    Raises:
        LaunchError: the extra is not installed.
    """
    try:
        from wherry.emulator.server.emulator import Emulator

        return Emulator(settings)
    except ModuleNotFoundError as error:
        raise _missing(error) from None


def start(emulator: Emulator, settings: Settings) -> None:
    """Start an emulator, wait until it has its queues, and word what may be in the way.

    Raises:
        LaunchError: the port is taken, or something is not installed.
        UsageError: a setting cannot be honoured.
    """
    try:
        with exports.applied(exports.blind(os.environ)):
            emulator.start()
            emulator.service()
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    except BatchError as error:  # as AWS would refuse it: the region
        raise UsageError(error.message) from None
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is used by another program" if error.errno == errno.EADDRINUSE else "is not allowed"
        raise LaunchError(
            f"port {settings.port} {why}; choose another with `--port`, or `--port 0` for any "
            "that is free"
        ) from None


def jobs_at_work(emulator: Emulator) -> int:
    """Return how many jobs have started and not ended."""
    counts = emulator.status().get("jobs", {})
    return sum(int(counts.get(state, 0)) for state in ("STARTING", "RUNNING"))


def _serving(own: Record, emulator: Emulator) -> Record:
    status = emulator.status()
    return replace(
        own,
        url=emulator.url,
        engine=str(status.get("engine", "")),
        engine_reason=str(status.get("engine_reason", "")),
    )


def _missing(error: ModuleNotFoundError) -> Exception:
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA:
        return error
    return LaunchError(
        f"the emulator needs {package}, which is not installed; "
        "install it with: pip install 'wherry[emulator]'"
    )


def _show_requests() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger(REQUESTS)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False


@contextmanager
def _signals() -> Iterator[Callable[[], str]]:
    """Turn the signals that end us into something to wait for.

    A signal that comes while the emulator is still starting is kept until it is asked for. The
    second one, while jobs are being ended, does what it does by default.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    before = {number: signal.getsignal(number) for number in ENDING}

    def note(number: int, _frame: FrameType | None) -> None:
        try:
            os.write(writing, bytes([number]))
        except BlockingIOError:
            return

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def wait() -> str:
        number = os.read(reading, 1)[0]
        restore()
        return signal.Signals(number).name

    for number in ENDING:
        signal.signal(number, note)
    try:
        yield wait
    finally:
        restore()
        os.close(reading)
        os.close(writing)
