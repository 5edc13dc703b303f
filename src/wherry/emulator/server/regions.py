"""What a region is called."""

from __future__ import annotations

import re

from wherry.emulator.batch.errors import ClientError

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")


def known_region(region: str) -> str:
    """Return a region's name if it looks like one.

    Raises:
        ClientError: it does not.
    """
    if not _REGION.fullmatch(region):
        raise ClientError(f"there is no region {region!r}; expected one such as us-east-1")
    return region
