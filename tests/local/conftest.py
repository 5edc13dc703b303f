"""The bench on which local apps are run."""

from __future__ import annotations

from support.local_bench import bench

__all__ = ["bench"]
