"""Specs and statuses as plain data, and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherry.errors import InvalidSpecError
from wherry.specs import (
    AppDef,
    AppState,
    AppStatus,
    AttemptStatus,
    BindMount,
    DeviceMount,
    ReplicaStatus,
    Resource,
    RetryPolicy,
    RetryRule,
    RetryScope,
    Role,
    RoleStatus,
    VolumeMount,
    app_from_plain,
    to_plain,
)


def through_json(app: AppDef) -> AppDef:
    return app_from_plain(json.loads(json.dumps(to_plain(app))))


def test_what_is_at_its_default_is_left_out() -> None:
    app = AppDef("train", [Role("trainer", entrypoint="python", args=["-V"])])

    assert to_plain(app) == {
        "name": "train",
        "roles": [{"name": "trainer", "entrypoint": "python", "args": ["-V"]}],
    }


def test_everything_else_is_there() -> None:
    app = AppDef(
        "train",
        [
            Role(
                "trainer",
                retry_policy=RetryPolicy(RetryScope.REPLICA, [RetryRule(False, exit_code="1*")]),
                resource=Resource(0.5, 1, 512, {"arch": "arm64"}, {"efa": 2}),
                mounts=[BindMount("/a", "/b"), VolumeMount("v", "/c", True), DeviceMount("/dev/d")],
                ulimits={"nofile": 5},
                metadata={"list": [1, {"k": None}]},
            )
        ],
        array=True,
        timeout=1.5,
        depends_on=["local_cwd://s/a-1"],
    )

    assert to_plain(app) == {
        "name": "train",
        "roles": [
            {
                "name": "trainer",
                "retry_policy": {
                    "scope": "REPLICA",
                    "rules": [{"retry": False, "exit_code": "1*"}],
                },
                "resource": {
                    "cpu": 0.5,
                    "gpu": 1,
                    "memMB": 512,
                    "capabilities": {"arch": "arm64"},
                    "devices": {"efa": 2},
                },
                "mounts": [
                    {"type": "bind", "src_path": "/a", "dst_path": "/b"},
                    {"type": "volume", "src": "v", "dst_path": "/c", "read_only": True},
                    {"type": "device", "src_path": "/dev/d", "dst_path": "/dev/d"},
                ],
                "ulimits": {"nofile": [5, 5]},
                "metadata": {"list": [1, {"k": None}]},
            }
        ],
        "array": True,
        "timeout": 1.5,
        "depends_on": ["local_cwd://s/a-1"],
    }
    assert through_json(app) == app


def test_a_status_is_plain_too() -> None:
    status = AppStatus(
        AppState.FAILED,
        msg="r/0 exited with 3",
        roles=(
            RoleStatus(
                "r",
                (
                    ReplicaStatus(
                        0, AppState.FAILED, "r", attempts=(AttemptStatus(1, AppState.FAILED, 3),)
                    ),
                ),
            ),
        ),
    )

    plain = to_plain(status)

    assert json.loads(json.dumps(plain)) == plain
    assert plain["state"] == "FAILED"
    attempts = plain["roles"][0]["replicas"][0]["attempts"]
    assert attempts == [{"number": 1, "state": "FAILED", "exit_code": 3}]


def test_plain_data_does_not_share_anything_with_the_spec() -> None:
    app = AppDef("train", [Role("r", env={"A": "1"})])

    plain = to_plain(app)
    plain["roles"][0]["env"]["A"] = "2"

    assert app.roles[0].env == {"A": "1"}


def test_what_is_read_is_not_changed() -> None:
    plain = to_plain(AppDef("a", [Role("r", mounts=[BindMount("/a", "/b")], env={"A": "1"})]))
    before = copy.deepcopy(plain)

    made = app_from_plain(plain)
    plain["roles"][0]["env"]["A"] = "2"

    assert made.roles[0].env == {"A": "1"}
    before["roles"][0]["env"]["A"] = "2"
    assert plain == before


ROLE = {"name": "r"}


@pytest.mark.parametrize(
    ("plain", "named"),
    [
        ({}, "AppDef has no 'name'"),
        ([], "AppDef must be a mapping"),
        ({"name": "a", "rolles": []}, "unknown field of AppDef: 'rolles'; did you mean 'roles'"),
        ({"name": "a", "roles": {"r": {}}}, "AppDef.roles"),
        ({"name": "a", "roles": ["r"]}, "Role must be a mapping, not 'r'"),
        ({"name": "a", "roles": [{}]}, "Role has no 'name'"),
        ({"name": "a", "roles": [{**ROLE, "imag": "x"}]}, "did you mean 'image'"),
        ({"name": "a", "roles": [{**ROLE, "resource": 5}]}, "Resource must be a mapping"),
        ({"name": "a", "roles": [{**ROLE, "resource": {"mem": 5}}]}, "unknown field of Resource"),
        ({"name": "a", "roles": [{**ROLE, "retry_policy": "REPLICA"}]}, "RetryPolicy"),
        (
            {"name": "a", "roles": [{**ROLE, "retry_policy": {"scope": "REPLICAS"}}]},
            "did you mean 'REPLICA'",
        ),
        (
            {"name": "a", "roles": [{**ROLE, "retry_policy": {"scoop": "REPLICA"}}]},
            "unknown field of RetryPolicy: 'scoop'; did you mean 'scope'",
        ),
        (
            {"name": "a", "roles": [{**ROLE, "retry_policy": {"rules": [{}]}}]},
            "RetryRule has no 'retry'",
        ),
        ({"name": "a", "roles": [{**ROLE, "mounts": "type=bind"}]}, "Role.mounts"),
        ({"name": "a", "roles": [{**ROLE, "mounts": ["type=bind"]}]}, "a mount must be a mapping"),
        ({"name": "a", "roles": [{**ROLE, "mounts": [{}]}]}, "unknown mount type ''"),
        (
            {"name": "a", "roles": [{**ROLE, "mounts": [{"type": "bnd"}]}]},
            "unknown mount type 'bnd'; did you mean 'bind'",
        ),
        (
            {"name": "a", "roles": [{**ROLE, "mounts": [{"type": "bind", "src_path": "/a"}]}]},
            "BindMount has no 'dst_path'",
        ),
        ({"name": "a", "roles": [{**ROLE, "num_replicas": "2"}]}, "num_replicas"),
    ],
)
def test_bad_plain_data_is_refused_by_name(plain: Any, named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        app_from_plain(plain)

    assert named in str(refused.value)


texts = st.text(st.characters(exclude_characters="\0"), max_size=8)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True)
paths = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=8)
variables = st.text(st.characters(exclude_characters="\0="), min_size=1, max_size=8)
whole = st.integers(0, 2**40)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
metadata = st.dictionaries(st.text(max_size=5), data, max_size=3)
mounts = st.one_of(
    st.builds(BindMount, paths, paths, st.booleans()),
    st.builds(VolumeMount, paths, paths, st.booleans()),
    st.builds(DeviceMount, paths, st.just("") | paths, st.sampled_from(["r", "rw", "mwr"])),
)
rules = st.builds(
    RetryRule,
    st.booleans(),
    st.none() | st.from_regex(r"[0-9]{1,3}\*?", fullmatch=True),
    st.none() | texts,
    st.none() | texts,
)
limits = st.one_of(
    st.integers(-1, 100),
    st.tuples(st.integers(0, 9), st.integers(9, 20)),
    st.tuples(st.integers(-1, 9), st.just(-1)),
)
roles = st.builds(
    Role,
    name=names,
    image=texts,
    entrypoint=paths,
    args=st.lists(texts, max_size=3),
    env=st.dictionaries(variables, texts, max_size=3),
    num_replicas=st.integers(3, 9),
    min_replicas=st.none() | st.integers(1, 3),
    max_retries=st.integers(0, 5),
    retry_policy=st.builds(RetryPolicy, st.sampled_from(RetryScope), st.lists(rules, max_size=3)),
    resource=st.builds(
        Resource,
        cpu=whole | st.floats(0, 1000),
        gpu=whole,
        memMB=whole,
        capabilities=metadata,
        devices=st.dictionaries(names, st.integers(1, 32), max_size=2),
    ),
    port_map=st.dictionaries(names, st.integers(0, 65535), max_size=2),
    metadata=metadata,
    mounts=st.lists(mounts, max_size=3),
    secrets=st.dictionaries(variables, texts, max_size=2),
    ulimits=st.dictionaries(names, limits, max_size=2),
)
handles = st.builds("local_cwd://{}/{}".format, names, names)


@st.composite
def apps(draw: st.DrawFn) -> AppDef:
    chosen = draw(st.lists(roles, max_size=2, unique_by=lambda role: role.name))
    return AppDef(
        name=draw(names),
        roles=chosen,
        metadata=draw(st.dictionaries(texts, texts, max_size=2)),
        array=len(chosen) == 1 and draw(st.booleans()),
        timeout=draw(st.none() | st.floats(0, 1e9, exclude_min=True)),
        depends_on=draw(st.lists(handles, max_size=2)),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(apps())
def test_an_app_goes_through_json_and_back(app: AppDef) -> None:
    again = through_json(app)

    assert again == app
    assert to_plain(again) == to_plain(app)
    assert hash(again) == hash(app)
