"""The Docker Engine as the makers of images meet it: a connection, and what is wrong in words.

Images are looked up and made with our own client. Only here and in the modules that pull, push and
build a Dockerfile is the package `docker` used; it is loaded when one of these is needed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wherry.engine.docker.address import Place, engine_address
from wherry.engine.docker.connection import Engine, dial
from wherry.engine.docker.http import Answer, BrokenAnswerError, query, quote
from wherry.engine.docker.refusals import hinted, refusal, silent, unreachable
from wherry.errors import DockerError

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

_ANSWER_SECONDS = 600
_PROBE_SECONDS = 5
_PIECE = 1 << 18
_NOT_FOUND = 404
_REFUSED_FROM = 400


def connected(host: str | None = None) -> Engine:
    """Return a client of the Engine.

    Args:
        host: its address, as `engine_address` gives it; by default the one that ``DOCKER_HOST`` or
            the current context of the docker command names.
    """
    return Engine(host or engine_address(os.environ), timeout=_ANSWER_SECONDS)


def look_up(api: Engine, image: str) -> dict[str, Any] | None:
    """Return what the Engine says of an image; nothing when it has none of this name or id.

    Raises:
        DockerError: the Engine is not there, or refuses.
    """
    try:
        found: dict[str, Any] = api.request("GET", f"/images/{quote(image)}/json")
    except DockerError as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    return found


def send_archive(api: Engine, container: str, folder: str, pieces: Iterable[bytes]) -> None:
    """Unpack a tar archive in a container, which need not run.

    Args:
        api: the Engine.
        container: its id.
        folder: where in it.
        pieces: the archive.

    Raises:
        DockerError: the Engine is not there, or refuses.
        Exception: whatever making the pieces raises; nothing is unpacked completely then.
    """
    line = dial(api.address, api.timeout)
    try:
        try:
            target = f"/v{api.version}/containers/{container}/archive{query({'path': folder})}"
            line.sendall(
                f"PUT {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: wherry\r\n"
                "Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n"
                "Connection: close\r\n\r\n".encode("utf-8", "surrogateescape")
            )
            for piece in _gathered(pieces):
                line.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            line.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # It has refused in the middle, and has said why.
        answer = Answer("PUT")
        while not answer.done:
            data = line.recv(_PIECE)
            answer.feed(data) if data else answer.end()
    except TimeoutError:
        raise silent(api.address, api.timeout) from None
    except OSError as error:
        raise unreachable(api.address, error) from None
    except BrokenAnswerError as error:
        raise DockerError(f"the Docker Engine at {api.address}: {error}") from None
    finally:
        line.close()
    if answer.status >= _REFUSED_FROM:
        raise refusal(answer.status, answer.take())


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Put small pieces together, which would cost a call each."""
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(kept)
            kept, size = [], 0
    if size:
        yield b"".join(kept)


@contextmanager
def engine(host: str | None = None) -> Iterator[APIClient]:
    """Connect to the Docker Engine, and hang up at the end.

    Args:
        host: its address, as `engine_address` gives it; by default the one that ``DOCKER_HOST`` or
            the current context of the docker command names.

    Raises:
        DockerError: there is none, we may not speak to it, or it refuses something.
    """
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        raise DockerError(
            "images are made with the package docker; install it with: pip install 'wherry[docker]'"
        ) from None
    address = host or engine_address(os.environ)
    place = Place(address)
    _probe(address, place)
    try:
        client = docker.DockerClient(
            base_url=address.partition("?")[0], tls=_tls(place), timeout=_ANSWER_SECONDS
        )
    except DockerException as error:
        raise DockerError(f"the Docker Engine at {address} does not answer: {error}") from error
    try:
        yield client.api
    except DockerException as error:
        raise DockerError(f"the Docker Engine at {address}: {words_of(error)}") from error
    finally:
        client.close()


def words_of(error: BaseException) -> str:
    """Return what the Engine said, without what its client says around it."""
    said = getattr(error, "explanation", None) or str(error)
    return " ".join(str(said).split())


def read_news(news: Iterable[Mapping[str, Any]], refused: type[Exception]) -> Iterator[Any]:
    """Go through the Engine's news of something that takes long.

    A failure after the answer has begun comes as a line of it. The answer is read to its end all
    the same, since its connection would else stay open.

    Args:
        news: the lines, as documents.
        refused: what is raised in the end when a line told of an error.
    """
    failure = ""
    for line in news:
        failure = failure or " ".join(str(line.get("error", "")).split())
        if not failure:
            yield line
    if failure:
        raise refused(hinted(failure))


def tell(line: str) -> None:
    """Tell people how something goes that takes long."""
    logging.getLogger("wherry").warning("%s", line)


def distribution_digest(
    client: APIClient, image: str, login: Mapping[str, str] | None = None
) -> str:
    """Ask an image's registry, through the Engine, for its digest.

    Raises:
        docker.errors.APIError: the registry does not answer, or does not tell.
    """
    ask: Any = client.inspect_distribution
    return str(ask(image, auth_config=login)["Descriptor"]["digest"])


def _tls(place: Place) -> TLSConfig | bool:
    from docker.tls import TLSConfig

    if not place.tls:
        return False
    names = [os.path.join(place.certs, name) for name in ("cert.pem", "key.pem", "ca.pem")]
    cert, key, authority = (name if os.path.isfile(name) else None for name in names)
    return TLSConfig(
        client_cert=(cert, key) if cert and key else None,
        ca_cert=authority if place.verify else None,
        verify=place.verify,
    )


def _probe(address: str, place: Place) -> None:
    """See whether somebody listens; the package would leave a socket behind where nobody does."""
    try:
        if place.path:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(place.path)
        else:
            socket.create_connection((place.host, place.port), timeout=_PROBE_SECONDS).close()
    except PermissionError:
        raise DockerError(
            f"this user may not speak to the Docker Engine at {address}; "
            "`sudo usermod -aG docker $USER` and a new login allow it"
        ) from None
    except OSError as error:
        raise DockerError(
            f"there is no Docker Engine at {address} ({error}); start it, or set DOCKER_HOST"
        ) from None
