"""Run an app of N replicas of /bin/true to its end, so many times; print the seconds of each."""

import json
import sys
import time

from torchx.runner import get_runner
from torchx.specs import AppDef, Role

replicas, times = int(sys.argv[1]), int(sys.argv[2])
app = AppDef("true", [Role("true", image="", entrypoint="/bin/true", num_replicas=replicas)])
seconds = []
with get_runner("bench") as runner:
    for _ in range(times):
        begin = time.perf_counter()
        handle = runner.run(app, "local_cwd")
        # Its own default interval is 10 s; the smallest that does not spin is given here.
        status = runner.wait(handle, wait_interval=0.001)
        seconds.append(time.perf_counter() - begin)
        if status is None or status.state.name != "SUCCEEDED":
            sys.exit(f"{handle}: {status}")
json.dump(seconds, sys.stdout)
