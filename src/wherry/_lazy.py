"""Public names that load their module when first used (PEP 562)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def load(namespace: dict[str, Any], homes: Mapping[str, str], name: str) -> Any:
    """Load one public name of a package and keep it there.

    Args:
        namespace: the package's ``globals()``.
        homes: public name → the module that defines it.
        name: the name that was asked for.

    Returns:
        The object; for a module's own name, the module.

    Raises:
        AttributeError: the package has no such public name.
    """
    package = namespace["__name__"]
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(home)
    value = module if home == f"{package}.{name}" else getattr(module, name)
    namespace[name] = value
    return value
