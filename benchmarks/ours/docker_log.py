"""Write a log in a container, and read all its lines; print the seconds that reading takes."""

import json
import sys
import time

from wherry import AppDef, Role, Runner

image, line, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
role = Role("yes", image=image, entrypoint="sh", args=["-c", f"yes {line} | head -n {count}"])
with Runner("bench") as runner:
    handle = runner.run(AppDef("yes", [role]), "local_docker")
    runner.wait(handle)
    begin = time.perf_counter()
    size = sum(len(text) for text in runner.log_lines(handle, "yes", 0))
    seconds = time.perf_counter() - begin
    runner.prune()
if size != count * (len(line) + 1):
    sys.exit(f"{size} bytes were read")
json.dump(seconds, sys.stdout)
