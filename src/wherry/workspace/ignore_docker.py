"""The rules of `.dockerignore`, as `docker build` reads them.

A pattern is matched with the whole path, and with the folders that an entry is in; the last one
that matches decides. `Dockerfile` and `.dockerignore` are files like any other.

The two builders of Docker differ in one thing: whether an exception (`!…`) can reach into a folder
that is left out. BuildKit, the builder of today, looks into it whenever an exception might; the
classic one (`DOCKER_BUILDKIT=0`) only when the text of an exception begins with the folder's path,
so that `!**/keep` does nothing there. As for `docker build`, that variable decides.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any, NamedTuple

from wherry.errors import WorkspaceError
from wherry.workspace.ignore import DROP, KEEP, THROUGH

BOM = b"\xef\xbb\xbf"
SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
SPACE += "\u2028\u2029\u202f\u205f\u3000"
PLAIN_ESCAPES = ".+()|{}$"
WILDCARDS = "*[]?^\\"
LONGEST_LINE = 65535

# What Go's regular expressions make of a backslash and a letter, which is what counts: a pattern's
# backslashes end up there. Other letters and digits are refused by Docker, or have no sure meaning.
LETTERS = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "s": r"[\t\n\f\r ]",
    "S": r"[^\t\n\f\r ]",
    "w": "[0-9A-Za-z_]",
    "W": "[^0-9A-Za-z_]",
    "a": r"\a",
    "f": r"\f",
    "n": r"\n",
    "r": r"\r",
    "t": r"\t",
    "v": r"\v",
    "A": r"\A",
    "z": r"\Z",
}
SETS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


class BadPatternError(ValueError):
    """A pattern that Docker refuses."""


class Pattern(NamedTuple):
    """One line of the file.

    Args:
        text: the pattern, cleaned.
        exception: whether it takes entries back in.
        kind: ``exact``, ``prefix``, ``suffix`` or ``regex``.
        regex: for ``regex``.
    """

    text: str
    exception: bool
    kind: str
    regex: re.Pattern[str] | None

    def matches(self, path: str) -> bool:
        """Tell whether the pattern matches a whole path."""
        if self.regex is not None:
            return self.regex.fullmatch(_seen_by_go(path)) is not None
        if self.kind == "exact":
            return path == self.text
        if self.kind == "prefix":
            return path.startswith(self.text[:-2])
        suffix = self.text[2:]
        return path.endswith(suffix) or (suffix.startswith("/") and path == suffix[1:])


def docker_level(file: str) -> DockerLevel:
    """Return the rules of a `.dockerignore` file.

    Raises:
        WorkspaceError: it cannot be read, or Docker refuses one of its patterns.
    """
    try:
        with open(file, "rb") as stream:
            patterns = parse_patterns(stream.read())
    except OSError as error:
        raise WorkspaceError(f"cannot read {file}: {error.strerror}") from error
    except BadPatternError as error:
        raise WorkspaceError(f"{file}, {error}; `docker build` refuses it as well.") from error
    return DockerLevel(patterns, classic=os.environ.get("DOCKER_BUILDKIT", "") in ("0", "false"))


class DockerLevel:
    """The rules inside one folder.

    Args:
        patterns: in the order of their lines.
        found: which of them matched the folder; empty at the top of the tree.
        classic: whether folders that are left out are entered as the classic builder enters them.
    """

    def __init__(
        self, patterns: tuple[Pattern, ...], found: tuple[bool, ...] = (), *, classic: bool
    ) -> None:
        self.patterns = patterns
        self.found = found or (False,) * len(patterns)
        self.classic = classic

    def verdict(self, _name: str, path: str, is_dir: bool) -> tuple[str, Any]:
        """Judge an entry by the patterns that match it or a folder it is in."""
        dropped = False
        found = []
        for pattern, above in zip(self.patterns, self.found, strict=True):
            match = above
            if not match and pattern.exception == dropped:
                match = pattern.matches(path)
            found.append(match)
            if match:
                dropped = not pattern.exception
        if not dropped:
            return KEEP, tuple(found)
        if is_dir and self._may_hold_exceptions(path):
            return THROUGH, tuple(found)
        return DROP, None

    def inside(self, _path: str, _folder: str, _names: frozenset[str], found: Any) -> DockerLevel:
        """Return the rules inside a folder: the same, knowing what matched the folder."""
        return DockerLevel(self.patterns, found, classic=self.classic)

    def _may_hold_exceptions(self, path: str) -> bool:
        texts = [pattern.text for pattern in self.patterns if pattern.exception]
        if not self.classic:
            texts = [text.removesuffix("/**").removesuffix("/*") for text in texts]
            if any(char in WILDCARDS for text in texts for char in text):
                return True
        return any((text + "/").startswith(path + "/") for text in texts)


def parse_patterns(content: bytes) -> tuple[Pattern, ...]:
    """Read the lines of a `.dockerignore` file.

    Raises:
        BadPatternError: Docker refuses one; the message begins with its line.
    """
    if content.startswith(BOM):
        content = content[len(BOM) :]
    patterns = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            if len(line) > LONGEST_LINE:
                raise BadPatternError("a line of more than 64 KiB")
            pattern = _pattern(os.fsdecode(line.removesuffix(b"\r")))
        except BadPatternError as error:
            raise BadPatternError(f"line {number}: {error}") from error
        if pattern is not None:
            patterns.append(pattern)
    return tuple(patterns)


def _pattern(line: str) -> Pattern | None:
    if line.startswith("#"):
        return None
    text = line.strip(SPACE)
    if not text:
        return None
    exception = text.startswith("!")
    text = text[1:].strip(SPACE) if exception else text
    if text:
        text = _clean(text)
        text = text[1:] if len(text) > 1 and text.startswith("/") else text
    # Docker cleans what it has read a second time, with the mark in front.
    text = _clean((("!" if exception else "") + text).strip(SPACE))
    exception = text.startswith("!")
    text = text[1:] if exception else text
    if not text:
        raise BadPatternError(f"{line!r} takes nothing back in")
    _check_syntax(text)
    kind, source = _translate(text)
    return Pattern(text, exception, kind, re.compile(source) if source else None)


def _clean(path: str) -> str:
    cleaned = posixpath.normpath(path)
    # POSIX gives a meaning to two slashes at the beginning; Go does not.
    return "/" + cleaned.lstrip("/") if cleaned.startswith("//") else cleaned


def _seen_by_go(path: str) -> str:
    """Return a name as Go's regular expressions see it: a byte that is not UTF-8 is U+FFFD."""
    if path.isascii():
        return path
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in path)


def _check_syntax(pattern: str) -> None:
    """Refuse what Go's `filepath.Match` refuses, which Docker asks first."""
    bad = BadPatternError(f"a syntax error in the pattern {pattern!r}")
    at = 0

    def member(at: int) -> int:
        if pattern[at : at + 1] in ("", "-", "]"):
            raise bad
        at += pattern[at] == "\\"
        # A set has to be closed, so that its last member cannot be the pattern's end.
        if at + 1 >= len(pattern):
            raise bad
        return at + 1

    while at < len(pattern):
        if pattern[at] == "\\":
            if at + 1 == len(pattern):
                raise bad
            at += 2
        elif pattern[at] == "[":
            at += 2 if pattern[at + 1 : at + 2] == "^" else 1
            first = True
            while first or pattern[at : at + 1] != "]":
                at = member(at)
                if pattern[at : at + 1] == "-":
                    at = member(at + 1)
                first = False
            at += 1
        else:
            at += 1


def _translate(pattern: str) -> tuple[str, str]:
    """Return the kind of a pattern and, for ``regex``, the regular expression."""
    go, kind = _go_regex(_seen_by_go(pattern))
    return kind, _python_regex(go) if kind == "regex" else ""


def _go_regex(pattern: str) -> tuple[str, str]:
    """Write a pattern as the regular expression that Docker makes of it, for Go."""
    parts: list[str] = []
    kind = "exact"
    at = 0
    while at < len(pattern):
        start, char = at, pattern[at]
        at += 1
        if pattern.startswith("**", start):
            at += 1
            at += pattern[at : at + 1] == "/"
            if at < len(pattern):
                parts.append("(.*/)?")
                kind = "regex"
            elif kind == "exact":
                kind = "prefix"
            else:
                parts.append(".*")
                kind = "regex"
            if start == 0:
                kind = "suffix"
        elif char == "*":
            parts.append("[^/]*")
            kind = "regex"
        elif char == "?":
            parts.append("[^/]")
            kind = "regex"
        elif char in PLAIN_ESCAPES:
            parts.append("\\" + char)
        elif char == "\\":
            parts.append("\\" + pattern[at : at + 1])
            at += 1
            kind = "regex"
        else:
            parts.append(char)
            kind = "regex" if char in "[]" else kind
    return "".join(parts), kind


def _python_regex(go: str) -> str:
    """Write one of Docker's regular expressions for Python; the two differ in sets and escapes."""
    parts = []
    at = 0
    while at < len(go):
        if go.startswith("(.*/)?", at):
            parts.append("(?:.*/)?")
            at += 6
        elif go[at] == "[":
            source, at = _set(go, at)
            parts.append(source)
        elif go[at] == "\\":
            parts.append(_escape(go[at + 1]))
            at += 2
        else:
            # A star or a dot is only ever one that Docker put there.
            parts.append(go[at] if go[at] in ".*^" else re.escape(go[at]))
            at += 1
    return "".join(parts)


def _escape(char: str, *, in_set: bool = False) -> str:
    if char.isascii() and not char.isalnum():
        return re.escape(char)
    if char in LETTERS and not (in_set and char in "DSWAz"):
        return LETTERS[char].strip("[]") if in_set else LETTERS[char]
    raise BadPatternError(f"a backslash before {char!r} has no meaning")


def _set(go: str, at: int) -> tuple[str, int]:
    """Translate a set of characters, which ends where Go ends it."""
    at += 1
    negated = go[at : at + 1] == "^"
    at += negated
    members: list[str] = []
    first = True
    while first or go[at : at + 1] != "]":
        first = False
        named = re.compile(r"\[:(\^?)(\w+):\]").match(go, at)
        if named is not None:
            inner = SETS.get(named[2])
            if inner is None or named[1]:
                raise BadPatternError(f"a set of characters that is not known, {named[0]}")
            members.append(inner)
            at = named.end()
            continue
        low, at = _member(go, at)
        if go[at : at + 1] == "-" and go[at + 1 : at + 2] != "]":
            high, at = _member(go, at + 1)
            if len(low) > 2 or len(high) > 2 or low[-1] > high[-1]:
                raise BadPatternError(f"a range that is none, {low}-{high}")
            members.append(f"{low}-{high}")
        else:
            members.append(low)
    return f"[{'^' if negated else ''}{''.join(members)}]", at + 1


def _member(go: str, at: int) -> tuple[str, int]:
    char = go[at : at + 1]
    if not char:
        raise BadPatternError("a set of characters that is not closed")
    if char == "\\":
        return _escape(go[at + 1], in_set=True), at + 2
    return re.escape(char), at + 1
