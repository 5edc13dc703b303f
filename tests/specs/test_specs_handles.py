"""App handles: printed and read back, and refused when they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.errors import InvalidHandleError, UsageError
from wherry.specs import AppHandle, make_app_handle, parse_app_handle


@pytest.mark.parametrize(
    ("text", "handle"),
    [
        ("local_cwd://wherry/echo-1", AppHandle("local_cwd", "wherry", "echo-1")),
        ("aws_batch://s/6f1c0000-0000", AppHandle("aws_batch", "s", "6f1c0000-0000")),
        ("my-sched2://s/a", AppHandle("my-sched2", "s", "a")),
        ("local_cwd:///echo-1", AppHandle("local_cwd", "", "echo-1")),
        ("k8s://s/namespace/pod/0", AppHandle("k8s", "s", "namespace/pod/0")),
        ("k8s://s/a:b://c/d", AppHandle("k8s", "s", "a:b://c/d")),
        ("local_cwd://équipe/naïve", AppHandle("local_cwd", "équipe", "naïve")),
    ],
)
def test_a_handle_is_read_and_printed(text: str, handle: AppHandle) -> None:
    assert parse_app_handle(text) == handle
    assert str(handle) == text
    assert make_app_handle(handle.scheduler, handle.session, handle.app_id) == text


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "echo-1",
        "local_cwd:/wherry/echo-1",
        "local_cwd//wherry/echo-1",
        "://wherry/echo-1",
        "local_cwd://",
        "local_cwd://wherry",
        "local_cwd://wherry/",
        "local_cwd:///",
        "local cwd://wherry/echo-1",
        "lócal://wherry/echo-1",
        "local.cwd://wherry/echo-1",
        " local_cwd://wherry/echo-1",
        "local_cwd://wherry/echo-1\n",
        "local_cwd://wher ry/echo-1",
        "local_cwd://wherry/echo\t1",
        "local_cwd://wherry/echo\u20281",
        "local_cwd://wherry/echo\x1b[31m",
        "local_cwd://wherry/echo\0",
        "\ud800://wherry/a",
    ],
)
def test_garbage_is_refused_with_the_form(garbage: str) -> None:
    with pytest.raises(InvalidHandleError) as refused:
        parse_app_handle(garbage)

    assert "scheduler://session/app_id" in str(refused.value)


@pytest.mark.parametrize("thing", [None, 5, b"local_cwd://s/a"])
def test_what_is_not_text_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidHandleError, match="is not an app handle"):
        parse_app_handle(thing)


def test_the_refusal_is_a_usage_error_that_shows_where_handles_are() -> None:
    with pytest.raises(UsageError, match="wherry list"):
        parse_app_handle("echo-1")


@pytest.mark.parametrize(
    ("scheduler", "session", "app_id"),
    [
        ("", "s", "a"),
        ("a/b", "s", "a"),
        ("local_cwd", "a/b", "c"),
        ("local_cwd", "s", ""),
        ("local_cwd", "s", "a b"),
        ("local_cwd", "s\n", "a"),
    ],
)
def test_a_handle_that_could_not_be_read_back_is_not_made(
    scheduler: str, session: str, app_id: str
) -> None:
    with pytest.raises(InvalidHandleError):
        make_app_handle(scheduler, session, app_id)


visible = st.characters(categories=("L", "N", "P", "S", "M"))
schedulers = st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True)
sessions = st.text(visible).filter(lambda text: "/" not in text)
app_ids = st.text(visible, min_size=1)


@settings(deadline=None)
@given(schedulers, sessions, app_ids)
def test_what_is_printed_is_read_back(scheduler: str, session: str, app_id: str) -> None:
    handle = AppHandle(scheduler, session, app_id)

    assert parse_app_handle(str(handle)) == handle


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(["a", "/", ":", "://", " "])).map("".join)))
def test_any_text_is_a_handle_that_prints_the_same_or_is_refused(text: str) -> None:
    try:
        handle = parse_app_handle(text)
    except InvalidHandleError:
        return
    assert str(handle) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 50_000,
        "a" * 50_000 + "://",
        "a" * 50_000 + "!",
        "a_" * 50_000 + "!://s/a",
        "://" * 50_000,
        "a://" + "/" * 50_000 + " ",
        "a://" + "a/" * 50_000 + "\n",
        "-" * 50_000 + "://s/a\x00",
    ],
)
def test_hostile_texts_take_linear_time_and_a_short_message(hostile: str) -> None:
    with pytest.raises(InvalidHandleError) as refused:
        parse_app_handle(hostile)

    assert len(str(refused.value)) < 400
