"""The rules of `.gitignore`, as git reads them.

Patterns are matched byte by byte, as git does: here a byte is a character of Latin-1, so that one
kind of regular expression serves every name.
"""

from __future__ import annotations

import os
import re
import string
from typing import Any, NamedTuple

from wherry.errors import WorkspaceError
from wherry.workspace.ignore import DROP, KEEP

SPECIAL = "*?[\\"
BOM = b"\xef\xbb\xbf"

CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, range(32))) + "\x7f",
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": string.punctuation,
    "space": " \t\n\v\f\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}

NEVER = re.compile(r"(?!)")


class Rule(NamedTuple):
    """One line of an ignore file.

    Args:
        regex: what has to match: the name alone, or the path below the file's folder.
        negated: whether it takes entries back in.
        dirs_only: whether it speaks of folders alone.
        by_name: whether it is matched with the name alone.
    """

    regex: re.Pattern[str]
    negated: bool
    dirs_only: bool
    by_name: bool


class RuleList(NamedTuple):
    """The rules of one file, the last one first, and how much of a path lies above the file."""

    rules: tuple[Rule, ...]
    above: int


def git_level(folder: str, name: str) -> GitLevel:
    """Return the rules at the top of a folder.

    Args:
        folder: the top of the tree.
        name: what the ignore files are called, there and in the folders below.

    Raises:
        WorkspaceError: an ignore file cannot be read.
    """
    return GitLevel(name, ()).inside("", folder, frozenset((name,)), None)


class GitLevel:
    """The rules inside one folder: those of its own file, and of the files above."""

    def __init__(self, name: str, lists: tuple[RuleList, ...]) -> None:
        self.name = name
        self.lists = lists  # the deepest file first

    def verdict(self, name: str, path: str, is_dir: bool) -> tuple[str, Any]:
        """Judge an entry; what is inside a folder that is left out is never looked at."""
        if name == ".git":
            return DROP, None
        if not self.lists:
            return KEEP, None
        if not path.isascii():
            name, path = _latin(name), _latin(path)
        for rules, above in self.lists:
            below = path[above:] if above else path
            for regex, negated, dirs_only, by_name in rules:
                if dirs_only and not is_dir:
                    continue
                if regex.fullmatch(name if by_name else below):
                    return (KEEP if negated else DROP), None
        return KEEP, None

    def inside(self, path: str, folder: str, names: frozenset[str], _found: Any) -> GitLevel:
        """Return the rules inside a folder, with those of its own ignore file if it has one."""
        if self.name not in names:
            return self
        rules = _read(os.path.join(folder, self.name))
        if not rules:
            return self
        above = len(os.fsencode(path)) + 1 if path else 0
        return GitLevel(self.name, (RuleList(rules, above), *self.lists))


def parse_rules(content: bytes) -> tuple[Rule, ...]:
    """Read the lines of an ignore file; the last one comes first."""
    if content.startswith(BOM):
        content = content[len(BOM) :]
    lines = (line.removesuffix(b"\r") for line in content.split(b"\n"))
    rules = (_rule(line.partition(b"\0")[0].decode("latin-1")) for line in lines)
    return tuple(rule for rule in rules if rule is not None)[::-1]


def _read(file: str) -> tuple[Rule, ...]:
    # Git follows no link to an ignore file, and makes nothing of a folder of that name.
    if not os.path.isfile(file) or os.path.islink(file):
        return ()
    try:
        with open(file, "rb") as stream:
            return parse_rules(stream.read())
    except OSError as error:
        raise WorkspaceError(f"cannot read {file}: {error.strerror}") from error


def _latin(name: str) -> str:
    return os.fsencode(name).decode("latin-1")


def _rule(line: str) -> Rule | None:
    if not line or line.startswith("#"):
        return None
    pattern = _without_trailing_spaces(line)
    negated = pattern.startswith("!")
    pattern = pattern[1:] if negated else pattern
    dirs_only = pattern.endswith("/")
    pattern = pattern[:-1] if dirs_only else pattern
    if not pattern:
        return None
    by_name = "/" not in pattern
    source = _name_regex(pattern) if by_name else _path_regex(pattern)
    regex = NEVER if source is None else re.compile(source, re.DOTALL)
    return Rule(regex, negated, dirs_only, by_name)


def _without_trailing_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    if kept == line:
        return line
    # The first of the spaces stays when a backslash stands before it, itself not escaped.
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 else kept


def _name_regex(pattern: str) -> str | None:
    return _regex(pattern, across=True)


def _path_regex(pattern: str) -> str | None:
    # Git compares the part before the first special character as it stands, and matches what is
    # left by itself: so two stars right there count as at the beginning of a pattern.
    pattern = pattern.removeprefix("/")
    plain = next((at for at, char in enumerate(pattern) if char in SPECIAL), len(pattern))
    rest = _regex(pattern[plain:], across=False)
    return None if rest is None else re.escape(pattern[:plain]) + rest


def _regex(pattern: str, *, across: bool) -> str | None:
    """Translate a pattern; ``None`` for one that matches nothing.

    Args:
        pattern: in the language of git's wildmatch.
        across: whether stars match slashes as well (they have none to match in a name).
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            source, at = _stars(pattern, at, across=across)
        elif char == "?":
            source, at = "[^/]", at + 1
        elif char == "[":
            found = _bracket(pattern, at)
            if found is None:
                return None
            source, at = found
        elif char == "\\":
            if at + 1 == len(pattern):
                return None
            source, at = re.escape(pattern[at + 1]), at + 2
        else:
            source, at = re.escape(char), at + 1
        parts.append(source)
    return "".join(parts)


def _stars(pattern: str, at: int, *, across: bool) -> tuple[str, int]:
    end = at
    while end < len(pattern) and pattern[end] == "*":
        end += 1
    if across:
        return ".*", end
    alone = at == 0 or pattern[at - 1] == "/"
    rest = pattern[end:]
    if end - at < 2 or not alone or not (not rest or rest.startswith(("/", "\\/"))):
        return "[^/]*", end
    if rest.startswith("/"):
        return "(?:.*/)?", end + 1
    return ".*", end


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Translate a set of characters; ``None`` when it is not closed or names an unknown class."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    members: set[str] = set()
    previous = ""
    first = True
    while True:
        char = pattern[at : at + 1]
        if not char:
            return None
        if char == "]" and not first:
            break
        first = False
        if char == "\\":
            at += 1
            char = pattern[at : at + 1]
            if not char:
                return None
            members.add(char)
        elif char == "-" and previous and pattern[at + 1 : at + 2] not in ("", "]"):
            at += 1
            if pattern[at] == "\\":
                at += 1
            if at >= len(pattern):
                return None
            members.update(map(chr, range(ord(previous), ord(pattern[at]) + 1)))
            char = ""
        elif char == "[" and pattern[at + 1 : at + 2] == ":":
            close = pattern.find("]", at + 2)
            if close < 0:
                return None
            if close - 1 >= at + 2 and pattern[close - 1] == ":":
                named = CLASSES.get(pattern[at + 2 : close - 1])
                if named is None:
                    return None
                members.update(named)
                at, char = close, ""
            else:
                members.add(char)
        else:
            members.add(char)
        previous = char
        at += 1
    members = set(map(chr, range(256))) - members if negated else members
    members.discard("/")
    return ("[" + "".join(map(re.escape, sorted(members))) + "]" if members else "(?!)"), at + 1
