"""Write a log in a container, and read all its lines; print the seconds that reading takes."""

import json
import logging
import subprocess
import sys
import time

from torchx.runner import get_runner
from torchx.specs import AppDef, Resource, Role

logging.disable(logging.WARNING)
image, line, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
role = Role(
    "yes",
    image=image,
    entrypoint="sh",
    args=["-c", f"yes {line} | head -n {count}"],
    num_replicas=1,
    resource=Resource(cpu=-1, gpu=-1, memMB=-1),
)
with get_runner("bench") as runner:
    handle = runner.run(AppDef("yes", [role]), "local_docker")
    runner.wait(handle, wait_interval=0.1)
    begin = time.perf_counter()
    size = sum(len(text) for text in runner.log_lines(handle, "yes", 0))
    seconds = time.perf_counter() - begin
    chosen = f"label=torchx.pytorch.org/app-id={handle.rpartition('/')[2]}"
    ids = subprocess.check_output(["docker", "ps", "-aq", "--filter", chosen], text=True)
    subprocess.run(["docker", "rm", "-f", *ids.split()], check=True, capture_output=True)
if size < count * len(line):
    sys.exit(f"{size} bytes were read")
json.dump(seconds, sys.stdout)
