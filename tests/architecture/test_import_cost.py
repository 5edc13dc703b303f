"""Importing Wherry costs next to nothing and does nothing; its public names are few and known."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

HEAVY = {
    "argparse",
    "asyncio",
    "boto3",
    "botocore",
    "dataclasses",
    "docker",
    "moto",
    "numpy",
    "rich",
    "sqlite3",
    "starlette",
    "subprocess",
}

PUBLIC = {
    "wherry": [
        "AWSBatchExecutor",
        "AppDef",
        "AppHandle",
        "AppState",
        "AppStatus",
        "BindMount",
        "DebugExecutor",
        "Deps",
        "DeviceMount",
        "DockerExecutor",
        "Escalate",
        "LocalExecutor",
        "Resource",
        "RetryPolicy",
        "Role",
        "Runner",
        "VolumeMount",
        "WherryError",
        "__version__",
        "emulator",
        "errors",
        "get_runner",
        "job",
        "jobs",
        "macros",
        "map_array",
        "named_resources",
        "parse_mounts",
        "resource",
        "runopts",
        "specs",
        "submit",
        "using",
    ],
    "wherry.emulator": ["Emulator", "Fault", "Running", "Settings", "running"],
    "wherry.specs": [
        "AppDef",
        "AppHandle",
        "AppState",
        "AppStatus",
        "AttemptStatus",
        "BindMount",
        "CfgVal",
        "DeviceMount",
        "MISSING",
        "Mount",
        "NULL_RESOURCE",
        "ReplicaState",
        "ReplicaStatus",
        "Resource",
        "RetryPolicy",
        "RetryRule",
        "RetryScope",
        "Role",
        "RoleStatus",
        "VolumeMount",
        "app_from_plain",
        "is_started",
        "is_terminal",
        "macros",
        "make_app_handle",
        "named_resources",
        "parse_app_handle",
        "parse_mounts",
        "resource",
        "runopt",
        "runopts",
        "to_plain",
    ],
    "wherry.testing": [
        "Clock",
        "LogLine",
        "MemoryRequest",
        "MemoryScheduler",
        "Outcome",
        "ReplicaRequest",
        "RoleRequest",
        "SchedulerContract",
        "Timer",
    ],
}
NAMES = [(package, name) for package, names in PUBLIC.items() for name in names]


def python(program: str, **options: object) -> object:
    """Run a program in a fresh interpreter, and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, **options
    )
    return json.loads(done.stdout)


def newly_loaded(statement: str) -> set[str]:
    return set(
        python(
            f"import sys; before = set(sys.modules); {statement}\n"
            "loaded = sorted(set(sys.modules) - before)\n"
            "import json; print(json.dumps(loaded))"
        )
    )


def test_importing_the_package_loads_only_the_package():
    loaded = newly_loaded("import wherry")

    assert loaded - {"__future__"} == {"wherry", "wherry._version"}


@pytest.mark.parametrize(
    "statement",
    [
        "import wherry",
        "import wherry.specs",
        "import wherry.home",
        "import wherry; wherry.emulator",
    ],
)
def test_importing_loads_nothing_heavy(statement):
    assert newly_loaded(statement) & HEAVY == set()


def test_the_first_spec_loads_neither_providers_nor_faces():
    loaded = newly_loaded(
        "from wherry.specs import AppDef, Role, runopts, resource; resource(cpu=1)"
    )

    assert loaded & (HEAVY - {"dataclasses"}) == set()


def test_the_check_can_fail():
    assert newly_loaded("import sqlite3, argparse") & HEAVY == {"sqlite3", "argparse"}


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_are_these_and_sorted(package):
    names = importlib.import_module(package).__all__

    assert list(names) == PUBLIC[package]
    assert list(names) == sorted(names)
    assert dir(importlib.import_module(package)) == sorted(names)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_each_public_name_can_be_imported(package, name):
    assert python(f"import json; from {package} import {name}; print(json.dumps(True))")


@pytest.mark.parametrize("package", PUBLIC)
def test_a_star_gives_exactly_the_public_names(package):
    found = python(
        f"import json; names = {{}}; exec('from {package} import *', names)\n"
        "print(json.dumps(sorted(names.keys() - {'__builtins__'})))"
    )

    assert found == PUBLIC[package]


@pytest.mark.parametrize("package", PUBLIC)
def test_a_name_that_is_not_public_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module(package).no_such_name  # noqa: B018


_EFFECTS = """
import json, os, signal, sys, threading

def world():
    return {
        "environment": dict(os.environ),
        "handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "threads": len(os.listdir("/proc/self/task")),
        "files": sorted(os.listdir(".")),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "hooks": [str(sys.excepthook), len(sys.meta_path), len(sys.path)],
    }

before = world()
import wherry, wherry.specs, wherry.errors, wherry.home
from wherry.specs import *
after = world()
print(json.dumps({key: after[key] for key in after if after[key] != before[key]}))
"""


def test_importing_has_no_effects(tmp_path):
    here = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    environment = {**os.environ, **here, "PYTHONDONTWRITEBYTECODE": "1"}

    assert python(_EFFECTS, cwd=tmp_path, env=environment) == {}
    assert list(tmp_path.iterdir()) == []
