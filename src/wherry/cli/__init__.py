"""The command line: a face over the Runner, which holds no facts of its own."""

from __future__ import annotations
