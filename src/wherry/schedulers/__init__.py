"""Where to run: each scheduler turns an app into a request, and a request into a running thing."""

from __future__ import annotations
