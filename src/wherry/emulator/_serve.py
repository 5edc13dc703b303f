"""The process of a detached emulator: ``python …/_serve.py``.

A file of its own, so that a list of processes shows what this one is for. Its plan, a JSON object
with ``settings``, ``log`` and ``verbose``, comes on standard input. The answer goes to descriptor
3, which then is closed: ``{"record": …}``, or ``{"error": …, "kind": …}``.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

ANSWER = 3


def main() -> int:
    """Serve until a signal comes; returns the exit code."""
    from wherry.emulator.hosting import host
    from wherry.emulator.record import Record
    from wherry.emulator.settings import Settings
    from wherry.errors import WherryError

    os.set_inheritable(ANSWER, False)
    plan = json.load(sys.stdin)

    def ready(own: Record) -> None:
        _say({"record": asdict(own)})

    def ending(name: str, jobs: int) -> None:
        sys.stderr.write(f"{name}: ending, with {jobs} running {'job' if jobs == 1 else 'jobs'}\n")

    try:
        host(
            Settings(**plan["settings"]),
            log=plan["log"],
            verbose=plan["verbose"],
            ready=ready,
            ending=ending,
        )
    except (WherryError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        _say({"error": str(error), "kind": type(error).__name__})
        return 1
    return 0


def _say(answer: dict[str, object]) -> None:
    try:
        os.write(ANSWER, json.dumps(answer).encode())
        os.close(ANSWER)
    except OSError:
        return  # the starter has gone, or it was told before


if __name__ == "__main__":
    # Not this folder, whose modules are Wherry's and not everybody's, but the one that holds it.
    sys.path[0] = os.path.dirname(os.path.abspath(__file__)).rsplit(os.sep, 2)[0]
    sys.exit(main())
