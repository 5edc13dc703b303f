"""What a call needs where it runs: packages, modules, a Python that can run its code."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from support import engine
from wherry import Deps, DockerExecutor, errors
from wherry.specs import BindMount

SECONDS = 100
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def wheel(folder, name="wherry_needed", version="1.0"):
    """Make a wheel, so that nothing is fetched from anywhere."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n")
    return path


def version():
    import wherry_needed

    return wherry_needed.VERSION


@pytest.fixture
def installing(ex, tmp_path):
    env = {"WHERRY_DEPS_DIR": str(tmp_path / "deps"), "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    return ex.options(env=env)


@pytest.mark.parametrize("how", ["pip", "links", "requirements", "lock"])
def test_a_package_is_installed_for_the_call_once(installing, tmp_path, how):
    file = wheel(tmp_path)
    listed = tmp_path / "list.txt"
    listed.write_text(f"--find-links {tmp_path}\nwherry-needed==1.0\n")
    deps = {
        "pip": Deps(pip=[str(file)]),
        "links": Deps(pip=["--find-links", str(tmp_path), "wherry-needed"]),
        "requirements": Deps(requirements=str(listed)),
        "lock": Deps(lock=str(listed)),
    }[how]

    first = installing.options(deps=deps).submit(version)
    assert first.result(SECONDS) == "1.0"
    assert "wherry" in first.log()
    file.unlink()
    second = installing.options(deps=deps).submit(version)
    assert second.result(SECONDS) == "1.0"
    assert second.log() == ""
    assert second.outcome().phases["installing"] < first.outcome().phases["installing"]


def test_a_package_that_does_not_exist_is_told_by_name_with_the_installers_words(installing):
    job = installing.options(deps=Deps(pip=["no-such-package-at-all"])).submit(version)

    with pytest.raises(errors.DepsError, match="no-such-package-at-all") as told:
        job.result(SECONDS)
    assert "job.log()" in str(told.value)
    assert job.exit_code == 1


def test_lines_of_shell_come_first_and_one_that_fails_is_named(installing, tmp_path):
    mark = tmp_path / "mark"
    ready = installing.options(deps=Deps(bash=[f"echo ready > {mark}"]))
    assert ready.submit(mark.read_text).result(SECONDS) == "ready\n"

    with pytest.raises(errors.DepsError, match=r"'exit 7'.*exit code 7"):
        installing.options(deps=Deps(bash=["exit 7"])).submit(version).result(SECONDS)


def test_modules_go_along_by_object_or_by_name(ex, tmp_path, monkeypatch):
    (tmp_path / "mine_only.py").write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import mine_only

    for modules in (mine_only, "mine_only"):
        assert ex.options(deps=Deps(modules=modules)).submit(mine_only.f, 1).result(SECONDS) == 2
    with pytest.raises(errors.PayloadError, match="'not_mine' cannot be imported here"):
        ex.options(deps=Deps(modules="not_mine")).submit(mine_only.f, 1)


def test_a_list_that_cannot_be_read_is_refused_before_anything_is_sent(ex):
    with pytest.raises(errors.UsageError, match=r"requirements.*nowhere\.txt"):
        ex.options(deps=Deps(requirements="nowhere.txt")).submit(version)


@functools.lru_cache
def other_python(wanted):
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    found = [*glob.glob(f"{root}/versions/{wanted}.*/bin/python"), shutil.which(f"python{wanted}")]
    for path in filter(None, found):
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        ran = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if ran.stdout.strip() == wanted:
            return path
    return ""


@pytest.mark.parametrize("wanted", ["3.9", "3.12"])
def test_another_minor_version_runs_what_goes_by_name_and_refuses_what_goes_by_value(wanted):
    if wanted == HERE or not other_python(wanted):
        pytest.skip(f"there is no other Python {wanted} here")
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(other_python(wanted))))
    mounts = [
        BindMount(f"{prefix}/{folder}", f"/usr/local/{folder}", read_only=True)
        for folder in ("bin", "lib")
    ]
    mounts.append(BindMount(f"{prefix}/lib", f"{prefix}/lib", read_only=True))  # as it is linked
    ex = DockerExecutor(engine.image("python"), mounts=mounts, docker={"grace": 1.0})

    job = ex.submit(pow, 2, 5)
    outcome = job.outcome(SECONDS)
    assert (outcome.value, outcome.error) == (32, None)
    assert outcome.python.startswith(wanted + ".")
    refused = ex.submit(lambda: 1)
    with pytest.raises(errors.PayloadError, match=rf"This Python is {wanted}.*is {HERE}.*image"):
        refused.result(SECONDS)
    for one in (job, refused):
        one.delete()
