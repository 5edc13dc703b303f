"""Settings: which one holds, where it came from, and how a wrong one is reported."""

from __future__ import annotations

import os
import subprocess
import sys

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.errors import ConfigError
from wherry.runner import Config
from wherry.runner.config import template
from wherry.runner.tomlfile import user_folder
from wherry.specs import runopts


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def user(tmp_path, monkeypatch):
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("WHERRY_CONFIG_HOME", str(folder))
    return folder


def options() -> runopts:
    opts = runopts()
    opts.add("log_dir", help="where logs go")
    opts.add("grace", type_=float, default=10.0, help="seconds to clean up")
    opts.add("max-parallel", type_=int, help="how many at once")
    opts.add("prepend_cwd", type_=bool, default=False, help="look here first")
    opts.add("extra", type_=list, help="more paths")
    opts.add("labels", type_=dict, help="pairs")
    opts.add("mode", default="fast", choices=("fast", "safe"), help="how")
    opts.add("queue", required=True, help="which queue;\nthe main one, say")
    return opts


def settings(config: Config, scheduler: str = "local_cwd", **known) -> dict:
    found = config.options(scheduler, options(), **known)
    return {name: (setting.value, setting.source) for name, setting in found.items()}


def refusal(*files, environ=None, ask=None) -> str:
    config = Config(paths=[str(path) for path in files], environ=environ or {})
    with pytest.raises(ConfigError) as caught:
        (ask or (lambda c: c.options("local_cwd", options())))(config)
    return str(caught.value)


# Which value holds


def test_without_files_and_variables_nobody_says_anything(project, user):
    config = Config(str(project))

    assert config.paths() == []
    assert config.scheduler() is None
    assert config.detach() is None
    assert config.options("local_cwd", options()) == {}
    assert config.component_defaults("utils.echo") == {}


def test_the_project_wins_over_the_user_and_a_variable_over_both(project, user, monkeypatch):
    (user / "wherry.toml").write_text(
        '[run]\nscheduler = "u"\ndetach = true\n'
        '[scheduler.local_cwd]\nlog_dir = "u"\ngrace = 1\nmode = "safe"\n'
    )
    (project / "wherry.toml").write_text(
        '[run]\nscheduler = "p"\n\n[scheduler.local_cwd]\nlog_dir = "p"\ngrace = 2.5\n'
    )
    monkeypatch.setenv("WHERRY_CFG_LOCAL_CWD_GRACE", "3")
    config = Config(str(project))

    assert settings(config) == {
        "log_dir": ("p", f"{project}/wherry.toml:5"),
        "grace": (3.0, "WHERRY_CFG_LOCAL_CWD_GRACE"),
        "mode": ("safe", f"{user}/wherry.toml:7"),
    }
    assert (config.scheduler().value, config.detach().value) == ("p", True)

    monkeypatch.setenv("WHERRY_SCHEDULER", "e")
    monkeypatch.setenv("WHERRY_DETACH", "no")

    assert (config.scheduler().value, config.scheduler().source) == ("e", "WHERRY_SCHEDULER")
    assert (config.detach().value, config.detach().source) == (False, "WHERRY_DETACH")


def test_the_nearest_file_upward_is_the_projects(project, user):
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "wherry.toml").write_text("")
    assert Config(str(inner)).paths() == [f"{project}/wherry.toml"]

    (project / "a" / "wherry.toml").write_text("")
    assert Config(str(inner)).paths() == [f"{project}/a/wherry.toml"]


def test_a_file_that_is_both_is_read_once(user):
    (user / "wherry.toml").write_text("[run]\n")

    assert Config(str(user)).paths() == [f"{user}/wherry.toml"]


def test_a_strangers_file_in_a_folder_for_everybody_is_passed_over(project, user):
    project.chmod(0o777)
    (project / "wherry.toml").write_text("[run]\n")
    if os.getuid() == 0:
        os.chown(project / "wherry.toml", 12345, -1)
        assert Config(str(project)).paths() == []
        os.chown(project / "wherry.toml", 0, -1)
    assert Config(str(project)).paths() == [f"{project}/wherry.toml"]


def test_the_users_folder_is_where_the_platform_keeps_settings(monkeypatch, tmp_path):
    assert user_folder({}) == platformdirs.user_config_dir("wherry")

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_folder(os.environ | {"WHERRY_CONFIG_HOME": ""}) == str(tmp_path / "wherry")
    assert platformdirs.user_config_dir("wherry") == str(tmp_path / "wherry")


def test_a_working_folder_that_was_removed_is_no_hindrance(project, user, monkeypatch):
    gone = project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert Config().scheduler() is None


def test_without_a_file_the_toml_reader_is_not_loaded(project, user):
    program = (
        "import sys; from wherry.runner import Config; c = Config(); c.scheduler(); c.detach()\n"
        "print(sorted({'tomllib', 'tomli', 'platformdirs', 'pathlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, capture_output=True, text=True
    )

    assert done.stdout == "[]\n", done.stderr


def test_values_have_the_types_of_the_options(project, user):
    (project / "wherry.toml").write_text(
        "[scheduler.local_cwd]\n"
        'extra = ["a", "b"]\n'
        'labels = {team = "x", size = 3}\n'
        "prepend_cwd = true\n"
        "max-parallel = 4\n"
    )

    assert {name: value for name, (value, _) in settings(Config(str(project))).items()} == {
        "extra": ["a", "b"],
        "labels": {"team": "x", "size": "3"},
        "prepend_cwd": True,
        "max-parallel": 4,
    }


def test_variables_are_text_that_becomes_the_options_type():
    environ = {
        "WHERRY_CFG_LOCAL_CWD_EXTRA": "a;b",
        "WHERRY_CFG_LOCAL_CWD_LABELS": "team:x",
        "WHERRY_CFG_LOCAL_CWD_MAX_PARALLEL": "4",
        "WHERRY_CFG_LOCAL_CWD_PREPEND_CWD": "yes",
        "WHERRY_CFG_LOCAL_CWD_LOG_DIR": "",
        "WHERRY_ANYTHING": "is not ours",
    }

    assert {k: v for k, (v, _) in settings(Config(paths=(), environ=environ)).items()} == {
        "extra": ["a", "b"],
        "labels": {"team": "x"},
        "max-parallel": 4,
        "prepend_cwd": True,
    }


def test_a_components_defaults_are_words_of_a_command_line(project, user):
    (user / "wherry.toml").write_text('[component."utils.echo"]\nmsg = "u"\nn = 1\n')
    (project / "wherry.toml").write_text(
        '[component."utils.echo"]\nmsg = "p"\nratio = 0.5\nflag = true\nmany = ["a", 2, false]\n'
    )
    found = Config(str(project)).component_defaults("utils.echo")

    assert {name: setting.value for name, setting in found.items()} == {
        "msg": "p",
        "n": "1",
        "ratio": "0.5",
        "flag": "true",
        "many": "a,2,false",
    }
    assert found["ratio"].source == f"{project}/wherry.toml:3"


OPTION_VALUES = {
    "log_dir": st.text("abc /", min_size=1),
    "grace": st.floats(0, 1e6),
    "max-parallel": st.integers(-9, 9),
    "prepend_cwd": st.booleans(),
    "mode": st.sampled_from(["fast", "safe"]),
}
layer = st.fixed_dictionaries({}, optional=OPTION_VALUES)


@given(user=layer, project=layer, environment=layer)
def test_for_each_option_the_highest_layer_that_sets_it_holds(
    tmp_path_factory, user, project, environment
):
    folder = tmp_path_factory.mktemp("layers")
    paths = []
    for name, values in (("project", project), ("user", user)):
        (folder / name).write_text(toml({"scheduler": {"local_cwd": values}}))
        paths.append(str(folder / name))
    environ = {
        f"WHERRY_CFG_LOCAL_CWD_{name.upper().replace('-', '_')}": str(value)
        for name, value in environment.items()
    }

    found = Config(paths=paths, environ=environ).options("local_cwd", options())

    assert {k: s.value for k, s in found.items()} == {**user, **project, **environment}
    for name, setting in found.items():
        expected = (
            "WHERRY_CFG" if name in environment else paths[0] if name in project else paths[1]
        )
        assert setting.source.startswith(expected)


def toml(content: dict) -> str:
    """Write the little TOML that these tests need."""
    lines = []
    for section, tables in content.items():
        for name, values in tables.items():
            lines.append(f"[{section}.{name}]")
            lines += [f"{key} = {written(value)}" for key, value in values.items()]
    return "\n".join(lines)


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


# What is refused, and where it stands


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[run]\nscheduler =", 2, "not TOML"),
        ('[run]\n\n[run]\nscheduler = "x"', 3, "not TOML"),
        ('# hi\n[runn]\nscheduler = "x"', 2, "unknown section 'runn'; did you mean 'run'?"),
        ("\n\nworkspace = 1", 3, "unknown section 'workspace'"),
        ('[run]\ndetach = true\nschedler = "x"', 3, "did you mean 'scheduler'?"),
        ("[run]\nscheduler = 5", 2, "takes the name of a scheduler, as text, not 5"),
        ('[run]\ndetach = "yes"', 2, "takes true or false, not 'yes'"),
        ("run = 3", 1, "must be a table [run], not 3"),
        ("scheduler.local_cwd = 3", 1, "must be a table [scheduler.local_cwd], not 3"),
        ("[scheduler.local_cwd]\n\ngrace = 2020-01-01", 3, "takes text, a number"),
        ("[scheduler.local_cwd]\nlog_dir = 'x'\nlogdir = 'y'", 3, "did you mean 'log_dir'?"),
        ("[scheduler.local_cwd]\ngrace = 'soon'", 2, "takes a number, not 'soon'"),
        ("[scheduler]\nlocal_cwd = {grace = 1,\tmode = 'fats'}", 2, "did you mean 'fast'?"),
        ("[scheduler.local_cwd.labels]\na = [1]\n", 1, "takes text, a number"),
        ("[component.x]\na = 1\nb = {c = 1}", 3, "b of [component.x] takes text"),
        ('[component."utils.echo"]\na = [1,\n2,\n[3]]', 2, 'of [component."utils.echo"]'),
        ("[component.x]\n\na = ['b,c']", 3, "cannot hold a comma: 'b,c'"),
    ],
)
def test_an_error_names_the_file_the_line_and_what_was_expected(tmp_path, text, line, words):
    path = tmp_path / "wherry.toml"
    path.write_text(text)

    message = refusal(path)

    assert message.startswith(f"{path}:{line}: ")
    assert words in message


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@given(
    before=st.lists(
        st.sampled_from(
            [
                "",
                "# typo = 1",
                "[scheduler.other]",
                'a.b = """\n[run]\ntypo = 1\n"""',
                "c = [\n  1, # typo = 2\n]",
                "'typo ' = '''typo = 1'''",
            ]
        ),
        unique=True,
    ),
    entry=st.sampled_from(
        [
            "[run]\ntypo = 1",
            '[run]\n# here\n"typo" = """\na\n"""',
            "[run]\nscheduler = 'x'\n'typo' = [\n1,\n\n]",
            "[ run ]\ntypo . x = 1\ndetach = true",
        ]
    ),
)
def test_the_line_is_the_one_on_which_the_key_begins(tmp_path_factory, ending, before, entry):
    table = "[scheduler.s]\n" if before and "[scheduler.other]" not in before[:1] else ""
    text = table + "\n".join([*before, entry]) + "\n"
    path = tmp_path_factory.mktemp("lines") / "wherry.toml"
    path.write_bytes(text.replace("\n", ending).encode())
    start = text.rindex(entry)
    typo = next(
        index
        for index, line in enumerate(text[start:].split("\n"))
        if line.strip("'\"").startswith("typo")
    )

    message = refusal(path, ask=lambda config: config.scheduler())

    assert message.startswith(f"{path}:{text[:start].count(chr(10)) + typo + 1}: unknown key")


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path):
    path = tmp_path / "wherry.toml"
    path.write_bytes(b"[run]\n\nscheduler = '\xff'\n")

    assert refusal(path) == f"{path}:3: not UTF-8 text"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    assert refusal(tmp_path).startswith(f"{tmp_path} cannot be read: ")


def test_a_variable_of_the_wrong_type_is_named():
    assert refusal(environ={"WHERRY_CFG_LOCAL_CWD_GRACE": "long"}) == (
        "WHERRY_CFG_LOCAL_CWD_GRACE: option 'grace' takes a number, not 'long'"
    )
    assert refusal(environ={"WHERRY_DETACH": "maybe"}, ask=lambda c: c.detach()) == (
        "WHERRY_DETACH takes yes or no (or true, false, 1, 0), not 'maybe'"
    )


def test_a_variable_for_an_option_that_there_is_not_is_refused_with_the_nearest():
    message = refusal(environ={"WHERRY_CFG_LOCAL_CWD_LOGDIR": "x"})

    assert message == (
        "WHERRY_CFG_LOCAL_CWD_LOGDIR names no option of scheduler local_cwd; "
        "did you mean WHERRY_CFG_LOCAL_CWD_LOG_DIR?"
    )


def test_a_variable_of_a_scheduler_whose_name_begins_alike_is_not_this_ones():
    config = Config(paths=(), environ={"WHERRY_CFG_LOCAL_CWD_LOG_DIR": "x"})

    assert settings(config, "local", known=lambda: ["local", "local_cwd"]) == {}
    with pytest.raises(ConfigError):
        settings(config, "local", known=lambda: ["local"])


# The template


def uncommented(text: str) -> str:
    """Switch every setting on; prose has a blank after its ``#``."""
    return "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line
        for line in text.split("\n")
    )


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("#"))


def test_the_template_sets_nothing_and_is_valid(tmp_path):
    path = tmp_path / "wherry.toml"
    for text in (template({"local_cwd": options()}), without_comments(template({}))):
        path.write_text(text)
        config = Config(paths=[str(path)], environ={})
        assert settings(config) == {}
        assert config.scheduler() is None


def test_the_template_with_its_settings_switched_on_is_valid_and_says_the_defaults(tmp_path):
    opts = options()
    opts.add("odd", default='quote " back \\ \x7f \t é', help="a text to escape")
    path = tmp_path / "wherry.toml"
    path.write_text(uncommented(template({"local_cwd": opts, "my.own": options()})))
    config = Config(paths=[str(path)], environ={})

    for name in ("local_cwd", "my.own"):
        found = config.options(name, opts)
        assert set(found) == {key for key, _ in (opts if name == "local_cwd" else options())}
        for key, setting in found.items():
            option = opts.get(key)
            assert option.default is None or setting.value == option.default
    assert config.scheduler().value == "local_cwd"
    assert config.detach().value is False
    assert set(config.component_defaults("utils.echo")) == {"msg"}
