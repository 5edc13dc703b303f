"""Where the output of jobs is, and what is kept of that."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wherry.aws.jobs import AttemptView, ContainerView, JobView, view
from wherry.aws.log_places import (
    FORGOTTEN,
    Place,
    attempt_logs,
    elsewhere,
    known_streams,
    remembered,
)


def document(**more: Any) -> dict[str, Any]:
    return {
        "jobId": "6f1c",
        "status": "RUNNING",
        "jobQueue": "q",
        "attempts": [
            {
                "container": {"exitCode": 1, "logStreamName": "d/default/1", "taskArn": "t1"},
                "startedAt": 1000,
                "stoppedAt": 2000,
                "statusReason": "Essential container in task exited",
            }
        ],
        "container": {
            "image": "busybox",
            "logStreamName": "d/default/2",
            "taskArn": "t2",
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {"awslogs-group": "/mine", "awslogs-region": "eu-west-1"},
            },
        },
        **more,
    }


def test_each_attempt_has_its_stream_in_the_group_of_the_definition() -> None:
    first, second = attempt_logs(view(document()))

    assert first.places == (Place("d/default/1", "/mine", "eu-west-1"),)
    assert (first.number, first.over, first.stopped_at) == (1, True, 2.0)
    assert second.places == (Place("d/default/2", "/mine", "eu-west-1"),)
    assert (second.number, second.over) == (2, False)


def test_the_last_attempt_is_over_with_the_job() -> None:
    assert [each.over for each in attempt_logs(view(document(status="FAILED")))] == [True, True]


def test_containers_that_are_not_essential_do_not_count() -> None:
    containers = (
        ContainerView("helper", log_stream="h", essential=False),
        ContainerView("main", log_stream="m"),
    )
    (log,) = attempt_logs(JobView("j", "RUNNING", attempts=(AttemptView(1, containers),)))

    assert [place.stream for place in log.places] == ["m"]


def test_another_driver_has_no_stream() -> None:
    containers = (ContainerView(log_stream="x", log_driver="splunk"),)
    (log,) = attempt_logs(JobView("j", "RUNNING", attempts=(AttemptView(1, containers),)))

    assert log.places == ()
    assert log.elsewhere == elsewhere(containers) == ("splunk",)


def test_an_attempt_that_failed_to_start_never_ran() -> None:
    attempts = [
        {
            "container": {"reason": "CannotPullContainerError: no", "logStreamName": "d/default/1"},
            "stoppedAt": 2000,
            "statusReason": "Task failed to start",
        }
    ]
    (log,) = attempt_logs(view(document(status="FAILED", attempts=attempts, container={})))

    assert log.never_ran
    assert log.reason == "CannotPullContainerError: no"


# -- in a record ----------------------------------------------------------------------------------


def test_what_is_usual_is_not_written_down() -> None:
    attempt = AttemptView(1, (ContainerView(log_stream="d/default/1"),))

    assert known_streams([JobView("j:7", "FAILED", attempts=(attempt,))]) == [
        {"job": "j:7", "stream": "d/default/1"}
    ]


places = st.builds(
    Place, st.text(min_size=1), st.sampled_from(["/aws/batch/job", "/mine"]), st.sampled_from("ab")
)


@given(st.dictionaries(st.text(min_size=1), st.lists(places, min_size=1), max_size=5))
def test_what_was_kept_names_the_same_places(jobs: dict[str, list[Place]]) -> None:
    views = [
        JobView(
            job_id,
            "FAILED",
            attempts=tuple(
                AttemptView(
                    n,
                    (
                        ContainerView(
                            "", log_stream=p.stream, log_group=p.group, log_region=p.region
                        ),
                    ),
                )
                for n, p in enumerate(places, 1)
            ),
        )
        for job_id, places in jobs.items()
    ]

    again = remembered(json.loads(json.dumps(known_streams(views))))

    assert {job_id: [log.places for log in attempt_logs(job)] for job_id, job in again.items()} == {
        job_id: [(place,) for place in places] for job_id, places in jobs.items()
    }
    assert all(job.status == FORGOTTEN for job in again.values())


def test_lines_of_another_version_are_passed_over() -> None:
    assert remembered([{"what": "ever"}, {"job": "j"}]) == {}
