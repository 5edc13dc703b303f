"""The options of the AWS Batch scheduler: what there is, and what is refused unsent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.batch_requests import EXECUTION_ROLE, JOB_ROLE, SECRET
from wherry.errors import InvalidOptionError, UsageError
from wherry.schedulers.aws_batch.options import aws_batch_opts, read_options
from wherry.schedulers.aws_batch.retries import parse_retries
from wherry.specs import RetryRule

SEED = {
    *("queue", "user", "privileged", "share_id", "priority", "job_role_arn"),
    *("execution_role_arn", "image_repo", "quiet"),
}
OURS = {
    *("region", "profile", "timeout", "retries", "tags", "log_group", "secrets", "platform"),
    *("job_definition", "consumable_resources", "propagate_tags", "launcher", "launcher_image"),
}


def read(**options):
    return read_options({"queue": "main", **options})


def test_all_options_are_there_and_say_what_they_are_for():
    options = dict(aws_batch_opts())

    assert set(options) >= SEED | OURS
    assert all(len(option.help) > 10 for option in options.values())
    assert [name for name, option in options.items() if option.required] == ["queue"]


def test_options_are_read_from_the_command_lines_form():
    cfg = aws_batch_opts().cfg_from_str(
        f"queue=main,privileged=yes,share_id=teamA,priority=7,job_role_arn={JOB_ROLE},"
        f"execution_role_arn={EXECUTION_ROLE},tags=team:ml;cost:42,secrets=DB:{SECRET},"
        "retries=exit=137:retry;status=Host EC2*:retry;*:exit,consumable_resources=license:2"
    )

    options = read_options(cfg)

    assert (options.privileged, options.share_id, options.priority) == (True, "teamA", 7)
    assert options.tags == {"team": "ml", "cost": "42"}
    assert options.secrets == {"DB": SECRET}
    assert options.consumable_resources == {"license": 2}
    assert len(options.retries.policy.rules) == 3


def test_priority_without_a_share_is_refused():
    """TorchX drops it silently."""
    with pytest.raises(InvalidOptionError, match=r"priority.*share_id"):
        read(priority=5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"queue": "not a queue"}, "'queue'"),
        ({"share_id": "team-a"}, "'share_id'"),
        ({"share_id": "a", "priority": 10_000}, "0 to 9999"),
        ({"job_role_arn": "job"}, "'job_role_arn' takes the ARN"),
        ({"execution_role_arn": "arn:aws:s3:::bucket"}, "'execution_role_arn' takes the ARN"),
        ({"region": "Ireland"}, "'region'"),
        ({"log_group": "a b"}, "'log_group'"),
        ({"image_repo": "Repo"}, "'image_repo'"),
        ({"job_definition": "a b"}, "'job_definition'"),
        ({"tags": {"aws:x": "1"}}, "reserved"),
        ({"tags": {"wherry/app": "1"}}, "reserved"),
        ({"tags": {"k": "x" * 257}}, "256"),
        ({"tags": {"k": "a&b"}}, "characters other than"),
        ({"secrets": {"A": "env:A"}}, "kept at 'env:A'"),
        ({"consumable_resources": {"license": "some"}}, "whole number"),
        ({"consumable_resources": {"license": 0}}, "above 0"),
        ({"platform": "eks"}, "platform"),
        ({"launcher": "bash"}, "launcher"),
        ({"launcher_image": "a b"}, "launcher_image"),
        ({"retry": "all"}, "did you mean 'retries'"),
    ],
)
def test_what_aws_would_refuse_is_refused_by_name(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        read(**options)


def test_retries_may_be_a_count_or_a_policy_or_both():
    assert parse_retries("none").retries == 0
    assert parse_retries("4").retries == 4
    assert parse_retries("4").policy is None
    assert parse_retries("all").policy.rules == ()
    assert parse_retries("all").retries is None
    assert parse_retries("2:spot").retries == 2
    assert parse_retries("2:spot").policy.rules[-1] == RetryRule(False, reason="*")
    assert parse_retries("1:exit=137:retry;*:exit").retries == 1


def test_rules_are_read_in_order_with_all_their_conditions():
    rules = parse_retries("exit=13*&reason=Out of: memory*:retry;*:exit").policy.rules

    assert rules == (
        RetryRule(True, exit_code="13*", reason="Out of: memory*"),
        RetryRule(False),
    )


def test_rules_that_say_only_what_is_retried_give_up_all_else():
    rules = parse_retries("exit=137:retry;exit=139:retry").policy.rules

    assert rules[-1] == RetryRule(False, reason="*")


def test_rules_that_say_only_what_is_given_up_retry_all_else():
    policy = parse_retries("exit=1:exit").policy

    assert len(policy.rules) == 1
    assert policy.allows(2, "")
    assert not policy.allows(1, "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sport", "did you mean 'spot'"),
        ("10", "9 retries at most"),
        ("exit=1", "sport|takes none|unknown"),
        ("exit=1:again", "':retry' or ':exit'"),
        ("code=1:retry", "is no condition"),
        ("exit=x:retry", "digits"),
        ("exit=1:retry;exit=2:exit", "for all else"),
        (":retry", "is no condition"),
    ],
)
def test_text_that_is_no_retry_policy_is_refused(text, complaint):
    with pytest.raises(InvalidOptionError, match=complaint):
        parse_retries(text)


@given(st.text(max_size=30))
def test_any_text_for_retries_is_read_or_refused_as_an_option(text):
    try:
        choice = parse_retries(text)
    except InvalidOptionError:
        return
    assert choice.retries is not None or choice.policy is not None
