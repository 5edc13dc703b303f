"""A test suite that any scheduler should pass.

An author of a scheduler subclasses `SchedulerContract` in a test module, gives it a fixture
``scheduler`` and says how to make four kinds of app.
"""
# ruff: noqa: S101, PT018 — this is a suite of tests, shipped

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from wherry.errors import InvalidOptionError, InvalidSpecError, UnknownAppError, UnknownNameError
from wherry.schedulers.api import DescribeAppResponse, ListFilter, Scheduler
from wherry.specs.app import AppDef
from wherry.specs.options import CfgVal
from wherry.specs.plain import to_plain
from wherry.specs.states import AppState

AnyScheduler = Scheduler[Any]


class SchedulerContract:
    """What every scheduler promises, as tests; each app has one role and one replica.

    A subclass has a fixture ``scheduler``, a fresh one for each test that lists no apps, and
    overrides the methods that make apps::

        class TestMyScheduler(SchedulerContract):
            @pytest.fixture
            def scheduler(self, tmp_path):
                return MyScheduler("test", tmp_path)

            def succeeding_app(self):
                return AppDef("ok", [Role("main", entrypoint="true")])

            ...
    """

    cfg: dict[str, CfgVal] = {}  # noqa: RUF012 — a subclass replaces it
    """The options that the apps are submitted with."""

    def succeeding_app(self) -> AppDef:
        """Return an app that ends well, soon."""
        raise NotImplementedError

    def failing_app(self) -> AppDef:
        """Return an app whose program exits with 3, soon."""
        raise NotImplementedError

    def logging_app(self, lines: Sequence[str]) -> AppDef:
        r"""Return an app that writes these lines to standard output and ends well.

        Args:
            lines: without their ``\n``.
        """
        raise NotImplementedError

    def long_app(self) -> AppDef:
        """Return an app that runs for much longer than a test, and ends when it is asked to."""
        raise NotImplementedError

    def test_an_unknown_app_is_none(self, scheduler: AnyScheduler) -> None:
        """None, and not a state, says that an app never existed."""
        assert scheduler.describe("never-was") is None
        assert not scheduler.exists("never-was")
        assert scheduler.statuses(["never-was"]) == {"never-was": None}

    def test_a_dry_run_starts_nothing(self, scheduler: AnyScheduler) -> None:
        """A request prints, and nothing is known at the scheduler."""
        info = scheduler.submit_dryrun(self.long_app(), self.cfg)

        assert str(info)
        assert list(scheduler.list()) == []

    def test_an_app_is_not_mutated(self, scheduler: AnyScheduler) -> None:
        """The caller's app is the same after it was submitted."""
        app = self.succeeding_app()
        before = to_plain(app)

        self.finished(scheduler, self.submit(scheduler, app))

        assert to_plain(app) == before

    def test_an_app_without_roles_is_refused(self, scheduler: AnyScheduler) -> None:
        """Nothing to run is a mistake that a dry run finds."""
        with pytest.raises(InvalidSpecError):
            scheduler.submit_dryrun(AppDef("empty"), self.cfg)

    def test_an_unknown_option_is_refused_by_name(self, scheduler: AnyScheduler) -> None:
        """A misspelt option is not dropped."""
        with pytest.raises(InvalidOptionError, match="no_such_option"):
            scheduler.submit_dryrun(self.succeeding_app(), {**self.cfg, "no_such_option": "1"})

    def test_success_is_told_with_its_attempt(self, scheduler: AnyScheduler) -> None:
        """An app that ended well has exit code 0, one attempt, and times in their order."""
        answer = self.finished(scheduler, self.submit(scheduler, self.succeeding_app()))

        assert answer.state is AppState.SUCCEEDED
        assert answer.to_status().exit_code == 0
        attempts = answer.roles_statuses[0].replicas[0].attempts
        assert [(one.number, one.state, one.exit_code) for one in attempts] == [
            (1, AppState.SUCCEEDED, 0)
        ]
        times = (answer.created_at, answer.started_at, answer.ended_at)
        assert None not in times and list(times) == sorted(times)  # type: ignore[type-var]

    def test_failure_is_told_with_exit_code_and_reason(self, scheduler: AnyScheduler) -> None:
        """An app that failed says with what and why."""
        answer = self.finished(scheduler, self.submit(scheduler, self.failing_app()))

        assert answer.state is AppState.FAILED
        assert answer.to_status().exit_code == 3
        assert answer.msg

    def test_many_statuses_come_at_once(self, scheduler: AnyScheduler) -> None:
        """Each app that was asked for has its own answer."""
        good = self.submit(scheduler, self.succeeding_app())
        bad = self.submit(scheduler, self.failing_app())
        self.finished(scheduler, good)
        self.finished(scheduler, bad)

        statuses = scheduler.statuses([good, "never-was", bad])

        assert {key: status and status.state for key, status in statuses.items()} == {
            good: AppState.SUCCEEDED,
            "never-was": None,
            bad: AppState.FAILED,
        }

    def test_a_cancelled_app_is_cancelled_for_the_first_reason(
        self, scheduler: AnyScheduler
    ) -> None:
        """Cancelling twice is harmless, is not a failure, and keeps what was said first."""
        app_id = self.submit(scheduler, self.long_app())

        scheduler.cancel(app_id, "the first reason")
        scheduler.cancel(app_id, "the second reason")

        answer = self.finished(scheduler, app_id)
        assert answer.state is AppState.CANCELLED
        assert "the first reason" in answer.msg
        assert "the second reason" not in answer.msg

    def test_cancelling_what_has_ended_changes_nothing(self, scheduler: AnyScheduler) -> None:
        """An app that succeeded stays so."""
        app_id = self.submit(scheduler, self.succeeding_app())
        before = self.finished(scheduler, app_id)

        scheduler.cancel(app_id, "too late")

        assert scheduler.describe(app_id) == before

    def test_a_log_has_all_lines_in_order(self, scheduler: AnyScheduler) -> None:
        """Whole lines, each with its end; a regular expression chooses among them."""
        words = [f"line {number}" for number in range(20)]
        app_id, role = self.ended_log(scheduler, words)

        assert list(scheduler.log_iter(app_id, role)) == [f"{word}\n" for word in words]
        assert list(scheduler.log_iter(app_id, role, regex="1[37]$")) == ["line 13\n", "line 17\n"]

    def test_an_app_can_be_followed_as_a_whole(self, scheduler: AnyScheduler) -> None:
        """Following all replicas gives the same bytes as reading the one that there is."""
        words = [f"line {number}" for number in range(20)]
        app = self.logging_app(words)
        app_id = self.submit(scheduler, app)
        role = app.roles[0].name
        expected = "".join(f"{word}\n" for word in words).encode()

        chunks = list(scheduler.follow(app_id))

        assert {(chunk.role, chunk.replica) for chunk in chunks} == {(role, 0)}
        assert b"".join(chunk.data for chunk in chunks) == expected
        assert b"".join(scheduler.log_bytes(app_id, role)) == expected

    def test_a_tail_ends_after_the_last_line(self, scheduler: AnyScheduler) -> None:
        """Following an app from its start gives all it wrote, and comes to an end."""
        words = [f"line {number}" for number in range(20)]
        app = self.logging_app(words)
        app_id = self.submit(scheduler, app)

        lines = list(scheduler.log_iter(app_id, app.roles[0].name, should_tail=True))

        assert lines == [f"{word}\n" for word in words]

    def test_reading_a_log_does_not_wait_for_the_end(self, scheduler: AnyScheduler) -> None:
        """Without a tail, the log of a running app is what there is."""
        app = self.long_app()
        app_id = self.submit(scheduler, app)

        list(scheduler.log_iter(app_id, app.roles[0].name, should_tail=False))

        answer = scheduler.describe(app_id)
        assert answer is not None and not answer.to_status().is_terminal()
        scheduler.cancel(app_id, kill=True)
        self.finished(scheduler, app_id)

    def test_a_log_of_what_is_not_there_is_an_error(self, scheduler: AnyScheduler) -> None:
        """An unknown app, role or replica never gets another's log."""
        app_id, role = self.ended_log(scheduler, ["a line"])

        with pytest.raises(UnknownAppError):
            list(scheduler.log_iter("never-was", role))
        with pytest.raises(UnknownNameError, match="no-such-role"):
            list(scheduler.log_iter(app_id, "no-such-role"))
        for k in (1, -1):
            with pytest.raises(UnknownNameError):
                list(scheduler.log_iter(app_id, role, k))
        with pytest.raises(ValueError, match="regular expression"):
            list(scheduler.log_iter(app_id, role, regex="("))

    def test_a_cancel_of_what_is_not_there_is_an_error(self, scheduler: AnyScheduler) -> None:
        """Nothing is reported as cancelled that never was."""
        with pytest.raises(UnknownAppError):
            scheduler.cancel("never-was")

    def test_a_list_has_the_newest_first(self, scheduler: AnyScheduler) -> None:
        """All apps are listed; filters and a limit choose among them."""
        app_ids = [self.submit(scheduler, self.succeeding_app()) for _ in range(3)]
        for app_id in app_ids:
            self.finished(scheduler, app_id)

        def listed(**chosen: Any) -> list[str]:
            return [app.app_id for app in scheduler.list(ListFilter(**chosen))]

        assert listed() == app_ids[::-1]
        assert listed(limit=2) == app_ids[:0:-1]
        assert listed(states=frozenset([AppState.FAILED])) == []
        assert listed(name=self.succeeding_app().name) == app_ids[::-1]

    def test_closing_twice_is_harmless(self, scheduler: AnyScheduler) -> None:
        """A scheduler lets go of what it holds as often as it is told to."""
        scheduler.close()
        scheduler.close()

    def submit(self, scheduler: AnyScheduler, app: AppDef) -> str:
        """Start an app with the suite's options; returns its id."""
        return scheduler.submit(app, self.cfg)

    def finished(self, scheduler: AnyScheduler, app_id: str) -> DescribeAppResponse:
        """Wait for an app's end, and return its description."""
        while True:
            answer = scheduler.describe(app_id)
            assert answer is not None, f"{app_id} was submitted and is not known"
            if answer.to_status().is_terminal():
                return answer
            scheduler.wait_for_change(app_id, timeout=1)

    def ended_log(self, scheduler: AnyScheduler, words: Sequence[str]) -> tuple[str, str]:
        """Run an app that writes these lines; returns its id and its role's name."""
        app = self.logging_app(words)
        app_id = self.submit(scheduler, app)
        self.finished(scheduler, app_id)
        return app_id, app.roles[0].name
