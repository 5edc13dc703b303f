"""Who we are at S3, and where its server is: as boto3 finds it, for both of our clients.

Credentials are read by botocore (environment, profile, files, SSO, assumed roles, a container's or
a machine's role), which renews them before they expire; they are neither kept nor shown here.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wherry.errors import AwsError, UnknownNameError, unknown
from wherry.store.s3_failures import Kind, S3Failure, of_botocore

if TYPE_CHECKING:
    from datetime import datetime

_FIRST_REGION = "us-east-1"
_PATIENCE = 10  # seconds until a server must have answered
_ASK_AGAIN = 60.0  # seconds after which botocore is asked for its credentials again
# obstore asks again five minutes before the time that it is told.
_EARLY = 300.0


@dataclass(frozen=True)
class Server:
    """Where a bucket is asked for.

    Args:
        url: the address, with the bucket in it where ``in_host``.
        in_host: whether the bucket is a part of the host's name, rather than of the path.
        region: what requests are signed for.
        aws: whether it is one of AWS's own.
    """

    url: str
    in_host: bool
    region: str
    aws: bool


class Access:
    """How one bucket is reached. All methods may be called from any thread.

    Args:
        bucket: its name.
        profile: a profile of AWS's configuration; by default the one that boto3 takes.
        region: the bucket's region; by default the one that boto3 finds, until S3 tells another.
        endpoint: an S3 server; by default the one that AWS's configuration names.
        credentials_file: to be read instead of ``~/.aws/credentials``.
    """

    def __init__(
        self,
        bucket: str,
        profile: str | None = None,
        region: str | None = None,
        endpoint: str | None = None,
        credentials_file: str | None = None,
    ) -> None:
        self.bucket = bucket
        self._given_profile = profile
        self._region = region
        self._endpoint = endpoint
        self._credentials_file = credentials_file
        self._lock = threading.RLock()
        self._session: Any = None
        self._told_region = ""
        self.failure: S3Failure | None = None  # why the last credentials could not be had

    def again(self) -> Access:
        """Return the same, of which nothing has been found out yet."""
        region = self._told_region or self._region
        given = (self._given_profile, region, self._endpoint, self._credentials_file)
        return Access(self.bucket, *given)

    def check(self) -> None:
        """See that there are credentials, and that somebody answers at the server's address.

        Raises:
            S3Failure: not so.
        """
        self.credentials()
        knock(self.server().url)

    # -- where ------------------------------------------------------------------------------------

    def server(self) -> Server:
        """Return where the bucket is asked for at present."""
        region = self.region
        endpoint = self.endpoint
        if endpoint:
            return Server(endpoint, False, region, _is_aws(endpoint))
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        host = f"s3.{region}.{suffix}"
        # The certificates of S3 cover one name before its own, not several.
        if "." in self.bucket:
            return Server(f"https://{host}", False, region, True)
        return Server(f"https://{self.bucket}.{host}", True, region, True)

    @property
    def endpoint(self) -> str:
        """The server that was chosen; empty for AWS's own."""
        chosen = self._endpoint or _configured_endpoint(self.session())
        return chosen.rstrip("/")

    @property
    def region(self) -> str:
        """The region that requests are signed for."""
        configured = self._told_region or self._region or _variable(self.session(), "region")
        return configured or _FIRST_REGION

    def moved(self, region: str) -> bool:
        """Take note of the bucket's region; tells whether that is news."""
        with self._lock:
            news = bool(region) and region != self.region
            self._told_region = region or self._told_region
            return news

    def found_region(self) -> str:
        """Ask S3 where the bucket is; it tells anybody. Empty when it does not tell."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        server = self.server()
        url = f"{server.url}/" if server.in_host else f"{server.url}/{self.bucket}"
        http = URLLib3Session(
            verify=self.certificates or True,  # type: ignore[arg-type]  # a file, says botocore
            proxies=get_environ_proxies(url),
            timeout=_PATIENCE,
        )
        try:
            answer = http.send(AWSRequest("HEAD", url).prepare())
        except BotoCoreError:
            return ""
        finally:
            http.close()
        return str(answer.headers.get("x-amz-bucket-region", ""))

    @property
    def certificates(self) -> str:
        """A file of certificates to trust besides the system's; mostly empty."""
        return _variable(self.session(), "ca_bundle")

    # -- who --------------------------------------------------------------------------------------

    @property
    def profile(self) -> str:
        """The profile of AWS's configuration that is used."""
        named = self._given_profile or os.environ.get("AWS_DEFAULT_PROFILE")  # botocore's order
        return named or os.environ.get("AWS_PROFILE") or "default"

    @property
    def method(self) -> str:
        """Where the credentials come from, in botocore's words."""
        try:
            return str(getattr(self._found(), "method", ""))
        except S3Failure:
            return ""

    def session(self) -> Any:
        """Return botocore's session; the same until `renew`.

        Raises:
            AwsError: botocore is not installed, or AWS's configuration cannot be read.
            UnknownNameError: there is no such profile.
        """
        with self._lock:
            if self._session is None:
                self._session = self._new_session()
            return self._session

    def renew(self) -> None:
        """Read the configuration again: somebody may have logged in, or written a file."""
        with self._lock:
            self._session = None

    def profiles(self) -> list[str]:
        """Return the profiles that there are."""
        import botocore.session

        return list(botocore.session.Session().available_profiles)

    def credentials(self) -> dict[str, Any]:
        """Return credentials as obstore takes them: it asks for them again and again.

        Raises:
            S3Failure: there are none, or they cannot be renewed.
        """
        try:
            frozen = self._found().get_frozen_credentials()
        except S3Failure as failure:
            self.failure = failure
            raise
        except Exception as error:
            self.failure = _of_renewal(error)
            raise self.failure from error
        self.failure = None
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": self._ask_again(),
        }

    def _found(self) -> Any:
        with self._lock:
            try:
                found = self.session().get_credentials()
            except _botocore_errors() as error:
                raise _of_renewal(error) from error
        if found is None:
            raise S3Failure(Kind.NO_CREDENTIALS, "no AWS credentials were found")
        return found

    def _ask_again(self) -> datetime:
        from datetime import datetime, timedelta, timezone

        now = datetime.now(timezone.utc)
        end = getattr(self._found(), "_expiry_time", None)
        moment = now + timedelta(seconds=_ASK_AGAIN)
        if isinstance(end, datetime) and end.tzinfo is not None:
            moment = min(moment, end.astimezone(timezone.utc))  # the only zone that obstore takes
        return moment + timedelta(seconds=_EARLY)

    def _new_session(self) -> Any:
        try:
            import botocore.session
            from botocore.exceptions import BotoCoreError, ProfileNotFound
        except ImportError:
            raise AwsError(
                "S3 needs the packages boto3 and obstore; install them with: pip install "
                "'wherry[aws]'"
            ) from None
        session = botocore.session.Session(profile=self._given_profile)
        if self._credentials_file:
            path = os.path.abspath(os.path.expanduser(self._credentials_file))
            if not os.path.isfile(path):
                raise AwsError(f"there is no credentials file {path}")
            session.set_config_variable("credentials_file", path)
        try:
            session.get_scoped_config()
        except ProfileNotFound:
            raise UnknownNameError(unknown("AWS profile", self.profile, self.profiles())) from None
        except BotoCoreError as error:
            raise AwsError(f"AWS's configuration cannot be used: {error}") from error
        return session


_KNOCKS = (0.2, 0.8, 0.0)  # seconds of waiting after a knock that nobody heard


def knock(url: str) -> None:
    """See that somebody answers at an address, which a client's own retries find out late.

    Raises:
        S3Failure: nobody does.
    """
    import socket
    import time

    from botocore.utils import get_environ_proxies

    if get_environ_proxies(url):
        return  # the proxy is to find it
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    for pause in _KNOCKS:
        try:
            socket.create_connection((parts.hostname or "", port), _PATIENCE).close()
            return
        except OSError as error:
            why = error
        time.sleep(pause)
    raise S3Failure(Kind.UNREACHABLE, why.strerror or str(why)) from why


def _variable(session: Any, name: str) -> str:
    return str(session.get_config_variable(name) or "")


def _configured_endpoint(session: Any) -> str:
    """Return the server that the environment or the profile names, in botocore's order."""
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return ""
    scoped = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(scoped.get("services", ""), {})
    section = services.get("s3", {})
    for found in (
        os.environ.get("AWS_ENDPOINT_URL_S3"),
        os.environ.get("AWS_ENDPOINT_URL"),
        section.get("endpoint_url") if isinstance(section, dict) else None,
        scoped.get("endpoint_url"),
    ):
        if found:
            return str(found)
    return ""


def _is_aws(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _botocore_errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


def _of_renewal(error: Exception) -> S3Failure:
    """Word a failure to get credentials, whatever the service was that refused them."""
    failure = of_botocore(error)
    kind = Kind.NO_CREDENTIALS if failure.kind is Kind.NO_CREDENTIALS else Kind.CREDENTIALS
    return S3Failure(kind, failure.message, code=failure.code, status=failure.status)
