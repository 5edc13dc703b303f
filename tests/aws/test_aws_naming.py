"""Names at AWS Batch: tokens, job names, definitions by content, and what AWS would refuse."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.batch_requests import TOKEN
from wherry.errors import InvalidOptionError, InvalidSpecError
from wherry.schedulers.aws_batch import naming
from wherry.specs import AppDef

AWS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
APP_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", fullmatch=True)


def test_tokens_sort_by_the_time_they_were_made():
    tokens = [naming.make_token(now=moment) for moment in (1e9, 1.7e9, 1.7e9 + 0.001, 4e9)]

    assert tokens == sorted(tokens)
    assert all(re.match(r"[0-9a-z]{13}\Z", token) for token in tokens)


def test_two_tokens_of_the_same_moment_differ():
    assert len({naming.make_token(now=1.7e9) for _ in range(50)}) > 45


@given(APP_NAMES, st.integers(0, 999))
def test_a_job_name_is_one_that_aws_takes_and_ends_in_the_token(app_name, index):
    AppDef(app_name)  # a name that we allow
    name = naming.job_name(app_name, TOKEN)
    part = naming.part_name(name, index, 1000)

    assert AWS_NAME.match(name)
    assert AWS_NAME.match(part)
    assert name.endswith(TOKEN)
    assert part.startswith(name)
    assert naming.token_of(name) == naming.token_of(part) == TOKEN


def test_a_name_without_a_token_has_none():
    assert naming.token_of("nightly-report") == ""


def test_an_app_id_is_the_queues_name_and_the_jobs():
    arn = "arn:aws:batch:eu-west-1:123456789012:job-queue/main"

    assert naming.app_id(arn, "demo-1") == naming.app_id("main", "demo-1") == "main:demo-1"


@pytest.mark.parametrize(
    "queue", ["", "a b", "a:b", "-a", "x" * 129, "arn:aws:batch:x:1:job-queue"]
)
def test_a_queue_that_aws_could_not_have_is_refused(queue):
    with pytest.raises(InvalidOptionError, match="name of a job queue"):
        naming.queue_name(queue)


@given(APP_NAMES)
def test_a_definitions_name_is_one_that_aws_takes(app_name):
    name = naming.named({"type": "container"}, app_name)["jobDefinitionName"]

    assert AWS_NAME.match(name)
    assert re.match(r"wherry-.*-[0-9a-f]{16}\Z", name)


def test_the_same_content_in_another_order_has_the_same_name():
    one = {"type": "container", "containerProperties": {"image": "a", "privileged": True}}
    other = {"containerProperties": {"privileged": True, "image": "a"}, "type": "container"}

    assert (
        naming.named(one, "demo")["jobDefinitionName"]
        == (naming.named({**other, "tags": {"a": "b"}}, "demo")["jobDefinitionName"])
    )


def test_an_edited_definition_is_named_anew_and_one_with_a_name_of_its_own_is_not():
    made = naming.named({"type": "container"}, "demo")

    edited = naming.named({**made, "type": "multinode"})
    own = naming.named({"jobDefinitionName": "mine", "type": "container"})

    assert edited["jobDefinitionName"] != made["jobDefinitionName"]
    assert edited["jobDefinitionName"].startswith("wherry-demo-")
    assert own == {"jobDefinitionName": "mine", "type": "container"}


@pytest.mark.parametrize("image", ["alpine", "a.b:5000/c_d/e:1.2-x", "x@sha256:" + "0" * 64])
def test_an_image_reference_is_taken(image):
    naming.check_image("role 'a'", image)


@pytest.mark.parametrize("image", ["", " alpine", "a b", "a\n", "x" * 256, "$(id)"])
def test_what_is_no_image_reference_is_refused(image):
    with pytest.raises(InvalidSpecError, match="role 'a'"):
        naming.check_image("role 'a'", image)
