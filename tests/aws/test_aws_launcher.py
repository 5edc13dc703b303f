"""The launcher's script, really run by the shells that images have."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherry.errors import InvalidSpecError
from wherry.schedulers.aws_batch import launcher
from wherry.schedulers.aws_batch.launcher import HOLE, Launch, unwrapped, wrapped
from wherry.specs.substitution import substitute

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
# Prints what it was given as a process gets it: from the kernel, without an interpreter's ideas.
SHOW = "import os,sys,json;os.write(1,json.dumps([sys.argv[1:],dict(os.environ)]).encode())"
PROGRAM = [sys.executable, "-I", "-S", "-c", SHOW]

# What a JSON request and a process can both carry, with a liking for what shells trip over.
AWKWARD = st.sampled_from(
    [
        *("", " ", "\n", "$", "$$", "'", "''", '"', "\\", "`", "*", "!", "(", "-n", "--", "%", "="),
        *("~", "${replica_id}", "${replica_id1}", "$1", "$(id)", "a=b", "#", ";", "&&", "{", "}"),
        HOLE,
    ]
)
TEXT = st.lists(
    AWKWARD | st.text(st.characters(blacklist_categories=["Cs"]), max_size=5), max_size=4
)
WORD = TEXT.map("".join)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True).filter(
    lambda name: name not in launcher._SHELL_NAMES and not name.startswith(("LC_", "LANG"))
    and name not in ("PATH", "HOME", "TERM", "SHELL", "ENV", "PS1", "PS2", "PS4")
)  # fmt: skip

each_shell = pytest.mark.parametrize("shell", SHELLS)


def run(shell, launch, **aws):
    """Run a wrapped command as a container would; give the program's words and environment."""
    ready = wrapped(launch)
    done = start(shell, ready, aws)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def start(shell, ready, aws=()):
    words = SHELLS[shell]
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    path = shutil.which(words[0])
    # As under Docker: no variable but those that are set, and the shell by its path.
    env = {**ready.env, **dict(aws)}
    return subprocess.run(
        [path, *words[1:], *ready.words[1:]], env=env, capture_output=True, text=True, check=False
    )


def ask(words=(), env=()):
    return Launch([*PROGRAM, *words], dict(env))


@each_shell
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(WORD, max_size=6),
    env=st.dictionaries(NAMES, WORD, max_size=4),
    index=st.integers(0, 10_000),
)
def test_words_and_values_arrive_as_they_were_written(shell, words, env, index):
    seen, around = run(shell, ask(words, env), AWS_BATCH_JOB_ARRAY_INDEX=str(index))

    assert seen == [word.replace(HOLE, str(index)) for word in words]
    assert {name: around.get(name) for name in env} == {
        name: value.replace(HOLE, str(index)) for name, value in env.items()
    }


@each_shell
def test_a_child_of_an_array_knows_its_number(shell):
    _, env = run(shell, ask(), AWS_BATCH_JOB_ARRAY_INDEX="7", AWS_BATCH_JOB_ATTEMPT="2")

    assert env["WHERRY_REPLICA_ID"] == "7"
    assert env["WHERRY_ATTEMPT"] == "2"
    assert env["WHERRY_RANK0_HOST"] == "localhost"


@each_shell
def test_a_child_of_a_later_array_of_the_same_app_counts_on(shell):
    seen, env = run(
        shell, ask([HOLE], {"WHERRY_INDEX_OFFSET": "10000"}), AWS_BATCH_JOB_ARRAY_INDEX="7"
    )

    assert env["WHERRY_REPLICA_ID"] == "10007"
    assert seen == ["10007"]


@each_shell
def test_a_node_counts_within_its_role_and_knows_the_main_node(shell):
    seen, env = run(
        shell,
        ask([f"--rank={HOLE}"], {"WHERRY_INDEX_OFFSET": "-4"}),
        AWS_BATCH_JOB_NODE_INDEX="5",
        AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="10.0.0.9",
    )

    assert env["WHERRY_REPLICA_ID"] == "1"
    assert env["WHERRY_RANK0_HOST"] == "10.0.0.9"
    assert seen == ["--rank=1"]


@each_shell
def test_the_main_node_is_its_own_first_host(shell):
    _, env = run(shell, ask(), AWS_BATCH_JOB_NODE_INDEX="0")

    assert env["WHERRY_RANK0_HOST"] == "localhost"
    assert env["WHERRY_ATTEMPT"] == "1"


@each_shell
def test_nothing_of_the_launcher_is_left_in_the_environment(shell):
    _, env = run(shell, ask(["x"], {"MINE": HOLE}), AWS_BATCH_JOB_ARRAY_INDEX="1")

    ours = {name for name in env if name.startswith(("WHERRY_", "_w", "MINE"))}
    assert ours == {"MINE", "WHERRY_REPLICA_ID", "WHERRY_ATTEMPT", "WHERRY_RANK0_HOST"}


@each_shell
@pytest.mark.parametrize("code", [0, 3, 137])
def test_the_exit_code_is_the_programs(shell, code):
    done = start(shell, wrapped(Launch([sys.executable, "-c", f"raise SystemExit({code})"], {})))

    assert done.returncode == code


@each_shell
def test_a_program_that_is_not_there_is_said_to_be_missing(shell):
    done = start(shell, wrapped(Launch(["/no/such/program"], {})))

    assert done.returncode in (126, 127)
    assert "/no/such/program" in done.stderr
    assert "wherry" in done.stderr


@each_shell
def test_the_program_takes_the_shells_place_and_its_signals(shell):
    ready = wrapped(Launch([sys.executable, "-c", WAITER], {}))
    words = SHELLS[shell]
    path = shutil.which(words[0])
    if path is None:
        pytest.skip(f"there is no {words[0]} here")
    child = subprocess.Popen(
        [path, *words[1:], *ready.words[1:]], env=dict(ready.env), stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    pid = int(child.stdout.readline())

    os.kill(child.pid, signal.SIGTERM)

    assert pid == child.pid
    assert child.wait(timeout=30) == 42
    child.stdout.close()


WAITER = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(42))
print(os.getpid(), flush=True)
while True: signal.pause()
"""


@each_shell
def test_nothing_but_the_shell_itself_is_needed(shell):
    seen, _ = run(shell, ask([f"a{HOLE}", ""]), PATH="/nowhere", AWS_BATCH_JOB_ARRAY_INDEX="3")

    assert seen == ["a3", ""]


def test_a_busybox_that_was_copied_is_a_shell(tmp_path):
    """What the sidecar does."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("there is no busybox here")
    subprocess.run([busybox, "cp", busybox, str(tmp_path / "sh")], check=True)

    words = wrapped(ask([HOLE]), str(tmp_path / "sh")).words
    done = subprocess.run(words, env={"AWS_BATCH_JOB_ARRAY_INDEX": "5"}, capture_output=True)

    assert json.loads(done.stdout)[0] == ["5"]


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(WORD, min_size=1, max_size=5),
    env=st.dictionaries(NAMES, WORD, max_size=3),
    replica=st.integers(0, 99).map(str),
)
def test_unwrapping_gives_back_words_that_say_the_same(words, env, replica):
    ready = wrapped(Launch(words, env))
    again = unwrapped(ready.words, ready.env)

    def applied(text):
        return substitute(text, {"replica_id": replica, "app_id": "x"})

    assert [applied(word) for word in again.words] == [
        word.replace(HOLE, replica) for word in words
    ]
    assert {name: applied(value) for name, value in again.env.items()} == {
        name: value.replace(HOLE, replica) for name, value in env.items()
    }


@pytest.mark.parametrize("command", [[], ["echo", "a"], ["/bin/sh", "-c", "echo a", "wherry"]])
def test_what_was_not_wrapped_is_left_alone(command):
    assert list(unwrapped(command, {"A": "$$"}).words) == command


def test_plain_words_stay_readable_in_the_wrapped_command():
    words = wrapped(Launch(["train", f"--shard={HOLE}", ""], {"OUT": HOLE})).words

    assert list(words[4:]) == [
        "${replica_id}", "''", "OUT", "--", "train", "--shard=${replica_id}", "''",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a-b", "a.b", "1a", "é", "a b"])
def test_a_variable_that_a_shell_would_drop_is_refused(name):
    with pytest.raises(InvalidSpecError, match="letters, digits and '_'"):
        launcher.check_names("role 'a'", [name])


@pytest.mark.parametrize("name", ["IFS", "PWD", "OPTIND", "_ws"])
def test_a_variable_that_a_shell_sets_itself_is_refused(name):
    with pytest.raises(InvalidSpecError, match="a shell sets it itself"):
        launcher.check_names("role 'a'", [name])
