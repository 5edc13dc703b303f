"""Lists of what AWS has: all of it, newest first, page by page, by what one asks for."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from support.batch_apps import app, counted, ended, submitted
from wherry.errors import AwsError
from wherry.runner import Runner
from wherry.schedulers.api import ListFilter
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppState

S = AppState


def ids(found):
    return [each.app_id for each in found]


def test_more_than_a_page_is_listed_newest_first(batch, wherry_aws):
    with wherry_aws.fault("hold", value="SUBMITTED"):
        made = [submitted(batch, app("true", name=f"a{n}")) for n in range(230)]

        with counted() as asked:
            found = list(batch.list())

    assert ids(found) == made[::-1]
    assert asked["ListJobs"] <= 3 + 3  # and one for each of the other queues
    assert asked["DescribeJobs"] == 3


def test_no_more_pages_are_asked_for_than_are_wanted(batch, wherry_aws):
    with wherry_aws.fault("hold", value="SUBMITTED"):
        for n in range(120):
            submitted(batch, app("true", name=f"a{n}"))
        with counted() as asked:
            found = list(islice(batch.list(queues=["main"]), 5))

    assert len(found) == 5
    assert asked == {"ListJobs": 1, "DescribeJobs": 1}


def test_all_queues_are_listed_or_those_that_are_named(batch):
    first = submitted(batch, app("true", name="first"))
    second = submitted(batch, app("true", name="second"), queue="spot")
    third = submitted(batch, app("true", name="third"))

    assert ids(batch.list()) == [third, second, first]
    assert ids(batch.list(queues=["spot"])) == [second]
    assert ids(batch.list(queues=["spot", "main"])) == [third, second, first]
    arn = "arn:aws:batch:us-east-1:123456789012:job-queue/spot"
    assert ids(batch.list(queues=[arn])) == [second]


def test_a_line_says_what_an_app_is(batch):
    app_id = submitted(batch, app("exit 3", 3, name="bad.name"), tags="team:red", user="ada")
    ended(batch, app_id)

    (line,) = batch.list()

    assert line.app_handle == f"aws_batch://tests/{app_id}"
    assert (line.name, line.state, line.replicas) == ("bad.name", S.FAILED, 3)
    assert (line.session, line.user, line.tags["team"]) == ("tests", "ada", "red")
    assert line.created_at <= line.ended_at
    assert line.msg


def test_a_filter_chooses(batch, wherry_aws):
    good = submitted(batch, app("true", name="train-a"), tags="team:red")
    bad = submitted(batch, app("exit 1", name="train-b"), user="ada")
    for each in (good, bad):
        ended(batch, each)
    time.sleep(0.01)
    since = wherry_aws.clock.now()
    other = AWSBatchScheduler("others")
    late = submitted(other, app("true", name="eval"))
    ended(other, late)

    def listed(**chosen):
        return ids(batch.list(ListFilter(**chosen)))

    assert listed(states=frozenset([S.FAILED])) == [bad]
    assert listed(name="train") == [bad, good]
    assert listed(name="train-a", states=frozenset([S.FAILED])) == []
    assert listed(session="others") == [late]
    assert listed(since=since) == [late]
    assert listed(name="train", since=since) == []
    assert listed(user="ada") == [bad]
    assert listed(tags={"team": "red"}) == [good]
    assert listed(limit=2) == [late, bad]


def test_cancelled_is_cancelled(batch, wherry_aws):
    app_id = submitted(batch, "sleep 60")
    batch.cancel(app_id, "enough")
    ended(batch, app_id)

    (line,) = batch.list()

    assert (line.state, line.msg) == (S.CANCELLED, "enough")


def test_jobs_of_others_are_listed_only_when_asked_for(batch, wherry_aws):
    mine = submitted(batch, "true")
    client = wherry_aws.client("batch")
    (definition,) = client.describe_job_definitions()["jobDefinitions"]
    theirs = client.submit_job(
        jobName="theirs", jobQueue="main", jobDefinition=definition["jobDefinitionArn"]
    )["jobId"]

    assert ids(batch.list()) == [mine]
    everyone = list(batch.list(everyone=True))
    assert ids(everyone) == [theirs, mine]
    assert everyone[0].name == "theirs"
    assert batch.describe(theirs) is not None


def test_the_jobs_of_one_large_array_are_one_line(batch, wherry_aws):
    with wherry_aws.fault("hold", value="SUBMITTED"):
        app_id = submitted(batch, app("true", 10_001))

        (line,) = batch.list()

    assert (line.app_id, line.replicas, line.state) == (app_id, 10_001, S.SUBMITTED)


def test_what_is_recorded_is_listed_without_aws(batch, wherry_aws):
    first, second = submitted(batch, "true"), submitted(batch, app("exit 3", name="bad"))
    ended(batch, second)

    with counted() as asked:
        found = list(AWSBatchScheduler("other").recorded())

    assert asked.calls == 0
    assert [(each.app_id, each.state) for each in found] == [
        (second, S.FAILED),
        (first, S.SUBMITTED),
    ]


def test_a_refusal_is_an_error(batch, wherry_aws):
    with wherry_aws.fault("access-denied", operation="ListJobs"):
        with pytest.raises(AwsError, match="may not do ListJobs"):
            list(batch.list())


class TestTheRunner:
    def test_without_apps_at_aws_nothing_is_asked(self, wherry_aws):
        with Runner() as runner, counted() as asked:
            assert runner.list() == []

        assert asked.calls == 0

    def test_the_ledger_has_the_apps_and_asks_once_for_those_that_go_on(self, wherry_aws):
        with Runner() as runner:
            handles = [runner.run(app("true"), "aws_batch", {"queue": "main"}) for _ in range(3)]
        with Runner() as runner, counted() as asked:
            found = runner.list()

        assert [each.app_handle for each in found] == handles[::-1]
        assert asked["DescribeJobs"] == 1

    def test_a_tag_or_a_user_is_asked_of_aws(self, wherry_aws):
        with Runner() as runner:
            runner.run(app("true"), "aws_batch", {"queue": "main"})
            handle = runner.run(app("true"), "aws_batch", {"queue": "main", "user": "ada"})
            found = runner.list("aws_batch", ListFilter(user="ada"))

        assert [each.app_handle for each in found] == [handle]

    def test_the_configured_region_is_where_apps_without_a_record_are(
        self, wherry_aws, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "wherry.toml").write_text('[scheduler.aws_batch]\nregion = "eu-west-1"\n')
        with Runner() as runner:
            handle = runner.run(app("true"), "aws_batch", {"queue": "main"})
            record = runner.scheduler("aws_batch").describe(runner.resolve(handle).app_id)
            assert record is not None
            assert record.metadata["region"] == "eu-west-1"
            arrived = list(runner.scheduler("aws_batch").list())

        assert [each.app_handle for each in arrived] == [handle]
