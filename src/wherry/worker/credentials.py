"""Where a job's AWS credentials come from, and when they are asked for again.

In the order of the AWS tools: the environment, a web identity (EKS), ``~/.aws``, the container's
endpoint (ECS, Batch, EKS pods), the instance's metadata. They are never written or shown.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from .faults import StoreFault
from .http import Answer, Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CONTAINER_HOST = "http://169.254.170.2"
_METADATA = "http://169.254.169.254"
_ROLE_PATH = "/latest/meta-data/iam/security-credentials/"
_TRIES = 4
_EARLY_MOST = 300.0
_EARLY_SHARE = 0.25
_NEVER = float("inf")


class Credentials:
    """Keys, and until when they are good."""

    def __init__(
        self, access: str, secret: str, token: str, source: str, expires: float = _NEVER
    ) -> None:
        self.access = access
        self.secret = secret
        self.token = token
        self.source = source
        self.expires = expires
        early = min(_EARLY_MOST, (expires - time.time()) * _EARLY_SHARE)
        self.renew_at = _NEVER if expires == _NEVER else expires - early


class Source:
    """Hands out credentials that are good now. May be used from any thread.

    Args:
        environ: the variables that say where they come from.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._pool = Pool(timeout=5.0)
        self._lock = allocate_lock()
        self._current: Credentials | None = None

    def get(self) -> Credentials:
        """Return credentials; they are asked for again some time before they expire.

        Raises:
            StoreFault: there are none, with what was tried.
        """
        with self._lock:
            current = self._current
            if current is not None and time.time() < current.renew_at:
                return current
            try:
                self._current = self._find()
            except StoreFault:
                if current is None or time.time() >= current.expires:
                    raise
                return current  # Good for a while yet; the next request asks again.
            return self._current

    def close(self) -> None:
        """Let go of connections."""
        self._pool.close()

    def refused(self, used: Credentials) -> bool:
        """Take note that credentials were refused as expired; tell whether others may be had."""
        with self._lock:
            if self._current is used:
                self._current = None
        return used.expires != _NEVER

    def _find(self) -> Credentials:
        for find in (_environment, _web_identity, _files, _container, _instance):
            found = find(self._environ, self._pool)
            if found is not None:
                return found
        raise StoreFault(
            "There are no AWS credentials here: none in the environment (AWS_ACCESS_KEY_ID), no "
            "container endpoint, no instance metadata, none in ~/.aws. Give the job a role "
            "(batch_job_role_name) that may read and write the store's bucket."
        )


def _environment(environ: Mapping[str, str], _pool: Pool) -> Credentials | None:
    access, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    return Credentials(access, secret, environ.get("AWS_SESSION_TOKEN", ""), "the environment")


def _web_identity(environ: Mapping[str, str], pool: Pool) -> Credentials | None:
    import re

    path, role = environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environ.get("AWS_ROLE_ARN")
    if not path or not role:
        return None
    from .sigv4 import encode

    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    url = environ.get("AWS_ENDPOINT_URL_STS") or environ.get("AWS_ENDPOINT_URL")
    if not url:
        suffix = ".cn" if region.startswith("cn-") else ""
        place = f"sts.{region}" if region else "sts"
        url = f"https://{place}.amazonaws.com{suffix}"
    words = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME") or f"wherry-{os.getpid()}",
        "WebIdentityToken": _read(path),
    }
    body = "&".join(f"{name}={encode(value)}" for name, value in words.items()).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    what = f"the role {role}"
    answer = _ask(pool, what, f"{url.rstrip('/')}/", kind, "POST", body)
    text = answer.body.decode("utf-8", "replace")

    def tag(name: str) -> str:
        found = re.search(f"<{name}>([^<]*)</{name}>", text)
        if answer.status != 200 or not found:
            raise StoreFault(f"STS did not give {what}: HTTP {answer.status} {text[:300]}")
        return found[1]

    expires = _seconds(tag("Expiration"))
    return Credentials(
        tag("AccessKeyId"), tag("SecretAccessKey"), tag("SessionToken"), what, expires
    )


def _container(environ: Mapping[str, str], pool: Pool) -> Credentials | None:
    relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = _CONTAINER_HOST + relative if relative else ""
    url = url or environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    if not url:
        return None
    path = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    token = _read(path) if path else environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    headers = {"Authorization": token} if token else {}
    return _from_json(_ask(pool, "the container's endpoint", url, headers), "the container's role")


def _instance(environ: Mapping[str, str], pool: Pool) -> Credentials | None:
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    base = (environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA).rstrip("/")
    what = "the instance's metadata"
    wanted = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    try:
        answer = _ask(pool, what, f"{base}/latest/api/token", wanted, "PUT", tries=2)
    except StoreFault:
        return None
    token = answer.body.decode() if answer.status == 200 else ""
    headers = {"X-aws-ec2-metadata-token": token} if token else {}
    roles = _ask(pool, what, base + _ROLE_PATH, headers)
    if roles.status != 200 or not roles.body.strip():
        return None  # The instance has no role.
    role = roles.body.decode().split("\n")[0].strip()
    return _from_json(_ask(pool, what, base + _ROLE_PATH + role, headers), "the instance's role")


def _files(environ: Mapping[str, str], _pool: Pool) -> Credentials | None:
    profile = environ.get("AWS_PROFILE") or "default"
    home = environ.get("HOME") or "/"
    places = (
        (environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/.aws/credentials", profile),
        (environ.get("AWS_CONFIG_FILE") or f"{home}/.aws/config", f"profile {profile}"),
    )
    for path, section in places:
        found = _section(path, section)
        if found.get("aws_access_key_id") and found.get("aws_secret_access_key"):
            token = found.get("aws_session_token", "")
            keys = found["aws_access_key_id"], found["aws_secret_access_key"]
            return Credentials(*keys, token, path)
    return None


def file_region(environ: Mapping[str, str]) -> str:
    """Return the region of the profile in ``~/.aws/config``; empty when there is none."""
    path = environ.get("AWS_CONFIG_FILE") or f"{environ.get('HOME') or '/'}/.aws/config"
    profile = environ.get("AWS_PROFILE") or "default"
    return _section(path, f"profile {profile}").get("region", "")


def _section(path: str, name: str) -> dict[str, str]:
    names = {name, name.partition("profile ")[2]} if name == "profile default" else {name}
    found: dict[str, str] = {}
    inside = False
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            for line in file:
                text = line.strip()
                if text.startswith("["):
                    inside = text.strip("[] \t") in names
                elif inside and "=" in text and not text.startswith(("#", ";")):
                    key, _, value = text.partition("=")
                    found[key.strip().lower()] = value.strip()
    except OSError:
        pass
    return found


def _from_json(answer: Answer, source: str) -> Credentials:
    import json

    text = answer.body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
        return Credentials(
            found["AccessKeyId"],
            found["SecretAccessKey"],
            found.get("Token") or "",
            source,
            _seconds(found["Expiration"]) if found.get("Expiration") else _NEVER,
        )
    except (ValueError, KeyError, TypeError):
        # Not what was answered: a half-good answer may hold a secret.
        raise StoreFault(f"There are no credentials from {source}: HTTP {answer.status}.") from None


def _seconds(text: str) -> float:
    """Return seconds since the epoch for such as ``2026-11-21T10:00:00Z``."""
    import calendar

    date, _, rest = text.partition("T")
    year, month, day = (int(number) for number in date.split("-"))
    hour, minute, second = (int(number) for number in rest[:8].split(":"))
    return float(calendar.timegm((year, month, day, hour, minute, second)))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise StoreFault(
            f"The file that should hold a token for AWS, {path}, cannot be read: {error.strerror}."
        ) from None


def _ask(
    pool: Pool,
    what: str,
    url: str,
    headers: dict[str, str],
    method: str = "GET",
    body: bytes = b"",
    tries: int = _TRIES,
) -> Answer:
    why = ""
    for attempt in range(tries):
        if attempt:
            time.sleep(0.1 * 4**attempt)
        try:
            answer = pool.request(url, method, headers, [body] if body else ())
        except OSError as error:
            why = str(error) or type(error).__name__
            continue
        if answer.status < 500 and answer.status != 429:
            return answer
        why = f"HTTP {answer.status}"
    raise StoreFault(f"No credentials could be had from {what}: {why}.")


if TYPE_CHECKING:
    Find = Callable[[Mapping[str, str], Pool], "Credentials | None"]
