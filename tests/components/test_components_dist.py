"""dist.ddp and dist.spmd: the torchrun command on every node."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.components import build, find
from wherry.components.dist import ddp, parse_nodes
from wherry.errors import ComponentError
from wherry.specs import Resource, RetryPolicy, macros, named_resources


def app(name: str, *argv: str):
    return build(find(name), argv)


def role(name: str, *argv: str):
    return app(name, *argv).roles[0]


def refusal(name: str, *argv: str) -> str:
    with pytest.raises(ComponentError) as caught:
        app(name, *argv)
    return str(caught.value)


@pytest.fixture(scope="session")
def torchrun(tmp_path_factory):
    """A torchrun that prints its arguments; returns a function that runs a role with it."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "torchrun").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    (folder / "torchrun").chmod(0o755)

    def run(role, replica: int = 0, **env: str) -> list[str]:
        ready = macros.Values("", "app-1", str(replica), "RANK0").apply_to_role(role)
        return subprocess.run(
            [ready.entrypoint, *ready.args],
            env={"PATH": f"{folder}:{os.environ['PATH']}", **env},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()

    return run


def test_one_node_meets_itself_at_a_free_port(torchrun):
    made = role("dist.ddp", "-j", "1x4", "--script", "my train.py", "--", "--lr", "0.1")
    assert made.entrypoint == "torchrun"
    assert torchrun(made) == [
        "--rdzv_endpoint=localhost:0",
        "--rdzv_backend=c10d",
        "--rdzv_id=app-1",
        "--nnodes=1",
        "--nproc_per_node=4",
        "--tee=3",
        "--role=",
        "my train.py",
        "--lr",
        "0.1",
    ]


def test_several_nodes_meet_at_the_first_ones_address(torchrun):
    made = role("dist.ddp", "-j", "2x8", "-m", "pkg.train", "--", "a 'b'", "$HOME", "`x`", "")
    assert made.entrypoint == "sh"
    assert torchrun(made, RANK0="10.0.0.7") == [
        "--rdzv_endpoint=10.0.0.7:29500",
        "--rdzv_backend=c10d",
        "--rdzv_id=app-1",
        "--nnodes=2",
        "--nproc_per_node=8",
        "--tee=3",
        "--role=",
        "-m",
        "pkg.train",
        "a 'b'",
        "$HOME",
        "`x`",
        "",
    ]


@pytest.mark.parametrize("env", [{}, {"RANK0": ""}])
def test_a_first_node_that_is_not_told_its_address_is_localhost(torchrun, env):
    made = role("dist.ddp", "-j", "2x8", "-m", "train", "--rdzv-port", "4000")
    assert torchrun(made, **env)[0] == "--rdzv_endpoint=localhost:4000"


def test_macros_work_in_the_programs_arguments(torchrun):
    made = role("dist.ddp", "-j", "2x1", "-m", "train", "--", "out/${app_id}/${replica_id}")
    assert torchrun(made, replica=1)[-1] == "out/app-1/1"


def test_the_static_backend_is_told_the_nodes_rank_and_a_real_port(torchrun):
    two = role("dist.ddp", "-j", "2x1", "-m", "train", "--rdzv-backend=static")
    assert "--node_rank=1" in torchrun(two, replica=1)
    one = role("dist.ddp", "-j", "1x2", "-m", "train", "--rdzv-backend=static")
    assert torchrun(one)[0] == "--rdzv_endpoint=localhost:29500"
    assert "--node_rank=0" not in torchrun(role("dist.ddp", "-m", "train"))


@pytest.mark.parametrize(
    ("j", "replicas", "least", "nnodes", "processes"),
    [("4", 1, None, "1", "4"), ("2x8", 2, None, "2", "8"), ("1:2x8", 2, 1, "1:2", "8")],
)
def test_j_says_nodes_and_processes(j, replicas, least, nnodes, processes):
    made = role("dist.ddp", "-j", j, "-m", "train")
    assert (made.num_replicas, made.min_replicas) == (replicas, least)
    command = " ".join(made.args)
    assert f"--nnodes={nnodes} --nproc_per_node={processes} " in command


@pytest.mark.parametrize("j", ["", "x", "2x", "x2", "1:2", "a", "2x2x2", "-1", "1:2:3x1", "２x2"])
def test_another_form_of_j_is_refused(j):
    assert "-j takes processes (4), NODESxPROCESSES" in refusal("dist.ddp", f"-j={j}", "-m=a")


@pytest.mark.parametrize("j", ["0", "0x2", "2x0", "0:2x1", "3:2x1"])
def test_nodes_that_cannot_be_are_refused(j):
    assert f"-j {j}: " in refusal("dist.ddp", "-j", j, "-m", "a")


@given(st.integers(1, 999), st.integers(1, 999), st.integers(1, 999))
def test_any_nodes_are_read_as_they_are_written(least, more, processes):
    most = least + more
    assert parse_nodes(f"{least}:{most}x{processes}") == (least, most, processes)
    assert parse_nodes(f"{most}x{processes}") == (most, most, processes)
    assert parse_nodes(f"{processes}") == (1, 1, processes)


@pytest.mark.parametrize("argv", [[], ["-m", "a", "--script", "b"]])
def test_exactly_one_program_runs(argv):
    assert "exactly one of --script and -m" in refusal("dist.ddp", *argv)


@pytest.mark.parametrize(
    ("name", "experiment", "run"),
    [
        ("/", "default-experiment", "train"),
        ("mnist/", "mnist", "train"),
        ("/first", "default-experiment", "first"),
        ("first", "default-experiment", "first"),
        ("mnist/first", "mnist", "first"),
        ("mnist/first try/2", "mnist", "first-try-2"),
    ],
)
def test_a_name_is_an_experiment_and_a_run(name, experiment, run):
    made = app("dist.ddp", "--script", "jobs/train.py", "--name", name)
    assert made.name == run
    assert made.roles[0].name == "train"
    assert made.roles[0].env["WHERRY_EXPERIMENT_NAME"] == experiment


def test_debug_sets_pytorchs_variables_and_the_users_own_win():
    made = role("dist.ddp", "-m=a", "--debug", "--env=NCCL_DESYNC_DEBUG=0,LOGLEVEL=INFO")
    assert made.env["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"
    assert made.env["NCCL_DESYNC_DEBUG"] == "0"
    assert made.env["LOGLEVEL"] == "INFO"
    assert "CUDA_LAUNCH_BLOCKING" not in role("dist.ddp", "-m=a").env


def test_nodes_start_again_together_and_show_their_port():
    made = role("dist.ddp", "-m=a", "--max-retries=2", "--rdzv-port=4000")
    assert (made.max_retries, made.retry_policy) == (2, RetryPolicy.APPLICATION)
    assert made.port_map == {"c10d": 4000}


def test_a_port_that_cannot_be_is_refused():
    assert "must be at most 65535" in refusal("dist.ddp", "-m=a", "--rdzv-port=70000")


def test_a_node_asks_for_two_cpus_numbers_or_a_host():
    assert role("dist.ddp", "-m=a").resource == Resource(cpu=2, gpu=0, memMB=1024)
    assert role("dist.ddp", "-m=a", "--gpu=2").resource == Resource(cpu=2, gpu=2, memMB=1024)
    assert role("dist.ddp", "-m=a", "-h=gpu.medium").resource == named_resources["gpu.medium"]


def test_the_callers_environment_is_not_changed():
    env = {"A": "1"}
    ddp(m="a", env=env, debug=True)
    assert env == {"A": "1"}


# spmd


def test_spmd_fills_the_hosts_gpus():
    made = role("dist.spmd", "-j", "2", "-h", "gpu.large", "-m", "train")
    assert made.resource == named_resources["gpu.large"]
    assert "--nnodes=2 --nproc_per_node=4 " in made.args[1]


def test_spmd_takes_processes_as_given():
    assert "--nproc_per_node=3" in role("dist.spmd", "-j", "1x3", "-m", "train").args


def test_spmd_cannot_infer_processes_without_gpus():
    message = refusal("dist.spmd", "-j", "2", "-h", "cpu.small", "-m", "train")
    assert "cpu.small has none; write -j 2xPROCESSES" in message


def test_spmd_passes_the_rest_on(torchrun):
    made = role("dist.spmd", "--script", "t.py", "--debug", "--env=A=1", "--", "-j", "x")
    assert torchrun(made)[-3:] == ["t.py", "-j", "x"]
    assert made.env["A"] == "1"
    assert made.env["NCCL_DESYNC_DEBUG"] == "1"
