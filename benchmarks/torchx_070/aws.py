"""Submit an app of N replicas to AWS Batch, watch it to its end, read all logs; tell each phase."""

import sys
import time

from torchx.runner import get_runner
from torchx.specs import AppDef, Resource, Role

replicas, queue = int(sys.argv[1]), sys.argv[2]
role = Role(
    "echo",
    image="busybox",
    entrypoint="sh",
    # The first replica of a gang ends the others, so it must give them time to start.
    args=["-c", f"echo hello; sleep {2 + replicas // 50}"],
    num_replicas=replicas,
    resource=Resource(cpu=1, gpu=0, memMB=128),
)


def told(phase: str, begin: float) -> None:
    print(phase, time.perf_counter() - begin, flush=True)
    sys.stdin.readline()


with get_runner("bench") as runner:
    told("ready", time.perf_counter())
    begin = time.perf_counter()
    handle = runner.run(AppDef("echo", [role]), "aws_batch", {"queue": queue})
    told("submit", begin)
    begin = time.perf_counter()
    # Its own default interval is 10 s.
    status = runner.wait(handle, wait_interval=0.5)
    told("watch", begin)
    begin = time.perf_counter()
    lines = sum(
        sum(1 for _ in runner.log_lines(handle, "echo", k=index)) for index in range(replicas)
    )
    told("logs", begin)
print("result", lines if status is not None else -1, flush=True)
