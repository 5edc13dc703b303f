"""Job definitions that are shared by all who agree: found by name, registered only when missing.

A definition's name ends in a hash of its content, so that the name alone says what is in it, as
far as nobody makes another revision by hand. Therefore the content is looked at too. AWS returns
more than it was given (empty lists, defaults, and whatever a later version of the service adds);
what is known of that is put aside. Where something unknown remains, the definition is taken if all
of ours is in it and it has our tag with the whole hash; otherwise a new default of AWS would make
every run register another revision.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wherry.aws.calls import Calls
from wherry.aws.documents import Document
from wherry.errors import LostReply

DEFINITION_TAG = "wherry/definition"
"""Marks a definition as ours: its value is the hash of the content, and when it was registered.

One tag, as a job's own and those of its definition must not be more than 50 together.
"""

_HASH_LENGTH = 16
_TRIES = 6
_PAUSE = 0.5

# What is about a definition rather than in it.
_ABOUT = frozenset(
    (
        "jobDefinitionName",
        "jobDefinitionArn",
        "revision",
        "status",
        "tags",
        "containerOrchestrationType",
    )
)
# Members that AWS puts in when they are not given; source: hashicorp/terraform-provider-aws,
# internal/service/batch/job_definition.go, and the API model.
_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "fargatePlatformConfiguration": ({"platformVersion": "LATEST"},),
    "networkConfiguration": ({"assignPublicIp": "DISABLED"},),
    "runtimePlatform": (
        {"operatingSystemFamily": "LINUX"},
        {"cpuArchitecture": "X86_64", "operatingSystemFamily": "LINUX"},
    ),
    "platformCapabilities": (["EC2"],),
    "essential": (True,),
}
_NUMBERS = frozenset(("VCPU", "MEMORY", "GPU"))


def content_of(document: Document) -> Document:
    """Return what is in a definition, without its name and tags."""
    return {name: value for name, value in document.items() if name not in _ABOUT}


def canonical(document: Document) -> str:
    """Return a definition's content as the one text that all equal contents have."""
    return json.dumps(_normal(content_of(document)), sort_keys=True, separators=(",", ":"))


def full_hash(document: Document) -> str:
    """Return the SHA-256 of a definition's content, in 64 hexadecimal digits."""
    import hashlib

    return hashlib.sha256(canonical(document).encode()).hexdigest()


def content_hash(document: Document) -> str:
    """Return the 16 hexadecimal digits that a definition's name may end with."""
    return full_hash(document)[:_HASH_LENGTH]


def agree(ours: Document, theirs: Document) -> bool:
    """Tell whether a definition that AWS has is the one that we mean.

    Args:
        ours: parameters of RegisterJobDefinition.
        theirs: from DescribeJobDefinitions.
    """
    wanted, there = _normal(content_of(ours)), _normal(content_of(theirs))
    if wanted == there:
        return True
    return tagged_hash(theirs) == full_hash(ours) and _within(wanted, there)


def tagged_hash(theirs: Document) -> str:
    """Return the hash in our tag of a definition; empty without one."""
    return str((theirs.get("tags") or {}).get(DEFINITION_TAG, "")).partition(" ")[0]


def registered_at(theirs: Document) -> float | None:
    """Return when a definition was registered by us, in seconds since the epoch."""
    import calendar

    text = str((theirs.get("tags") or {}).get(DEFINITION_TAG, "")).partition(" ")[2]
    try:
        return float(calendar.timegm(time.strptime(text, _TIME)))
    except ValueError:
        return None


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def ensure(
    calls: Calls,
    name: str,
    document: Document,
    tags: Mapping[str, str] | None = None,
    *,
    now: Callable[[], float] = time.time,
) -> str:
    """See to it that a definition is there; registered only when nobody else has.

    Two processes at the same time may both register it; both then use the lower revision.

    Args:
        calls: asks AWS Batch.
        name: its name.
        document: the parameters of RegisterJobDefinition; a name and tags in it are not looked at.
        tags: its tags, besides ours.
        now: seconds since the epoch, for our tag.

    Returns:
        The ARN, with the revision.

    Raises:
        AwsError: AWS refused, or failed again and again.
        UsageError: AWS would refuse it.
    """
    content = content_of(document)
    stamp = time.strftime(_TIME, time.gmtime(now()))
    marked = {**(tags or {}), DEFINITION_TAG: f"{full_hash(content)} {stamp}"}
    for attempt in range(1, _TRIES + 1):
        present = _agreeing(calls, name, content)
        if present:
            return str(present[0]["jobDefinitionArn"])
        try:
            made = calls.once(
                "RegisterJobDefinition", **{**content, "jobDefinitionName": name, "tags": marked}
            )
        except LostReply:
            if attempt == _TRIES:
                raise
            calls.sleep(_PAUSE)  # then it may be listed
            continue
        return _lowest(calls, name, content, made)
    raise AssertionError("the last try either returns or raises")


def _lowest(calls: Calls, name: str, content: Document, made: Document) -> str:
    """Return the lowest revision: ours, or that of somebody who was a little quicker."""
    if made.get("revision") != 1:
        present = _agreeing(calls, name, content)
        if present:
            return str(present[0]["jobDefinitionArn"])
    return str(made["jobDefinitionArn"])


def _agreeing(calls: Calls, name: str, content: Document) -> list[Document]:
    """Return the active revisions that we mean, the lowest first."""
    known = calls.pages(
        "DescribeJobDefinitions", "jobDefinitions", jobDefinitionName=name, status="ACTIVE"
    )
    # An emulator may take no notice of the status.
    found = [
        each for each in known if each.get("status", "ACTIVE") == "ACTIVE" and agree(content, each)
    ]
    return sorted(found, key=lambda each: int(each.get("revision", 0)))


class Definitions:
    """What `ensure` has found, so that a process asks once for each definition.

    All methods may be called from any thread.

    Args:
        calls: asks AWS Batch.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._asking: dict[tuple[str, str], threading.Lock] = {}
        self._arns: dict[tuple[str, str], str] = {}

    def ensure(self, name: str, document: Document, tags: Mapping[str, str] | None = None) -> str:
        """Return the ARN of a definition; as the function of the same name."""
        key = (name, full_hash(document))
        with self._lock:
            asking = self._asking.setdefault(key, threading.Lock())
        with asking:  # whoever wants the same one at the same time waits for it
            known = self._arns.get(key)
            if known is None:
                known = ensure(self._calls, name, document, tags)
                with self._lock:
                    self._arns[key] = known
            return known

    def forget(self, arn: str) -> None:
        """Ask again next time: AWS says that there is no such definition any more."""
        with self._lock:
            self._arns = {key: known for key, known in self._arns.items() if known != arn}


# -- what is the same -----------------------------------------------------------------------------


def _normal(value: Any, name: str = "") -> Any:
    """Return a value without what AWS adds, and in one order where order means nothing."""
    if isinstance(value, Mapping):
        return _normal_members(value)
    if isinstance(value, (list, tuple)):
        items = [_normal(each) for each in value]
        if name == "environment":  # AWS drops variables that are empty
            items = [each for each in items if not isinstance(each, dict) or "value" in each]
        return sorted(items, key=_text) if items and isinstance(items[0], dict) else items
    return value


def _normal_members(members: Mapping[str, Any]) -> Document:
    found = {name: _normal(each, name) for name, each in members.items()}
    kept = {
        name: each
        for name, each in found.items()
        if not _is_nothing(each, name) and each not in _DEFAULTS.get(name, ())
    }
    if kept.get("type") in _NUMBERS and "value" in kept:
        kept["value"] = _number(str(kept["value"]))
    if "action" in kept:
        kept["action"] = str(kept["action"]).upper()
    return kept


def _is_nothing(value: object, name: str) -> bool:
    return value is None or value in ("", [], {}) or (value is False and name != "essential")


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _within(part: Any, whole: Any) -> bool:
    """Tell whether all of one document is in another."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and _within(each, whole[name]) for name, each in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and _all_within(part, whole)
    return bool(part == whole)


def _all_within(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Tell whether two lists of the same length have the same, in any order of documents."""
    if len(part) != len(whole):
        return False
    if not part or not isinstance(part[0], dict):
        return list(part) == list(whole)
    left = list(whole)
    for each in part:
        match = next((k for k, other in enumerate(left) if _within(each, other)), None)
        if match is None:
            return False
        del left[match]
    return True
