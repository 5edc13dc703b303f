"""Names of container images: whether one can be a name, and which of them are in ECR.

Pure text. The grammar is that of the Docker distribution's references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)\Z"
)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9+._-]+:[0-9a-f]{32,}))?\Z",
    re.ASCII,
)


@dataclass(frozen=True)
class Reference:
    """An image's name, taken apart.

    Args:
        text: the whole.
        is_valid: whether it can be the name of an image at all.
        host: of the registry; empty for Docker Hub.
        path: of the repository.
        tag, digest: which image of it; ``latest`` when neither is given.
        account, region: of ECR; empty elsewhere.
    """

    text: str
    is_valid: bool = False
    host: str = ""
    path: str = ""
    tag: str = ""
    digest: str = ""
    account: str = ""
    region: str = ""

    @property
    def is_ecr(self) -> bool:
        """Whether it is in a private registry of ECR."""
        return bool(self.account)


def read_reference(text: str) -> Reference:
    """Take the name of an image apart.

    >>> read_reference("123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train:v2").region
    'eu-west-1'
    >>> read_reference("Alpine").is_valid
    False
    """
    found = _REFERENCE.match(text)
    if found is None:
        return Reference(text)
    host, path = found["host"] or "", found["path"]
    if host and not ("." in host or ":" in host or host == "localhost"):
        host, path = "", f"{host}/{path}"
        if not re.fullmatch(f"{_COMPONENT}(?:/{_COMPONENT})*", path):
            return Reference(text)
    ecr = _ECR.match(host)
    return Reference(
        text,
        is_valid=True,
        host=host,
        path=path,
        tag=found["tag"] or ("" if found["digest"] else "latest"),
        digest=found["digest"] or "",
        account=ecr["account"] if ecr else "",
        region=ecr["region"] if ecr else "",
    )
