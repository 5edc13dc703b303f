"""Write the parts of the documentation that the code knows best: tables of options and faults.

``--check`` writes nothing and fails when a part is out of date; ``--picture`` makes the README's
picture anew from commands that it runs.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from wherry.emulator.batch.reasons import STUCK
from wherry.emulator.faults import KINDS
from wherry.schedulers.aws_batch.options import aws_batch_opts
from wherry.schedulers.aws_batch.states import HONOURED as HONOURED_BY_AWS
from wherry.schedulers.docker.options import docker_opts
from wherry.schedulers.docker.states import HONOURED as HONOURED_BY_DOCKER
from wherry.schedulers.local.request import local_opts
from wherry.schedulers.local.states import HONOURED
from wherry.specs.options import runopts

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(ROOT / "docs" / f"{name}.md" for name in ("local", "docker", "aws", "emulator"))
PICTURE = ROOT / "docs" / "picture.svg"
SHOWN = (
    "wherry run --array 3 utils.python --script examples/svm.py -- 0.001 0.1 10",
    "wherry log --regex accuracy svm",
    "wherry run utils.python --script examples/broken.py",
    "wherry list",
)


def options(of: runopts) -> str:
    """Return the table of a scheduler's run options."""
    rows = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, option in of:
        default = "required" if option.required else option.default
        rows.append(f"| `{name}` | {option.type_.__name__} | {default} | {option.help} |")
    return "\n".join(rows)


def honoured(table: dict[str, str], where: str) -> str:
    """Return the table of what a scheduler keeps to."""
    rows = [f"| {part} | {how} |" for part, how in table.items()]
    return "\n".join([f"| part of an app | {where} |", "| --- | --- |", *rows])


def faults() -> str:
    """Return the table of what an emulator can be made to get wrong."""
    rows = [f"| `{kind}` | {what} |" for kind, what in KINDS.items()]
    return "\n".join(["| fault | what happens |", "| --- | --- |", *rows])


def stuck() -> str:
    """Return the list of reasons for which jobs can be stuck."""
    return "\n".join(f"- `{key}`" for key in STUCK)


PARTS = {
    "options": lambda: options(local_opts()),
    "honoured": lambda: honoured(HONOURED, "on this machine"),
    "docker options": lambda: options(docker_opts()),
    "docker honoured": lambda: honoured(HONOURED_BY_DOCKER, "in a container"),
    "aws options": lambda: options(aws_batch_opts()),
    "aws honoured": lambda: honoured(HONOURED_BY_AWS, "on AWS Batch"),
    "faults": faults,
    "stuck": stuck,
}


def written(text: str) -> str:
    """Return a page with its generated parts made anew."""
    for name, make in PARTS.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = mark.sub(lambda found, make=make: f"{found[1]}{make()}\n{found[2]}", text)
    return text


def picture() -> str:
    """Run the commands shown, and draw a terminal with what they print."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "WHERRY_HOME": home}
        for command in SHOWN:
            answer = subprocess.run(
                ["sh", "-c", command + " 2>&1"],
                env=env,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            shown = answer.stdout.replace(f"{ROOT}/", "").rstrip("\n")
            lines += [f"$ {command}", *shown.split("\n")]
    width = max(map(len, lines)) * 7.8 + 40
    rows = "\n".join(
        f'<text x="20" y="{40 + 19 * row}" fill="{_colour(line)}" xml:space="preserve">'
        f"{html.escape(line)}</text>"
        for row, line in enumerate(lines)
    )
    height = 19 * len(lines) + 50
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#16202b"/>\n{rows}\n</svg>\n'
    )


def _colour(line: str) -> str:
    if line.startswith("$"):
        return "#7fd1ff"
    if line.startswith(("FAILED", "FileNotFoundError")):
        return "#ff8f8f"
    return "#8fe0a8" if "accuracy" in line or line.startswith("SUCCEEDED") else "#d6dee6"


def main() -> None:
    """Write, or check."""
    texts = {page: page.read_text() for page in PAGES}
    if "--check" in sys.argv:
        old = [page.name for page, text in texts.items() if written(text) != text]
        sys.exit(f"out of date: {', '.join(old)}; make docs" if old else 0)
    for page, text in texts.items():
        page.write_text(written(text))
    if "--picture" in sys.argv:
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
