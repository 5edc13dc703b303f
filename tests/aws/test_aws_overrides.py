"""What varies from run to run: command, environment, macros; and what is too large to send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.batch_requests import (
    TOKEN,
    app,
    command_of,
    env_of,
    made,
    request_of,
    role,
    warnings_of,
)
from wherry.errors import InvalidSpecError, UsageError
from wherry.schedulers.aws_batch import launcher
from wherry.schedulers.aws_batch.facts import QueueFacts
from wherry.schedulers.aws_batch.overrides import overrides_in
from wherry.specs import RetryPolicy, macros

APP_ID = f"main:demo-{TOKEN}"


def first(request):
    return request.submissions()[0]


def nodes(request):
    overrides = first(request)["nodeOverrides"]["nodePropertyOverrides"]
    return [node["containerOverrides"] for node in overrides]


def words(command):
    """Return the user's part of a wrapped command."""
    return command[command.index("--") + 1 :] if launcher.SCRIPT in command else command


def test_a_single_replica_is_not_wrapped_and_knows_everything():
    request = request_of(app(role(args=["a", macros.replica_id], env={"N": macros.replica_id})))

    assert command_of(request) == ["echo", "a", "0"]
    assert env_of(first(request)["containerOverrides"]) == {
        "N": "0",
        "WHERRY_APP_ID": APP_ID,
        "WHERRY_ROLE_NAME": "main",
        "WHERRY_NUM_REPLICAS": "1",
        "WHERRY_REPLICA_ID": "0",
        "WHERRY_ATTEMPT": "1",
        "WHERRY_RANK0_HOST": "localhost",
    }


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"max_retries": 1}, {}),
        ({}, {"retries": "spot"}),
        ({"args": [""]}, {}),
        ({"env": {"EMPTY": ""}}, {}),
        ({}, {"job_definition": "mine:3"}),
    ],
    ids=["retries", "option", "empty word", "empty value", "retries unknown"],
)
def test_a_single_replica_is_wrapped_when_something_is_not_known_or_not_sendable(fields, options):
    command = command_of(request_of(app(role(**fields)), **options))

    assert command[:4] == ["/bin/sh", "-c", launcher.SCRIPT, "wherry"]


def test_an_image_of_a_users_own_definition_with_no_retries_is_not_wrapped():
    command = command_of(request_of(app(), job_definition="mine:3", retries="none"))

    assert command == ["echo", "hello"]


def test_macros_in_args_and_env_of_an_array_are_filled_inside():
    """TorchX leaves ``${replica_id}`` a literal, in env always."""
    one = role(args=["--n=${replica_id}", "${app_id}"], env={"N": "n${replica_id}"}, num_replicas=3)

    overrides = first(request_of(app(one, array=True)))["containerOverrides"]

    command = overrides["command"]
    assert command[4:] == [
        "${replica_id}", "''", "N", "--", "echo", "--n=${replica_id}", APP_ID,
    ]  # fmt: skip
    assert env_of(overrides)["N"] == "n${replica_id}"
    assert "WHERRY_REPLICA_ID" not in env_of(overrides)


def test_text_that_only_looks_like_the_macro_is_told_from_it():
    one = role(args=["$${replica_id}", "${replica_id}"], num_replicas=2)

    command = command_of(request_of(app(one, array=True)))

    assert words(command) == ["echo", "${replica_id}", "${replica_id1}"]
    assert command[4] == "${replica_id1}"


def test_each_node_of_a_gang_knows_where_its_role_begins():
    request = request_of(app(role("a", num_replicas=2), role("b", num_replicas=3), role("c")))

    offsets = [env_of(node).get("WHERRY_INDEX_OFFSET") for node in nodes(request)]
    replicas = [env_of(node)["WHERRY_NUM_REPLICAS"] for node in nodes(request)]

    assert offsets == [None, "-2", "-5"]
    assert replicas == ["2", "3", "1"]


def test_the_macro_for_the_first_host_is_a_variables_name():
    gang = app(role(args=["${rank0_env}"], num_replicas=2))

    assert words(nodes(request_of(gang))[0]["command"]) == ["echo", "WHERRY_RANK0_HOST"]
    assert nodes(request_of(gang, launcher="none"))[0]["command"] == [
        "echo",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
    ]


def test_the_image_is_the_root_of_its_files():
    request = request_of(app(role(entrypoint="${img_root}/bin/echo", args=["${img_root}/x"])))

    assert command_of(request) == ["/bin/echo", "/x"]


def test_without_a_launcher_what_it_would_do_is_refused_by_name():
    one = role(args=["a", "${replica_id}"], env={"N": "${replica_id}"}, num_replicas=2)

    with pytest.raises(InvalidSpecError, match=r"args\[1\], env 'N'.*launcher=sh"):
        request_of(app(one, array=True), launcher="none")
    with pytest.raises(InvalidSpecError, match="empty arguments"):
        request_of(app(role(args=[""])), launcher="none")


def test_without_a_launcher_what_is_missing_is_said():
    request, warnings = made(app(role(num_replicas=2), array=True), launcher="none")

    assert command_of(request) == ["echo", "hello"]
    assert "WHERRY_REPLICA_ID, WHERRY_ATTEMPT, WHERRY_RANK0_HOST" in warnings[0]
    retried = warnings_of(app(role(max_retries=1)), launcher="none")
    assert "no WHERRY_ATTEMPT;" in retried[0]
    assert "drops variables" in warnings_of(app(role(env={"E": ""})), launcher="none")[0]


def test_a_name_that_aws_keeps_for_itself_is_refused():
    with pytest.raises(InvalidSpecError, match="AWS_BATCH_X"):
        request_of(app(role(env={"AWS_BATCH_X": "1"})))


def test_a_variable_that_would_not_come_through_the_shell_is_refused_only_where_there_is_one():
    one = role(env={"my.prop": "1"})

    assert "my.prop" in env_of(first(request_of(app(one)))["containerOverrides"])
    with pytest.raises(InvalidSpecError, match=r"'my\.prop'.*launcher=none"):
        request_of(app(role(env={"my.prop": "1"}, num_replicas=2), array=True))


def test_text_that_json_cannot_carry_is_refused():
    with pytest.raises(InvalidSpecError, match="no Unicode"):
        request_of(app(role(args=["\udcff"])))


def test_overrides_too_long_for_ecs_are_refused_with_the_largest_parts():
    one = role(args=["short", "x" * 5000], env={"BIG": "y" * 4000})

    with pytest.raises(UsageError) as refused:
        request_of(app(one))

    assert "argument 2 (5,000), env 'BIG' (4,000)" in str(refused.value)
    assert "8,192" in str(refused.value)


def test_each_role_of_a_gang_has_room_of_its_own():
    half = "x" * 5000
    request_of(app(role("a", args=[half]), role("b", args=[half])))

    with pytest.raises(UsageError, match="role 'b'"):
        request_of(app(role("a", args=[half]), role("b", args=[half, half])))


def test_a_submission_too_large_is_refused_with_its_largest_parts():
    roles = [role(name, args=["x" * 6400]) for name in "abcde"]

    with pytest.raises(UsageError, match=r"the submission comes to .* bytes.*command"):
        request_of(app(*roles))


def test_a_definition_too_large_is_refused():
    mounts = [f"/{'d' * 200}{index}" for index in range(100)]
    from wherry.specs import BindMount

    one = role(mounts=[BindMount(path, path) for path in mounts])
    with pytest.raises(UsageError, match="the job definition comes to"):
        request_of(app(one))


@settings(deadline=None, max_examples=60)
@given(st.integers(6500, 8300))
def test_what_passes_is_within_what_ecs_counts(length):
    facts = QueueFacts(environments=("env-1",))
    try:
        request = request_of(app(role(args=["x" * length])), facts)
    except UsageError:
        return
    overrides = overrides_in(first(request))
    added = {
        "AWS_BATCH_JOB_ID": "0" * 36,
        "AWS_BATCH_JOB_ATTEMPT": "1",
        "AWS_BATCH_CE_NAME": "env-1",
        "AWS_BATCH_JQ_NAME": "main",
    }
    told = {
        "name": "default",
        **overrides,
        "environment": [
            *overrides["environment"],
            *({"name": name, "value": value} for name, value in added.items()),
        ],
    }
    assert len(json.dumps({"containerOverrides": [told]}, separators=(",", ":"))) <= 8192


def test_the_sidecar_gives_the_program_a_shell_of_its_own():
    request = request_of(app(role(num_replicas=2), array=True), launcher="sidecar")

    overrides = overrides_in(first(request))
    assert overrides["name"] == "default"
    assert overrides["command"][:2] == ["/.wherry/sh", "-c"]


def test_a_sidecar_is_not_brought_where_nothing_needs_it():
    request, warnings = made(app(), launcher="sidecar")

    assert "containerProperties" in request.job_def
    assert warnings == []


def test_retries_of_the_policy_kind_are_known_to_the_program():
    one = role(max_retries=2, retry_policy=RetryPolicy.spot())

    assert launcher.SCRIPT in command_of(request_of(app(one)))
