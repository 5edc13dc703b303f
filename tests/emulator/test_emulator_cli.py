"""``wherry emulator``: from a terminal, by scripts, and after accidents."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.waiting import until
from wherry.cli.main import main
from wherry.cli.sizes import read_mib
from wherry.emulator import exports, record
from wherry.errors import UsageError

COMMAND = (sys.executable, "-m", "wherry.cli", "emulator")
PATIENCE = 100.0
DEFINITION = {
    "type": "container",
    "containerProperties": {
        "image": "alpine",
        "command": ["sleep", "600"],
        "resourceRequirements": [
            {"type": "VCPU", "value": "1"},
            {"type": "MEMORY", "value": "64"},
        ],
    },
}


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


def emulator(*words: str, env: dict[str, str] | None = None) -> Result:
    """Run ``wherry emulator`` as a process of its own."""
    done = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        env={**os.environ, "SHELL": "/bin/sh", **(env or {})},
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """End what a test that failed left behind; its runtime folder is its own."""
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A detached emulator that several tests talk to, as the environment in which it is found."""
    env = {"WHERRY_RUNTIME_DIR": str(tmp_path_factory.mktemp("run"))}
    done = emulator(
        "start", "--detach", "--port", "0", "--engine", "process", "--scale", "60", env=env
    )
    assert done.code == 0, done.err
    yield env
    assert emulator("stop", env=env).code == 0


@pytest.fixture
def ask(served: dict[str, str]) -> Iterator[Command]:
    """Run a command that talks to the shared emulator, which is then as at its start."""

    def run(*words: str) -> Result:
        return emulator(*words, env=served)

    yield run
    assert run("reset").code == 0


@pytest.fixture
def client(ask: Command) -> Callable[[str], Any]:
    """Make boto3 clients from what ``env`` prints."""
    variables = json.loads(ask("env", "--shell", "json").out)
    return lambda service: client_of(variables, service)


def client_of(variables: dict[str, str], service: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_DEFAULT_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 1}),
    )


def sleeping_job(batch: Any, **retries: int) -> str:
    """Submit a job that sleeps, and wait until it runs; returns its id."""
    batch.register_job_definition(jobDefinitionName="nap", **DEFINITION)
    retry = {"retryStrategy": retries} if retries else {}
    job = batch.submit_job(jobName="nap", jobQueue="main", jobDefinition="nap", **retry)["jobId"]
    until(lambda: described(batch, job)["status"] == "RUNNING", "the job to run")
    return str(job)


def described(batch: Any, job: str) -> Any:
    return batch.describe_jobs(jobs=[job])["jobs"][0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "say what to do: start, stop"),
        (["strat"], "did you mean 'start'"),
        (["start", "--engine", "dokcer"], "did you mean 'docker'"),
        (["start", "--memory", "16GG"], "did you mean '16GiB'"),
        (["start", "--memory", "lots"], "write 512MiB or 16GiB"),
        (["start", "--prot", "1"], "did you mean '--port'"),
        (["start", "--port", "99999"], "a port from 0 to 65535, not '99999'"),
        (["start", "--vcpus", "0"], "a number above 0, not '0'"),
        (["start", "--scale", "fast"], "a number above 0, not 'fast'"),
        (["start", "--s3", "localhost:9000"], "such as http://127.0.0.1:8333"),
        (["env", "--shell", "fsh"], "did you mean 'fish'"),
        (["env", "--url", "ftp://x"], "such as http://127.0.0.1:4566"),
        (["fault"], "say what to do: list, add, clear"),
        (["fault", "ad"], "did you mean 'add'"),
        (["fault", "add", "throtle"], "did you mean 'throttle'"),
        (["fault", "add", "throttle", "--rate", "50"], "a share from 0 to 1"),
        (["fault", "add", "throttle", "--opration", "x"], "did you mean '--operation'"),
        (["clock", "--advance", "soon"], "write 90s, 10m, 2h"),
        (["reclaim"], "JOB_OR_INSTANCE"),
    ],
)
def test_a_mistake_is_answered_with_the_fix(
    words: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["emulator", *words])

    printed = capfd.readouterr()
    assert (code, printed.out) == (2, "")
    assert problem in printed.err


@pytest.mark.parametrize(
    ("text", "mib"),
    [("16GiB", 16384), ("512MiB", 512), ("1.5T", 1572864), ("100", 100), ("1 GB", 953)],
)
def test_memory_is_read_as_people_write_it(text: str, mib: int) -> None:
    assert read_mib(text) == mib


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "0", "1e3", "1KiB", "0.1MiB"])
def test_what_is_not_memory_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="MiB"):
        read_mib(text)


def test_without_an_emulator_commands_say_so() -> None:
    for words in (["env"], ["reset"], ["fault", "list"], ["reclaim", "x"], ["clock"]):
        done = emulator(*words)
        assert (done.code, done.out) == (1, "")
        assert "no emulator runs; start one with `wherry emulator start --detach`" in done.err

    assert (emulator("stop").code, emulator("stop").out) == (0, "")
    assert emulator("status").code == 1
    done = emulator("status", "--json")
    assert (done.code, json.loads(done.out)) == (1, {"running": False})


def test_an_address_where_nobody_answers_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        done = emulator("status", "--url", url)

    assert done.code == 1
    assert f"the emulator at {url} does not answer" in done.err


def test_a_new_user_finds_their_way() -> None:
    hostile = {"AWS_PROFILE": "none", "AWS_ENDPOINT_URL_BATCH": "http://127.0.0.1:1"}
    started = emulator("start", "--detach", "--port", "0", "--engine", "process", env=hostile)
    assert started.code == 0, started.err
    own = record.find()
    assert own is not None
    assert f"AWS Batch on this machine: {own.url}" in started.out
    assert 'eval "$(wherry emulator env)"' in started.out
    assert own.log in started.out
    try:
        script = (
            f'eval "$({" ".join(COMMAND)} env)"; '
            f"{sys.executable} -c 'import boto3; "
            'print(boto3.client("batch").describe_job_queues(jobQueues=["main"])["jobQueues"][0]["jobQueueName"])\''
        )
        answer = subprocess.run(
            ["sh", "-c", script],
            env={**os.environ, **hostile, "HTTP_PROXY": "http://127.0.0.1:1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert answer.stdout == "main\n", answer.stderr

        again = emulator("start", "--detach", "--port", "0")
        assert again.code == 1
        assert f"an emulator runs already at {own.url} (process {own.pid})" in again.err
        assert "wherry emulator stop" in again.err
        here = emulator("start", "--port", "0")
        assert (here.code, own.url in here.err) == (1, True)
    finally:
        stopped = emulator("stop")
    assert (stopped.code, own.url in stopped.err) == (0, True)
    assert not own.alive
    assert record.find() is None


def test_after_kill_9_the_next_one_starts() -> None:
    assert emulator("start", "--detach", "--port", "0", "--engine", "process").code == 0
    own = record.find()
    assert own is not None
    record.end(own, signal.SIGKILL, PATIENCE)

    assert emulator("status").code == 1
    done = emulator("start", "--detach", "--port", "0", "--engine", "process")

    assert done.code == 0, done.err
    other = record.find()
    assert other is not None
    assert other.pid != own.pid
    assert emulator("stop").code == 0


def test_a_port_of_another_program_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        for more in ((), ("--detach",)):
            done = emulator("start", "--port", port, "--engine", "process", *more)

            assert (done.code, done.out) == (1, "")
            assert port in done.err
            assert "--port" in done.err
            assert "Traceback" not in done.err
    assert record.find() is None


@pytest.mark.parametrize("more", [(), ("--detach",)])
def test_a_region_that_does_not_exist_is_refused(more: tuple[str, ...]) -> None:
    done = emulator("start", "--port", "0", "--engine", "process", "--region", "moon", *more)

    assert (done.code, done.out) == (2, "")
    assert "'moon'" in done.err
    assert "Traceback" not in done.err


def test_the_key_of_an_s3_server_is_shown_nowhere() -> None:
    started = emulator(
        *("start", "--detach", "--port", "0", "--engine", "process"),
        *("--s3", "http://key:a-secret@127.0.0.1:1", "--no-bootstrap"),
    )
    assert started.code == 0, started.err
    own = record.find()
    assert own is not None

    shown = started.out + emulator("status").out + emulator("status", "--json").out

    assert "http://127.0.0.1:1" in started.out
    assert "a-secret" not in shown
    assert b"a-secret" not in Path(f"/proc/{own.pid}/cmdline").read_bytes()
    assert emulator("stop").code == 0


@pytest.mark.parametrize("more", [(), ("--detach",)])
def test_a_missing_extra_is_named(more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "moto.py").write_text("raise ModuleNotFoundError('gone', name='moto')\n")

    done = emulator("start", "--port", "0", *more, env={"PYTHONPATH": str(tmp_path)})

    assert done.code == 1
    assert "pip install 'wherry[emulator]'" in done.err
    assert "Traceback" not in done.err
    assert record.find() is None


@pytest.fixture
def foreground(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An emulator in the foreground, of which nothing has been read."""
    started = subprocess.Popen(
        [*COMMAND, "start", "--port", "0", "--engine", "process", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with started:
        yield started
        with suppress(ProcessLookupError):
            started.kill()


def test_ctrl_c_ends_it_with_all_jobs(foreground: subprocess.Popen[str], tmp_path: Path) -> None:
    assert foreground.stdout is not None
    for line in foreground.stdout:
        if line.startswith("Ctrl-C ends it"):
            break
    variables = json.loads(emulator("env", "--shell", "json").out)
    batch = client_of(variables, "batch")
    note = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {note}; exec sleep 600"]
    batch.register_job_definition(
        jobDefinitionName="nap",
        type="container",
        containerProperties={**DEFINITION["containerProperties"], "command": command},
    )
    batch.submit_job(jobName="nap", jobQueue="main", jobDefinition="nap")
    pid = int(until(lambda: note.exists() and note.read_text().strip(), "the job to run"))

    foreground.send_signal(signal.SIGINT)
    _, err = foreground.communicate(timeout=PATIENCE)

    assert foreground.returncode == 0, err
    assert "SIGINT: ending the emulator, and 1 running job" in err
    assert "nothing is left running" in err
    assert "SubmitJob" in err  # --verbose
    assert "Traceback" not in err
    assert record.started_at(pid) is None
    assert record.find() is None


def test_status_tells_what_runs(ask: Command, client: Callable) -> None:
    job = sleeping_job(client("batch"))

    shown = ask("status")
    found = json.loads(ask("status", "--json").out)

    assert shown.code == 0
    assert "1 RUNNING" in shown.out
    assert "main" in shown.out
    assert found["running"] is True
    assert found["engine"] == "process"
    assert found["jobs"]["RUNNING"] == 1
    assert job


def test_a_fault_is_turned_on_listed_and_off(ask: Command, client: Callable) -> None:
    batch = client("batch")
    added = ask("fault", "add", "throttle", "--operation", "DescribeJobQueues", "--json")
    number = json.loads(added.out)["number"]

    with pytest.raises(batch.exceptions.ClientError, match="TooManyRequests"):
        batch.describe_job_queues()
    batch.describe_compute_environments()

    (fault,) = json.loads(ask("fault", "list", "--json").out)
    assert (fault["number"], fault["kind"], fault["struck"]) == (number, "throttle", 1)
    assert "operation=DescribeJobQueues" in ask("fault", "list").out
    assert ask("fault", "clear", str(number)).code == 0
    batch.describe_job_queues()
    assert json.loads(ask("fault", "list", "--json").out) == []
    wrong = ask("fault", "clear", "99")
    assert wrong.code == 2
    assert "99" in wrong.err


def test_a_reclaimed_job_is_told_so(ask: Command, client: Callable) -> None:
    batch = client("batch")
    job = sleeping_job(batch)

    done = ask("reclaim", job)

    assert (done.code, done.out.strip()) == (0, job), done.err
    until(lambda: described(batch, job)["status"] == "FAILED", "the job to fail")
    assert described(batch, job)["statusReason"].startswith("Host EC2 (instance i-")
    assert ask("reclaim", "i-unknown").code == 2


def test_a_lost_agent_leaves_no_exit_code(ask: Command, client: Callable) -> None:
    batch = client("batch")
    job = sleeping_job(batch)

    assert ask("lose-agent", job).code == 0

    until(lambda: described(batch, job)["status"] == "FAILED", "the job to fail")
    container = described(batch, job)["container"]
    assert container["reason"] == "AGENT"
    assert "exitCode" not in container


def test_ended_jobs_are_forgotten_on_demand(ask: Command, client: Callable) -> None:
    batch = client("batch")
    job = sleeping_job(batch)
    assert ask("expire", job).code == 2, "a running job is not forgotten"
    batch.terminate_job(jobId=job, reason="enough")
    until(lambda: described(batch, job)["status"] == "FAILED", "the job to end")

    assert json.loads(ask("expire", "--json").out) == {"expired": 1}

    assert batch.describe_jobs(jobs=[job])["jobs"] == []


def test_the_clock_is_read_and_set(ask: Command) -> None:
    before = json.loads(ask("clock", "--json").out)
    after = json.loads(ask("clock", "--advance", "7d", "--scale", "30", "--json").out)
    assert after["now"] - before["now"] >= 7 * 86400
    assert after["scale"] == 30
    assert "30 emulated seconds each second" in ask("clock").out
    assert ask("clock", "--scale", "60").code == 0


def test_reset_forgets_all_but_the_start(ask: Command, client: Callable) -> None:
    batch = client("batch")
    job = sleeping_job(batch)
    client("s3").create_bucket(Bucket="mine")

    assert ask("reset").code == 0

    assert batch.describe_jobs(jobs=[job])["jobs"] == []
    assert "mine" not in {bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]}
    assert "main" in {queue["jobQueueName"] for queue in batch.describe_job_queues()["jobQueues"]}


def test_variables_that_lead_elsewhere_are_taken_away() -> None:
    wanted = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_REGION": "us-east-1"}
    environ = {
        "AWS_PROFILE": "work",
        "AWS_ENDPOINT_URL_S3": "https://example.org",
        "HTTP_PROXY": "http://proxy:3128",
        "NO_PROXY": "example.org",
        "PATH": "/bin",
    }

    found = exports.changes(wanted, environ)

    assert found == {
        **wanted,
        "AWS_PROFILE": None,
        "AWS_ENDPOINT_URL_S3": None,
        "NO_PROXY": "example.org,127.0.0.1",
        "no_proxy": "example.org,127.0.0.1",
    }


@pytest.mark.parametrize("value", ["plain", "two words", "it's", "a$b`c", "back\\slash", ""])
def test_a_shell_reads_back_what_is_printed(value: str) -> None:
    lines = exports.SHELLS["sh"]({"GONE": None, "KEPT": value})
    script = "\n".join([*lines, 'printf "%s|%s" "$KEPT" "${GONE-unset}"'])

    answer = subprocess.run(
        ["sh", "-c", script], env={"GONE": "x"}, capture_output=True, text=True, check=True
    )

    assert answer.stdout == f"{value}|unset"


def test_fish_is_told_in_its_own_words() -> None:
    lines = exports.SHELLS["fish"]({"GONE": None, "KEPT": "it's \\ here"})

    assert lines == ["set -e GONE;", "set -gx KEPT 'it\\'s \\\\ here';"]


def test_a_record_of_another_life_counts_for_nothing(tmp_path: Path) -> None:
    own = record.own_record()
    path = Path(record.folder()) / "running.json"
    for stale in ({"started": own.started + 1}, {"boot": "another"}, {"pid": 2**22 + 1}):
        path.write_text(json.dumps({**vars(own), **stale}))
        assert record.find() is None
        assert not path.exists()
    path.write_text("{half")
    assert record.find() is None

    record.claim(own)
    assert record.find() == own
    record.release(own)
    assert record.find() is None
