"""The door to moto, which is everything of AWS that is not Batch.

Nothing else of the emulator imports moto at its top: loading it takes more than a second, and it is
loaded only when an emulator starts, its services only when they are first asked for.

moto keeps its state in module globals. Two emulators in one process therefore share all of AWS but
Batch, and `reset` empties it for both.
"""

from __future__ import annotations

import importlib
import json
import threading
from typing import TYPE_CHECKING, Any

from wherry.emulator.batch.errors import ClientError
from wherry.emulator.settings import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_BACKENDS = {
    "cloudformation": ("moto.cloudformation.models", "cloudformation_backends"),
    "ec2": ("moto.ec2.models", "ec2_backends"),
    "events": ("moto.events.models", "events_backends"),
    "iam": ("moto.iam.models", "iam_backends"),
    "logs": ("moto.logs.models", "logs_backends"),
    "s3": ("moto.s3.models", "s3_backends"),
    "secretsmanager": ("moto.secretsmanager.models", "secretsmanager_backends"),
    "ssm": ("moto.ssm.models", "ssm_backends"),
    "sts": ("moto.sts.models", "sts_backends"),
}
_GLOBAL = frozenset(("iam", "s3", "sts"))
_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))
_loading = threading.Lock()


def partition(region: str) -> str:
    """Return the partition that a region belongs to, such as ``aws``."""
    return next((name for prefix, name in _PARTITIONS if region.startswith(prefix)), "aws")


def backend(service: str, region: str) -> Any:
    """Return what moto keeps of a service in a region; loads the service when it is the first time.

    Args:
        service: the name of one of the services that jobs touch, such as ``logs``.
        region: a region; services that have none take its partition.
    """
    module, name = _BACKENDS[service]
    with _loading:
        backends = getattr(importlib.import_module(module), name)
    return backends[ACCOUNT][partition(region) if service in _GLOBAL else region]


def known(region: str) -> None:
    """See that there is such a region.

    Raises:
        ClientError: there is none.
    """
    try:
        backend("logs", region)
    except KeyError:
        raise ClientError(f"there is no region {region!r}") from None


def loaded(service: str) -> bool:
    """Tell whether anybody has used a service yet, so that nobody loads it to find it empty."""
    import sys

    return _BACKENDS[service][0] in sys.modules


def know_managed_policies(region: str) -> None:
    """See that the policies are there that AWS itself keeps in every account.

    moto leaves them out unless it is told otherwise, as reading them takes a tenth of a second.
    Roles of real templates and programs are given such policies, so they are read when somebody
    asks for IAM or a stack, and not before.

    Args:
        region: whose partition they are of.
    """
    iam = backend("iam", region)
    with _loading:
        if iam.aws_managed_policies:
            return
        from moto.iam.aws_managed_policies import aws_managed_policies_data
        from moto.iam.models import AWSManagedPolicy

        data = json.loads(aws_managed_policies_data)
        made = [
            AWSManagedPolicy.from_data(name, iam.account_id, iam.region_name, entry)
            for name, entry in data.items()
        ]
        iam.managed_policies.update({policy.arn: policy for policy in made})
        iam.aws_managed_policies = made


def reset() -> None:
    """Forget everything that moto knows."""
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data

    BackendDict.reset()
    reset_model_data()


class UnknownServiceError(LookupError):
    """moto has no such service."""


class Application:
    """moto's server, as a WSGI application that never writes to standard output."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        class Dispatcher(DomainDispatcherApplication):
            """Says by an exception what moto says by a line on standard output."""

            def get_backend_for_host(self, host: str | None) -> Any:
                if host is None or host == "moto_api" or "amazonaws.com" not in host:
                    return super().get_backend_for_host(host)
                for name, pattern in self.backend_url_patterns:
                    if pattern.match(f"http://{host}"):
                        return name
                raise UnknownServiceError(host)

        self._dispatcher = Dispatcher(create_backend_app)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request.

        Raises:
            UnknownServiceError: moto has no service of this name.
        """
        answer: Iterable[bytes] = self._dispatcher(environ, start_response)
        return answer
