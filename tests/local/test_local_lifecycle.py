"""What an app does on this machine, from its start to its end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from support.local_bench import Bench, until
from wherry.errors import InvalidOptionError, InvalidSpecError, LaunchError, StateError
from wherry.schedulers.local import LocalDirectoryImageProvider, LocalScheduler
from wherry.specs import AppDef, AppState, BindMount, Resource, RetryPolicy, RetryRule, Role


def test_success_is_reported_with_its_exit_code(bench: Bench) -> None:
    ended = bench.run("echo done")

    assert ended.state is AppState.SUCCEEDED
    assert ended.to_status().exit_code == 0
    assert ended.roles_statuses[0].replicas[0].attempts[0].exit_code == 0


def test_a_failure_names_the_replica_and_its_exit_code(bench: Bench) -> None:
    ended = bench.run("exit 7")

    assert ended.state is AppState.FAILED
    assert ended.msg == "role/0 exited with code 7"
    assert ended.to_status().exit_code == 7


def test_a_signal_is_reported_by_name(bench: Bench) -> None:
    ended = bench.run("kill -SEGV $$$$")

    replica = ended.roles_statuses[0].replicas[0]
    assert (replica.signal, replica.exit_code) == ("SIGSEGV", None)
    assert ended.to_status().exit_code == 139
    assert "SIGSEGV" in ended.msg


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("no-such-command-here", "exited with code 127 (a command in it was not found)"),
        ("./plain", "exited with code 126 (a command in it is not executable)"),
        ("sh -c 'kill -KILL $$$$'; exit $?", "code 137 (a command in it was killed by SIGKILL)"),
        ("exit 255", "exited with code 255"),
    ],
)
def test_exit_codes_that_shells_agree_on_are_explained(
    bench: Bench, script: str, said: str
) -> None:
    (bench.folder / "plain").touch()

    assert said in bench.run(script).msg


def test_a_replica_knows_who_it_is(bench: Bench) -> None:
    script = "echo $WHERRY_ROLE_NAME $WHERRY_REPLICA_ID $WHERRY_NUM_REPLICAS $WHERRY_ATTEMPT"
    ended = bench.run(script, replicas=2, array=True)

    assert bench.log(ended.app_id, 0) == "role 0 2 1\n"
    assert bench.log(ended.app_id, 1) == "role 1 2 1\n"


def test_macros_are_replaced_in_args_and_env(bench: Bench) -> None:
    app = bench.app(
        "echo ${replica_id} ${app_id} $ROLE_ENV $$HOME_IS_KEPT ${other}",
        env={"ROLE_ENV": "r${replica_id}"},
        replicas=2,
        array=True,
    )
    ended = bench.run(app)

    assert bench.log(ended.app_id, 1) == f"1 {ended.app_id} r1\n"


def test_rank0_is_this_machine(bench: Bench) -> None:
    app = bench.app("echo $$${rank0_env}")
    ended = bench.run(app)

    assert bench.log(ended.app_id) == "localhost\n"


def test_standard_input_is_empty(bench: Bench) -> None:
    assert bench.log(bench.run("cat; echo end").app_id) == "end\n"


def test_the_error_file_is_shown_in_the_status(bench: Bench) -> None:
    error = {"message": {"message": "RuntimeError: no luck", "extraInfo": {"timestamp": "1"}}}
    ended = bench.run(f"echo '{json.dumps(error)}' > $TORCHELASTIC_ERROR_FILE; exit 1")

    assert json.loads(ended.structured_error_msg) == error
    assert json.loads(ended.roles_statuses[0].replicas[0].structured_error_msg) == error


def test_an_edited_request_is_what_runs(bench: Bench) -> None:
    info = bench.scheduler.submit_dryrun(bench.app("echo one"), {})
    info.request.roles[0].args[-1] = "echo two ${replica_id}"
    info.request.roles[0].replicas = 2

    ended = bench.end(bench.scheduler.schedule(info))

    assert [bench.log(ended.app_id, k) for k in (0, 1)] == ["two 0\n", "two 1\n"]


def test_a_request_runs_once(bench: Bench) -> None:
    info = bench.scheduler.submit_dryrun(bench.app("true"), {})
    bench.end(bench.scheduler.schedule(info))

    with pytest.raises(LaunchError, match="was scheduled already"):
        bench.scheduler.schedule(info)


def test_the_request_prints_as_what_will_run(bench: Bench) -> None:
    printed = str(bench.scheduler.submit_dryrun(bench.app("echo ${app_id}"), {}))

    shown = json.loads(printed)
    assert shown["roles"][0]["args"] == ["sh", "-c", f"echo {shown['app_id']}"]


def test_the_callers_app_is_not_changed(bench: Bench) -> None:
    app = bench.app("echo ${app_id}", metadata={"note": "${app_id}"})
    twin = bench.app("echo ${app_id}", metadata={"note": "${app_id}"})

    bench.run(app)

    assert app == twin


def test_another_process_describes_the_app(bench: Bench) -> None:
    ended = bench.run("exit 3")

    described = LocalScheduler("other").describe(ended.app_id)

    assert described == ended


def test_an_unknown_app_is_none(bench: Bench) -> None:
    assert bench.scheduler.describe("nobody-0") is None
    assert bench.scheduler.describe("../../etc") is None
    assert not bench.scheduler.exists("nobody-0")


# Retries and timeouts.


def test_max_retries_of_two_means_three_attempts(bench: Bench) -> None:
    script = "echo attempt $WHERRY_ATTEMPT; test $WHERRY_ATTEMPT = 3"
    ended = bench.run(script, max_retries=2)

    replica = ended.roles_statuses[0].replicas[0]
    assert ended.state is AppState.SUCCEEDED
    assert [attempt.exit_code for attempt in replica.attempts] == [1, 1, 0]
    assert ended.num_restarts == 2
    assert bench.log(ended.app_id) == "attempt 1\nattempt 2\nattempt 3\n"
    assert bench.log(ended.app_id, attempt=2) == "attempt 2\n"


def test_retries_run_out(bench: Bench) -> None:
    ended = bench.run("exit 4", max_retries=1)

    assert ended.state is AppState.FAILED
    assert len(ended.roles_statuses[0].replicas[0].attempts) == 2


def test_a_retry_policy_may_give_up_on_an_exit_code(bench: Bench) -> None:
    policy = RetryPolicy(rules=(RetryRule(retry=False, exit_code="4*"),))
    ended = bench.run("exit 42", max_retries=3, retry_policy=policy)

    assert len(ended.roles_statuses[0].replicas[0].attempts) == 1


def test_each_replica_of_an_array_is_retried_by_itself(bench: Bench) -> None:
    script = "test $WHERRY_REPLICA_ID != 1 || test $WHERRY_ATTEMPT = 2"
    ended = bench.run(script, replicas=3, array=True, max_retries=1)

    attempts = [len(replica.attempts) for replica in ended.roles_statuses[0].replicas]
    assert ended.state is AppState.SUCCEEDED
    assert attempts == [1, 2, 1]


def test_a_gang_starts_again_as_a_whole(bench: Bench) -> None:
    script = "test $WHERRY_ATTEMPT = 2 && exit 0; test $WHERRY_REPLICA_ID = 1 && exit 5; sleep 60"
    ended = bench.run(script, replicas=2, max_retries=1)

    attempts = [len(replica.attempts) for replica in ended.roles_statuses[0].replicas]
    assert ended.state is AppState.SUCCEEDED
    assert attempts == [2, 2]


def test_a_gang_may_restart_the_failed_replica_alone(bench: Bench) -> None:
    script = (
        "test $WHERRY_REPLICA_ID = 0 && sleep 0.5; test $WHERRY_REPLICA_ID$WHERRY_ATTEMPT != 11"
    )
    ended = bench.run(script, replicas=2, max_retries=1, retry_policy=RetryPolicy.REPLICA)

    attempts = [len(replica.attempts) for replica in ended.roles_statuses[0].replicas]
    assert ended.state is AppState.SUCCEEDED
    assert attempts == [1, 2]


def test_one_failure_ends_a_gang(bench: Bench) -> None:
    ended = bench.run("test $WHERRY_REPLICA_ID = 2 && exit 9; sleep 60", replicas=3)

    states = [replica.state for replica in ended.roles_statuses[0].replicas]
    assert ended.state is AppState.FAILED
    assert ended.msg == "role/2 exited with code 9"
    assert states == [AppState.CANCELLED, AppState.CANCELLED, AppState.FAILED]
    assert ended.to_status().exit_code == 9


def test_an_elastic_gang_goes_on_while_enough_replicas_live(bench: Bench) -> None:
    script = "test $WHERRY_REPLICA_ID = 2 && exit 9; sleep 0.3"
    ended = bench.run(script, replicas=3, min_replicas=2)

    assert ended.state is AppState.SUCCEEDED


def test_one_failure_leaves_the_rest_of_an_array_alone(bench: Bench) -> None:
    script = "test $WHERRY_REPLICA_ID = 0 && exit 9; echo fine"
    ended = bench.run(script, replicas=3, array=True)

    assert ended.state is AppState.FAILED
    assert ended.msg == "1 of 3 replicas failed; the first: role/0 exited with code 9"
    assert bench.log(ended.app_id, 2) == "fine\n"


def test_a_timeout_ends_an_attempt_and_is_not_retried(bench: Bench) -> None:
    ended = bench.run("sleep 60", timeout=0.2, max_retries=3)

    replica = ended.roles_statuses[0].replicas[0]
    assert ended.state is AppState.FAILED
    assert "timed out after 0.2 s" in ended.msg
    assert len(replica.attempts) == 1
    assert replica.signal == "SIGTERM"


def test_what_ignores_sigterm_is_killed_after_the_grace(bench: Bench) -> None:
    ended = bench.run("trap '' TERM; echo ready; while :; do sleep 0.1; done", timeout=0.5)

    assert ended.roles_statuses[0].replicas[0].signal == "SIGKILL"
    assert ended.state is AppState.FAILED


# Cancelling.


def test_cancelled_is_cancelled_and_keeps_the_first_reason(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo ready; sleep 60"))
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id, "not needed any more")
    bench.scheduler.cancel(app_id, "another reason")
    ended = bench.end(app_id)
    bench.scheduler.cancel(app_id, "too late")

    assert ended.state is AppState.CANCELLED
    assert ended.msg == "not needed any more"
    again = bench.scheduler.describe(app_id)
    assert again == ended


def test_a_program_that_ends_well_on_sigterm_is_cancelled_all_the_same(bench: Bench) -> None:
    app_id = bench.start(bench.app("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id)

    assert bench.end(app_id).state is AppState.CANCELLED


def test_kill_skips_the_grace(bench: Bench) -> None:
    app = bench.app("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    app_id = bench.scheduler.submit(app, {"grace": 1000.0})
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id)
    bench.scheduler.cancel(app_id, kill=True)

    ended = bench.end(app_id)
    assert ended.state is AppState.CANCELLED
    assert ended.roles_statuses[0].replicas[0].signal == "SIGKILL"


def test_cancelling_an_array_reaches_what_waits_too(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo ready; sleep 60", replicas=50, array=True))
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id)
    ended = bench.end(app_id)

    assert ended.to_status().counts() == {AppState.CANCELLED: 50}


# What an app may ask for.


def test_the_local_dir_provider_runs_in_the_image(tmp_path: Path, bench: Bench) -> None:
    image = tmp_path / "image"
    image.mkdir()
    script = image / "main.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    scheduler = LocalScheduler("test", LocalDirectoryImageProvider, backend="local_dir")

    app = AppDef("app", [Role("role", image=str(image), entrypoint="main.sh")])
    app_id = scheduler.submit(app, {})
    scheduler.wait_for_change(app_id, 30, until_end=True)

    assert "".join(scheduler.log_iter(app_id, "role")) == f"{image}\n"


@pytest.mark.parametrize("image", ["relative/path", "/does/not/exist"])
def test_the_local_dir_provider_refuses_what_is_no_folder(image: str) -> None:
    scheduler = LocalScheduler("test", LocalDirectoryImageProvider, backend="local_dir")

    with pytest.raises(InvalidSpecError, match=image):
        scheduler.submit_dryrun(AppDef("app", [Role("role", image=image, entrypoint="true")]), {})


def test_prepend_cwd_and_extra_paths_come_first_in_path(bench: Bench) -> None:
    scheduler = LocalScheduler("test", extra_paths=["/opt/extra"])
    app_id = scheduler.submit(bench.app("echo $PATH"), {"prepend_cwd": "yes"})
    scheduler.wait_for_change(app_id, 30, until_end=True)

    printed = "".join(scheduler.log_iter(app_id, "role"))
    assert printed.startswith(f"/opt/extra:{bench.folder}:")


def test_ulimits_are_set(bench: Bench) -> None:
    ended = bench.run("ulimit -Sn; ulimit -Hn", ulimits={"nofile": (100, 200)})

    assert bench.log(ended.app_id) == "100\n200\n"


def test_an_unknown_ulimit_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidSpecError, match="nofile"):
        bench.scheduler.submit_dryrun(bench.app("true", ulimits={"nofiles": 1}), {})


def test_secrets_reach_the_program_and_no_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    monkeypatch.setenv("VAULT", "s3cret-from-env")
    (bench.folder / "secret").write_text("s3cret-from-file\n")
    secrets = {"A": "env:VAULT", "B": f"file:{bench.folder}/secret"}
    ended = bench.run("test ${#A} = 15 && test ${#B} = 16", secrets=secrets)

    written = b"".join(path.read_bytes() for path in own_home.rglob("*") if path.is_file())
    assert ended.state is AppState.SUCCEEDED
    assert b"s3cret" not in written


def test_a_secret_kept_elsewhere_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidSpecError, match="arn:aws:secret"):
        bench.scheduler.submit_dryrun(bench.app("true", secrets={"A": "arn:aws:secret"}), {})


def test_what_is_not_honoured_is_warned_about_by_name(bench: Bench) -> None:
    resource = Resource(cpu=100000, devices={"vpc.amazonaws.com/efa": 1})
    app = bench.app("true", mounts=[BindMount("/a", "/b")], resource=resource, array=True)

    warnings = " ".join(bench.scheduler.submit_dryrun(app, {}).warnings)

    assert "mounts" in warnings
    assert "vpc.amazonaws.com/efa" in warnings
    assert "100000 cores" in warnings


def test_an_app_waits_for_those_it_depends_on(bench: Bench) -> None:
    first = bench.start(bench.app("while ! test -e go; do sleep 0.02; done; echo 1 >> order"))
    second = bench.start(bench.app("echo 2 >> order", depends_on=[f"local_cwd://test/{first}"]))
    waiting = bench.scheduler.describe(second)
    (bench.folder / "go").touch()
    ended = bench.end(second)

    assert waiting is not None
    assert waiting.state is AppState.PENDING
    assert first in waiting.msg
    assert ended.state is AppState.SUCCEEDED
    assert (bench.folder / "order").read_text() == "1\n2\n"


def test_an_app_fails_with_the_one_it_depends_on(bench: Bench) -> None:
    first = bench.run("exit 1").app_id
    ended = bench.run("true", depends_on=[f"local_cwd://test/{first}"])

    assert ended.state is AppState.FAILED
    assert f"depends on local_cwd://test/{first}, which failed" in ended.msg


def test_a_local_app_cannot_depend_on_one_elsewhere(bench: Bench) -> None:
    app = bench.app("true", depends_on=["aws_batch://s/1"])

    with pytest.raises(InvalidSpecError, match="aws_batch://s/1"):
        bench.scheduler.submit_dryrun(app, {})


def test_python_is_found_even_if_path_has_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    app = AppDef("app", [Role("role", entrypoint="python", args=["-c", "print('here')"])])

    assert bench.log(bench.run(app).app_id) == "here\n"
    assert sys.executable


def test_the_log_folder_is_the_users(bench: Bench) -> None:
    ended = bench.run(bench.app("echo kept"), log_dir=str(bench.folder / "logs"))
    bench.scheduler.forget(ended.app_id)
    bench.scheduler.close()

    folder = bench.folder / "logs" / ended.app_id / "role"
    assert (folder / "0.stdout.log").read_text() == "kept\n"
    assert bench.scheduler.describe(ended.app_id) is None


def test_only_an_ended_app_is_forgotten(bench: Bench) -> None:
    app_id = bench.start(bench.app("sleep 60"))

    with pytest.raises(StateError, match="has not ended"):
        bench.scheduler.forget(app_id)


@pytest.mark.parametrize(
    ("cfg", "named"),
    [
        ({"log_dri": "x"}, "log_dir"),
        ({"prepend_cwd": "maybe"}, "maybe"),
        ({"max_parallel": "two"}, "two"),
    ],
)
def test_wrong_options_are_refused(bench: Bench, cfg: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        bench.scheduler.submit_dryrun(bench.app("true"), cfg)


@pytest.mark.parametrize("cfg", [{"max_parallel": 0}, {"grace": -1.0}])
def test_impossible_options_are_refused(bench: Bench, cfg: dict[str, float]) -> None:
    with pytest.raises(InvalidSpecError):
        bench.scheduler.submit_dryrun(bench.app("true"), cfg)


# Listing.


def test_the_list_is_newest_first_and_filtered(bench: Bench) -> None:
    from wherry.schedulers.api import ListFilter

    good, bad = bench.run("true").app_id, bench.run("false").app_id

    everything = [line.app_id for line in bench.scheduler.list()]
    failed = list(bench.scheduler.list(ListFilter(states=frozenset([AppState.FAILED]))))

    assert everything == [bad, good]
    assert [line.app_id for line in failed] == [bad]
    assert failed[0].app_handle == f"local_cwd://test/{bad}"


def test_closing_many_times_ends_what_is_attached_once(bench: Bench) -> None:
    app_id = bench.start(bench.app("sleep 60"))
    for _ in range(3):
        bench.scheduler.close()

    described = bench.scheduler.describe(app_id)
    assert described is not None
    assert described.state is AppState.CANCELLED


def test_a_detached_app_outlives_its_scheduler(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo ready; while ! test -e go; do sleep 0.02; done"))
    bench.wait_for_line(app_id, "ready")
    bench.scheduler.detach(app_id)
    bench.scheduler.close()
    (bench.folder / "go").touch()

    assert bench.end(app_id).state is AppState.SUCCEEDED


def test_constructing_a_scheduler_does_nothing(own_home: Path) -> None:
    LocalScheduler("test")

    assert not own_home.exists()


def test_the_supervisor_leaves_when_the_app_has_ended(bench: Bench, own_home: Path) -> None:
    ended = bench.run("true")

    import psutil

    def supervisors() -> list[int]:
        name = f"{own_home}/apps/{ended.app_id}"
        return [p.pid for p in psutil.process_iter() if name in " ".join(_command(p))]

    until(lambda: not supervisors(), "the supervisor's end")
    assert os.listdir(own_home / "apps" / ended.app_id)


def _command(process: object) -> list[str]:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return process.cmdline()
    except psutil.Error:
        return []
