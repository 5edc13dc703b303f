"""Make an app with a log of so many megabytes; print its handle."""

import sys

from wherry import AppDef, Role, Runner

megabytes = int(sys.argv[1])
line = "x" * 99 + "\n"
program = f"import sys\nfor _ in range({megabytes}): sys.stdout.write({line!r} * 10000)"
with Runner("bench") as runner:
    role = Role("log", entrypoint=sys.executable, args=["-c", program])
    handle = runner.run(AppDef("log", [role]))
    assert runner.wait(handle).exit_code == 0
print(handle)
