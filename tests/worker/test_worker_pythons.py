"""The same zip under every Python from 3.9 on that this machine has."""

from __future__ import annotations

import functools
import glob
import operator
import os
import shutil
import subprocess
import sys

import pytest

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


@functools.lru_cache
def find(version):
    """Return an interpreter of a version, from PATH or from pyenv; empty when there is none."""
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    places = [
        shutil.which(f"python{version}"),
        *glob.glob(f"{root}/versions/{version}.*/bin/python"),
    ]
    for path in filter(None, places):
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        ran = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if ran.stdout.strip() == version:
            return path
    return ""


@pytest.fixture(params=VERSIONS)
def python(request):
    found = find(request.param)
    if not found:
        pytest.skip(f"there is no Python {request.param} on PATH or in pyenv")
    return found


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_function_by_reference_runs(bench, python):
    url = bench.call(operator.mul, 6, 7)
    ran = bench.run(url, python=python)

    assert (ran.code, ran.err) == (0, "")
    assert bench.outcome(url).value() == 42


def test_code_by_value_runs_or_is_refused_by_name(bench, python, request):
    def own(number):
        return number + 1

    url = bench.call(own, 1)
    ran = bench.run(url, python=python)
    version = request.node.callspec.params["python"]

    if version == HERE:
        assert bench.outcome(url).value() == 2
        return
    error = bench.outcome(url).header["error"]
    assert ran.code == 1
    assert error["kind"] == "python"
    assert f"This Python is {version}" in error["message"]
    assert f"the client's is {HERE}" in error["message"]
    assert error["message"] in ran.err


def test_a_map_with_its_processes_runs(bench, python):
    items = bench.items([(number, 2) for number in range(6)])
    url = bench.call(operator.pow, items=items, count=6, chunksize=6, parallel=2, beat=0.05)
    ran = bench.run(url, python=python)

    assert (ran.code, ran.err) == (0, "")
    assert [bench.outcome(url).value(place) for place in range(6)] == [0, 1, 4, 9, 16, 25]


def test_output_exceptions_and_exit_codes_are_the_same(bench, python, tmp_path):
    (tmp_path / "own_code.py").write_text(
        "import os, sys, warnings\n"
        "def talk():\n"
        "    print('said')\n"
        "    os.system('echo below')\n"
        "    warnings.warn('w')\n"
        "    raise KeyError('k')\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import own_code

        url = bench.call(own_code.talk, syspath=[str(tmp_path)])
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["own_code"]
    ran = bench.run(url, python=python)
    outcome = bench.outcome(url)

    assert (ran.code, ran.out) == (1, "said\nbelow\n")
    assert outcome.text("stdout") == "said\nbelow\n"
    assert repr(outcome.exception()) == "KeyError('k')"
    assert outcome.header["items"][0]["warnings"][0]["message"] == "w"
    assert "_wherry_worker" not in outcome.error()["traceback"]
