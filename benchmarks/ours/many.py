"""Fill the records with so many finished apps, as if they had run."""

import json
import os
import sys
import time

from wherry.home import home, journal_path

count = int(sys.argv[1])
os.makedirs(f"{home()}/apps", exist_ok=True)
now = time.time()
with open(journal_path(), "a") as journal:
    for number in range(count):
        app_id = f"true-{number:013d}"
        handle = f"local_cwd://bench/{app_id}"
        directory = f"{home()}/apps/{app_id}"
        os.mkdir(directory)
        record = {
            "app_id": app_id,
            "session": "bench",
            "scheduler": "local_cwd",
            "created_at": now + number,
            "log_dir": f"{directory}/logs",
            "plain_app": {"name": "true", "roles": [{"name": "true", "entrypoint": "/bin/true"}]},
        }
        with open(f"{directory}/app.json", "w") as file:
            json.dump(record, file)
        t = now + number
        events = [
            {"e": "supervising", "t": t, "pid": 1, "boot": ""},
            {"e": "started", "t": t, "role": "true", "k": 0, "n": 1, "pid": 2},
            {
                "e": "ended",
                "t": t,
                "role": "true",
                "k": 0,
                "n": 1,
                "code": 0,
                "sig": None,
                "state": "SUCCEEDED",
                "why": "",
            },
            {"e": "finished", "t": t, "state": "SUCCEEDED", "why": ""},
        ]
        with open(f"{directory}/events.jsonl", "w") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        notices = [
            {"e": "created", "handle": handle, "name": "true", "replicas": 1, "t": t},
            {"e": "ended", "handle": handle, "state": "SUCCEEDED", "t": t, "msg": ""},
        ]
        journal.writelines(json.dumps(notice) + "\n" for notice in notices)
