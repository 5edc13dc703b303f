"""The Runner: run, ask, wait, cancel, list and prune, over schedulers that may be away."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import wherry
from wherry.errors import (
    ComponentError,
    ConfigError,
    InvalidHandleError,
    InvalidOptionError,
    InvalidSpecError,
    PluginError,
    UnknownAppError,
    UnknownNameError,
    UsageError,
    WaitTimeout,
)
from wherry.runner import Config, Runner
from wherry.runner.ledger import LedgerUnavailableError
from wherry.schedulers.api import ListFilter
from wherry.specs import AppDef, AppState

S = AppState


def configured(tmp_path, desk, text: str = "", **environ: str) -> Runner:
    path = tmp_path / "wherry.toml"
    path.write_text(text)
    config = Config(paths=[str(path)], environ=environ)
    return Runner(schedulers={"desk": lambda session: desk}, config=config)


def handles(apps) -> list[str]:
    return [app.app_handle for app in apps]


# Running


def test_run_returns_a_handle_that_answers(runner, desk, app):
    handle = runner.run(app, "desk")

    assert handle == "desk://wherry/echo-0000"
    assert runner.status(handle).state is S.RUNNING
    assert runner.describe(handle).app_id == "echo-0000"


def test_the_session_is_part_of_the_handle_and_reaches_the_scheduler(desk, app):
    sessions = []

    def make(session):
        sessions.append(session)
        return desk

    runner = Runner("mine", {"desk": make})
    assert sessions == []

    assert runner.run(app, "desk") == "desk://mine/echo-0000"
    runner.run(app, "desk")
    assert sessions == ["mine"]


@pytest.mark.parametrize("name", ["a/b", "a b", "a\tb", "a\n"])
def test_a_session_that_no_handle_could_hold_is_refused(name):
    with pytest.raises(UsageError, match="a session's name has no"):
        Runner(name)


def test_a_request_can_be_edited_before_it_is_scheduled(runner, desk, app):
    info = runner.dryrun(app, "desk", {"size": "3"})
    assert (info.request["cfg"]["size"], desk.apps) == (3, {})
    info.request["name"] = "edited"

    assert runner.schedule(info) == "desk://wherry/edited-0000"


def test_the_callers_app_and_options_are_not_changed(runner, app):
    before, cfg = replace(app), {"size": "3", "queue": None}
    runner.run(app, "desk", cfg)

    assert app == before
    assert cfg == {"size": "3", "queue": None}


def test_an_app_without_roles_is_refused(runner):
    with pytest.raises(InvalidSpecError, match="has no roles"):
        runner.run(AppDef("empty"), "desk")


def test_arguments_win_over_variables_and_those_over_files(tmp_path, desk, app):
    text = '[scheduler.desk]\nqueue = "file"\nsize = 2\ntags = ["file"]'
    environ = {"WHERRY_CFG_DESK_SIZE": "3", "WHERRY_CFG_DESK_TAGS": "env"}
    runner = configured(tmp_path, desk, text, **environ)

    assert runner.dryrun(app, "desk", {"tags": "arg", "queue": None}).cfg == {
        "queue": "file",
        "size": 3,
        "quiet": False,
        "tags": ["arg"],
        "labels": None,
    }


def test_an_unknown_option_is_refused_where_it_was_given(tmp_path, desk, app):
    with pytest.raises(InvalidOptionError, match="did you mean 'queue'"):
        configured(tmp_path, desk).run(app, "desk", {"quue": "x"})
    with pytest.raises(ConfigError, match=r"wherry\.toml:2: .*did you mean 'queue'"):
        configured(tmp_path, desk, "[scheduler.desk]\nquue = 'x'").run(app, "desk")
    with pytest.raises(ConfigError, match="did you mean WHERRY_CFG_DESK_QUEUE"):
        configured(tmp_path, desk, WHERRY_CFG_DESK_QUUE="x").run(app, "desk")


def test_a_section_for_a_scheduler_that_is_not_here_is_reported(tmp_path, desk, app):
    runner = configured(tmp_path, desk, "[scheduler.dest]\nqueue = 'x'")
    runner.run(app, "desk")

    (problem,) = runner.problems
    assert problem.endswith(
        "wherry.toml:1: unknown scheduler 'dest'; did you mean 'desk'? Known: desk."
    )


def test_the_scheduler_comes_from_the_configuration_when_none_is_named(tmp_path, desk, app):
    runner = configured(tmp_path, desk, "[run]\nscheduler = 'desk'")

    assert runner.run(app).startswith("desk://")
    assert Runner(config=Config(paths=(), environ={})).default_scheduler() == "local_cwd"


def test_an_unknown_scheduler_in_the_configuration_is_refused_there(tmp_path, desk, app):
    with pytest.raises(ConfigError, match=r"wherry\.toml:2: unknown scheduler 'dest'"):
        configured(tmp_path, desk, "[run]\nscheduler = 'dest'").run(app)
    with pytest.raises(ConfigError, match="WHERRY_SCHEDULER: unknown scheduler 'dest'"):
        configured(tmp_path, desk, WHERRY_SCHEDULER="dest").run(app)
    with pytest.raises(UnknownNameError, match="unknown scheduler 'dest'"):
        configured(tmp_path, desk).run(app, "dest")


def test_run_opts_are_the_schedulers(runner):
    assert [name for name, _ in runner.scheduler_run_opts("desk")][:2] == ["queue", "size"]


# Components


def test_a_component_is_called_with_words(runner, desk):
    info = runner.dryrun_component("utils.echo", ["--msg", "hi"], "desk")

    assert info.app.roles[0].args[-1] == "hi"
    assert runner.run_component("utils.echo", scheduler="desk").startswith("desk://wherry/echo-")


def test_configured_defaults_hold_unless_the_words_say_otherwise(tmp_path, desk):
    runner = configured(tmp_path, desk, '[component."utils.echo"]\nmsg = "configured"')

    assert runner.build("utils.echo").roles[0].args[-1] == "configured"
    assert runner.build("utils.echo", ["--msg", "given"]).roles[0].args[-1] == "given"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("mgs = 'x'", "unknown option of utils.echo 'mgs'; did you mean 'msg'?"),
        (
            "num_replicas = 'two'",
            "option 'num_replicas' of utils.echo takes a whole number, not 'two'",
        ),
    ],
)
def test_a_default_that_the_component_does_not_take_is_refused_where_it_stands(
    tmp_path, desk, entry, words
):
    runner = configured(tmp_path, desk, f'[component."utils.echo"]\n\n{entry}')

    with pytest.raises(ConfigError) as caught:
        runner.build("utils.echo")
    assert str(caught.value).startswith(f"{tmp_path}/wherry.toml:3: {words}")


def test_an_unknown_component_is_refused(runner):
    with pytest.raises(ComponentError, match=r"did you mean 'utils\.echo'"):
        runner.run_component("utils.ecko", scheduler="desk")


# Status, many at once


def test_statuses_ask_each_scheduler_once(runner, desk, cloud):
    desk.add("a-1")
    desk.add("b-2")
    cloud.add("c-3")

    found = runner.statuses(["desk://w/a-1", "cloud://w/c-3", "b-2", "desk://w/never"])

    assert {handle: status and status.state for handle, status in found.items()} == {
        "desk://w/a-1": S.RUNNING,
        "cloud://w/c-3": S.RUNNING,
        "b-2": S.RUNNING,
        "desk://w/never": None,
    }
    assert desk.questions == [["a-1", "b-2", "never"]]
    assert cloud.questions == [["c-3"]]


def test_what_never_existed_has_no_status_and_no_description(runner):
    assert runner.status("desk://wherry/never") is None
    assert runner.describe("desk://wherry/never") is None


# Waiting


def test_wait_wakes_when_the_app_ends(runner, desk):
    desk.add("a-1")

    def end():
        desk.napping.wait()
        desk.end("a-1", S.FAILED, "why")

    thread = threading.Thread(target=end)
    thread.start()
    status = runner.wait("desk://wherry/a-1")
    thread.join()

    assert (status.state, status.msg) == (S.FAILED, "why")
    assert len(desk.naps) == 1


def test_wait_returns_at_once_for_an_app_that_has_ended(runner, desk):
    desk.add("a-1")
    desk.end("a-1", S.SUCCEEDED)

    assert runner.wait("desk://wherry/a-1", timeout=0).state is S.SUCCEEDED
    assert desk.naps == []


def test_wait_gives_up_after_its_time_and_the_app_goes_on(runner, desk):
    desk.add("a-1")

    with pytest.raises(WaitTimeout) as caught:
        runner.wait("a-1", timeout=0.01)

    assert "desk://wherry/a-1 had not ended after 0.01 seconds" in str(caught.value)
    assert "goes on" in str(caught.value)
    assert desk.apps["a-1"]["state"] is S.RUNNING
    assert max(desk.naps) <= 0.01


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(runner, desk, timeout):
    desk.add("a-1")
    with pytest.raises(UsageError, match="0 seconds or more"):
        runner.wait("a-1", timeout=timeout)


# Names that are not quite right


def test_every_verb_that_needs_an_app_names_the_nearest_one(runner, desk):
    desk.add("train-0abc")
    wrong = "desk://wherry/train-0abd"

    for ask in (
        lambda: runner.wait(wrong),
        lambda: runner.cancel(wrong),
        lambda: runner.log_lines(wrong, "train"),
        lambda: runner.status("train-0abd"),
    ):
        with pytest.raises(UnknownAppError) as caught:
            ask()
        assert "did you mean desk://wherry/train-0abc?" in str(caught.value)
        assert "`wherry list`" in str(caught.value)


def test_an_id_or_its_beginning_stands_for_the_handle(runner, desk, cloud):
    desk.add("train-1")
    desk.add("train-12")
    cloud.add("score-3")

    assert str(runner.resolve("train-1")) == "desk://wherry/train-1"
    assert str(runner.resolve("train-12")) == "desk://wherry/train-12"
    assert str(runner.resolve("sco")) == "cloud://wherry/score-3"
    assert str(runner.resolve("desk://any/thing")) == "desk://any/thing"


def test_a_beginning_that_several_share_is_refused_with_all_of_them(runner, desk):
    desk.add("train-1", at=1.0)
    desk.add("train-2", at=2.0)

    with pytest.raises(InvalidHandleError) as caught:
        runner.status("train")

    assert str(caught.value).startswith(
        "'train' begins the id of 2 apps: desk://wherry/train-2, desk://wherry/train-1;"
    )


def test_text_that_is_no_handle_is_refused(runner):
    with pytest.raises(InvalidHandleError):
        runner.status("")
    with pytest.raises(InvalidHandleError):
        runner.status("desk://wherry/")
    with pytest.raises(UnknownNameError, match="did you mean 'desk'"):
        runner.status("dest://wherry/a-1")


# Cancel, logs, detach


def test_cancel_passes_the_reason_on(runner, desk):
    desk.add("a-1")
    runner.cancel("a-1", "enough", kill=True)

    assert desk.cancelled == [("a-1", "enough", True)]


def test_logs_and_detach_go_to_the_apps_scheduler(runner, desk):
    desk.add("a-1")
    runner.detach("a-1")

    assert list(runner.log_lines("desk://wherry/a-1", "role", 2)) == ["role/2 of a-1\n"]
    assert desk.detached == ["a-1"]


# Listing


def test_the_list_is_of_all_schedulers_newest_first(runner, desk, cloud):
    desk.add("a-1", at=1.0)
    cloud.add("b-2", at=2.0)
    desk.add("c-3", at=3.0)

    every = ["desk://wherry/c-3", "cloud://wherry/b-2", "desk://wherry/a-1"]
    assert handles(runner.list()) == every
    assert handles(runner.list(chosen=ListFilter(limit=2))) == every[:2]
    assert handles(runner.list("cloud")) == every[1:2]
    assert handles(runner.list("desk")) == [every[0], every[2]]
    with pytest.raises(UnknownNameError):
        runner.list("dest")


def test_only_open_apps_are_asked_about_and_all_at_once(runner, desk):
    for number in range(4):
        desk.add(f"a-{number}", at=float(number))
    desk.end("a-0", S.SUCCEEDED)
    desk.end("a-1", S.FAILED, "its supervisor was killed", noted=False)

    apps = runner.list()

    assert [app.state for app in apps] == [S.RUNNING, S.RUNNING, S.FAILED, S.SUCCEEDED]
    assert apps[2].msg == "its supervisor was killed"
    runner.list()
    assert [sorted(asked) for asked in desk.questions][-1] == ["a-2", "a-3"]


def test_the_filter_is_about_the_state_that_an_app_has_now(runner, desk):
    desk.add("a-1")
    assert handles(runner.list(chosen=ListFilter(states=frozenset({S.RUNNING})))) == [
        "desk://wherry/a-1"
    ]
    desk.end("a-1", S.CANCELLED, noted=False)

    assert runner.list(chosen=ListFilter(states=frozenset({S.RUNNING}))) == []
    assert len(runner.list(chosen=ListFilter(states=frozenset({S.CANCELLED})))) == 1


def test_an_app_whose_record_is_gone_leaves_the_list(runner, desk):
    desk.add("a-1")
    runner.list()
    del desk.apps["a-1"]

    assert runner.list() == []


def test_a_scheduler_that_cannot_answer_does_not_hide_the_others(runner, desk, cloud):
    desk.add("a-1", at=1.0)
    cloud.add("b-2", at=2.0)
    runner.list()
    desk.down = ConnectionError("no route")
    cloud.down = PluginError("cloud is away")

    (app,) = runner.list()
    runner.list()

    assert (app.app_handle, app.state) == ("desk://wherry/a-1", S.RUNNING)
    assert runner.problems == [
        "scheduler desk cannot answer; its apps are shown as last known: ConnectionError: no route",
        "cloud is away",
    ]
    with pytest.raises(PluginError):
        runner.list("cloud")


@pytest.mark.parametrize("home", ["/dev/null/home", "/proc/home"])
def test_without_a_ledger_the_schedulers_are_asked(runner, desk, cloud, monkeypatch, home):
    monkeypatch.setenv("WHERRY_HOME", home)
    desk.add("a-1", at=1.0)
    cloud.add("b-2", at=2.0)

    assert handles(runner.list()) == ["cloud://wherry/b-2", "desk://wherry/a-1"]
    assert handles(runner.list("desk")) == ["desk://wherry/a-1"]
    assert str(runner.resolve("a-")) == "desk://wherry/a-1"
    (problem,) = runner.problems
    assert problem.startswith(f"{home}/ledger.sqlite3 cannot be used")
    assert problem.endswith("; the schedulers are asked instead")
    with pytest.raises(UnknownAppError, match="desk://wherry/a-1"):
        runner.wait("desk://wherry/a-11")


def test_another_runner_knows_the_apps(runner, desk):
    desk.add("a-1")
    other = Runner("other", {"desk": lambda session: desk})

    assert handles(other.list()) == ["desk://wherry/a-1"]


# Pruning and rebuilding


def test_prune_removes_the_records_of_what_has_ended(runner, desk):
    for number in range(3):
        desk.add(f"a-{number}", at=float(number))
    desk.end("a-0", S.SUCCEEDED)
    desk.end("a-1", S.FAILED)

    chosen = runner.prune(dry_run=True)
    assert sorted(desk.apps) == ["a-0", "a-1", "a-2"]

    assert handles(runner.prune()) == handles(chosen) == ["desk://wherry/a-1", "desk://wherry/a-0"]
    assert sorted(desk.apps) == ["a-2"]
    assert handles(runner.list()) == ["desk://wherry/a-2"]
    assert runner.prune() == []


def test_prune_goes_by_age_and_state(runner, desk):
    for number, state in enumerate((S.SUCCEEDED, S.FAILED)):
        desk.add(f"a-{number}")
        desk.end(f"a-{number}", state)

    assert runner.prune(older_than=3600) == []
    assert handles(runner.prune(older_than=0, states=[S.FAILED])) == ["desk://wherry/a-1"]
    with pytest.raises(UsageError, match="RUNNING have not ended"):
        runner.prune(states=[S.RUNNING, S.FAILED])


def test_what_cannot_be_removed_stays_and_is_reported(runner, desk):
    desk.add("a-1")
    desk.add("b-2")
    desk.end("a-1", S.SUCCEEDED)
    desk.end("b-2", S.SUCCEEDED)
    runner.list()
    desk.apps["a-1"]["state"] = S.RUNNING  # the ledger may be wrong; the scheduler knows
    del desk.apps["b-2"]  # somebody else was faster

    assert handles(runner.prune()) == ["desk://wherry/b-2"]
    assert handles(runner.list()) == ["desk://wherry/a-1"]
    assert runner.problems == ["scheduler desk cannot remove a-1: a-1 still runs"]


def test_a_rebuilt_ledger_holds_what_the_schedulers_know(runner, desk, notes):
    desk.add("a-1")
    desk.add("b-2")
    runner.list()
    del desk.apps["b-2"]
    notes.unlink()

    assert runner.rebuild_ledger() == 1
    assert handles(runner.list()) == ["desk://wherry/a-1"]


def test_rebuilding_where_nothing_can_be_written_fails(runner, monkeypatch):
    monkeypatch.setenv("WHERRY_HOME", "/dev/null/home")

    with pytest.raises(LedgerUnavailableError):
        runner.rebuild_ledger()


# Closing


def test_close_closes_what_was_made_and_may_be_called_many_times(desk, cloud):
    factories = {"desk": lambda session: desk, "cloud": lambda session: cloud}
    with Runner(schedulers=factories) as runner:
        runner.scheduler("desk")
        runner.close()
    runner.close()

    assert (desk.closed, cloud.closed) == (1, 0)


def test_one_scheduler_that_cannot_be_closed_does_not_keep_the_others_open(desk, cloud):
    def fail():
        raise OSError("stuck")

    cloud.close = fail
    runner = Runner(schedulers={"desk": lambda session: desk, "cloud": lambda session: cloud})
    runner.scheduler("desk")
    runner.scheduler("cloud")

    with pytest.raises(OSError, match="stuck"):
        runner.close()
    assert desk.closed == 1
    runner.close()


def test_making_a_runner_touches_nothing(own_home):
    with wherry.get_runner("mine") as runner:
        assert runner.name == "mine"

    assert not own_home.exists()


# On this machine


def test_an_app_runs_on_this_machine_and_is_listed(tmp_path):
    with Runner(config=Config(paths=(), environ={})) as runner:
        handle = runner.run_component("utils.echo", ["--msg", "hello"])
        assert runner.wait(handle, timeout=60).state is S.SUCCEEDED
        (app,) = runner.list()

        assert (app.app_handle, app.state, app.name) == (handle, S.SUCCEEDED, "echo")
        assert list(runner.log_lines(handle, "echo")) == ["hello\n"]
        assert handles(runner.prune()) == [handle]
        assert runner.list() == []
        assert runner.status(handle) is None
        assert runner.problems == []
