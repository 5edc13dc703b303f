"""Wherry and TorchX 0.7.0 beside each other, getting 50 MB of code to where it runs.

Each step is a process of its own: the first time, nothing changed, one file changed. Both build on
the same base and the same folder, by turns, and push to the same real registry (docker-registry);
both ask the registry for the base each time. Our archives go through rclone's S3 and are unpacked
as a job does it; TorchX, which has only images, is not charged for the pull on the other side.
See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local import HERE, Figure, table
from store import BUCKET, KEY, SECRET, free_ports, rclone

IMAGE = "wherry-test/busybox"
TORCHX = ("torchx==0.7.0", "docker")
FILES, FILE_BYTES, FOLDERS = 500, 100_000, 20
STEPS = ("the first time", "nothing changed", "one file changed")
ROUNDS = 3
QUIET = {"check": True, "capture_output": True}


class Bench:
    """Runs the scripts of both."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.endpoint = folder, endpoint
        self._env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._env |= {"WHERRY_HOME": f"{folder}/home", "WHERRY_RUNTIME_DIR": f"{folder}/run"}
        self._env |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        self._env |= {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
        script = HERE.parent / "scripts" / "peer.py"
        made = subprocess.run(
            [sys.executable, str(script), "torchx-docker", *TORCHX],
            check=True,
            capture_output=True,
            text=True,
        )
        self._pythons = {
            "ours": sys.executable,
            "torchx_070": f"{made.stdout.strip()}/bin/python",
        }

    def run(self, whose: str, script: str, *words: object) -> list[Any]:
        """Run a script of one of them; return what it printed."""
        command = [self._pythons[whose], str(HERE / whose / script), *map(str, words)]
        made = subprocess.run(
            command, env=self._env, capture_output=True, text=True, check=False
        )  # fmt: skip
        if made.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{made.stderr}")
        found: list[Any] = json.loads(made.stdout)
        return found


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that has the base image."""
    (port,) = free_ports(1)
    folder.mkdir()
    host = f"127.0.0.1:{port}"
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{host}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: '{folder}/data'}}}}\n"
    )
    command = ["docker-registry", "serve", str(folder / "config.yml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            subprocess.run(["docker", "tag", IMAGE, f"{host}/base:1"], **QUIET)  # type: ignore[call-overload]
            push_base(f"{host}/base:1")
            yield host
        finally:
            server.terminate()
            remove(f"{host}/base:1")


def push_base(name: str) -> None:
    """Push the base as soon as the registry listens."""
    for _ in range(100):
        if not subprocess.run(
            ["docker", "push", name], capture_output=True, check=False
        ).returncode:
            return
        time.sleep(0.1)
    sys.exit(f"{name} cannot be pushed")


def remove(*images: str) -> None:
    """Remove images, the last one first."""
    for image in reversed(images):
        subprocess.run(["docker", "rmi", "-f", image], capture_output=True, check=False)


def plant(folder: Path) -> Path:
    """Write a tree of 50 MB that nobody has seen before."""
    draw = random.Random(os.urandom(8))
    for number in range(FILES):
        place = folder / f"d{number % FOLDERS}" / f"f{number}.bin"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(draw.randbytes(FILE_BYTES))
    time.sleep(0.1)  # a file that was written just now is read again, and this is not about that
    return folder


def edit(tree: Path, step: int) -> None:
    """Change what a step is about."""
    if STEPS[step] == STEPS[2]:
        (tree / "d0" / "f0.bin").write_bytes(os.urandom(FILE_BYTES))
        time.sleep(0.1)


def images(bench: Bench, host: str) -> dict[str, list[list[list[float]]]]:
    """Return, for each side, the rounds' steps' seconds: of building, and of pushing."""
    found: dict[str, list[list[list[float]]]] = {"ours": [], "torchx_070": []}
    for number in range(ROUNDS):
        sides = list(found) if number % 2 else list(found)[::-1]
        for whose in sides:
            print(f"… images, round {number + 1}, {whose}", file=sys.stderr, flush=True)
            tree = plant(bench.folder / f"tree-{whose}-{number}")
            rows, made = [], []
            for step in range(len(STEPS)):
                edit(tree, step)
                *seconds, image = bench.run(
                    whose, "workspace_image.py", f"{host}/base:1", tree, f"{host}/{whose}{number}"
                )
                rows.append(seconds)
                made.append(image)
            found[whose].append(rows)
            remove(*pushed(f"{host}/{whose}{number}"), *made)
            shutil.rmtree(tree)
    return found


def pushed(repository: str) -> list[str]:
    """Return the names that images have for a repository."""
    form = ["--format", "{{.Repository}}:{{.Tag}}"]
    listed = subprocess.check_output(["docker", "images", *form, repository], text=True)
    return listed.split()


def archives(bench: Bench) -> list[list[list[float]]]:
    """Return the rounds' steps' seconds: of sending, and of unpacking."""
    found = []
    for number in range(ROUNDS):
        print(f"… archives, round {number + 1}", file=sys.stderr, flush=True)
        tree = plant(bench.folder / f"tree-archive-{number}")
        rows = []
        for step in range(len(STEPS)):
            edit(tree, step)
            url = f"s3://{BUCKET}/{number}"
            rows.append(bench.run("ours", "workspace_archive.py", tree, url, bench.endpoint))
        found.append(rows)
        shutil.rmtree(tree)
    return found


def figures(bench: Bench, host: str) -> list[Figure]:
    """Run all, and set the rows."""
    built, sent = images(bench, host), archives(bench)
    found = []
    for step, what in enumerate(STEPS):
        ours, theirs = (
            [sum(rounds[step][:1]) for rounds in built[whose]] for whose in ("ours", "torchx_070")
        )
        found.append(row(f"image of 50 MB, {what}: built", ours, theirs))
    for step, what in enumerate(STEPS):
        ours, theirs = (
            [sum(rounds[step]) for rounds in built[whose]] for whose in ("ours", "torchx_070")
        )
        found.append(row(f"image of 50 MB, {what}: built and pushed", ours, theirs))
        archive = [sum(rounds[step]) for rounds in sent]
        found.append(
            row(f"archive of 50 MB, {what}: sent, and unpacked in the job", archive, theirs)
        )
    return found


def row(what: str, ours: list[float], theirs: list[float]) -> Figure:
    """Set one row of medians, in milliseconds."""
    median = statistics.median
    return Figure(what, median(ours) * 1000, median(theirs) * 1000, "ms", 1)


def main() -> None:
    """Run the rows, print the table, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="FILE", help="write the table into a file too")
    words = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wherry-bench-"))
    try:
        (folder / "s3").mkdir()
        with rclone(folder / "s3") as endpoint, registry(folder / "registry") as host:
            found = figures(Bench(folder, endpoint), host)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(found))
    if words.write:
        Path(words.write).write_text(f"# Figures: workspaces\n\n{table(found)}\n")
    missed = [figure.row for figure in found if not figure.met]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
