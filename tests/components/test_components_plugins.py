"""Installed packages add components; one that fails is reported and harms nothing."""

from __future__ import annotations

import sys

import pytest

from wherry.components import build, builtins, find
from wherry.errors import ComponentError, PluginError

TRAIN = """
import wherry

def train(n: int = 1) -> wherry.AppDef:
    "Train with acme."
    return wherry.AppDef(name=f"{__name__}-{n}")

def helper():
    return 1

def _private() -> wherry.AppDef:
    return wherry.AppDef(name="private")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions of one module each, as a package installer lays them out."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = []

    def lay_out(dist: str, module: str, text: str, **points: str) -> None:
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{dist}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[wherry.components]\n{lines}")
        modules.append(module)

    yield lay_out
    for module in modules:
        sys.modules.pop(module, None)


def listed() -> tuple[dict[str, str], list[str]]:
    components, warnings = builtins()
    return {component.name: component.source for component in components}, warnings


def test_a_function_has_the_entry_points_name(install):
    install("acme", "acme_one", TRAIN, **{"acme.fit": "acme_one:train"})
    component = find("acme.fit")
    assert (component.source, component.summary) == ("acme", "Train with acme.")
    assert build(component, ["-n", "2"]).name == "acme_one-2"


def test_a_modules_components_have_its_name_before_theirs(install):
    install("acme", "acme_two", TRAIN, acme="acme_two")
    assert build(find("acme.train"), []).name == "acme_two-1"
    names, warnings = listed()
    assert names["acme.train"] == "acme"
    assert [name for name in names if name.startswith("acme")] == ["acme.train"]
    assert warnings == []


def test_a_modules_all_says_what_is_public(install):
    install("acme", "acme_all", TRAIN + "\n__all__ = ['train', 'gone']\n", acme="acme_all")
    assert find("acme.train").source == "acme"


def test_plugins_stand_among_the_others_in_order(install):
    install("acme", "acme_three", TRAIN, **{"train.it": "acme_three:train"})
    names, _ = listed()
    assert list(names) == sorted(names)
    assert "utils.echo" in names
    assert "train.it" in names


def test_a_misspelt_plug_in_has_the_nearest_match(install):
    install("acme", "acme_four", TRAIN, acme="acme_four")
    with pytest.raises(ComponentError, match=r"did you mean 'acme\.train'"):
        find("acme.trian")


@pytest.mark.parametrize("text", ["import no_such_module_here", "raise SystemExit(1)", "def ("])
def test_a_plug_in_that_fails_is_a_warning_and_the_rest_is_there(install, text):
    install("broken", "acme_broken", text, broken="acme_broken")
    install("acme", "acme_five", TRAIN, acme="acme_five")
    names, warnings = listed()
    assert "acme.train" in names
    assert "utils.echo" in names
    assert len(warnings) == 1
    assert warnings[0].startswith("plug-in broken (broken = acme_broken) does not load: ")


def test_a_plug_in_that_fails_is_an_error_for_who_asks_for_it(install):
    install("broken", "acme_broken_too", "1 / 0", broken="acme_broken_too")
    assert find("utils.echo").source == "built in"
    with pytest.raises(PluginError, match=r"plug-in broken .* ZeroDivisionError"):
        find("broken.train")


def test_an_unknown_name_tells_of_plug_ins_that_might_have_had_it(install):
    install("broken", "acme_broken_three", "1 / 0", broken="acme_broken_three")
    with pytest.raises(ComponentError, match="Not all plug-ins could be loaded: plug-in broken"):
        find("other.train")


def test_a_plug_in_cannot_replace_a_built_in_component(install):
    install("acme", "acme_six", TRAIN, **{"utils.echo": "acme_six:train"})
    assert find("utils.echo").source == "built in"
    names, warnings = listed()
    assert names["utils.echo"] == "built in"
    assert warnings == [
        "plug-in acme offers utils.echo, which is built in; the built-in one is used"
    ]


def test_a_plug_in_may_add_to_a_built_in_group(install):
    install("acme", "acme_seven", TRAIN, utils="acme_seven")
    assert find("utils.train").source == "acme"
    assert find("utils.echo").source == "built in"


def test_of_two_plug_ins_with_one_name_the_first_is_used_and_it_is_said(install):
    install("beta", "acme_eight", TRAIN, **{"x.train": "acme_eight:train"})
    install("alpha", "acme_nine", TRAIN, **{"x.train": "acme_nine:train"})
    names, warnings = listed()
    assert names["x.train"] == find("x.train").source == "alpha"
    assert warnings == ["plug-ins alpha and beta both offer x.train; alpha's is used"]


@pytest.mark.parametrize("value", ["acme_ten:helper", "acme_ten:TABLE"])
def test_what_is_no_component_is_a_warning(install, value):
    install("acme", "acme_ten", TRAIN + "\nTABLE = {}\n", **{"x.y": value})
    names, warnings = listed()
    assert "x.y" not in names
    assert warnings[0].startswith("plug-in acme: x.y ")
    with pytest.raises(ComponentError, match=r"x\.y"):
        find("x.y")
