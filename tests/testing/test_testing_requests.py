"""What a test can learn from the request of an app, and what it may change in it."""

from __future__ import annotations

import json

import pytest

from wherry.errors import InvalidOptionError, InvalidSpecError, LaunchError, UnknownNameError
from wherry.specs import AppDef, AppState, Resource, Role, macros
from wherry.testing import MemoryScheduler, Outcome


def role(**fields):
    return Role(**{"name": "main", "entrypoint": "prog", **fields})


def test_macros_are_replaced_for_each_replica():
    scheduler = MemoryScheduler()
    app = AppDef(
        "train",
        [
            role(
                args=[f"--out={macros.img_root}/{macros.app_id}/{macros.replica_id}", "$$HOME"],
                env={"SHARD": macros.replica_id, "LEADER": macros.rank0_env},
                metadata={"note": f"replica {macros.replica_id}"},
                num_replicas=2,
            )
        ],
    )

    request = scheduler.submit_dryrun(app, {}).request

    first, second = request.role("main").replicas
    assert first.args == ["--out=/img/train-1/0", "$HOME"]
    assert second.args == ["--out=/img/train-1/1", "$HOME"]
    assert (first.env["SHARD"], second.env["SHARD"]) == ("0", "1")
    assert first.env[first.env["LEADER"]] == "localhost"
    assert second.metadata == {"note": "replica 1"}


def test_each_replica_sees_the_variables_that_wherry_adds():
    request = MemoryScheduler().submit_dryrun(AppDef("a", [role(num_replicas=3)]), {}).request

    env = request.roles[0].replicas[2].env

    assert {key: env[key] for key in sorted(env) if key != "WHERRY_RANK0_HOST"} == {
        "WHERRY_APP_ID": "a-1",
        "WHERRY_NUM_REPLICAS": "3",
        "WHERRY_REPLICA_ID": "2",
        "WHERRY_ROLE_NAME": "main",
    }


def test_the_image_root_is_an_option():
    scheduler = MemoryScheduler()
    app = AppDef("a", [role(args=["${img_root}/run"])])

    info = scheduler.submit_dryrun(app, {"img_root": "/opt/image"})

    assert info.request.roles[0].replicas[0].args == ["/opt/image/run"]
    assert info.cfg == {"img_root": "/opt/image"}


def test_a_misspelt_option_is_refused_with_the_right_one():
    with pytest.raises(InvalidOptionError, match="did you mean 'img_root'"):
        MemoryScheduler().submit_dryrun(AppDef("a", [role()]), {"image_root": "/x"})


def test_a_request_prints_as_json_and_names_an_unknown_role():
    app = AppDef("a", [role(resource=Resource(cpu=2))], timeout=5)
    request = MemoryScheduler().submit_dryrun(app, {}).request

    printed = json.loads(str(request))

    assert printed["timeout"] == 5
    assert printed["roles"][0]["resource"] == {"cpu": 2}
    with pytest.raises(UnknownNameError, match="did you mean 'main'"):
        request.role("mian")


def test_what_was_scheduled_is_listed_in_order():
    scheduler = MemoryScheduler()
    first, second = AppDef("a", [role()]), AppDef("b", [role()])
    scheduler.submit_dryrun(first, {})

    scheduler.submit(first, {})
    scheduler.submit(second, {"img_root": "/b"})

    assert [(info.request.app_id, info.app) for info in scheduler.submitted] == [
        ("a-2", first),
        ("b-1", second),
    ]
    assert scheduler.submitted[1].cfg == {"img_root": "/b"}


def test_an_edited_request_is_what_is_scheduled():
    scheduler = MemoryScheduler()
    scheduler.script(Outcome.fail(), Outcome.succeed())
    info = scheduler.submit_dryrun(AppDef("a", [role()]), {})

    info.request.roles[0].max_retries = 1
    info.request.roles[0].replicas[0].args.append("--more")
    app_id = scheduler.schedule(info)

    assert scheduler.describe(app_id).state is AppState.SUCCEEDED
    assert scheduler.submitted[0].request.roles[0].replicas[0].args == ["--more"]


def test_an_edit_after_scheduling_changes_nothing():
    scheduler = MemoryScheduler()
    info = scheduler.submit_dryrun(AppDef("a", [role()]), {})
    scheduler.schedule(info)

    info.request.roles[0].replicas.clear()

    assert len(scheduler.submitted[0].request.roles[0].replicas) == 1


def test_a_request_is_scheduled_once():
    scheduler = MemoryScheduler()
    info = scheduler.submit_dryrun(AppDef("a", [role()]), {})
    scheduler.schedule(info)

    with pytest.raises(LaunchError, match="scheduled before"):
        scheduler.schedule(info)


def test_a_request_without_replicas_is_not_launched():
    scheduler = MemoryScheduler()
    info = scheduler.submit_dryrun(AppDef("a", [role()]), {})
    info.request.roles[0].replicas.clear()

    with pytest.raises(LaunchError, match="no replicas"):
        scheduler.schedule(info)
    assert not scheduler.submitted


def test_a_role_without_an_entrypoint_is_refused():
    with pytest.raises(InvalidSpecError, match="no entrypoint"):
        MemoryScheduler().submit_dryrun(AppDef("a", [Role("main")]), {})
