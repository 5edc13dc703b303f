"""Requests as they come over HTTP, read against the API's own model.

Routes and shapes come from the service model that botocore carries, so there is no list of
operations here to go stale. Each shape is compiled once into a function that checks a value and
returns it without the members that the model does not know, as AWS ignores those. Nothing here
knows what an operation does.
"""

from __future__ import annotations

import functools
import json
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wherry.emulator.batch.errors import ClientError, RefusedError
from wherry.emulator.batch.ports import Document

if TYPE_CHECKING:
    from botocore.model import ServiceModel, Shape

Check = Callable[[Any], Any]
Query = Mapping[str, Sequence[str]]


class SerializationError(ClientError):
    """The body cannot be read as what the operation takes."""

    code = "SerializationException"


@functools.cache
def model() -> ServiceModel:
    """Return the service model of AWS Batch."""
    import botocore.loaders
    import botocore.model

    loader = botocore.loaders.Loader()
    return botocore.model.ServiceModel(loader.load_service_model("batch", "service-2"), "batch")


def operation_for(method: str, path: str) -> tuple[str, Document] | None:
    """Find the operation that a request is for.

    Args:
        method: the HTTP method.
        path: the path of the URL, without the query, percent-encoded or not.

    Returns:
        The operation and what the path says about it; nothing when there is no such operation.
    """
    fixed, open_ended = _routes()
    exact = fixed.get((method.upper(), path.rstrip("/")))
    if exact is not None:
        return exact, {}
    for verb, prefix, operation, member in open_ended:
        if method.upper() == verb and path.startswith(prefix) and len(path) > len(prefix):
            return operation, {member: urllib.parse.unquote(path[len(prefix) :])}
    return None


def checked(operation: str, body: bytes, path_params: Mapping[str, str], query: Query) -> Document:
    """Read a request and check it against the model.

    Args:
        operation: its name, such as ``SubmitJob``.
        body: the body; empty for no members.
        path_params: what `operation_for` found in the path.
        query: the values of each name of the query string.

    Returns:
        The request's members, without unknown ones and those that are null.

    Raises:
        SerializationError: the body is no JSON object, or a member has another type.
        ClientError: a member is missing, or has a value that the model does not have.
    """
    members: Document = {**_parsed(body), **path_params, **_from_query(operation, query)}
    request: Document = _checker(operation)(members)
    return request


def _parsed(body: bytes) -> Document:
    if not body.strip():
        return {}
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"Unable to parse the request body as JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise SerializationError("Start of structure or map not found where expected.")
    return parsed


def _from_query(operation: str, query: Query) -> Document:
    if not query:
        return {}
    found: Document = {}
    for member, (name, is_list) in _query_members(operation).items():
        if name in query:
            found[member] = list(query[name]) if is_list else query[name][-1]
    return found


# -- routes ---------------------------------------------------------------------------------------


@functools.cache
def _routes() -> tuple[dict[tuple[str, str], str], tuple[tuple[str, str, str, str], ...]]:
    fixed: dict[tuple[str, str], str] = {}
    open_ended = []
    for operation in model().operation_names:
        http = model().operation_model(operation).http
        prefix, brace, member = http["requestUri"].partition("{")
        if brace:
            open_ended.append((http["method"], prefix, operation, member.rstrip("}+")))
        else:
            fixed[http["method"], prefix] = operation
    return fixed, tuple(open_ended)


@functools.cache
def _query_members(operation: str) -> dict[str, tuple[str, bool]]:
    shape = model().operation_model(operation).input_shape
    return {
        name: (str(member.serialization.get("name", name)), member.type_name == "list")
        for name, member in (shape.members.items() if shape else ())
        if member.serialization.get("location") == "querystring"
    }


# -- shapes, compiled -----------------------------------------------------------------------------


@functools.cache
def _checker(operation: str) -> Check:
    shape = model().operation_model(operation).input_shape
    return _anything if shape is None else _compiled(shape, operation, {})


def _anything(value: Any) -> Any:
    return value


def _compiled(shape: Shape, member: str, known: dict[tuple[str, str], Check]) -> Check:
    """Make the check of a shape, once for each name under which it appears.

    Recursive shapes find themselves in `known` before they are finished.
    """
    key = (shape.name, member)
    if key not in known:
        known[key] = lambda value: known[key](value)
        known[key] = _MAKERS.get(shape.type_name, _make_scalar)(shape, member, known)
    return known[key]


def _make_structure(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    checks = {name: _compiled(inner, name, known) for name, inner in shape.members.items()}
    required = tuple(shape.required_members)

    def check(value: Any) -> Document:
        if not isinstance(value, dict):
            raise SerializationError(_mismatch(value, f"a structure ({member})"))
        read = {
            name: checks[name](inner)
            for name, inner in value.items()
            if inner is not None and name in checks
        }
        for name in required:
            if name not in read:
                raise RefusedError(f"{name} is required in {member}.")
        return read

    return check


def _make_list(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    check_item = _compiled(shape.member, member, known)

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise SerializationError(_mismatch(value, f"a list ({member})"))
        return [check_item(item) for item in value]

    return check


def _make_map(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    check_value = _compiled(shape.value, member, known)

    def check(value: Any) -> Document:
        if not isinstance(value, dict):
            raise SerializationError(_mismatch(value, f"a map ({member})"))
        return {key: check_value(inner) for key, inner in value.items() if inner is not None}

    return check


def _make_string(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    del known
    if shape.name in _ANY_CASE:
        return _any_case(tuple(shape.enum), member)
    allowed = frozenset(shape.enum)
    words = _ENUM_WORDS.get(shape.name, _OTHER_ENUM_WORDS)
    choices = ", ".join(shape.enum)

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise SerializationError(_mismatch(value, f"a String ({member})"))
        if allowed and value not in allowed:
            text = words.format(member=member, value=value, choices=choices)
            raise RefusedError(text)
        return value

    return check


def _any_case(allowed: tuple[str, ...], member: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise SerializationError(_mismatch(value, f"a String ({member})"))
        if value.upper() not in allowed:
            choices = ", ".join(allowed)
            raise RefusedError(
                _OTHER_ENUM_WORDS.format(member=member, value=value, choices=choices)
            )
        return value.upper()

    return check


def _make_integer(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    del known
    kind, bits = ("a Long", 63) if shape.type_name == "long" else ("an Integer", 31)

    def check(value: Any) -> int:
        whole = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not whole or value != value or value != int_or_none(value):
            raise SerializationError(_mismatch(value, f"{kind} ({member})"))
        if not -(1 << bits) <= value < 1 << bits:
            raise SerializationError(f"{value} is too large for {kind} ({member})")
        return int(value)

    return check


def int_or_none(value: float) -> int | None:
    """Return a number without its fraction, or nothing for what has no such number."""
    try:
        return int(value)
    except (OverflowError, ValueError):
        return None


def _make_float(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    del shape, known

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SerializationError(_mismatch(value, f"a Float ({member})"))
        return value

    return check


def _make_boolean(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    del shape, known

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise SerializationError(_mismatch(value, f"a Boolean ({member})"))
        return value

    return check


def _make_scalar(shape: Any, member: str, known: dict[tuple[str, str], Check]) -> Check:
    """Make the check of a type that no request of Batch has so far."""
    del shape, member, known
    return _anything


_MAKERS: dict[str, Callable[[Any, str, dict[tuple[str, str], Check]], Check]] = {
    "structure": _make_structure,
    "list": _make_list,
    "map": _make_map,
    "string": _make_string,
    "integer": _make_integer,
    "long": _make_integer,
    "float": _make_float,
    "double": _make_float,
    "boolean": _make_boolean,
}

_ANY_CASE = frozenset(("RetryAction",))
"""Enums of which AWS takes any case; model: EvaluateOnExit.action."""

_OTHER_ENUM_WORDS = "{member} can only be one of [{choices}], not {value}."
_ENUM_WORDS = {
    "PlatformCapability": "Capability {value} is not valid. Valid capabilities: [{choices}]",
    "QuotaShareIdleResourceAssignmentStrategy": (
        "Idle resource assignment strategy must be one of [{choices}]."
    ),
}
"""How the service words it, where that is known (badmintoncryer/cdk-preflight)."""

_TOKENS: dict[type, str] = {
    str: "STRING_VALUE",
    int: "NUMBER_VALUE",
    float: "DECIMAL_VALUE",
    type(None): "NULL_VALUE",
    list: "START_ARRAY",
    dict: "START_OBJECT",
}


def _mismatch(value: Any, wanted: str) -> str:
    """Word a type error as the JSON reader behind AWS's services does."""
    if isinstance(value, bool):
        return f"{str(value).upper()}_VALUE can not be converted to {wanted}"
    return f"{_TOKENS.get(type(value), 'VALUE')} can not be converted to {wanted}"
