"""Run an array of N × /bin/true, two at a time; print seconds and the supervisor's size."""

import json
import sys
import threading
import time

import psutil

from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role

replicas = int(sys.argv[1])
app = AppDef("true", [Role("true", entrypoint="/bin/true", num_replicas=replicas)], array=True)
scheduler = LocalScheduler("bench")
largest = {"rss": 0, "fds": 0, "threads": 0}
over = threading.Event()


def watch(app_id: str) -> None:
    """Note the largest size of guard and supervisor together, ten times a second."""
    while not over.wait(0.1):
        ours = [p for p in psutil.process_iter(["cmdline"]) if app_id in str(p.info["cmdline"])]
        sizes = {"rss": 0, "fds": 0, "threads": 0}
        for process in ours:
            try:
                sizes["rss"] = max(sizes["rss"], process.memory_info().rss)
                sizes["fds"] = max(sizes["fds"], process.num_fds())
                sizes["threads"] = max(sizes["threads"], process.num_threads())
            except psutil.Error:
                continue
        for name, size in sizes.items():
            largest[name] = max(largest[name], size)


begin = time.perf_counter()
app_id = scheduler.submit(app, {"max_parallel": 2})
thread = threading.Thread(target=watch, args=(app_id,))
thread.start()
scheduler.wait_for_change(app_id, 600, until_end=True)
seconds = time.perf_counter() - begin
over.set()
thread.join()
described = scheduler.describe(app_id)
if described is None or described.state.name != "SUCCEEDED":
    sys.exit(f"{app_id}: {described}")
json.dump({"seconds": seconds, **largest}, sys.stdout)
