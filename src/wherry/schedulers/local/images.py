"""Image providers: what an image means where there are no containers.

A provider turns a role's image into a folder, and the role into a command to run there.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from wherry.errors import InvalidSpecError
from wherry.specs.app import Role
from wherry.specs.options import CfgVal


@dataclass
class ReplicaParam:
    """The command of one role.

    Args:
        args: the program and its arguments.
        env: environment variables, on top of the client's own.
        stdout, stderr, combined: kept for providers written for TorchX; logs have fixed places.
        cwd: the working directory.
    """

    args: list[str]
    env: dict[str, str] = field(default_factory=dict)
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    cwd: str | None = None


class ImageProvider(abc.ABC):
    """Makes an image available on this machine.

    Args:
        cfg: the scheduler's run options.
    """

    def __init__(self, cfg: Mapping[str, CfgVal]) -> None:
        self.cfg = cfg

    @abc.abstractmethod
    def fetch(self, image: str) -> str:
        """Return the folder that holds the image's files.

        Raises:
            InvalidSpecError: there is no such image.
        """

    def fetch_role(self, role: Role) -> str:
        """Fetch a role's image; for providers that need more of the role than its image."""
        return self.fetch(role.image)

    def get_cwd(self, image: str) -> str | None:  # noqa: ARG002 — for providers that need it
        """Return the working directory; the client's own when ``None``."""
        return None

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the program to run."""
        return os.path.join(img_root, role.entrypoint)

    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        """Return the role's command.

        Args:
            img_root: what `fetch_role` returned.
            role: the role.
            stdout, stderr, combined: passed through.
        """
        return ReplicaParam(
            [self.get_entrypoint(img_root, role), *role.args],
            dict(role.env),
            stdout,
            stderr,
            combined,
            self.get_cwd(role.image),
        )


class CWDImageProvider(ImageProvider):
    """Runs in the current working directory, whatever the image's name is."""

    def fetch(self, image: str) -> str:  # noqa: ARG002 — that is the point
        """Return the current working directory."""
        return os.getcwd()

    def get_cwd(self, image: str) -> str | None:  # noqa: ARG002
        """Return the current working directory."""
        return os.getcwd()

    def get_entrypoint(self, img_root: str, role: Role) -> str:  # noqa: ARG002
        """Return the entrypoint as it is: a path, or a name that is looked up in ``PATH``."""
        return role.entrypoint


class LocalDirectoryImageProvider(ImageProvider):
    """Takes the image's name as the path of a folder on this machine, and runs there."""

    def fetch(self, image: str) -> str:
        """Return the folder.

        Raises:
            InvalidSpecError: it is not an absolute path, or not an existing folder.
        """
        if not os.path.isabs(image):
            raise InvalidSpecError(
                f"local_dir takes an image that is the absolute path of a folder, not {image!r}; "
                f"write {os.path.abspath(image)!r}"
            )
        if not os.path.isdir(image):
            what = "is not a folder" if os.path.exists(image) else "does not exist"
            raise InvalidSpecError(f"the image {image!r} {what}; local_dir runs in that folder")
        return image

    def get_cwd(self, image: str) -> str | None:
        """Return the folder."""
        return image

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the program inside the folder if there is one, else the entrypoint as it is."""
        inside = os.path.join(img_root, role.entrypoint)
        return inside if os.path.isfile(inside) else role.entrypoint
