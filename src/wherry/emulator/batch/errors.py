"""What AWS Batch answers when it refuses: a modelled error, and how it is worded.

Most refusals are wrapped (``Error executing request, Exception : …, RequestId: …``), as seen in
getmoto/moto#6463, k1LoW/awspec#563, pegasus-isi/pegasus#2086 and ASFHyP3/hyp3#586. Those that say
that something does not exist, or is in use, come bare.
"""

from __future__ import annotations

import uuid


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


class RefusedError(ClientError):
    """A refusal in AWS's usual wrapping.

    Args:
        text: what is wrong.

    Attributes:
        request_id: the id that the message ends with; the answer's header should have the same.
    """

    def __init__(self, text: str) -> None:
        self.request_id = str(uuid.uuid4())
        super().__init__(
            f"Error executing request, Exception : {text}, RequestId: {self.request_id}"
        )


def refuse(wrong: bool, text: str) -> None:
    """Raise a refusal if something is wrong.

    Raises:
        RefusedError: it is wrong.
    """
    if wrong:
        raise RefusedError(text)
