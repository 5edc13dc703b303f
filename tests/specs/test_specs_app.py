"""AppDef, Role and Resource: what is refused where it is made, and that nothing changes after."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from wherry.errors import InvalidSpecError, UnknownNameError, UsageError
from wherry.specs import AppDef, BindMount, Resource, RetryPolicy, Role


def role(**fields: Any) -> Role:
    return Role(**{"name": "trainer", "entrypoint": "python", **fields})


def app(**fields: Any) -> AppDef:
    return AppDef(**{"name": "train", "roles": [role()], **fields})


# -- Resource ----------------------------------------------------------------------------------


def test_a_resource_states_nothing_by_default() -> None:
    assert Resource() == Resource(cpu=0, gpu=0, memMB=0, capabilities={}, devices={})


def test_a_resource_may_ask_for_a_part_of_a_core() -> None:
    assert Resource(cpu=0.25).cpu == 0.25


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cpu": -1}, "Resource.cpu"),
        ({"cpu": float("nan")}, "Resource.cpu"),
        ({"cpu": float("inf")}, "Resource.cpu"),
        ({"cpu": True}, "Resource.cpu"),
        ({"cpu": "2"}, "Resource.cpu"),
        ({"cpu": None}, "Resource.cpu"),
        ({"gpu": -1}, "Resource.gpu"),
        ({"gpu": 0.5}, "Resource.gpu"),
        ({"gpu": True}, "Resource.gpu"),
        ({"memMB": -1}, "Resource.memMB"),
        ({"memMB": 1.5}, "Resource.memMB"),
        ({"memMB": "123"}, "Resource.memMB"),
        ({"devices": {"efa": 0}}, "Resource.devices['efa']"),
        ({"devices": {"efa": 1.0}}, "Resource.devices['efa']"),
        ({"devices": {3: 1}}, "Resource.devices"),
        ({"devices": ["efa"]}, "Resource.devices"),
        ({"capabilities": "gpu"}, "Resource.capabilities"),
        ({"capabilities": {1: "x"}}, "Resource.capabilities"),
        ({"capabilities": {"zone": {1: "x"}}}, "Resource.capabilities['zone']"),
    ],
)
def test_a_bad_resource_is_refused_by_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        Resource(**fields)

    assert named in str(refused.value)


def test_a_copy_adds_capabilities_and_leaves_the_original() -> None:
    original = Resource(cpu=1, capabilities={"arch": "arm64"}, devices={"efa": 1})

    changed = original.copy(arch="x86_64", spot=True)

    assert changed == Resource(
        cpu=1, capabilities={"arch": "x86_64", "spot": True}, devices={"efa": 1}
    )
    assert original.capabilities == {"arch": "arm64"}


# -- Role --------------------------------------------------------------------------------------


def test_a_role_keeps_what_it_was_given() -> None:
    made = role(
        image="repo/image:1",
        args=["-c", "pass"],
        env={"A": "1"},
        num_replicas=4,
        min_replicas=2,
        max_retries=3,
        retry_policy=RetryPolicy.REPLICA,
        port_map={"http": 8080},
        metadata={"note": "x"},
        mounts=[BindMount("/a", "/b")],
        secrets={"TOKEN": "arn:aws:secretsmanager:x"},
        ulimits={"nofile": 1024, "memlock": (-1, -1), "stack": [8, 16]},
    )

    assert made.args == ("-c", "pass")
    assert made.env == {"A": "1"}
    assert (made.num_replicas, made.min_replicas, made.max_retries) == (4, 2, 3)
    assert made.mounts == (BindMount("/a", "/b"),)
    assert made.ulimits == {"nofile": (1024, 1024), "memlock": (-1, -1), "stack": (8, 16)}


def test_arguments_may_come_from_any_iterable() -> None:
    assert role(args=(str(n) for n in range(3))).args == ("0", "1", "2")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "Role.name"),
        ({"name": "-trainer"}, "Role.name"),
        ({"name": "a b"}, "Role.name"),
        ({"name": "a/b"}, "Role.name"),
        ({"name": "a\n"}, "Role.name"),
        ({"name": "x" * 129}, "Role.name"),
        ({"name": 5}, "Role.name"),
        ({"image": None}, "image"),
        ({"image": "a\0b"}, "image"),
        ({"entrypoint": ""}, "entrypoint"),
        ({"entrypoint": None}, "entrypoint"),
        ({"entrypoint": "a\0b"}, "entrypoint"),
        ({"args": "-c pass"}, "args"),
        ({"args": b"-c"}, "args"),
        ({"args": {"-c": "pass"}}, "args"),
        ({"args": {"-c"}}, "args"),
        ({"args": None}, "args"),
        ({"args": ["-n", 5]}, "args[1]"),
        ({"args": ["a\0b"]}, "args[0]"),
        ({"env": {"A": 1}}, "env['A']"),
        ({"env": {"A": None}}, "env['A']"),
        ({"env": {1: "A"}}, "a key of role 'trainer': env"),
        ({"env": {"": "1"}}, "env"),
        ({"env": {"A=B": "1"}}, "'A=B'"),
        ({"env": {"A": "a\0b"}}, "env['A']"),
        ({"env": ["A=1"]}, "env"),
        ({"secrets": {"A=B": "arn"}}, "secrets"),
        ({"secrets": {"A": 1}}, "secrets['A']"),
        ({"num_replicas": 0}, "num_replicas"),
        ({"num_replicas": "2"}, "num_replicas"),
        ({"num_replicas": True}, "num_replicas"),
        ({"min_replicas": 0}, "min_replicas"),
        ({"min_replicas": 2}, "min_replicas (2) is more than num_replicas (1)"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.0}, "max_retries"),
        ({"retry_policy": "REPLICA"}, "retry_policy"),
        ({"resource": None}, "resource"),
        ({"resource": "gpu.small"}, "resource"),
        ({"port_map": {"http": 65536}}, "port_map['http']"),
        ({"port_map": {"http": -1}}, "port_map['http']"),
        ({"port_map": {"http": "80"}}, "port_map['http']"),
        ({"port_map": {80: 80}}, "port_map"),
        ({"port_map": [80]}, "port_map"),
        ({"metadata": "note"}, "metadata"),
        ({"metadata": {1: "x"}}, "metadata"),
        ({"metadata": {"a": [{1: "x"}]}}, "metadata['a'][0]"),
        ({"mounts": ["type=bind,src=/a,dst=/b"]}, "parse_mounts()"),
        ({"mounts": BindMount("/a", "/b")}, "mounts"),
        ({"ulimits": {"nofile": (2, 1)}}, "ulimits['nofile']: soft 2 is above hard 1"),
        ({"ulimits": {"nofile": (-1, 1)}}, "ulimits['nofile']: soft -1 is above hard 1"),
        ({"ulimits": {"nofile": (1, 2, 3)}}, "ulimits['nofile']"),
        ({"ulimits": {"nofile": -2}}, "ulimits['nofile']"),
        ({"ulimits": {"nofile": "many"}}, "ulimits['nofile']"),
        ({"ulimits": ["nofile"]}, "ulimits"),
    ],
)
def test_a_bad_role_is_refused_by_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        role(**fields)

    assert named in str(refused.value)


def test_an_error_names_the_role() -> None:
    with pytest.raises(InvalidSpecError, match="role 'trainer': num_replicas must be 1 or more"):
        role(num_replicas=0)


def test_a_number_where_text_belongs_is_answered_with_the_text() -> None:
    with pytest.raises(InvalidSpecError, match=r"args\[1\] must be a string, not 5; write '5'"):
        role(args=["-n", 5])


def test_an_error_about_a_nul_byte_does_not_repeat_the_value() -> None:
    with pytest.raises(InvalidSpecError) as refused:
        role(env={"TOKEN": "hunter2\0"})

    assert "hunter2" not in str(refused.value)


def test_a_refused_value_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        role(max_retries=-1)
    assert issubclass(InvalidSpecError, UsageError)


# -- AppDef ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "AppDef.name"),
        ({"name": "é"}, "AppDef.name"),
        ({"name": "a/b"}, "AppDef.name"),
        ({"name": None}, "AppDef.name"),
        ({"roles": role()}, "AppDef.roles"),
        ({"roles": None}, "AppDef.roles"),
        ({"roles": ["trainer"]}, "AppDef.roles"),
        ({"roles": [role(), role()]}, "two roles named 'trainer'"),
        ({"roles": [role(), role(name="reader")], "array": True}, "exactly one role"),
        ({"roles": [], "array": True}, "exactly one role"),
        ({"array": "no"}, "AppDef.array"),
        ({"array": 1}, "AppDef.array"),
        ({"timeout": 0}, "AppDef.timeout"),
        ({"timeout": -1}, "AppDef.timeout"),
        ({"timeout": float("inf")}, "AppDef.timeout"),
        ({"timeout": float("nan")}, "AppDef.timeout"),
        ({"timeout": True}, "AppDef.timeout"),
        ({"timeout": "60"}, "AppDef.timeout"),
        ({"metadata": {"a": 1}}, "AppDef.metadata['a']"),
        ({"metadata": ["a"]}, "AppDef.metadata"),
        ({"depends_on": "local_cwd://s/a"}, "AppDef.depends_on"),
        ({"depends_on": ["a-1"]}, "AppDef.depends_on: 'a-1' is not an app handle"),
        ({"depends_on": [1]}, "AppDef.depends_on[0]"),
    ],
)
def test_a_bad_app_is_refused_by_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        app(**fields)

    assert named in str(refused.value)


def test_an_app_keeps_dependencies_given_as_a_generator() -> None:
    handles = ["local_cwd://s/a-1", "local_cwd://s/a-2"]

    made = app(depends_on=(handle for handle in handles))

    assert made.depends_on == tuple(handles)


def test_a_role_is_found_by_name() -> None:
    made = app(roles=[role(), role(name="reader")])

    assert made.role("reader").name == "reader"
    with pytest.raises(UnknownNameError, match="unknown role 'raeder'; did you mean 'reader'"):
        made.role("raeder")


# -- values do not change ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (app(), "name"),
        (app(), "roles"),
        (role(), "num_replicas"),
        (role(), "env"),
        (Resource(), "cpu"),
        (RetryPolicy.REPLICA, "scope"),
        (BindMount("/a", "/b"), "src_path"),
    ],
)
def test_a_field_cannot_be_set_or_deleted(value: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, 1)
    with pytest.raises(FrozenInstanceError):
        delattr(value, field)


@pytest.mark.parametrize(
    "change",
    [
        lambda env: env.__setitem__("B", "2"),
        lambda env: env.__delitem__("A"),
        lambda env: env.update(B="2"),
        lambda env: env.setdefault("B", "2"),
        lambda env: env.pop("A"),
        lambda env: env.popitem(),
        lambda env: env.clear(),
        lambda env: env.__ior__({"B": "2"}),
    ],
)
def test_a_mapping_field_cannot_be_changed(change: Any) -> None:
    made = role(env={"A": "1"})

    with pytest.raises(TypeError, match=r"dataclasses\.replace"):
        change(made.env)

    assert made.env == {"A": "1"}


def test_what_the_caller_does_to_its_own_objects_does_not_reach_the_spec() -> None:
    args, env, nested, mounts = (
        ["a"],
        {"A": "1"},
        {"list": [1], "map": {"k": [2]}},
        [BindMount("/a", "/b")],
    )
    devices, capabilities, limits = {"efa": 1}, {"zones": ["a"]}, {"nofile": [1, 2]}
    made = role(
        args=args,
        env=env,
        metadata=nested,
        mounts=mounts,
        ulimits=limits,
        resource=Resource(devices=devices, capabilities=capabilities),
    )
    roles, after = [made], ["local_cwd://s/a-1"]
    whole = app(roles=roles, depends_on=after)
    before = copy.deepcopy(whole)

    args.append("b")
    env["A"] = "2"
    nested["list"].append(2)
    nested["map"]["k"].append(3)
    mounts.clear()
    devices["efa"] = 2
    capabilities["zones"].append("b")
    limits["nofile"][0] = 0
    roles.clear()
    after.clear()

    assert whole == before


def test_the_callers_objects_are_not_changed() -> None:
    given: dict[str, Any] = {
        "args": ["a"],
        "env": {"A": "1"},
        "metadata": {"list": [1, {"k": [2]}]},
        "ulimits": {"nofile": 5},
        "port_map": {"http": 80},
    }
    before = copy.deepcopy(given)

    app(roles=[role(**given)], metadata={"team": "a"})

    assert given == before
    assert type(given["metadata"]["list"]) is list


def test_nested_metadata_cannot_be_changed() -> None:
    made = role(metadata={"a": {"b": [1]}})

    assert made.metadata["a"]["b"] == (1,)
    with pytest.raises(TypeError):
        made.metadata["a"]["c"] = 2


def test_replace_makes_a_new_value_and_checks_it() -> None:
    made = role(env={"A": "1"})

    changed = replace(made, env={**made.env, "B": "2"})

    assert (made.env, changed.env) == ({"A": "1"}, {"A": "1", "B": "2"})
    with pytest.raises(InvalidSpecError, match="num_replicas"):
        replace(made, num_replicas=0)


def test_equal_specs_have_equal_hashes() -> None:
    one = app(roles=[role(metadata={"n": 1, "list": [1]}, env={"A": "1", "B": "2"})])
    other = app(roles=(role(metadata={"n": 1.0, "list": (1,)}, env={"B": "2", "A": "1"}),))

    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_a_spec_survives_copying_and_pickling(clone: Any) -> None:
    made = app(
        roles=[role(env={"A": "1"}, metadata={"a": [1]}, retry_policy=RetryPolicy.spot())],
        timeout=5,
    )

    cloned = clone(made)

    assert cloned == made
    with pytest.raises(TypeError):
        cloned.roles[0].env["A"] = "2"
