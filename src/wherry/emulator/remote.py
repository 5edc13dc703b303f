"""Talks to an emulator in another process, through its admin path ``/_wherry/``.

Only the standard library is needed: the command line answers ``status`` and ``env`` without
loading a client of AWS.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from wherry.errors import StateError, UsageError

Document = dict[str, Any]

_PATIENCE = 60.0


class Remote:
    """An emulator at an address.

    Args:
        url: where it answers.
        region: whose jobs the actions mean; empty for the emulator's own.
    """

    def __init__(self, url: str, region: str = "") -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"expected an address such as http://127.0.0.1:4566, not {url!r}")
        self.url = url.rstrip("/")
        self._region = region
        # A proxy has no business between two processes of one machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def status(self) -> Document:
        """Return engine, queues, instances, clock and counts of jobs."""
        return self._call("GET", "status")

    def faults(self) -> list[Document]:
        """Return the faults that are on, each with ``number`` and ``struck``."""
        return list(self._call("GET", "faults")["faults"])

    def add_fault(self, fault: Mapping[str, object]) -> int:
        """Turn a fault on; returns its number."""
        return int(self._call("POST", "faults", fault)["number"])

    def clear_faults(self, number: int | None = None) -> None:
        """Turn off one fault, or all."""
        self._call("DELETE", "faults" if number is None else f"faults/{number}")

    def act(self, action: str, **values: object) -> Document:
        """Let something happen once: ``reclaim``, ``lose-agent``, ``expire`` or ``reset``."""
        given = {name: value for name, value in values.items() if value is not None}
        return self._call("POST", f"actions/{action}", given)

    def clock(self) -> Document:
        """Return the emulated time and its pace."""
        return self._call("GET", "clock")

    def set_clock(self, scale: float | None = None, advance: float | None = None) -> Document:
        """Change the pace, or jump ahead so many emulated seconds, or both."""
        given = {"scale": scale, "advance": advance}
        return self._call("POST", "clock", {k: v for k, v in given.items() if v is not None})

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Document:
        request = urllib.request.Request(  # noqa: S310 — http and https only, see the constructor
            f"{self.url}/_wherry/{path}{f'?region={self._region}' if self._region else ''}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return self._read(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read()) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise StateError(f"the emulator at {self.url} does not answer: {reason}") from None

    def _read(self, text: bytes) -> Document:
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StateError(f"what answers at {self.url} is not Wherry's emulator")
        return found

    def _refusal(self, status: int, text: bytes) -> StateError | UsageError:
        try:
            message = json.loads(text)["message"]
        except (ValueError, KeyError, TypeError):
            return StateError(f"what answers at {self.url} is not Wherry's emulator ({status})")
        return (UsageError if status < 500 else StateError)(str(message))
