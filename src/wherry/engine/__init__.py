"""One attempt of one command on this machine: start it, signal it, read its output, reap it.

These modules run inside the local supervisor, which has to be up within milliseconds: they import
nothing that is slow to load (no ``typing``, ``re``, ``enum``, ``json``, ``dataclasses``).
"""

from __future__ import annotations
