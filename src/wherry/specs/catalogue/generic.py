"""Sizes that name no provider's machine: for examples, and for a first try.

The numbers are TorchX's, so that its components ask for the same here.
"""

from __future__ import annotations

_GIB = 1024

SIZES: dict[str, tuple[int, int, int]] = {
    # name: (virtual CPUs, GPUs, MiB)
    "cpu.nano": (1, 0, 512),
    "cpu.micro": (1, 0, 1 * _GIB),
    "cpu.small": (1, 0, 2 * _GIB),
    "cpu.medium": (2, 0, 4 * _GIB),
    "cpu.large": (2, 0, 8 * _GIB),
    "cpu.xlarge": (8, 0, 32 * _GIB),
    "gpu.small": (8, 1, 32 * _GIB),
    "gpu.medium": (16, 2, 64 * _GIB),
    "gpu.large": (32, 4, 128 * _GIB),
    "gpu.xlarge": (64, 8, 256 * _GIB),
}
