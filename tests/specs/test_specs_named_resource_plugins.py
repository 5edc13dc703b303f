"""Named resources of other packages: real distributions with real entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wherry.errors import PluginError, UnknownNameError
from wherry.specs import Resource, named_resources
from wherry.specs.catalogue import NamedResources

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution: its name, its entry points, and the text of its module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def install(dist: str, points: dict[str, str], text: str) -> None:
        info = tmp_path / f"{dist}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        lines = [f"{name} = {dist}_plugin:{value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[wherry.named_resources]", *lines, ""]))
        (tmp_path / f"{dist}_plugin.py").write_text(
            f"from wherry.specs import Resource\n{text}\n", encoding="utf-8"
        )

    yield install
    for name in set(sys.modules) - before:
        if name.endswith("_plugin"):
            del sys.modules[name]


def test_a_function_is_named_by_its_entry_point(install: Install) -> None:
    install("acme", {"acme.big": "big"}, "def big(): return Resource(cpu=64)")

    resources = NamedResources()

    assert resources["acme.big"] == Resource(cpu=64)
    assert "acme.big" in resources
    assert "acme.big" in list(resources)
    assert len(resources) == len(list(resources))
    assert resources.problems == ()


def test_a_mapping_names_its_own(install: Install) -> None:
    install(
        "acme",
        {"acme": "ALL"},
        "ALL = {'acme.a': Resource(cpu=1), 'acme.b': lambda: Resource(cpu=2)}",
    )

    resources = NamedResources()

    assert resources["acme.a"].cpu == 1
    assert resources["acme.b"].cpu == 2
    assert "acme" not in resources


def test_a_resource_itself_will_do(install: Install) -> None:
    install("acme", {"acme.big": "BIG"}, "BIG = Resource(gpu=4)")

    assert NamedResources()["acme.big"] == Resource(gpu=4)


def test_a_plug_ins_names_are_suggested(install: Install) -> None:
    install("acme", {"acme.gigantic": "BIG"}, "BIG = Resource(gpu=4)")

    with pytest.raises(UnknownNameError, match=r"did you mean 'acme\.gigantic'"):
        NamedResources()["acme.gigantik"]
    with pytest.raises(UnknownNameError, match=r"known: acme\.gigantic, cpu\.large"):
        NamedResources()["quantum"]


def test_plug_ins_are_loaded_only_when_no_table_has_the_name(install: Install) -> None:
    install("acme", {"acme.big": "BIG"}, "BIG = Resource(gpu=4)")
    resources = NamedResources()

    assert resources["gpu.small"].gpu == 1
    assert "m5.large" in resources
    assert "acme_plugin" not in sys.modules

    assert resources["acme.big"].gpu == 4
    assert "acme_plugin" in sys.modules


def test_a_plug_in_cannot_replace_a_built_in_name(install: Install) -> None:
    install(
        "acme",
        {"all": "ALL"},
        "ALL = {'gpu.small': Resource(gpu=9), 'm5.large': Resource(), 'aws_m5.large': Resource()}",
    )
    resources = NamedResources()

    assert resources["gpu.small"] == named_resources["gpu.small"]
    assert resources["aws_m5.large"] == named_resources["m5.large"]
    assert resources.problems == tuple(
        f"Plug-in acme offers {name!r}, which is built in; that one is used."
        for name in ("gpu.small", "m5.large", "aws_m5.large")
    )


def test_of_two_plug_ins_with_one_name_the_first_wins(install: Install) -> None:
    install("zeta", {"big": "BIG"}, "BIG = Resource(gpu=2)")
    install("acme", {"big": "BIG"}, "BIG = Resource(gpu=1)")
    resources = NamedResources()

    assert resources["big"].gpu == 1
    assert resources.problems == ("Plug-ins acme and zeta both offer 'big'; acme's is used.",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_module", "does not load: ModuleNotFoundError: No module named 'no_such"),
        ("raise RuntimeError('boom')", "does not load: RuntimeError: boom."),
        ("raise SystemExit(3)", "does not load: SystemExit: 3."),
        ("def oops(: pass", "does not load: SyntaxError"),
        ("", "does not load: AttributeError"),
        ("def big(): raise KeyError('zone')", "cannot make 'acme.big': KeyError: 'zone'."),
        ("def big(): raise SystemExit(3)", "cannot make 'acme.big': SystemExit: 3."),
        ("def big(): return 5", "offers 5 as 'acme.big'; it must be a Resource or a function"),
        ("def big(zone): return Resource()", "cannot make 'acme.big': TypeError"),
        ("big = 'gpu.small'", "offers 'gpu.small' as 'acme.big'"),
    ],
)
def test_a_plug_in_that_fails_is_told_of_and_breaks_nothing(
    install: Install, text: str, told: str
) -> None:
    built_in = set(NamedResources())
    install("acme", {"acme.big": "big"}, text)
    install("zeta", {"zeta.big": "BIG"}, "BIG = Resource(gpu=2)")
    resources = NamedResources()

    assert resources["zeta.big"].gpu == 2
    assert resources["gpu.small"].gpu == 1
    assert set(resources) == set(dict(resources)) == {*built_in, "zeta.big"}

    (problem,) = resources.problems
    assert problem.startswith("Plug-in acme ")
    assert told in problem


def test_asking_for_a_name_whose_plug_in_failed_tells_why(install: Install) -> None:
    install("acme", {"acme.big": "big"}, "def big(): raise KeyError('zone')")
    resources = NamedResources()

    with pytest.raises(PluginError, match=r"Plug-in acme cannot make 'acme\.big': KeyError"):
        resources["acme.big"]
    assert "acme.big" not in resources
    assert resources.get("acme.big") is None


def test_an_unknown_name_is_answered_with_what_went_wrong_too(install: Install) -> None:
    install("acme", {"acme": "ALL"}, "raise RuntimeError('boom')")

    with pytest.raises(UnknownNameError, match=r"such as m5\.large\. Plug-in acme .* boom\."):
        NamedResources()["quantum"]


def test_a_part_of_a_mapping_may_fail_alone(install: Install) -> None:
    install(
        "acme",
        {"acme": "ALL"},
        "ALL = {'acme.a': Resource(cpu=1), 'acme.b': lambda: 1 / 0, 5: Resource(), '': Resource()}",
    )
    resources = NamedResources()

    assert resources["acme.a"].cpu == 1
    assert resources.problems == (
        "Plug-in acme cannot make 'acme.b': ZeroDivisionError: division by zero.",
        "Plug-in acme names a resource 5; names are strings.",
        "Plug-in acme names a resource ''; names are strings.",
    )
