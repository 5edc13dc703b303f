"""Call a component with the words that a user wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wherry.components.options import signature_of
from wherry.components.words import read_call
from wherry.errors import ComponentError
from wherry.specs.app import AppDef

if TYPE_CHECKING:
    from wherry.components.component import Component
    from wherry.components.words import Call


def build(
    component: Component, argv: Sequence[str], *, defaults: Mapping[str, str] | None = None
) -> AppDef:
    """Make the app that a component gives for these words.

    Args:
        component: what to call.
        argv: its options, then the program's own arguments.
        defaults: text by option name, for options that ``argv`` does not give.

    Returns:
        The app.

    Raises:
        ComponentError: words that the component does not take, a `ValueError` of the component's
            own, or something returned that is not an app.
    """
    signature = signature_of(component.fn, component.name)
    call = read_call(signature, argv, defaults or {}, component.name)
    try:
        app = _called(component, call)
    except ValueError as error:
        raise ComponentError(f"{component.name}: {error}") from error
    if not isinstance(app, AppDef):
        raise ComponentError(f"{component.name} returned {app!r}; a component returns an AppDef")
    return app


def _called(component: Component, call: Call) -> object:
    if not component.folder:
        return component.fn(*call.args, **call.kwargs)
    from wherry.components.files import importable

    with importable(component.folder):
        return component.fn(*call.args, **call.kwargs)
