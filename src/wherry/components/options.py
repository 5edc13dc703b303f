"""A component's options, read from its signature; the docstring is read for help alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wherry.components.values import ValueType, value_type
from wherry.errors import ComponentError
from wherry.specs.app import AppDef


class Option(NamedTuple):
    """One parameter that is set by an option.

    Args:
        name: the parameter's name.
        type: how its text is read.
        default: its value when it is not given; ``inspect.Parameter.empty`` when it must be.
    """

    name: str
    type: ValueType
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def flag(self) -> str:
        """How it is written: ``-j``, ``--num-replicas``."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name.replace('_', '-')}"

    @property
    def negation(self) -> str:
        """How a flag is turned off."""
        return f"--no-{self.name.replace('_', '-')}"


class Signature(NamedTuple):
    """How a component is called.

    Args:
        options: by parameter name, in the function's order.
        by_position: the options that come before ``*args``, so have no name in the call.
        rest: the name of ``*args``; empty when there is none.
        rest_type: how each of ``*args`` is read.
    """

    options: Mapping[str, Option]
    by_position: tuple[str, ...]
    rest: str
    rest_type: ValueType


def signature_of(fn: Callable[..., object], where: str) -> Signature:
    """Read a component's signature.

    Args:
        fn: the function.
        where: the component's name, for messages.

    Returns:
        Its options.

    Raises:
        ComponentError: it is not a function that returns an `AppDef`, or a parameter has no type
            or one that words cannot express.
    """
    if not inspect.isfunction(inspect.unwrap(fn)):
        raise ComponentError(f"{where} is not a function but {_a(type(fn).__name__)}")
    signature = inspect.signature(fn)
    _check_returns(fn, signature.return_annotation, where)
    options: dict[str, Option] = {}
    by_position: list[str] = []
    rest, rest_type = "", value_type(str)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            raise ComponentError(
                f"{where}: **{name} cannot be options, since their names are not known; "
                f"take {name}: dict[str, str] instead"
            )
        if parameter.kind is parameter.VAR_POSITIONAL:
            if parameter.annotation is not parameter.empty:
                rest_type = _type_of(fn, parameter, where)
            rest = name
            continue
        options[name] = Option(name, _type_of(fn, parameter, where), parameter.default)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            by_position.append(name)
    return Signature(options, tuple(by_position), rest, rest_type)


def returns_app(fn: Callable[..., object]) -> bool:
    """Tell whether a function says that it returns an `AppDef`."""
    try:
        _check_returns(fn, inspect.signature(fn).return_annotation, "")
    except ComponentError:
        return False
    return True


def _type_of(fn: Callable[..., object], parameter: inspect.Parameter, where: str) -> ValueType:
    name = parameter.name
    if parameter.annotation is parameter.empty:
        raise ComponentError(f"{where}: parameter {name!r} has no type; write {name}: str, say")
    try:
        return value_type(_evaluated(fn, parameter.annotation))
    except TypeError as error:
        raise ComponentError(f"{where}: parameter {name!r}: {error}") from None
    except (NameError, AttributeError, SyntaxError) as error:
        raise ComponentError(
            f"{where}: the type of parameter {name!r}, {parameter.annotation!r}, "
            f"cannot be read: {error}; import it outside of `if TYPE_CHECKING:`"
        ) from None


def _check_returns(fn: Callable[..., object], annotation: Any, where: str) -> None:
    if annotation is inspect.Signature.empty:
        raise ComponentError(
            f"{where} does not say what it returns; a component is written "
            f"`def {fn.__name__}(…) -> wherry.AppDef:`"
        )
    try:
        returned = _evaluated(fn, annotation)
    except (NameError, AttributeError, SyntaxError, TypeError):
        # AppDef may be imported for type checkers only; what is returned is checked anyway.
        if str(annotation).rpartition(".")[2] == "AppDef":
            return
        returned = annotation
    if not (isinstance(returned, type) and issubclass(returned, AppDef)):
        raise ComponentError(
            f"{where} returns {_shown(returned)}, not wherry.AppDef; a component returns an AppDef"
        )


def _evaluated(fn: Callable[..., object], annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    scope = getattr(inspect.unwrap(fn), "__globals__", {})
    return eval(annotation, scope)  # noqa: S307 — the component's own code, as Python would run it


def _shown(annotation: Any) -> str:
    if isinstance(annotation, type):
        return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")
    return str(annotation)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
