"""Questions about apps: answered from the record where it knows the end, else by looking at jobs.

An answer about an app that has ended is kept in its record, and announced once. What AWS has
forgotten is answered from there; an app of which nothing was seen is EXPIRED, unless it is somebody
else's credentials that do not see it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wherry.errors import UnknownAppError
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.aws_batch.finding import FORGOTTEN_AFTER, Finder, KnownApp, check_account
from wherry.schedulers.aws_batch.record import BACKEND, read_record
from wherry.schedulers.aws_batch.waiting import Waits
from wherry.specs.states import is_terminal
from wherry.specs.status import AppStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.aws_batch.looking import Seen

_MOST_REMEMBERED = 1000
_NEW_SECONDS = 30.0
_LOOKS_FOR_NEW = 3
_LOOK_PAUSE = 0.5


class Inquiries:
    """Answers questions about apps. All methods may be called from any thread.

    Args:
        finder: finds the jobs behind an app.
        waits: knows what was seen just now.
    """

    def __init__(self, finder: Finder, waits: Waits) -> None:
        self._finder = finder
        self._waits = waits
        self._others: dict[str, KnownApp] = {}

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app; ``None`` when there is none.

        Raises:
            AwsError, UsageError: AWS cannot be asked.
        """
        from wherry.schedulers.aws_batch.looking import look

        record = read_record(app_id)
        known = record.last() if record is not None else None
        if known is not None and known[1]:
            return known[0]
        app = self.find(app_id)
        if app is None:
            return None
        if not app.jobs:
            return self.without_jobs(app)
        return self._answer(app, look(app, self._waits.known(app)))

    def statuses(self, app_ids: Sequence[str]) -> dict[str, AppStatus | None]:
        """Tell the status of many apps; ``None`` for one that there is not.

        Raises:
            AwsError, UsageError: AWS cannot be asked.
        """
        found: dict[str, AppStatus | None] = {}
        by_session: dict[int, list[KnownApp]] = {}
        for app_id in dict.fromkeys(app_ids):
            record = read_record(app_id)
            known = record.last() if record is not None else None
            if known is not None:
                found[app_id] = known[0].to_status()
                continue
            app = self.find(app_id)
            if app is None or not app.jobs:
                found[app_id] = None if app is None else self.without_jobs(app).to_status()
            else:
                by_session.setdefault(id(app.aws), []).append(app)
        for apps in by_session.values():
            found.update(self._glanced(apps))
        return {app_id: found[app_id] for app_id in app_ids}

    def exists(self, app_id: str) -> bool:
        """Tell whether an app is or ever was known."""
        record = read_record(app_id)
        return (record is not None and record.is_submitted) or self.find(app_id) is not None

    def find(self, app_id: str) -> KnownApp | None:
        """Find an app; one without a record is looked up once.

        Raises:
            AwsError, UsageError: it would have to be looked up, and AWS cannot be asked.
        """
        found = self._others.get(app_id)
        if found is not None:
            return found
        found = self._finder.find(app_id)
        if found is not None and found.record is None:
            while len(self._others) >= _MOST_REMEMBERED:
                self._others.pop(next(iter(self._others)), None)
            self._others[app_id] = replace(found, views={}, wish=None)
        return found

    def required(self, app_id: str) -> KnownApp:
        """Find an app that must exist.

        Raises:
            UnknownAppError: there is none.
        """
        app = self.find(app_id)
        if app is None:
            raise UnknownAppError(
                f"there is no app {app_id!r} at {BACKEND}; `wherry list` shows those that were "
                "submitted from here, `wherry aws list` those that AWS knows"
            )
        return app

    def without_jobs(self, app: KnownApp) -> DescribeAppResponse:
        """Tell of an app of which there is a record only: it is on its way, or forgotten."""
        from wherry.schedulers.aws_batch import describing

        record = app.record
        known = record.last() if record is not None else None
        if known is not None:
            return known[0]
        if record is not None and time.time() - record.created_at > FORGOTTEN_AFTER:
            return describing.expired(app)
        return describing.submitting(app)

    def _glanced(self, apps: Sequence[KnownApp]) -> Iterable[tuple[str, AppStatus]]:
        from wherry.schedulers.aws_batch.looking import glance

        known = self._waits.known_or_new
        views = {key: job for app in apps for key, job in known(app).items()}
        seen = glance(apps, views)
        return [(app.app_id, self._answer(app, seen[app.app_id]).to_status()) for app in apps]

    def _answer(self, app: KnownApp, seen: Seen) -> DescribeAppResponse:
        """Put an answer together, and keep it if it is the last."""
        from wherry.schedulers.aws_batch import describing

        if not seen.jobs:
            seen = self._look_again(app) or seen
        if not seen.jobs:
            return self._gone(app)
        self._waits.told(app.app_id, seen.jobs)
        answer = describing.answer_of(app, seen)
        if app.record is not None and is_terminal(answer.state) and seen.over:
            from wherry.aws.log_places import known_streams

            views = seen.members or seen.jobs
            streams = known_streams(views.values())
            app.record.note_last(answer, complete=seen.complete, streams=streams)
        return answer

    def _gone(self, app: KnownApp) -> DescribeAppResponse:
        from wherry.schedulers.aws_batch import describing

        known = app.record.last() if app.record is not None else None
        if known is not None:
            return known[0]
        check_account(app)
        return describing.expired(app)

    def _look_again(self, app: KnownApp) -> Seen | None:
        """Look again for an app that AWS does not name: a new one may take a moment."""
        from wherry.schedulers.aws_batch.looking import look

        record = app.record
        if record is None or record.last() is not None:
            return None
        if time.time() - record.created_at > _NEW_SECONDS:
            return None
        for _ in range(_LOOKS_FOR_NEW):
            time.sleep(_LOOK_PAUSE)
            seen = look(app, {})
            if seen.jobs:
                return seen
        return None


def telling_job(app: KnownApp) -> str:
    """Return the job of an app that says most: one that failed, or else one that goes on.

    Raises:
        AwsError: AWS cannot be asked.
    """
    if len(app.jobs) == 1:
        return app.job_ids[0]
    from wherry.aws import lookup

    seen = lookup.describe(app.aws.calls(), app.job_ids)
    failed = [job.id for job in seen.values() if job.status == "FAILED"]
    going = [job.id for job in seen.values() if not job.ended]
    return next(iter((*failed, *going, *app.job_ids)))
