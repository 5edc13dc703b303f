"""TorchX 0.7.0's own AWS Batch scheduler, as it comes from its package, runs on the emulator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.peers import environment_of
from support.waiting import until
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

Torchx = Callable[..., str]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(Settings(port=0, engine="process")) as running:
        yield running


@pytest.fixture
def torchx(emulator: Emulator, tmp_path: Path) -> Torchx:
    peer = environment_of("torchx", "torchx==0.7.0", "boto3")
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = inherited | emulator.environment() | {"HOME": str(tmp_path)}

    def run(command: str, *words: str, code: int = 0) -> str:
        # A workspace would be built into an image that has to be pulled first.
        options = ["--workspace", ""] if command == "run" else []
        answer = subprocess.run(
            [str(peer / "bin" / "torchx"), command, *options, *words],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert answer.returncode == code, f"torchx {command} {' '.join(words)}: {answer.stderr}"
        return answer.stdout

    return run


def ended(torchx: Torchx, handle: str) -> str:
    def state() -> str:
        printed = torchx("status", handle)
        return next((word for word in ("SUCCEEDED", "FAILED") if word in printed), "")

    return until(state, f"the end of {handle}", seconds=60)


def test_one_replica_runs_and_is_described_listed_and_read(torchx: Torchx):
    handle = torchx(
        "run", "-s", "aws_batch", "-cfg", "queue=main", "utils.echo", "--msg", "hello from torchx"
    ).strip()

    assert ended(torchx, handle) == "SUCCEEDED"
    assert "hello from torchx" in torchx("log", handle)
    assert handle.rpartition(":")[2] in torchx("list", "-s", "aws_batch")
    assert "echo" in torchx("describe", handle)


COMPONENT = """
import torchx.specs as specs

SCRIPT = '''
main=${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-main}
echo "node $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES at $main"
sleep 2
'''

def three() -> specs.AppDef:
    role = specs.Role("node", "busybox", entrypoint="sh", args=["-c", SCRIPT], num_replicas=3,
                      resource=specs.Resource(cpu=1, gpu=0, memMB=128))
    return specs.AppDef("three", roles=[role])
"""


def test_three_replicas_know_each_other(torchx: Torchx, tmp_path: Path):
    (tmp_path / "gang.py").write_text(COMPONENT)

    handle = torchx("run", "-s", "aws_batch", "-cfg", "queue=main", "gang.py:three").strip()

    assert ended(torchx, handle) == "SUCCEEDED"
    assert "node 0 of 3 at main" in torchx("log", f"{handle}/node/0")
    for index in (1, 2):
        assert f"node {index} of 3 at 127." in torchx("log", f"{handle}/node/{index}")


def test_a_running_app_is_cancelled(torchx: Torchx):
    handle = torchx("run", "-s", "aws_batch", "-cfg", "queue=main", "utils.sh", "sleep 600").strip()

    torchx("cancel", handle)

    assert ended(torchx, handle) == "FAILED"
