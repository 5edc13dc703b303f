"""The built-in components for commands: what they make of their arguments, and what that does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wherry.components import DEFAULT_IMAGE, build, find, utils
from wherry.errors import ComponentError
from wherry.specs import BindMount, Resource, macros, named_resources


def role(name: str, *argv: str):
    return build(find(name), argv).roles[0]


def refusal(name: str, *argv: str) -> str:
    with pytest.raises(ComponentError) as caught:
        build(find(name), argv)
    return str(caught.value)


def output(role) -> str:
    """Run a role's command here, its macros replaced."""
    ready = macros.Values("", "app-1", "0", "RANK0").apply_to_role(role)
    return subprocess.run(
        [ready.entrypoint, *ready.args], capture_output=True, text=True, check=True
    ).stdout


RESOURCE_COMPONENTS = [
    ("utils.sh", "true"),
    ("utils.python", "-c=pass"),
    ("utils.binary", "--entrypoint=true"),
]


@pytest.mark.parametrize(("name", "word"), RESOURCE_COMPONENTS)
def test_commands_take_what_a_role_takes(name, word):
    options = (
        "--cpu=0.5 --gpu=1 --memMB=256 --num-replicas=3 --max-retries=2 --image=img "
        "--env=A=1,B=2 --mounts=type=bind,src=/a,dst=/b"
    )
    made = role(name, *options.split(), word)
    assert made.resource == Resource(cpu=0.5, gpu=1, memMB=256)
    assert (made.num_replicas, made.max_retries, made.image) == (3, 2, "img")
    assert made.env == {"A": "1", "B": "2"}
    assert made.mounts == (BindMount("/a", "/b"),)


@pytest.mark.parametrize(("name", "word"), RESOURCE_COMPONENTS)
def test_commands_ask_for_little_when_nothing_is_said(name, word):
    made = role(name, word)
    assert made.resource == Resource(cpu=1, gpu=0, memMB=1024)
    assert (made.num_replicas, made.max_retries, made.env) == (1, 0, {})


@pytest.mark.parametrize(("name", "word"), RESOURCE_COMPONENTS)
def test_a_named_resource_says_all(name, word):
    assert role(name, "-h", "gpu.small", word).resource == named_resources["gpu.small"]


def test_a_number_beside_a_named_resource_is_refused_rather_than_ignored():
    message = refusal("utils.sh", "-h", "gpu.small", "--cpu=4", "true")
    assert "leave out --cpu, or -h" in message


def test_an_unknown_named_resource_is_refused_by_name():
    assert "'gpu.smal'; did you mean 'gpu.small'?" in refusal("utils.sh", "-h=gpu.smal", "true")


def test_a_wrong_mount_is_refused():
    message = refusal("utils.sh", "--mounts=type=bind,src=/a", "true")
    assert message.startswith("utils.sh: a bind mount needs dst=")


def test_the_default_image_is_this_pythons():
    major, minor = sys.version_info[:2]
    assert f"docker.io/library/python:{major}.{minor}-slim" == DEFAULT_IMAGE
    assert role("utils.echo").image == DEFAULT_IMAGE


def test_components_are_plain_functions_too():
    assert utils.echo("hi").roles[0].args == ("hi",)
    assert utils.sh("echo", "a b").roles[0].args == ("-c", "echo 'a b'")


# echo, touch


def test_echo_prints_its_message():
    assert output(role("utils.echo", "--msg", "hello there")) == "hello there\n"


def test_touch_makes_a_file(tmp_path):
    output(role("utils.touch", "--file", f"{tmp_path}/a b"))
    assert (tmp_path / "a b").exists()


# sh


def test_one_argument_is_a_script():
    assert output(role("utils.sh", "echo a; echo b | tr b c")) == "a\nc\n"


def test_several_arguments_are_words():
    assert output(role("utils.sh", "printf", "%s|", "a b", "c;d", "$HOME", "")) == "a b|c;d|$HOME||"


def test_options_of_the_command_are_its_own():
    assert output(role("utils.sh", "printf", "%s|", "--env", "-x")) == "--env|-x|"


def test_macros_are_replaced_in_a_script():
    assert output(role("utils.sh", "echo ${app_id} $$((1+1))")) == "app-1 2\n"


def test_nothing_to_run_is_refused():
    assert "nothing to run" in refusal("utils.sh")
    assert "nothing to run" in refusal("utils.sh", "--")


# python


@pytest.mark.parametrize(
    ("argv", "args", "name"),
    [
        (["-m", "a.b.train"], ("-m", "a.b.train"), "train"),
        (["-c", "print(1)"], ("-c", "print(1)"), "python"),
        (["--script", "jobs/my train.py"], ("jobs/my train.py",), "my-train"),
        (["--script", "_x.tar.gz"], ("_x.tar.gz",), "x.tar"),
        (["--script", "été.py"], ("été.py",), "t"),
        (["--script", "日本.py"], ("日本.py",), "python"),
        (["-c", "1", "--name", "mine"], ("-c", "1"), "mine"),
        (["-c", "1", "--name", "my job!"], ("-c", "1"), "my-job"),
    ],
)
def test_python_runs_a_module_text_or_script_and_is_named_after_it(argv, args, name):
    app = build(find("utils.python"), argv)
    assert app.roles[0].entrypoint == "python"
    assert app.roles[0].args == args
    assert app.name == name
    assert app.roles[0].name == "python"


def test_python_passes_arguments_on():
    made = role("utils.python", "-c", "x", "--", "-m", "--name", "y")
    assert made.args == ("-c", "x", "-m", "--name", "y")


@pytest.mark.parametrize("argv", [[], ["-m", "a", "-c", "b"], ["-m=a", "--script=b"]])
def test_python_runs_exactly_one_thing(argv):
    assert "exactly one of -m, -c and --script" in refusal("utils.python", *argv)


def test_python_refuses_to_run_nothing():
    assert "-c is empty" in refusal("utils.python", "-c=")


def test_a_long_name_is_cut():
    app = build(find("utils.python"), ["-c=1", "--name", "x" * 300])
    assert app.name == "x" * 128


# binary


def test_binary_runs_a_program_and_is_named_after_it():
    app = build(find("utils.binary"), ["--entrypoint", "/bin/echo", "a", "--name", "b"])
    assert app.name == "echo"
    assert output(app.roles[0]) == "a --name b\n"


def test_binary_needs_a_program():
    assert "--entrypoint is required" in refusal("utils.binary", "a")
    assert "entrypoint must be a program" in refusal("utils.binary", "--entrypoint=")


def test_the_callers_values_are_not_changed():
    env, mounts = {"A": "1"}, ["type=bind", "src=/a", "dst=/b"]
    utils.python(m="x", env=env, mounts=mounts)
    assert (env, mounts) == ({"A": "1"}, ["type=bind", "src=/a", "dst=/b"])
