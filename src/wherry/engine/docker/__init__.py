"""The Docker Engine: requests over its socket, and one attempt of one command in a container.

There is no client library in between: importing one takes longer than starting a container's
network. `connection` is for whoever can wait for an answer, `calls` for the supervisor's loop.

Facts: https://docs.docker.com/reference/api/engine/version/v1.41/
"""

from __future__ import annotations
