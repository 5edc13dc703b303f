"""Submit an app of N replicas to AWS Batch, watch it to its end, read all logs; tell each phase."""

import sys
import time

from wherry import AppDef, Resource, Role, Runner

replicas, queue, array = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "array"
role = Role(
    "echo",
    image="busybox",
    entrypoint="sh",
    # The first replica of a gang ends the others, so it must give them time to start.
    args=["-c", f"echo hello; sleep {2 + replicas // 50}"],
    num_replicas=replicas,
    resource=Resource(cpu=1, memMB=128),
)


def told(phase: str, begin: float) -> None:
    print(phase, time.perf_counter() - begin, flush=True)
    sys.stdin.readline()


with Runner("bench") as runner:
    told("ready", time.perf_counter())
    begin = time.perf_counter()
    handle = runner.run(AppDef("echo", [role], array=array), "aws_batch", {"queue": queue})
    told("submit", begin)
    begin = time.perf_counter()
    runner.wait(handle)
    told("watch", begin)
    begin = time.perf_counter()
    scheduler, app_id = runner.scheduler("aws_batch"), runner.resolve(handle).app_id
    text = b"".join(
        data for index in range(replicas) for data in scheduler.log_bytes(app_id, "echo", index)
    )
    told("logs", begin)
print("result", text.count(b"hello\n"), flush=True)
