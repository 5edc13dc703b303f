"""What a call needs is installed once, found by the function, and named when it fails."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import sys
import zipfile

import pytest


def wheel(folder, name="wherry_demo", version="1.0", text="VALUE = 7\n"):
    """Make a wheel, so that nothing is fetched from anywhere."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(value.encode()).digest())
            lines.append(f"{key},sha256={digest.decode().rstrip('=')},{len(value)}")
            archive.writestr(key, value)
        archive.writestr(f"{about}/RECORD", "\n".join([*lines, f"{about}/RECORD,,", ""]))
    return path


def without_uv():
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not os.path.exists(f"{folder}/uv"))


@pytest.fixture
def deps_bench(bench, tmp_path, monkeypatch):
    bench.environ["WHERRY_DEPS_DIR"] = str(tmp_path / "deps")
    bench.environ["PIP_NO_INDEX"] = bench.environ["UV_OFFLINE"] = "1"
    return bench


def value_of_demo():
    def looks():
        import subprocess

        import wherry_demo

        code = "import wherry_demo; print(wherry_demo.VALUE)"
        below = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        return wherry_demo.VALUE, int(below.stdout)

    return looks


@pytest.mark.parametrize("tool", ["uv", "pip"])
@pytest.mark.parametrize("how", ["pip", "requirements"])
def test_a_package_is_installed_and_found(deps_bench, tmp_path, tool, how):
    if tool == "uv" and not shutil.which("uv"):
        pytest.skip("uv is not installed")
    if tool == "pip":
        deps_bench.environ["PATH"] = without_uv()
    path = str(wheel(tmp_path))
    deps = {"pip": [path]} if how == "pip" else {"requirements": f"# mine\n{path}\n"}
    ran, outcome = deps_bench.done(value_of_demo(), deps=deps)

    assert ran.code == 0, ran.err
    assert outcome.value() == (7, 7)
    assert "wherry" in ran.err  # the installer's words are in the log
    assert outcome.header["phases"]["installing"] > 0


def test_what_is_installed_is_installed_once(deps_bench, tmp_path):
    log = tmp_path / "log"
    deps = {"bash": [f"echo run >> {log}"], "pip": [str(wheel(tmp_path))]}
    url = deps_bench.call(value_of_demo(), deps=deps)
    started = [deps_bench.start(url, child) for child in range(3)]
    codes = [(process.communicate(timeout=90), process.returncode)[1] for process in started]

    assert codes == [0, 0, 0]
    assert log.read_text() == "run\n"


def test_a_package_that_does_not_exist_is_named(deps_bench):
    ran, outcome = deps_bench.done(print, deps={"pip": ["surely-not-a-package-of-anyone"]})
    error = outcome.header["error"]

    assert ran.code == 1
    assert error["kind"] == "deps"
    assert "surely-not-a-package-of-anyone" in error["message"]
    assert "It said at last:" in error["message"]
    assert "exit code" in ran.err


def test_a_line_of_shell_that_fails_is_named_and_tried_again(deps_bench, tmp_path):
    flag = tmp_path / "flag"
    url = deps_bench.call(print, deps={"bash": [f"echo looking; test -e {flag}"]})

    assert deps_bench.run(url).code == 1
    error = deps_bench.outcome(url).header["error"]
    assert error["kind"] == "deps"
    assert f"test -e {flag}" in error["message"]
    assert error["message"].endswith("looking")

    flag.touch()
    assert deps_bench.run(url).code == 0


def test_modules_come_as_zips(deps_bench):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("own_zipped.py", "def three(): return 3\n")

    def uses():
        import own_zipped

        return own_zipped.three()

    part = deps_bench.blob([data.getvalue()])
    ran, outcome = deps_bench.done(uses, deps={"modules": [part]})

    assert ran.code == 0, ran.err
    assert outcome.value() == 3


def test_a_program_that_prints_one_endless_line_is_shown_in_pieces(deps_bench):
    ran, outcome = deps_bench.done(
        max, 1, 2, deps={"bash": ["head -c 1000000 /dev/zero | tr '\\0' x"]}
    )

    assert ran.code == 0
    assert len(ran.err) >= 1_000_000
    assert outcome.value() == 2
