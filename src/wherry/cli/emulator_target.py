"""What the commands to an emulator share: which one they mean, and how its time is shown."""

from __future__ import annotations

from wherry.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from wherry.emulator.remote import Remote

ABSENT = "no emulator runs; start one with `wherry emulator start --detach`"


def add_target(parser: ArgumentParser, *, region: bool = False) -> None:
    """Add ``--url``, and ``--region`` for what concerns the jobs of one."""
    parser.add_argument(
        "--url", metavar="URL", help="the emulator at this address, in place of the one that runs"
    )
    if region:
        parser.add_argument("--region", metavar="REGION", help="whose jobs; the emulator's own")


def target_of(args: Namespace) -> Remote:
    """Return the emulator that a command means.

    Raises:
        StateError: none runs.
    """
    from wherry.emulator import record
    from wherry.emulator.remote import Remote

    region = vars(args).get("region") or ""
    if args.url:
        return Remote(args.url, region)
    own = record.find()
    if own is None:
        raise StateError(ABSENT)
    if not own.url:
        raise StateError(f"the emulator (process {own.pid}) is still starting; try again")
    return Remote(own.url, region)


def show_clock(found: dict[str, Any]) -> str:
    """Write the emulated time, and its pace where it is not that of real time."""
    from wherry.cli.times import show_time

    pace = f", {found['scale']:g} emulated seconds each second" if found["scale"] != 1 else ""
    return f"{show_time(found['now'])}{pace}"
