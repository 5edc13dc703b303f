"""Events of Batch, on moto's default event bus, which takes them to the targets of its rules."""

from __future__ import annotations

import json
import logging

from wherry.emulator.batch.ports import Document
from wherry.emulator.cloud import moto


def emit(
    region: str, detail_type: str, resources: list[str], detail: Document, seconds: float
) -> None:
    """Send one event; costs nothing where the bus has no rules.

    Args:
        region: whose bus.
        detail_type: such as ``Batch Job State Change``.
        resources: ARNs.
        detail: the event's own part.
        seconds: the emulated time of it.
    """
    if not moto.loaded("events"):
        return
    bus = moto.backend("events", region)
    if not bus.describe_event_bus("default").rules:
        return
    event = {
        "Source": "aws.batch",
        "DetailType": detail_type,
        "Resources": resources,
        "Detail": json.dumps(detail, default=str),
        "Time": int(seconds),
    }
    try:
        bus.put_events([event])
    except Exception:
        # A target that moto cannot serve, or that is gone, is the rule's misfortune, not the job's.
        logging.getLogger("wherry.emulator").exception("a rule of EventBridge failed in %s", region)
