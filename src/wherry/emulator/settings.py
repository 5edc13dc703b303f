"""What an emulator can be told when it starts."""

from __future__ import annotations

from dataclasses import dataclass

ACCOUNT = "123456789012"
"""The only account there is; moto's default."""

DEFAULT_REGION = "us-east-1"
DEFAULT_PORT = 4566


@dataclass(frozen=True)
class Settings:
    """How an emulator is to be.

    Attributes:
        port: where it listens; 0 for any that is free.
        engine: ``auto`` takes Docker when an Engine answers, and processes otherwise.
        vcpus, memory_mib: what the machine gives to jobs at once. ``None``: 16 for each core and no
            bound on memory, and a job that needs more runs when nothing else does. A number given
            here is a hard bound: what does not fit stays RUNNABLE.
        gpus: how many GPUs the machine gives to jobs.
        state: the folder where Batch's state is kept for the next start; ``None`` keeps it in
            memory.
        s3: address of a real S3 server that gets all requests to S3; ``None`` is moto's.
        scale: emulated seconds for each real second.
        region: the region that requests without one are for.
        bootstrap: whether to make the queue ``main`` and what it needs at the start.
    """

    port: int = DEFAULT_PORT
    engine: str = "auto"
    vcpus: float | None = None
    memory_mib: int | None = None
    gpus: int = 0
    state: str | None = None
    s3: str | None = None
    scale: float = 1.0
    region: str = DEFAULT_REGION
    bootstrap: bool = True
