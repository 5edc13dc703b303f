"""The documentation is true: its commands print what it says, its code runs, its tables are new."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import engine

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PUBLIC_IMAGE = "python:3.12-slim"
NOT_HERE = ("make demo", "make test")  # `make test` runs this very file; CI runs the demo.


def commands() -> list[tuple[str, str]]:
    """Return each command of the README with what it prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if not command.startswith(NOT_HERE):
                found.append((command.replace(PUBLIC_IMAGE, "wherry-test/python"), output))
    return found


def pattern(text: str) -> str:
    return ".*?".join(map(re.escape, text.strip().split("…")))


def test_the_readmes_commands_print_what_it_says(tmp_path: Path) -> None:
    engine.image("python")
    pairs = commands()
    assert len(pairs) >= 5
    # Each command has a shell of its own, and all of them know the emulator that one starts.
    before = (
        f"PATH={Path(sys.executable).parent}:$PATH; "
        'eval "$(wherry emulator env --shell sh 2> /dev/null)"'
    )
    for command, expected in pairs:
        answer = subprocess.run(
            ["sh", "-c", f"{before}; {command} 2>&1 | cat"],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        printed = [
            line
            for line in answer.stdout.splitlines()
            # The handle of an attached run; the README leaves it out.
            if "--detach" in command or not line.startswith(("local_cwd://", "local_docker://"))
        ]
        assert re.fullmatch(pattern(expected), "\n".join(printed), re.DOTALL), (command, printed)


def test_the_readmes_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tables_are_as_the_code_says() -> None:
    script = str(ROOT / "scripts" / "write_docs.py")
    subprocess.run([sys.executable, script, "--check"], check=True)
