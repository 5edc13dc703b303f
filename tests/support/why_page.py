"""docs/why.md: reading what it says of a situation, and writing it anew.

A situation stands between ``<!-- why NAME -->`` and ``<!-- end -->``, and is written with

    UPDATE_WHY=1 .venv/bin/python -m pytest tests/aws/test_aws_why.py

What stands before the first mark is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from support.why_cases import CHAPTERS, SITUATIONS, Situation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "why.md"
BEGIN = "<!-- situations -->"
_SECTION = re.compile(r"<!-- why (?P<name>[\w-]+) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)
_TEXT = re.compile(r"```text\n(.*?)\n```", re.DOTALL)


def shown(name: str) -> str | None:
    """Return what the page says is printed; nothing when it does not have the situation."""
    for found in _SECTION.finditer(PAGE.read_text()):
        if found["name"] == name:
            text = _TEXT.search(found["body"])
            return text[1] if text else None
    return None


def names() -> list[str]:
    """Return the situations that the page has, in its order."""
    return [found["name"] for found in _SECTION.finditer(PAGE.read_text())]


def write(name: str, text: str) -> None:
    """Put what is printed in a situation on the page; situations that are no more are left out."""
    page = PAGE.read_text()
    texts = {}
    for found in _SECTION.finditer(page):
        known = _TEXT.search(found["body"])
        texts[found["name"]] = known[1] if known else ""
    texts[name] = text
    head = page.partition(BEGIN)[0]
    PAGE.write_text(head + BEGIN + "\n" + "".join(_chapters(texts)))


def _chapters(texts: dict[str, str]) -> list[str]:
    parts = []
    for chapter in CHAPTERS:
        parts.append(f"\n## {chapter}\n")
        those = [one for one in SITUATIONS if one.chapter == chapter and one.name in texts]
        parts += [_section(one, texts[one.name]) for one in those]
    return parts


def _section(one: Situation, text: str) -> str:
    title = one.name.replace("-", " ").capitalize()
    body = f"<!-- why {one.name} -->\n{one.tells}\n\n```text\n{text}\n```\n<!-- end -->"
    return f"\n### {title}\n\n{body}\n"
