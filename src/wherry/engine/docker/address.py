"""Where the Docker Engine is: ``DOCKER_HOST``, else the current context of ``docker``, else the
usual socket.

An address is a text that says all there is to know: ``unix:///run/docker.sock``,
``tcp://host:2375``, or with TLS ``tcp://host:2376?certs=FOLDER&verify=1``. A record can keep it,
and who finds the record later reaches the same Engine.
"""

from __future__ import annotations

import os

from wherry.errors import DockerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT = "unix:///var/run/docker.sock"
_PORT, _TLS_PORT = 2375, 2376


class Place:
    """An address, taken apart.

    Attributes:
        path: of a Unix socket; empty for TCP.
        host, port: of TCP.
        certs: folder with ``ca.pem``, ``cert.pem`` and ``key.pem``; empty without TLS.
        tls: whether the connection is encrypted.
        verify: whether the Engine has to prove that it is the one meant.
    """

    __slots__ = ("certs", "host", "path", "port", "tls", "verify")

    def __init__(self, address: str) -> None:
        scheme, _, rest = address.partition("://")
        rest, _, options = rest.partition("?")
        given = dict(option.partition("=")[::2] for option in options.split("&"))
        self.path = rest if scheme == "unix" else ""
        self.tls = "certs" in given
        self.certs = given.get("certs", "")
        self.verify = given.get("verify") == "1"
        self.host, self.port = "", 0
        if not self.path:
            self.host, self.port = _host_and_port(rest, _TLS_PORT if self.tls else _PORT)


def engine_address(environ: Mapping[str, str]) -> str:
    """Tell where the Engine is that ``docker`` would use.

    Args:
        environ: the environment.

    Returns:
        Its address.

    Raises:
        DockerError: it is given in a way that cannot be used.
    """
    folder = environ.get("DOCKER_CONFIG") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".docker"
    )
    host = environ.get("DOCKER_HOST", "").strip()
    if host:
        wants_tls = bool(environ.get("DOCKER_TLS_VERIFY") or environ.get("DOCKER_TLS"))
        certs = (environ.get("DOCKER_CERT_PATH") or folder) if wants_tls else None
        verify = bool(environ.get("DOCKER_TLS_VERIFY"))
        return _checked(host, "DOCKER_HOST", certs, verify=verify)
    context = environ.get("DOCKER_CONTEXT") or _current_context(folder)
    if context in ("", "default"):
        return DEFAULT
    return _of_context(folder, context)


def _checked(host: str, where: str, certs: str | None, *, verify: bool) -> str:
    scheme, found, rest = host.partition("://")
    if not found:
        scheme, rest = "tcp", host
    if scheme == "ssh":
        raise DockerError(
            f"{where} is {host!r}: an Engine behind ssh is not reached directly; forward its "
            f"socket, `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock {rest}`, and set "
            "DOCKER_HOST=unix:///tmp/docker.sock"
        )
    if scheme == "unix" and rest.startswith("/"):
        return f"unix://{rest}"
    if scheme in ("tcp", "http", "https"):
        if scheme == "https" and certs is None:
            certs, verify = "", True
        rest = rest.rstrip("/")
        _host_and_port(rest, _PORT)
        options = "" if certs is None else f"?certs={certs}&verify={int(verify)}"
        return f"tcp://{rest}{options}"
    raise DockerError(
        f"{where} is {host!r}; expected unix:///PATH or tcp://HOST:PORT, such as {DEFAULT}"
    )


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    text = text.partition("/")[0]
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default)
    if not host or not port.isdigit():
        raise DockerError(f"{text!r} is not HOST:PORT of a Docker Engine")
    return host.strip("[]"), int(port)


def _current_context(folder: str) -> str:
    return str(_document(os.path.join(folder, "config.json")).get("currentContext") or "")


def _of_context(folder: str, name: str) -> str:
    import hashlib

    digest = hashlib.sha256(name.encode()).hexdigest()
    path = os.path.join(folder, "contexts", "meta", digest, "meta.json")
    endpoint = (_document(path).get("Endpoints") or {}).get("docker") or {}
    host = endpoint.get("Host")
    if not host:
        raise DockerError(
            f"the docker context {name!r} is not known in {folder}; `docker context ls` shows "
            "those there are, and `docker context use default` goes back to the usual one"
        )
    certs = os.path.join(folder, "contexts", "tls", digest, "docker")
    has_certs = os.path.isdir(certs)
    verify = not endpoint.get("SkipTLSVerify", False)
    return _checked(
        str(host), f"docker context {name!r}", certs if has_certs else None, verify=verify
    )


def _document(path: str) -> dict[str, Any]:
    import json

    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
