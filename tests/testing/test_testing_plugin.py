"""The pytest fixtures, in test files of a user's own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def users_tests(tmp_path, monkeypatch):
    """Run a user's test file in a pytest of its own, and return its outcomes and output."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(text, *options):
        file = tmp_path / "test_mine.py"
        file.write_text(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(file)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_user_tests_a_tool_without_starting_processes(users_tests):
    done = users_tests(
        """
        from wherry.specs import AppDef, AppState, Role
        from wherry.testing import Outcome

        def train_twice(runner):
            '''The user's tool: start an app, and once more if it fails.'''
            app = AppDef("train", [Role("main", entrypoint="train.py")])
            for _ in range(2):
                handle = runner.run(app)
                if runner.wait(handle).state is AppState.SUCCEEDED:
                    break
            return handle

        def test_it_tries_again(wherry_runner, wherry_scheduler):
            wherry_scheduler.script(Outcome.succeed(after=60))
            wherry_scheduler.script(Outcome.fail(), app="train")

            assert train_twice(wherry_runner) == "memory://test/train-2"
            assert len(wherry_scheduler.submitted) == 2
        """
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_runner_works_on_the_scheduler_and_its_clock(users_tests):
    done = users_tests(
        """
        import pytest
        from wherry.errors import UnknownAppError, WaitTimeout
        from wherry.specs import AppDef, AppState, Role
        from wherry.testing import Outcome

        APP = AppDef("a", [Role("main", entrypoint="x")])

        def test_an_hour_passes_at_once(wherry_runner, wherry_scheduler, wherry_clock):
            wherry_scheduler.script(Outcome.succeed(after=3600, log=["done"]))
            before = wherry_clock.now()
            handle = wherry_runner.run(APP)

            assert wherry_runner.wait(handle).state is AppState.SUCCEEDED
            assert wherry_clock.now() - before == 3600
            assert list(wherry_runner.log_lines(handle, "main")) == ["done\\n"]

        def test_nobody_waits_for_what_never_ends(wherry_runner, wherry_scheduler):
            wherry_scheduler.script(Outcome.hang())
            handle = wherry_runner.run(APP)

            with pytest.raises(WaitTimeout):
                wherry_runner.wait(handle, timeout=3600)
            wherry_runner.cancel(handle, "enough")
            assert wherry_runner.wait(handle).msg == "enough"

        def test_apps_are_listed_and_looked_up(wherry_runner):
            handles = [wherry_runner.run(APP) for _ in range(2)]

            assert [app.app_handle for app in wherry_runner.list()] == handles[::-1]
            assert wherry_runner.status("a-2").state is AppState.SUCCEEDED
            assert wherry_runner.status("memory://test/b-1") is None
            with pytest.raises(UnknownAppError):
                wherry_runner.cancel("memory://test/b-1")
        """
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_records_and_settings_of_the_user_are_out_of_sight(users_tests, monkeypatch, tmp_path):
    monkeypatch.setenv("WHERRY_HOME", "/users/own/home")
    monkeypatch.setenv("WHERRY_SCHEDULER", "local_dir")
    monkeypatch.setenv("WHERRY_CONFIG_HOME", str(tmp_path))
    (tmp_path / "wherry.toml").write_text("[run]\nscheduler = 'local_dir'\n")
    done = users_tests(
        """
        from wherry import home
        from wherry.runner import Config

        def test_home_is_empty_and_apart(wherry_home, tmp_path):
            assert home.home() == str(wherry_home)
            assert list(wherry_home.iterdir()) == []
            assert tmp_path in wherry_home.parents
            assert home.runtime_dir().startswith(str(tmp_path))
            assert Config(cwd="/").scheduler() is None

        def test_the_environment_comes_back():
            assert home.home() == "/users/own/home"
            assert Config(cwd="/").scheduler().value == "local_dir"
        """
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_scheduler_is_told_what_it_got_wrong(users_tests):
    done = users_tests(
        """
        import pytest
        from wherry.specs import AppDef, Role
        from wherry.testing import MemoryScheduler
        from wherry.testing.contract import SchedulerContract

        class Unfaithful(MemoryScheduler):
            def list(self, chosen=None):
                return iter(())

        class TestUnfaithful(SchedulerContract):
            @pytest.fixture
            def scheduler(self):
                return Unfaithful()

            def succeeding_app(self):
                return AppDef("a", [Role("main", entrypoint="x")])
        """,
        "-k",
        "newest_first",
    )

    assert done.returncode == 1
    assert "assert [] == ['a-3', 'a-2', 'a-1']" in done.stdout


def test_loading_the_plug_in_loads_nothing_else_of_wherry():
    program = """
import json, sys, pytest
before = set(sys.modules)
import wherry.testing.plugin
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == [
        "wherry",
        "wherry._lazy",
        "wherry._version",
        "wherry.testing",
        "wherry.testing.plugin",
    ]
