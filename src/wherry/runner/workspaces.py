"""Which code goes along with which role, and what has to be done so that it is there.

A dry run looks at the folders, says what will be shipped and how, and changes the app so that its
roles find it; what is sent, copied or built comes after, as preparations of the request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wherry.errors import UnknownNameError, UsageError, WorkspaceError, unknown
from wherry.runner.snapshots import kept
from wherry.schedulers.shipping import (
    ARCHIVE,
    FOLDER,
    FOLDER_KEY,
    IMAGE,
    SNAPSHOT,
    Shipment,
    Shipping,
    show_bytes,
)
from wherry.specs.app import AppDef, Role

if TYPE_CHECKING:
    from wherry.runner.config import Setting
    from wherry.schedulers.api import AppDryRunInfo, Scheduler
    from wherry.specs.options import CfgVal
    from wherry.store.api import Store
    from wherry.workspace.tree import Tree

Workspace = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""A folder, or several laid over each other; or those of each role, by its name."""

Preparation = Callable[[], None]

_MODES = {FOLDER: "_folder", IMAGE: "_image", ARCHIVE: "_archive"}


@dataclass(frozen=True)
class Shipped:
    """An app whose code comes along.

    Args:
        app: as the scheduler is given it.
        shown: as people are shown it, and as it is kept.
        shipments: what goes along.
        preparations: what has to be done first.
        notes: what the user should know.
    """

    app: AppDef
    shown: AppDef
    shipments: tuple[Shipment, ...] = ()
    preparations: tuple[Preparation, ...] = ()
    notes: tuple[str, ...] = ()


def dryrun_with(
    scheduler: Scheduler[Any],
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    workspace: Workspace,
    *,
    snapshot: bool,
    limit: Setting[str] | None = None,
) -> AppDryRunInfo[Any]:
    """Make the request for an app whose code goes along; nothing is sent, copied or built.

    Args:
        scheduler: where it will run.
        app: what to run; it is not changed.
        cfg: run options, resolved.
        workspace: folders, as `Runner.run` takes them.
        snapshot: as for `ship`.
        limit: how large a tree may be, as it is configured.
    """
    sources = sources_by_role(app, workspace)
    if not any(sources.values()):
        return scheduler.submit_dryrun(app, cfg)
    shipping = scheduler.shipping(cfg)
    if shipping.mode not in _MODES:
        raise UsageError(f"{scheduler.backend} takes no workspace; run it without one")
    shipped = ship(app, sources, shipping, snapshot=snapshot, limit=limit)
    info = scheduler.submit_dryrun(shipped.app, cfg)
    info.app = shipped.shown
    info.shipments = list(shipped.shipments)
    info.preparations = list(shipped.preparations)
    info.warnings += shipped.notes
    return info


@contextmanager
def prepared(scheduler: Scheduler[Any], info: AppDryRunInfo[Any]) -> Iterator[AppDryRunInfo[Any]]:
    """Send, copy and build what goes along with an app, which is then to be scheduled inside.

    What cannot be right is told before anything is sent.
    """
    ready = scheduler.settled(info)
    with kept():
        for prepare in info.preparations:
            prepare()
        yield ready


def ship(
    app: AppDef,
    sources: Mapping[str, tuple[str, ...]],
    shipping: Shipping,
    *,
    snapshot: bool = False,
    limit: Setting[str] | None = None,
) -> Shipped:
    """Say what is shipped with an app; nothing is sent, copied or built.

    Args:
        app: what to run; it is not changed.
        sources: the folders of each role (see `sources_by_role`).
        shipping: how its scheduler takes them.
        snapshot: whether programs of this machine run in a copy that nobody changes.
        limit: how large a tree may be, as it is configured.

    Raises:
        UsageError: the scheduler cannot take a workspace so.
        WorkspaceError: a folder cannot be shipped.
    """
    if snapshot and shipping.mode != FOLDER:
        raise UsageError(
            "snapshot is for programs that run on this machine in the folder itself; here the "
            "files are sent as they are now anyway"
        )
    making = _Shipping(shipping, snapshot=snapshot, limit=limit)
    roles = [making.place(role, sources[role.name]) for role in app.roles]
    return Shipped(
        replace(app, roles=[given for given, _ in roles]),
        replace(app, roles=[shown for _, shown in roles]),
        tuple(making.shipments.values()),
        tuple(making.preparations),
        tuple(dict.fromkeys(making.notes)),
    )


def sources_by_role(app: AppDef, workspace: Workspace) -> dict[str, tuple[str, ...]]:
    """Return the folders of each role; none for a role that has no workspace.

    In text, ``ROLE=FOLDER`` is for one role, and stands in the place of those for all. A folder
    whose name has a ``=`` is written ``./a=b``.

    Raises:
        UnknownNameError: the app has no such role.
    """
    names = [role.name for role in app.roles]
    if isinstance(workspace, Mapping):
        own = {name: _several(folders) for name, folders in workspace.items()}
        common = own.pop("", ())
    else:
        common, own = _read(_several(workspace))
    for name in own:
        if name not in names:
            raise UnknownNameError(unknown(f"role of app {app.name!r}:", name, names))
    return {name: own.get(name, common) for name in names}


def _several(folders: str | Sequence[str]) -> tuple[str, ...]:
    given = (folders,) if isinstance(folders, str | os.PathLike) else folders
    return tuple(os.fspath(folder) for folder in given if os.fspath(folder))


def _read(words: Iterable[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    common: list[str] = []
    own: dict[str, list[str]] = {}
    for word in words:
        role, equals, folder = word.partition("=")
        if not equals or not role or "/" in role:
            common.append(word)
        else:
            own.setdefault(role, []).extend([folder] if folder else [])
    return tuple(common), {name: tuple(folders) for name, folders in own.items()}


class _Shipping:
    """The shipping of one app: each tree is read once, whatever roles it is for."""

    def __init__(self, how: Shipping, *, snapshot: bool, limit: Setting[str] | None) -> None:
        self.how, self.snapshot, self.limit = how, snapshot, limit
        self.shipments: dict[tuple[str, ...], Shipment] = {}
        self.preparations: list[Preparation] = []
        self.notes: list[str] = []
        self._trees: dict[tuple[str, ...], Tree] = {}
        self._store: Store | None = None

    def place(self, role: Role, sources: tuple[str, ...]) -> tuple[Role, Role]:
        """Return a role as the scheduler is given it, and as people are shown it."""
        if not sources:
            return role, role
        made: tuple[Role, Role] = getattr(self, _MODES[self.how.mode])(role, sources)
        return made

    # -- in the folder itself, or in a snapshot --------------------------------------------------

    def _folder(self, role: Role, sources: tuple[str, ...]) -> tuple[Role, Role]:
        if self.snapshot or len(sources) > 1 or "://" in sources[0]:
            return self._snapshot(role, sources)
        folder = _existing(sources[0])
        self._note(
            sources, role, lambda: Shipment(FOLDER, (), sources, place=folder, outcome="in place")
        )
        return _with_folder(role, folder)

    def _snapshot(self, role: Role, sources: tuple[str, ...]) -> tuple[Role, Role]:
        from wherry.runner.snapshots import Snapshot

        def made() -> Shipment:
            tree = self._tree(sources)
            snapshot = Snapshot(tree)
            shipment = self._shipment(SNAPSHOT, sources, tree, snapshot.digest, snapshot.folder)

            def prepare() -> None:
                shipment.outcome = "copied" if snapshot.make() else "a copy of it was there"

            self.preparations.append(prepare)
            return shipment

        return _with_folder(role, self._note(sources, role, made).place)

    # -- in an image -----------------------------------------------------------------------------

    def _image(self, role: Role, sources: tuple[str, ...]) -> tuple[Role, Role]:
        from wherry.workspace.image import ensure_image, plan_image
        from wherry.workspace.image_engine import tell

        def made() -> Shipment:
            tree = self._tree(sources)
            plan = plan_image(role.image, tree, pull=self.how.pull, platform=self.how.platform)
            shipment = self._shipment(IMAGE, sources, tree, plan.content, plan.name)

            def prepare() -> None:
                built = ensure_image(plan, say=None if self.how.quiet else tell)
                shipment.outcome = _built(built.made, built.added)

            self.preparations.append(prepare)
            return shipment

        shipment = self._note((role.image, *sources), role, made)
        given = replace(role, image=shipment.place)
        return given, given

    # -- through a store -------------------------------------------------------------------------

    def _archive(self, role: Role, sources: tuple[str, ...]) -> tuple[Role, Role]:
        from wherry.worker.formats import blob_key
        from wherry.worker.shipping import boot_command, worker_zip
        from wherry.workspace.archive import pack, upload

        url = self.how.store_url
        zipped, zip_digest = worker_zip()

        def made() -> Shipment:
            tree = self._tree(sources)
            archive = pack(tree)
            place = f"{url}/{blob_key(archive.digest)}"
            shipment = self._shipment(ARCHIVE, sources, tree, archive.digest, place)

            def prepare() -> None:
                from wherry.store.blobs import put_blob

                store = self._opened()
                put_blob(store, [zipped], zip_digest)
                sent = upload(archive, store)
                shipment.outcome = _sent(sent.bytes_sent)

            self.preparations.append(prepare)
            return shipment

        place = self._note(sources, role, made).place
        words = ["unpack", place, self.how.target, "--"]
        boot = [_literal(word) for word in boot_command(url, zip_digest, words)]
        given = replace(role, entrypoint=boot[0], args=[*boot[1:], role.entrypoint, *role.args])
        return given, replace(role, metadata={**role.metadata, FOLDER_KEY: place})

    def _opened(self) -> Store:
        if self._store is None:
            if self.how.open_store is None:
                raise UsageError("the scheduler names no store for workspaces")
            self._store = self.how.open_store()
        return self._store

    # -- of all ----------------------------------------------------------------------------------

    def _tree(self, sources: tuple[str, ...]) -> Tree:
        from wherry.workspace.tree import scan
        from wherry.workspace.tree_guard import DEFAULT, read_limit

        if sources not in self._trees:
            limit = self.limit
            allowed = DEFAULT if limit is None else read_limit(limit.value, limit.source)
            self._trees[sources] = tree = scan(sources, size_limit=allowed)
            self.notes += tree.notes
        return self._trees[sources]

    def _shipment(
        self, mode: str, sources: tuple[str, ...], tree: Tree, digest: str, place: str
    ) -> Shipment:
        files = sum(entry.kind == "file" for entry in tree.entries)
        return Shipment(mode, (), sources, digest, files, tree.size, place)

    def _note(self, key: tuple[str, ...], role: Role, make: Callable[[], Shipment]) -> Shipment:
        """Return what is shipped under a key, made for the first role that it is for."""
        if key not in self.shipments:
            self.shipments[key] = make()
        shipment = self.shipments[key]
        shipment.roles += (role.name,)
        return shipment


def _built(made: bool, added: int | None) -> str:
    if not made:
        return "the image was there"
    if added is None:
        return "image built"
    files = "file" if added == 1 else "files"
    return f"image built on the last one, with {added} new {files}"


def _sent(amount: int) -> str:
    return f"{show_bytes(amount)} sent" if amount else "nothing to send"


def _with_folder(role: Role, folder: str) -> tuple[Role, Role]:
    made = replace(role, metadata={**role.metadata, FOLDER_KEY: folder})
    return made, made


def _existing(source: str) -> str:
    from wherry.workspace.sources import local_folder
    from wherry.workspace.tree_guard import not_a_folder

    folder = local_folder(source)
    if folder == "/":
        raise WorkspaceError(f"the workspace {source!r} is the whole machine; name a folder in it")
    if not os.path.isdir(folder):
        raise WorkspaceError(not_a_folder(folder))
    return folder


def _literal(word: str) -> str:
    """Return a word that macros leave as it is."""
    return word.replace("$", "$$")
