"""From an app to what is sent to the Engine, without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.errors import InvalidOptionError, InvalidSpecError
from wherry.schedulers.docker import DockerRequest, DockerScheduler
from wherry.schedulers.docker.facts import Facts
from wherry.schedulers.docker.options import docker_opts, read_options
from wherry.schedulers.docker.planning import app_labels, role_plan
from wherry.schedulers.docker.pulling import registry_of, split_reference
from wherry.schedulers.docker.request import make_request
from wherry.schedulers.local.record import Record
from wherry.specs import AppDef, Resource, Role, parse_mounts
from wherry.specs.plain import to_plain
from wherry.specs.substitution import substitute

FACTS = Facts(
    address="unix:///nowhere",
    cores=2,
    memory=8 << 30,
    log_drivers=frozenset(["local", "json-file"]),
    has_init=True,
    has_gpus=False,
    is_here=True,
)


def role(**fields: Any) -> Role:
    return Role(**{"name": "main", "image": "busybox", "entrypoint": "sh", **fields})


def request(*roles: Role, cfg: dict[str, Any] | None = None, **of_app: Any) -> DockerRequest:
    return made(*roles, cfg=cfg, **of_app)[0]


def made(
    *roles: Role,
    cfg: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    **of: Any,
) -> tuple[DockerRequest, list[str]]:
    return make_request(AppDef("app", roles, **of), read_options(cfg or {}), environ or {})


def host_config(*roles: Role, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = request(*roles, **more).roles[0].create["HostConfig"]
    return found


def test_a_request_prints_and_asks_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    info = DockerScheduler("s").submit_dryrun(AppDef("app", [role(args=["-c", "true"])]), {})

    printed = json.loads(str(info))
    assert printed["roles"][0]["create"]["Image"] == "busybox"
    assert printed["roles"][0]["create"]["Cmd"] == ["sh", "-c", "true"]


def test_the_command_leaves_the_images_own_entrypoint() -> None:
    create = request(role(entrypoint="train", args=["--fast"])).roles[0].create

    assert create["Cmd"] == ["train", "--fast"]
    assert "Entrypoint" not in create


def test_resources_become_limits() -> None:
    config = host_config(role(resource=Resource(cpu=1.5, memMB=512)))

    assert config["NanoCpus"] == 1_500_000_000
    assert config["Memory"] == config["MemorySwap"] == config["ShmSize"] == 512 << 20


def test_what_is_not_stated_is_not_sent() -> None:
    assert host_config(role()) == {}


def test_shared_memory_can_be_chosen() -> None:
    config = host_config(role(resource=Resource(memMB=512)), cfg={"shm_size": 64})

    assert (config["Memory"], config["ShmSize"]) == (512 << 20, 64 << 20)


@pytest.mark.parametrize(
    ("cfg", "gpu", "expected"),
    [
        ({}, 0, None),
        ({}, 2, {"Count": 2}),
        ({"gpus": "all"}, 0, {"Count": -1}),
        ({"gpus": "0,1"}, 2, {"DeviceIDs": ["0", "1"]}),
    ],
)
def test_gpus_are_asked_for(cfg: dict[str, str], gpu: int, expected: dict[str, Any] | None) -> None:
    read = docker_opts().cfg_from_str(",".join(f"{key}={value}" for key, value in cfg.items()))

    requests = host_config(role(resource=Resource(gpu=gpu)), cfg=read).get("DeviceRequests")

    wanted = None if expected is None else [{"Capabilities": [["gpu"]], **expected}]
    assert requests == wanted


def test_variables_of_the_app_go_before_options_and_copies() -> None:
    environ = {"FOO_A": "copied", "FOO_B": "copied", "FOO_C": "copied", "BAR": "left behind"}
    cfg = {"copy_env": ["FOO_*"], "env": {"FOO_B": "option", "FOO_C": "option"}}

    found, _ = made(role(env={"FOO_C": "app"}), cfg=cfg, environ=environ)

    assert sorted(found.roles[0].create["Env"]) == ["FOO_A=copied", "FOO_B=option", "FOO_C=app"]


@given(st.text(alphabet="${}ab\n_replica_id", max_size=20))
def test_copied_variables_are_not_read_as_macros(value: str) -> None:
    found, _ = made(role(), cfg={"copy_env": ["FOO"]}, environ={"FOO": value})

    (line,) = found.roles[0].create["Env"]
    assert substitute(line, {"replica_id": "7"}) == f"FOO={value}"


def test_a_secrets_value_is_in_the_plan_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOKEN_SOURCE", "s3cr$$et${replica_id}")
    app = AppDef("app", [role(secrets={"TOKEN": "env:TOKEN_SOURCE"})])
    found, _ = make_request(app, read_options({}))
    record = Record(str(tmp_path), found.app_id, "s", "local_docker", 0.0, "logs", to_plain(app))

    plan = role_plan(found.roles[0], found, FACTS, {})

    assert plan["container"] is not None
    (line,) = plan["container"]["create"]["Env"]
    assert substitute(line, {"replica_id": "7"}) == "TOKEN=s3cr$$et${replica_id}"
    assert "s3cr" not in str(found)
    assert "s3cr" not in json.dumps(app_labels(record))


def test_a_plan_does_not_change_the_request() -> None:
    found = request(role(resource=Resource(cpu=8)))
    before = str(found)

    plan = role_plan(found.roles[0], found, FACTS, {})

    assert str(found) == before
    assert plan["container"] is not None
    assert "NanoCpus" not in plan["container"]["create"]["HostConfig"]


def test_labels_of_a_huge_app_are_short(tmp_path: Path) -> None:
    app = AppDef("app", [role(args=["x" * 100_000], num_replicas=3)])
    record = Record(str(tmp_path), "app-1", "s", "local_docker", 0.0, "logs", to_plain(app))

    told = json.loads(app_labels(record)["wherry.app"])

    assert told["roles"] == [{"name": "main", "image": "busybox", "num_replicas": 3}]


def test_mounts_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "type=bind,src=data,dst=/data,readonly",
        "type=volume,src=cache,dst=/cache",
        "type=device,src=/dev/null,dst=/dev/none,perm=r",
    ]

    config = host_config(role(mounts=parse_mounts(words)))

    assert config["Mounts"] == [
        {"Type": "bind", "Source": f"{tmp_path}/data", "Target": "/data", "ReadOnly": True},
        {"Type": "volume", "Source": "cache", "Target": "/cache"},
    ]
    assert config["Devices"] == [
        {"PathOnHost": "/dev/null", "PathInContainer": "/dev/none", "CgroupPermissions": "r"}
    ]


def test_devices_that_an_instance_type_only_can_have_are_left_out_with_a_warning() -> None:
    named = Resource(
        devices={"vpc.amazonaws.com/efa": 4}, capabilities={"instance_type": "p4d.24xlarge"}
    )
    by_hand = Resource(devices={"vpc.amazonaws.com/efa": 1})

    found, warnings = made(role(resource=named))

    assert "Devices" not in found.roles[0].create["HostConfig"]
    assert "0 of the 4 devices" in warnings[0]
    assert len(host_config(role(resource=by_hand))["Devices"]) == 1


def test_a_port_of_one_container_is_published_as_it_is() -> None:
    create = request(role(port_map={"http": 8080}), cfg={"bind": "0.0.0.0"}).roles[0].create

    assert create["ExposedPorts"] == {"8080/tcp": {}}
    assert create["HostConfig"]["PortBindings"] == {
        "8080/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]
    }


def test_a_port_of_several_containers_is_published_at_free_ones() -> None:
    found, warnings = made(
        role(port_map={"http": 80, "own": 81}), role(name="other", port_map={"http": 80})
    )

    bindings = found.roles[0].create["HostConfig"]["PortBindings"]
    assert bindings["80/tcp"][0]["HostPort"] == ""
    assert bindings["81/tcp"][0]["HostPort"] == "81"
    assert "free port" in warnings[0]


def test_a_gang_has_a_network_of_its_own_and_others_have_not() -> None:
    assert request(role(num_replicas=2)).network is None
    assert request(role(), role(name="other")).network is None
    assert request(role()).network == "bridge"
    assert request(role(num_replicas=2), array=True).network == "bridge"
    assert request(role(num_replicas=2), cfg={"network": "mine"}).network == "mine"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"image": ""}, "has no image"),
        ({"image": "Not An Image"}, "not the name of an image"),
        ({"resource": Resource(memMB=5)}, "6 at least"),
        ({"ulimits": {"nofiles": 5}}, "did you mean 'nofile'"),
        ({"secrets": {"A": "arn:aws:x"}}, "env:NAME or file:PATH"),
        ({"mounts": parse_mounts("type=bind,src=/a,dst=b")}, "begins with '/'"),
        ({"mounts": parse_mounts("type=volume,src=a/b,dst=/b")}, "write type=bind"),
        (
            {"mounts": parse_mounts("type=bind,src=/a,dst=/x,type=volume,src=aa,dst=/x")},
            "two mounts",
        ),
        ({"resource": Resource(devices={"vpc.amazonaws.com/eva": 1})}, "did you mean"),
        ({"port_map": {"http": 0}}, "1 to 65535"),
    ],
)
def test_what_docker_does_not_have_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        request(role(**fields))


def test_an_app_elsewhere_cannot_be_waited_for() -> None:
    with pytest.raises(InvalidSpecError, match="apps of this machine"):
        request(role(), depends_on=["aws_batch://s/app-1"])

    handles = ["local_docker://s/app-1", "local_cwd://s/app-2"]
    assert request(role(), depends_on=handles).depends_on == handles


@pytest.mark.parametrize(
    ("cfg", "words"),
    [
        ({"pull": "sometimes"}, "pull"),
        ({"bind": "localhost"}, "IP address"),
        ({"gpus": ["all", "0"]}, "not both"),
        ({"gpus": ["0", "0"]}, "twice"),
        ({"grace": -1}, "0 or more"),
        ({"shm_size": 0}, "1 or more"),
        ({"workdir": "src"}, "begins with '/'"),
        ({"privilege": True}, "did you mean 'privileged'"),
    ],
)
def test_an_option_that_cannot_be_right_is_refused(cfg: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        read_options(cfg)


@pytest.mark.parametrize(
    ("image", "registry", "parts"),
    [
        ("python", "docker.io", ("python", "latest")),
        ("team/app:1", "docker.io", ("team/app", "1")),
        ("localhost/app", "localhost", ("localhost/app", "latest")),
        (
            "reg.example.com:5000/a/b",
            "reg.example.com:5000",
            ("reg.example.com:5000/a/b", "latest"),
        ),
        ("app:1@sha256:" + "0" * 64, "docker.io", ("app", "sha256:" + "0" * 64)),
    ],
)
def test_a_reference_is_taken_apart(image: str, registry: str, parts: tuple[str, str]) -> None:
    assert registry_of(image) == registry
    assert split_reference(image) == parts
    assert request(role(image=image)).roles[0].create["Image"] == image
