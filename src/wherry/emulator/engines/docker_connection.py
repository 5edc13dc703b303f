"""Long answers of the Engine: connections that stay open until somebody hangs up.

The `docker` package has calls for these, but its way of hanging up leaves sockets behind. Its
client is an HTTP session, so the requests are made with that.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

DEFAULT_HOST = "unix:///var/run/docker.sock"

if TYPE_CHECKING:
    from docker import APIClient
    from requests import Response


def open_answer(
    client: APIClient, method: str, path: str, params: Mapping[str, str | int]
) -> Response:
    """Make a request whose answer is read as it comes.

    Args:
        client: the Engine.
        method: of HTTP.
        path: after the version.
        params: the query.

    Returns:
        The answer, to be closed by the caller.

    Raises:
        docker.errors.APIError: the Engine refuses.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests.exceptions import HTTPError

    url = f"{client.base_url}/v{client.api_version}{path}"
    response = client.request(method, url, params=dict(params), stream=True, timeout=None)
    try:
        response.raise_for_status()
    except HTTPError as error:
        with response:
            create_api_error_from_http_exception(error)
    return response


def probe(host: str) -> None:
    """See whether somebody listens where the Engine should be.

    The `docker` package would leave a socket behind each time that nobody does.

    Args:
        host: as in ``DOCKER_HOST``; empty for the usual one.

    Raises:
        OSError: nobody listens.
    """
    scheme, _, rest = (host or DEFAULT_HOST).partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(rest)
    else:
        name, _, port = rest.rstrip("/").partition(":")
        socket.create_connection((name, int(port or 2375)), timeout=5).close()


def socket_of(response: Response) -> socket.socket:
    """Return a second hold on the connection of an answer; each is closed for itself."""
    return socket.socket(fileno=os.dup(response.raw.fileno()))
