"""AWS sessions of one scheduler: one for each identity and region that its apps use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from wherry.aws.documents import Client
from wherry.aws.session import Session, session_of
from wherry.errors import InvalidOptionError, UsageError
from wherry.specs.options import CfgVal

Defaults = Callable[[], Mapping[str, CfgVal]]
"""Gives the configured options, for questions that come without any."""


class Sessions:
    """Sessions by profile and region, made when they are first needed.

    Args:
        clients: ready clients by service; ``None`` for those that are to be made. With a ready
            client for Batch there is one session only.
    """

    def __init__(self, clients: Mapping[str, Client | None]) -> None:
        self._clients = dict(clients)
        self._lock = threading.Lock()
        self._made: dict[tuple[str | None, str | None, str | None], Session] = {}
        self.defaults: Defaults = dict

    def get(
        self,
        profile: str | None = None,
        region: str | None = None,
        credentials_file: str | None = None,
    ) -> Session:
        """Return the session of a profile, region and file; the same object each time.

        Raises:
            InvalidOptionError: the ready client is for another region.
        """
        if self._clients.get("batch") is not None:
            return self._ready(region)
        with self._lock:
            key = (profile or None, region or None, credentials_file or None)
            if key not in self._made:
                self._made[key] = self._same(*key) or session_of(
                    self._clients, profile=key[0], region=key[1], credentials_file=key[2]
                )
            return self._made[key]

    def of(self, options: Mapping[str, CfgVal]) -> Session:
        """Return the session that run options ask for."""
        names = ("profile", "region", "credentials_file")
        return self.get(*(_text(options.get(name)) for name in names))

    def configured(self, region: str | None = None) -> Session:
        """Return the session that the configuration asks for.

        Args:
            region: instead of the configured one.
        """
        if self._clients.get("batch") is not None:
            return self._ready(region)
        options = dict(self.defaults())
        if region:
            options["region"] = region
        return self.of(options)

    def forget(self) -> None:
        """Let go of all sessions."""
        with self._lock:
            self._made.clear()

    def _same(
        self, profile: str | None, region: str | None, credentials_file: str | None
    ) -> Session | None:
        """Return the session without a named region, if it is for this one; clients cost time."""
        unnamed = self._made.get((profile, None, credentials_file))
        if unnamed is None or region is None:
            return None
        try:
            return unnamed if unnamed.region == region else None
        except UsageError:
            return None  # there is no region but the named one

    def _ready(self, region: str | None) -> Session:
        with self._lock:
            made = self._made.setdefault((None, None, None), session_of(self._clients))
        if region and made.region and region != made.region:
            raise InvalidOptionError(
                f"option 'region' is {region!r}, and the client that the scheduler was given is "
                f"for {made.region}"
            )
        return made


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
