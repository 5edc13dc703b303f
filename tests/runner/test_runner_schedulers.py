"""Schedulers by name: built in, given, or from an installed package that may be broken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wherry.errors import PluginError, UnknownNameError
from wherry.runner import Config, Runner

GOOD = """
from wherry.testing import MemoryScheduler

def create(session_name, **options):
    return MemoryScheduler(session_name)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions of one module each, as a package installer lays them out."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    modules = []

    def lay_out(dist: str, module: str, text: str, **points: str) -> None:
        (folder / f"{module}.py").write_text(text)
        info = folder / f"{dist}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[wherry.schedulers]\n{lines}")
        modules.append(module)

    yield lay_out
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def runner():
    with Runner(config=Config(paths=(), environ={})) as made:
        yield made


def test_the_built_in_schedulers_come_first(install, runner):
    install("acme", "acme_good", GOOD, acme="acme_good:create")

    assert runner.scheduler_backends() == [
        "local_cwd",
        "local_dir",
        "local_docker",
        "aws_batch",
        "acme",
    ]
    assert runner.scheduler("local_dir").backend == "local_dir"


def test_a_plugins_scheduler_is_made_for_the_session_and_once(install):
    install("acme", "acme_good", GOOD, acme="acme_good:create")
    with Runner("mine") as runner:
        made = runner.scheduler("acme")

        assert made.session_name == "mine"
        assert runner.scheduler("acme") is made


def test_an_unknown_scheduler_is_refused_with_the_nearest(install, runner):
    install("acme", "acme_good", GOOD, acme="acme_good:create")

    with pytest.raises(UnknownNameError, match="unknown scheduler 'acne'; did you mean 'acme'"):
        runner.scheduler("acne")
    with pytest.raises(UnknownNameError, match="did you mean 'local_cwd'"):
        runner.status("local_cdw://wherry/echo-1")


@pytest.mark.parametrize(
    ("text", "point", "why"),
    [
        ("import no_such_module", "acme_bad:create", "ModuleNotFoundError: No module named"),
        ("def create(:", "acme_bad:create", "SyntaxError"),
        ("raise SystemExit(3)", "acme_bad:create", "SystemExit: 3"),
        ("", "acme_bad:create", "AttributeError"),
        ("def create(session_name): 1 / 0", "acme_bad:create", "ZeroDivisionError"),
        ("def create(session_name): return 5", "acme_bad:create", "made 5, which is not"),
    ],
)
def test_a_plugin_that_fails_breaks_nothing_else(install, runner, text, point, why):
    install("acme", "acme_bad", text, bad=point)
    install("zeta", "zeta_good", GOOD, zeta="zeta_good:create")

    assert runner.scheduler_backends() == [
        "local_cwd",
        "local_dir",
        "local_docker",
        "aws_batch",
        "bad",
        "zeta",
    ]
    assert runner.list() == []
    assert len(runner.problems) == 1
    assert "scheduler bad of plug-in acme (acme_bad:create)" in runner.problems[0]
    assert why in runner.problems[0]
    assert runner.scheduler("zeta").backend
    with pytest.raises(PluginError, match="scheduler bad of plug-in acme"):
        runner.scheduler("bad")
    with pytest.raises(PluginError):
        runner.list("bad")


def test_a_name_that_is_taken_stays_with_its_first_owner(install, runner):
    install("acme", "acme_good", GOOD, local_cwd="acme_good:create", both="acme_good:create")
    install("zeta", "zeta_good", GOOD, both="zeta_good:create")

    assert runner.scheduler_backends() == [
        "local_cwd",
        "local_dir",
        "local_docker",
        "aws_batch",
        "both",
    ]
    assert runner.problems == [
        "plug-ins acme and zeta both offer scheduler both; acme's is used",
        "plug-in acme offers scheduler local_cwd, which is built in; the built-in one is used",
    ]
    assert type(runner.scheduler("local_cwd")).__name__ == "LocalScheduler"


def test_given_schedulers_are_all_that_there_are(desk):
    runner = Runner(schedulers={"desk": lambda session: desk})

    assert runner.scheduler_backends() == ["desk"]
    with pytest.raises(UnknownNameError):
        runner.scheduler("local_cwd")


def test_a_built_in_scheduler_is_had_without_looking_at_installed_packages(tmp_path):
    program = (
        "import sys; from wherry.runner import get_runner\n"
        "runner = get_runner(); runner.scheduler('local_cwd').run_opts()\n"
        "runner.resolve('local_cwd://w/a-1')\n"
        "slow = {'importlib.metadata', 'sqlite3', 'tomllib', 'pathlib', 'platformdirs'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == "[]\n", done.stderr
