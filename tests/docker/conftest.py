"""The bench on which apps are run in containers."""

from __future__ import annotations

from support.docker_bench import bench

__all__ = ["bench"]
