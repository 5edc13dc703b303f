"""Run an app of N containers, so many times; print the seconds to the first line and to the end."""

import json
import logging
import subprocess
import sys
import time

from torchx.runner import get_runner
from torchx.specs import AppDef, Resource, Role

logging.disable(logging.WARNING)  # It tries to pull each time, and warns that it cannot.
image, replicas, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# Its default resource is -1 of everything, which means no limit here.
role = Role(
    "echo",
    image=image,
    entrypoint="echo",
    args=["hello"],
    num_replicas=replicas,
    resource=Resource(cpu=-1, gpu=-1, memMB=-1),
)
app = AppDef("echo", [role])
found = []
with get_runner("bench") as runner:
    for _ in range(times):
        begin = time.perf_counter()
        handle = runner.run(app, "local_docker")
        next(iter(runner.log_lines(handle, "echo", 0, should_tail=True)))
        first = time.perf_counter() - begin
        status = runner.wait(handle, wait_interval=0.01)
        found.append((first, time.perf_counter() - begin))
        if status is None or status.state.name != "SUCCEEDED":
            sys.exit(f"{handle}: {status}")
        chosen = f"label=torchx.pytorch.org/app-id={handle.rpartition('/')[2]}"
        ids = subprocess.check_output(["docker", "ps", "-aq", "--filter", chosen], text=True)
        subprocess.run(["docker", "rm", "-f", *ids.split()], check=True, capture_output=True)
json.dump(found, sys.stdout)
