"""Build an image of a base and a folder, and push it; print the seconds of both, and the image."""

import contextlib
import json
import logging
import os
import sys
import time

from torchx.specs import AppDef, Role
from torchx.workspace.docker_workspace import DockerWorkspaceMixin

logging.disable(logging.WARNING)
base, folder, repository = sys.argv[1:]
cfg = {"image_repo": repository, "quiet": True}
role = Role("main", image=base)
workspace = DockerWorkspaceMixin()
begin = time.perf_counter()
workspace.build_workspace_and_update_role(role, folder, cfg)
built = time.perf_counter() - begin
image = role.image
begin = time.perf_counter()
images = workspace.dryrun_push_images(AppDef("app", [role]), cfg)
with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
    workspace.push_images(images)
json.dump([built, time.perf_counter() - begin, image], sys.stdout)
