"""What AWS Batch answers when it refuses: two modelled errors, and throttling."""

from __future__ import annotations


class BatchError(Exception):
    """A refusal, as the API words it.

    Args:
        message: what the client is told.

    Attributes:
        code: the error's name on the wire.
        status: the HTTP status.
    """

    code = "ServerException"
    status = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ClientError(BatchError):
    """The request cannot be carried out: bad input, unknown names, and what is not allowed."""

    code = "ClientException"
    status = 400


class ServerError(BatchError):
    """The service failed."""


class TooManyRequestsError(BatchError):
    """The caller is too quick."""

    code = "TooManyRequestsException"
    status = 429
