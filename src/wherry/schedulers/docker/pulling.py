"""Have the images of an app at the Engine before anything of it is started."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wherry.engine.docker.connection import Engine
from wherry.engine.docker.http import quote
from wherry.errors import DockerError, LaunchError, RegistryError, nearest
from wherry.workspace.image_names import is_for, is_local, is_workspace_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.errors import WherryError

Document = dict[str, Any]

ALWAYS, MISSING, NEVER = "always", "missing", "never"

_NOT_FOUND = 404
_FIRST_WORD_SECONDS = 600.0
_DEFAULT_REGISTRY = "docker.io"

# What a registry or an Engine says (lower case) when a pull fails, first match first.
_NO_IMAGE, _NO_LOGIN, _NO_REGISTRY, _NO_DISK = "image", "login", "registry", "disk"
_WORDS = (
    (_NO_DISK, "no space left on device"),
    (_NO_IMAGE, "manifest unknown"),
    (_NO_IMAGE, "name unknown"),
    (_NO_IMAGE, "repository does not exist"),
    (_NO_IMAGE, "no matching manifest"),
    (_NO_LOGIN, "unauthorized"),
    (_NO_LOGIN, "no basic auth credentials"),
    (_NO_LOGIN, "authentication required"),
    (_NO_LOGIN, "denied"),
    (_NO_IMAGE, "not found"),
    (_NO_REGISTRY, "no such host"),
    (_NO_REGISTRY, "connection refused"),
    (_NO_REGISTRY, "i/o timeout"),
    (_NO_REGISTRY, "server misbehaving"),
    (_NO_REGISTRY, "unreachable"),
    (_NO_REGISTRY, "timeout"),
    (_NO_REGISTRY, "tls"),
    (_NO_REGISTRY, "x509"),
    (_NO_REGISTRY, "http response to https client"),
    (_NO_REGISTRY, "dial tcp"),
)


def have_images(
    engine: Engine,
    images: Iterable[str],
    policy: str,
    platform: str | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Document]:
    """See that images are at the Engine, and pull those that have to be.

    Args:
        engine: the Engine.
        images: their names.
        policy: always, missing or never.
        platform: which one, such as ``linux/arm64``; the Engine's own when ``None``.
        say: is handed each state of a pull as one line; a terminal's last line when ``None``.

    Returns:
        What the Engine says of each image (``GET /images/NAME/json``).

    Raises:
        LaunchError: there is no such image.
        RegistryError: its registry refuses, or is not reached.
        DockerError: the Engine is not there, or refuses.
    """
    wanted = list(dict.fromkeys(images))
    found = _inspected(engine, wanted)
    for image in wanted:
        there = found.get(image)
        suits = there is not None and (platform is None or is_for(there, platform))
        if suits and (policy != ALWAYS or is_local(image)):
            continue
        if policy == NEVER or is_local(image):
            raise _missing(engine, image, there, platform)
        _pull(engine, image, platform, there, say)
        found |= _inspected(engine, [image])
        if image not in found:
            raise LaunchError(f"the image {image!r} was pulled, and is not at the Engine")
    return {image: document for image, document in found.items() if document is not None}


def stop_signal(image: Mapping[str, Any]) -> str:
    """Return the signal that asks an image's program to end."""
    return str((image.get("Config") or {}).get("StopSignal") or "SIGTERM")


def _inspected(engine: Engine, images: list[str]) -> dict[str, Document]:
    asked = {image: engine.begin("GET", f"/images/{quote(image)}/json") for image in images}
    found = {}
    try:
        while asked:
            image, pending = asked.popitem()
            try:
                found[image] = pending.finish()
            except DockerError as error:
                if error.status != _NOT_FOUND:
                    raise
    finally:
        for pending in asked.values():
            pending.drop()
    return found


def _missing(
    engine: Engine, image: str, there: Mapping[str, Any] | None, platform: str | None
) -> LaunchError:
    why = "pull=never keeps it from being pulled"
    if is_local(image):
        what = "an image with a workspace" if is_workspace_image(image) else "an id"
        why = f"{what} is not pulled"
    if there is not None:
        has = f"{there.get('Os')}/{there.get('Architecture')}"
        return LaunchError(f"the image {image!r} is here for {has} and not for {platform}; {why}")
    return LaunchError(f"there is no image {image!r} here, and {why}{_suggestion(engine, image)}")


# -- a pull ---------------------------------------------------------------------------------------


def _pull(
    engine: Engine,
    image: str,
    platform: str | None,
    there: Mapping[str, Any] | None,
    say: Callable[[str], None] | None,
) -> None:
    name, tag = split_reference(image)
    headers = _login(name)
    line = _Line(say)
    try:
        with engine.stream(
            "POST",
            "/images/create",
            {"fromImage": name, "tag": tag, "platform": platform},
            headers=headers,
            timeout=_FIRST_WORD_SECONDS,
        ) as stream:
            layers = _Layers(image)
            for news in stream.documents():
                if "error" in news:
                    raise _failure(engine, image, str(news["error"]), there)
                line.show(layers.told(news))
    except DockerError as error:
        if not error.status:
            raise
        raise _failure(engine, image, str(error), there) from None
    finally:
        line.clear()


def split_reference(image: str) -> tuple[str, str]:
    """Return an image's repository, and its tag or digest.

    >>> split_reference("registry:5000/team/app"), split_reference("python:3.12")
    (('registry:5000/team/app', 'latest'), ('python', '3.12'))
    """
    name, at, digest = image.partition("@")
    if at:
        return _untagged(name)[0], digest
    return _untagged(name)


def _untagged(name: str) -> tuple[str, str]:
    front, colon, tag = name.rpartition(":")
    return (front, tag) if colon and "/" not in tag else (name, "latest")


def registry_of(image: str) -> str:
    """Return the registry that an image is pulled from.

    >>> registry_of("python:3.12"), registry_of("localhost:5000/app")
    ('docker.io', 'localhost:5000')
    """
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host else _DEFAULT_REGISTRY


def _login(name: str) -> dict[str, str]:
    """Return the header with what `docker login` has kept for a repository's registry."""
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    if not os.path.exists(os.path.join(folder, "config.json")):
        return {}
    try:
        from docker import auth
    except ImportError:
        return {}  # The registry will say whether it wants a login.
    from docker.errors import DockerException

    try:
        registry, _ = auth.resolve_repository_name(name)
        kept = auth.resolve_authconfig(auth.load_config(), registry)
    except DockerException as error:
        raise RegistryError(
            f"the login for {registry_of(name)} could not be had: {error}; see "
            f"{os.path.join(folder, 'config.json')}"
        ) from None
    return {"X-Registry-Auth": auth.encode_header(kept).decode()} if kept else {}


def _failure(
    engine: Engine, image: str, words: str, there: Mapping[str, Any] | None
) -> WherryError:
    """Word why an image could not be pulled."""
    said = words.lower()
    kind = next((kind for kind, part in _WORDS if part in said), "")
    registry = registry_of(image)
    if kind == _NO_DISK:
        return LaunchError(
            f"the image {image!r} could not be pulled, the Engine's disk is full: {words}; "
            "`docker system df` shows what is on it, `docker system prune` makes room"
        )
    kept = "; there is one here: pull=missing uses it" if there is not None else ""
    hint = kept or _suggestion(engine, image)
    if kind == _NO_IMAGE:
        return LaunchError(f"there is no image {image!r} here or at {registry}: {words}{hint}")
    if kind == _NO_LOGIN:
        return RegistryError(
            f"the registry {registry} refuses the image {image!r}: {words}; "
            f"`docker login {registry}` may help{hint}"
        )
    if kind == _NO_REGISTRY:
        what = "the image" if there is not None else "there is no image"
        here = "" if there is not None else " here, and it"
        return RegistryError(
            f"{what} {image!r}{here} could not be pulled: {registry} is not reached: {words}{hint}"
        )
    return RegistryError(f"the image {image!r} could not be pulled: {words}{hint}")


def _suggestion(engine: Engine, image: str) -> str:
    """Name the image here that is most like a missing one, and the way out."""
    try:
        here = engine.request("GET", "/images/json")
    except DockerError:
        return ""
    tags = [tag for one in here for tag in one.get("RepoTags") or () if "<none>" not in tag]
    tags += [tag.removesuffix(":latest") for tag in tags if tag.endswith(":latest")]
    close = nearest(image, tags)
    like = f" did you mean {close!r}, which is here?" if close else ""
    return f";{like} Build it, or check its name"


# -- progress -------------------------------------------------------------------------------------


class _Layers:
    """How far the layers of one image are."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._sizes: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()

    def told(self, news: Mapping[str, Any]) -> str:
        """Take the Engine's news; return the state as one line."""
        layer, status = str(news.get("id") or ""), str(news.get("status") or "")
        detail = news.get("progressDetail") or {}
        if re.fullmatch(r"[0-9a-f]{12,}", layer):
            self._sizes.setdefault(layer, (0, 0))
            if status == "Downloading" and detail.get("total"):
                self._sizes[layer] = (int(detail["current"]), int(detail["total"]))
            elif status in ("Download complete", "Pull complete", "Already exists"):
                self._sizes[layer] = (self._sizes[layer][1],) * 2
                if status != "Download complete":
                    self._done.add(layer)
        had = sum(size for size, _ in self._sizes.values()) / 1e6
        total = sum(size for _, size in self._sizes.values()) / 1e6
        layers = f"{len(self._done)} of {len(self._sizes)} layers" if self._sizes else status
        return f"pulling {self._image}: {layers}" + (f", {had:.1f} of {total:.1f} MB" * bool(total))


class _Line:
    """The last line of a terminal, written over again and again; nothing where there is none."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say
        self._draws = say is None and sys.stderr is not None and sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Show a text instead of the one before."""
        if text == self._shown:
            return
        self._shown = text
        if self._say is not None:
            self._say(text)
        elif self._draws:
            sys.stderr.write(f"\r\x1b[K{text[:79]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take it away."""
        if self._draws and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
