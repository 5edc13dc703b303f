"""Components are found by name, in files and in modules; what cannot be found says why."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from wherry.components import Component, build, builtins, find, source_text
from wherry.errors import ComponentError

GOOD = '''
from __future__ import annotations
from dataclasses import dataclass
import wherry


@dataclass
class Settings:
    size: "int" = 1


def train(epochs: int = 1) -> wherry.AppDef:
    """Train it."""
    return wherry.AppDef(name="train", metadata={"epochs": str(epochs)})


def evaluate() -> wherry.AppDef:
    return wherry.AppDef(name="evaluate")


def helper():
    return 1


CONSTANT = {}
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that is the current one; returns a function that writes files in it."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    return write


def refusal(name: str) -> str:
    with pytest.raises(ComponentError) as caught:
        find(name)
    return str(caught.value)


def modules_loaded_by(code: str) -> set[str]:
    """Run code in a fresh Python; return the modules that it alone loads."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    return set(
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
    )


# Built-in ones


def test_a_built_in_component_is_found():
    echo = find("utils.echo")
    assert (echo.name, echo.source, echo.summary) == ("utils.echo", "built in", "Print a message.")


def test_all_built_in_components_are_listed_in_order():
    components, _ = builtins()
    names = [component.name for component in components if component.source == "built in"]
    assert names == [
        "dist.ddp",
        "dist.spmd",
        "utils.binary",
        "utils.booth",
        "utils.copy",
        "utils.echo",
        "utils.python",
        "utils.sh",
        "utils.touch",
    ]


def test_an_unknown_name_has_the_nearest_match():
    assert "unknown component 'utils.ehco'; did you mean 'utils.echo'?" in refusal("utils.ehco")


@pytest.mark.parametrize("name", ["", "nothing", "utils", "utils.", ".echo"])
def test_what_is_no_name_is_refused(name):
    assert f"unknown component {name!r}" in refusal(name)


def test_running_echo_loads_nothing_that_it_does_not_need():
    loaded = modules_loaded_by(
        "from wherry.components import build, find; build(find('utils.echo'), ['--msg=x'])"
    )
    slow = {"importlib.metadata", "docstring_parser", "shlex", "pathlib", "logging", "difflib"}
    assert not loaded & slow
    assert not any(name.startswith("wherry.specs.catalogue") for name in loaded)
    assert "wherry.components.dist" not in loaded


def test_a_file_is_loaded_without_looking_at_installed_packages(project):
    project("good.py", GOOD)
    loaded = modules_loaded_by("from wherry.components import find; find('good.py:train')")
    assert "importlib.metadata" not in loaded


# Files


def test_a_function_in_a_file_is_found(project):
    name = project("jobs/good.py", GOOD) + ":train"
    component = find(name)
    assert component.name == name
    assert component.summary == "Train it."
    assert component.source == os.path.join(os.getcwd(), "jobs", "good.py")
    assert build(component, ["--epochs", "4"]).metadata == {"epochs": "4"}


def test_an_absolute_path_is_found(project, tmp_path):
    project("good.py", GOOD)
    assert build(find(f"{tmp_path}/good.py:evaluate"), []).name == "evaluate"


def test_the_source_of_a_file_is_shown(project):
    project("good.py", GOOD)
    assert source_text(find("good.py:train")).startswith("def train(epochs")


def test_source_that_cannot_be_had_is_an_error():
    scope: dict[str, object] = {}
    exec("def fn() -> 'AppDef': ...", scope)
    with pytest.raises(ComponentError, match="the source of made cannot be read"):
        source_text(Component("made", scope["fn"], "", "test"))  # type: ignore[arg-type]


def test_a_file_may_import_its_neighbours_now_and_when_it_is_called(project):
    project("near/neighbour_now.py", "NAME = 'near'")
    project("near/neighbour_later.py", "NAME = 'later'")
    project(
        "near/job.py",
        """
        import wherry
        import neighbour_now

        def job() -> wherry.AppDef:
            import neighbour_later
            return wherry.AppDef(name=f"{neighbour_now.NAME}-{neighbour_later.NAME}")
        """,
    )
    before = list(sys.path)
    assert build(find("near/job.py:job"), []).name == "near-later"
    assert sys.path == before


def test_a_file_is_read_again_each_time(project):
    text = "import wherry\ndef job() -> wherry.AppDef:\n    return wherry.AppDef(name='{}')\n"
    project("job.py", text.format("one"))
    assert build(find("job.py:job"), []).name == "one"
    project("job.py", text.format("two"))
    assert build(find("job.py:job"), []).name == "two"


def test_files_of_the_same_name_are_told_apart(project):
    text = "import wherry\ndef job() -> wherry.AppDef:\n    return wherry.AppDef(name='{}')\n"
    project("a/job.py", text.format("a"))
    project("b/job.py", text.format("b"))
    first, second = find("a/job.py:job"), find("b/job.py:job")
    assert (build(first, []).name, build(second, []).name) == ("a", "b")
    assert first.fn.__module__ != second.fn.__module__


def test_loading_writes_nothing_beside_the_file(project, tmp_path):
    project("good.py", GOOD)
    find("good.py:train")
    assert os.listdir(tmp_path) == ["good.py"]


def test_a_decorated_function_is_a_component(project):
    project(
        "job.py",
        """
        import functools
        import wherry

        def named(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs):
                return fn(*args, **kwargs)
            return inner

        @named
        def job(n: int = 1) -> wherry.AppDef:
            return wherry.AppDef(name=f"job-{n}")
        """,
    )
    assert build(find("job.py:job"), ["-n", "2"]).name == "job-2"


def test_a_missing_file_has_the_nearest_match(project):
    project("train.py", GOOD)
    assert refusal("trian.py:train").startswith("no file trian.py")
    assert "did you mean train.py?" in refusal("trian.py:train")
    assert "there is no folder" in refusal("none/train.py:train")


def test_a_missing_function_has_the_nearest_match_and_the_list(project):
    project("good.py", GOOD)
    message = refusal("good.py:trian")
    assert "good.py: unknown function 'trian'; did you mean 'train'?" in message
    assert "Known: evaluate, train." in message


@pytest.mark.parametrize("name", ["good.py", "good.py:", "./good.py"])
def test_a_file_without_a_function_says_which_there_are(project, name):
    project("good.py", GOOD)
    assert "good.py:evaluate or " in refusal(name)


def test_a_syntax_error_has_file_line_and_text(project):
    project("bad.py", "import wherry\n\ndef job(:\n    pass\n")
    message = refusal("bad.py:job")
    assert message.startswith("bad.py:3: ")
    assert message.endswith(": def job(:")


def test_a_file_that_is_not_text_is_an_error(project, tmp_path):
    (tmp_path / "bad.py").write_bytes(b"x = '\xff\xfe\x00'")
    assert refusal("bad.py:job").startswith("bad.py")


def test_a_folder_is_not_a_file(project, tmp_path):
    (tmp_path / "job.py").mkdir()
    assert "cannot read job.py: Is a directory" in refusal("job.py:job")


def test_a_path_that_no_file_can_have_is_an_error():
    assert "embedded null byte" in refusal("a\0b.py:job")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import json; json.loads('{')", "JSONDecodeError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_fails_while_it_loads_says_where_and_why(project, line, why):
    project("bad.py", f"import wherry\n{line}\n")
    message = refusal("bad.py:job")
    assert message.startswith("bad.py:2: does not load: ")
    assert why in message
    assert not any(name.endswith("_bad") for name in sys.modules)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("helper", "does not say what it returns"),
        ("CONSTANT", "is not a function but a dict"),
        ("Settings", "is not a function but a type"),
    ],
)
def test_what_is_no_component_is_refused(project, function, why):
    project("good.py", GOOD)
    assert why in refusal(f"good.py:{function}")


def test_a_function_without_types_is_refused_at_once(project):
    project("job.py", "import wherry\ndef job(x) -> wherry.AppDef: ...\n")
    assert "job.py:job: parameter 'x' has no type" in refusal("job.py:job")


# Modules


def test_a_function_in_a_module_of_the_current_folder_is_found(project):
    project("wherry_test_jobs/__init__.py", "")
    project("wherry_test_jobs/good.py", GOOD)
    component = find("wherry_test_jobs.good:train")
    assert build(component, []).name == "train"
    assert component.source.endswith("good.py")


def test_a_missing_module_is_named(project):
    assert refusal("wherry_test_none.jobs:job") == "no module 'wherry_test_none'"


def test_a_file_that_another_package_hides_is_pointed_at(project):
    project("json/train.py", GOOD)
    message = refusal("json.train:train")
    assert message == "no module 'json.train'; did you mean the file json/train.py?"


def test_a_module_that_fails_says_where_and_why(project):
    project("wherry_test_bad_syntax.py", "def job(:\n")
    project("wherry_test_bad_import.py", "x = 1\nimport no_such_module_here\n")
    assert "wherry_test_bad_syntax.py:1: " in refusal("wherry_test_bad_syntax:job")
    message = refusal("wherry_test_bad_import:job")
    assert "wherry_test_bad_import.py:2: does not load: ModuleNotFoundError" in message


@pytest.mark.parametrize("name", [":job", "a b:job", "..x:job", "a..b:job", "x.:job"])
def test_what_is_no_module_name_is_refused(project, name):
    with pytest.raises(ComponentError):
        find(name)
