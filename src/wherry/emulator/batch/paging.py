"""Pages of a list, with tokens that stay good while the list changes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.refusal import refuse

T = TypeVar("T")


def page(
    items: Iterable[T], key: Callable[[T], str], request: Document, most: int = limits.PAGE
) -> tuple[list[T], str | None]:
    """Return the page of a list that a request asks for.

    A token names the last item that was shown. When that has gone meanwhile, the page begins with
    the first item that the order puts after it.

    Args:
        items: the list, in ascending order of `key`.
        key: what tells an item from all others.
        request: with ``maxResults`` and ``nextToken``, or without.
        most: the largest page, which is also the default.

    Returns:
        The items, and the token of the next page if there is one.

    Raises:
        ClientError: the page's size or the token is not valid.
    """
    size = request.get("maxResults", most)
    refuse(not 1 <= size <= most, f"maxResults must be between 1 and {most}.")
    after = _read(request["nextToken"]) if request.get("nextToken") else None
    shown: list[T] = []
    for item in items:
        if after is not None and key(item) <= after:
            continue
        if len(shown) == size:
            return shown, _token(key(shown[-1]))
        shown.append(item)
    return shown, None


def answer(member: str, shown: list[Document], token: str | None) -> Document:
    """Return a page as the API shows it."""
    return {member: shown, **({"nextToken": token} if token else {})}


def _token(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _read(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise ClientError(f"Invalid nextToken: {token}") from None
