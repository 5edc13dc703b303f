"""What takes long: a gigabyte without a newline, many replicas, and kills at random moments."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time

from wherry import AppDef, Role, Runner
from wherry.engine.processes import marked_processes

GIGABYTE = 1 << 30


def shell(script: str, **fields: object) -> AppDef:
    """Make an app of one role that runs a shell script."""
    array = bool(fields.pop("array", False))
    role = Role("role", entrypoint="sh", args=["-c", script], **fields)  # type: ignore[arg-type]
    return AppDef("soak", [role], array=array)


def gigabyte(runner: Runner) -> str:
    """Write a gigabyte without a newline and read it back."""
    handle = runner.run(shell(f"head -c {GIGABYTE} /dev/zero | tr '\\0' x"))
    status = runner.wait(handle)
    app_id = handle.rpartition("/")[2]
    size = sum(map(len, runner.scheduler("local_cwd").log_bytes(app_id, "role")))
    return "" if status.exit_code == 0 and size == GIGABYTE else f"{status.state}, {size} bytes"


def ten_thousand(runner: Runner) -> str:
    """Run 10,000 replicas; each must have succeeded."""
    status = runner.wait(runner.run(shell("exit 0", num_replicas=10_000, array=True)))
    counts = {state.name: count for state, count in status.counts().items()}
    return "" if counts == {"SUCCEEDED": 10_000} else str(counts)


def kills(runner: Runner) -> str:
    """Kill supervisors and guards at random moments; nothing may be left, every state right."""
    chance = random.Random(0)
    for number in range(50):
        app = shell("(setsid sleep 1000 &) ; sleep 1000 & wait", num_replicas=3)
        handle = runner.run(app)
        app_id = handle.rpartition("/")[2]
        time.sleep(chance.random() * 0.05)
        for pid in _supervisors(app_id)[number % 2 :]:
            os.kill(pid, signal.SIGKILL)
        if not _supervisors(app_id):
            runner.status(handle)
        status = runner.wait(handle, timeout=30)
        left = marked_processes(f"WHERRY_APP_ID={app_id}".encode())
        if status.state.name != "FAILED" or left:
            return f"round {number}: {status.state}, left: {left}"
    return ""


def _supervisors(app_id: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if f"/apps/{app_id}\0".encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return sorted(found)


def main() -> None:
    """Run all of it, and fail when something is not as it must be."""
    with tempfile.TemporaryDirectory(prefix="wherry-soak-") as folder:
        os.environ["WHERRY_HOME"] = f"{folder}/home"
        os.environ["WHERRY_RUNTIME_DIR"] = f"{folder}/run"
        bad = 0
        for work in (gigabyte, ten_thousand, kills):
            begin = time.perf_counter()
            with Runner("soak") as runner:
                problem = work(runner)
            bad += bool(problem)
            print(f"{work.__name__}: {problem or 'good'} ({time.perf_counter() - begin:.1f} s)")
    sys.exit(bad)


if __name__ == "__main__":
    main()
