"""Build an image of a base and a folder, and push it; print the seconds of both, and the image."""

import json
import sys
import time

from wherry.workspace.image import ensure_image, plan_image
from wherry.workspace.push import push_image

base, folder, repository = sys.argv[1:]
begin = time.perf_counter()
plan = plan_image(base, folder, pull="always")
ensure_image(plan)
built = time.perf_counter() - begin
begin = time.perf_counter()
push_image(plan.name, repository, plan.tag, quiet=True)
json.dump([built, time.perf_counter() - begin, plan.name], sys.stdout)
