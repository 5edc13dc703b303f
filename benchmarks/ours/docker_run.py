"""Run an app of N containers, so many times; print the seconds to the first line and to the end."""

import json
import sys
import time

from wherry import AppDef, Role, Runner

image, replicas, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
role = Role("echo", image=image, entrypoint="echo", args=["hello"], num_replicas=replicas)
app = AppDef("echo", [role])
found = []
with Runner("bench") as runner:
    for _ in range(times):
        begin = time.perf_counter()
        handle = runner.run(app, "local_docker")
        next(iter(runner.log_lines(handle, "echo", 0, should_tail=True)))
        first = time.perf_counter() - begin
        status = runner.wait(handle)
        found.append((first, time.perf_counter() - begin))
        if status.exit_code != 0:
            sys.exit(f"{handle}: {status}")
    runner.prune()
json.dump(found, sys.stdout)
