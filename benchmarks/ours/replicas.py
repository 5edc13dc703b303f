"""Run an app of N replicas of /bin/true to its end, so many times; print the seconds of each."""

import json
import sys
import time

from wherry import AppDef, Role, Runner

replicas, times = int(sys.argv[1]), int(sys.argv[2])
app = AppDef("true", [Role("true", entrypoint="/bin/true", num_replicas=replicas)])
seconds = []
with Runner("bench") as runner:
    for _ in range(times):
        begin = time.perf_counter()
        handle = runner.run(app, "local_cwd")
        status = runner.wait(handle)
        seconds.append(time.perf_counter() - begin)
        if status.exit_code != 0:
            sys.exit(f"{handle}: {status}")
json.dump(seconds, sys.stdout)
