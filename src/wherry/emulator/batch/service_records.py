"""Records of what belongs to service jobs, of which the emulator has none: kept and shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.emulator.batch.ports import Document


@dataclass
class QuotaShare:
    """A part of a queue's capacity; `document` is what CreateQuotaShare was given."""

    name: str
    arn: str
    queue_arn: str
    document: Document
    state: str = "ENABLED"
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class ServiceEnvironment:
    """An environment for service jobs; `capacity` is ``capacityLimits``."""

    name: str
    arn: str
    type: str
    capacity: list[Document]
    state: str = "ENABLED"
    tags: dict[str, str] = field(default_factory=dict)
