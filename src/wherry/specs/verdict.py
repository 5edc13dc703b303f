"""Whether a failed attempt may be retried, by rules.

Apart from `RetryPolicy` because the local supervisor decides by it too, and may not pay for
anything that is slow to import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Rule = tuple[bool, str | None, str | None, str | None]


def may_retry(
    rules: Iterable[Rule], exit_code: int | None, reason: str, status_reason: str = ""
) -> bool:
    """Return what the first matching rule says; a failure that no rule matches is retried.

    Args:
        rules: whether to retry, then the patterns for the exit code, the reason and the status
            reason; ``None`` matches anything, and a ``*`` at the end any ending.
        exit_code: the program's; ``None`` when a signal ended it.
        reason: why it ended, in words.
        status_reason: the provider's words.
    """
    code = "" if exit_code is None else str(exit_code)
    for retry, *patterns in rules:
        facts = zip(patterns, (code, reason, status_reason), strict=True)
        if all(pattern is None or _glob(pattern, text) for pattern, text in facts):
            return retry
    return True


def _glob(pattern: str, text: str) -> bool:
    if pattern.endswith("*"):
        return text.lower().startswith(pattern[:-1].lower())
    return text.lower() == pattern.lower()
