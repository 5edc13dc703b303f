"""Words in args, env and metadata that are replaced when the app is submitted.

``${app_id}`` and its kin are replaced; ``$$`` gives one dollar; any other dollar stays as it is,
so a shell still sees its own variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wherry.specs.substitution import substitute

if TYPE_CHECKING:
    from wherry.specs.app import Role


class macros:  # noqa: N801 — the name that components are written with
    """The macros, as the text that a component puts into an argument.

    ``img_root``: where the image's files are.
    ``app_id``: the app's id at its scheduler.
    ``replica_id``: the replica's index within its role, from 0.
    ``rank0_env``: the *name* of the environment variable that holds the first replica's address.

    >>> values = macros.Values("/img", "train-1", "3", "WHERRY_RANK0_HOST")
    >>> values.apply("${app_id}/${replica_id}/$$HOME")
    'train-1/3/$HOME'
    """

    img_root = "${img_root}"
    app_id = "${app_id}"
    replica_id = "${replica_id}"
    rank0_env = "${rank0_env}"

    @dataclass(frozen=True)
    class Values:
        """What the macros stand for in one replica.

        With ``replica_id=None`` the values are those of the whole role: ``${replica_id}`` and
        ``$$`` stay for the round that knows the replica.
        """

        img_root: str
        app_id: str
        replica_id: str | None
        rank0_env: str

        def apply(self, text: str) -> str:
            """Replace the macros in one text; an unknown ``${name}`` stays as it is."""
            return substitute(text, self.by_name(), final=self.replica_id is not None)

        def by_name(self) -> dict[str, str]:
            """Return the values that are known, by the macro's name."""
            return {name: value for name, value in vars(self).items() if value is not None}

        def apply_deep(self, value: Any) -> Any:
            """Replace the macros in every text of a nested value (metadata)."""
            if isinstance(value, str):
                return self.apply(value)
            if isinstance(value, Mapping):
                return {key: self.apply_deep(item) for key, item in value.items()}
            if isinstance(value, (list, tuple)):
                return [self.apply_deep(item) for item in value]
            return value

        def apply_to_role(self, role: Role) -> Role:
            """Return the role with the macros replaced in its args, env and metadata."""
            return replace(
                role,
                args=tuple(self.apply(arg) for arg in role.args),
                env={name: self.apply(value) for name, value in role.env.items()},
                metadata=self.apply_deep(role.metadata),
            )
