"""Secrets of a job definition: from Secrets Manager and from the parameter store of SSM.

``valueFrom`` is a secret's ARN, which may go on with a JSON key, a version stage and a version id;
or the name or the ARN of a parameter. A name without ARN is a parameter of the job's region.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-secrets-manager.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from wherry.emulator.cloud import moto

_PULL = "unable to pull secrets or registry auth: execution resource retrieval failed:"


@dataclass(frozen=True)
class SecretRef:
    """A secret's ARN with what may follow it; empty parts mean the default."""

    arn: str
    region: str
    json_key: str = ""
    stage: str = ""
    version: str = ""


def parse_secret_arn(value: str) -> SecretRef | None:
    """Take a ``valueFrom`` apart, or return ``None`` if it is no ARN of a secret.

    >>> parse_secret_arn("arn:aws:secretsmanager:eu-west-1:1:secret:db-AbCdEf:user::").json_key
    'user'
    """
    parts = value.split(":")
    if len(parts) < 7 or parts[0] != "arn" or parts[2] != "secretsmanager" or parts[5] != "secret":
        return None
    json_key, stage, version, *_ = [*parts[7:], "", "", ""]
    return SecretRef(":".join(parts[:7]), parts[3], json_key, stage, version)


def secret(value_from: str, region: str) -> str:
    """Return a secret or a parameter.

    Args:
        value_from: as the job definition names it.
        region: the region of a parameter that is named without ARN.

    Raises:
        LookupError: it cannot be had; the text is what ECS says after
            ``ResourceInitializationError:``.
    """
    ref = parse_secret_arn(value_from)
    if ref is not None:
        return _from_secrets_manager(value_from, ref)
    return _from_ssm(value_from, region)


def _from_secrets_manager(value_from: str, ref: SecretRef) -> str:
    from moto.core.exceptions import JsonRESTError

    try:
        found = moto.backend("secretsmanager", ref.region).get_secret_value(
            ref.arn, ref.version or None, ref.stage or None
        )
    except JsonRESTError as error:
        reason = f"{error.error_type}: {_sentence(error)}"
    except KeyError:
        reason = (
            "ResourceNotFoundException: Secrets Manager can't find the specified secret value for"
            f" staging label: {ref.stage or 'AWSCURRENT'}"
        )
    else:
        return _field(found, value_from, ref)
    raise LookupError(
        f"{_PULL} unable to retrieve secret from asm: service call has been retried 1 time(s):"
        f" failed to fetch secret {ref.arn} from secrets manager: {reason}"
    )


def _sentence(error: Any) -> str:
    return str(error.message)


def _field(found: dict[str, Any], value_from: str, ref: SecretRef) -> str:
    text = found.get("SecretString")
    if text is None:
        raise LookupError(
            f"{_PULL} unable to retrieve secret from asm: secret {value_from} holds binary data"
        )
    if not ref.json_key:
        return str(text)
    try:
        fields = json.loads(text)
        value = fields[ref.json_key]
    except ValueError:
        reason = "invalid character looking for beginning of value"
    except (KeyError, TypeError):
        reason = f"retrieved secret from Secrets Manager did not contain json key {ref.json_key}"
    else:
        return value if isinstance(value, str) else json.dumps(value)
    raise LookupError(f"{_PULL} unable to retrieve secret from asm: {reason}")


def _from_ssm(value_from: str, region: str) -> str:
    name, where = value_from, region
    if value_from.startswith("arn:"):
        parts = value_from.split(":", 5)
        if len(parts) < 6 or parts[2] != "ssm" or not parts[5].startswith("parameter/"):
            raise LookupError(f"{_PULL} invalid secret reference {value_from}")
        where, name = parts[3], parts[5].removeprefix("parameter/")
    backend = moto.backend("ssm", where)
    for candidate in (name, f"/{name}"):
        found = backend.get_parameters([candidate]).get(candidate)
        if found is not None:
            return str(found.response_object(decrypt=True)["Value"])
    raise LookupError(
        f"{_PULL} unable to retrieve secrets from ssm: service call has been retried 1 time(s):"
        f" invalid parameters: {name}"
    )
