"""Who we are at AWS, and where: profile, region, endpoint and credentials, as boto3 finds them.

A session makes clients and hands out the `Calls` of each service; what must be shared by all who
use the same account from this process (limiters, the poller) it finds or makes. boto3 is loaded
when something is first asked for. Credentials are read by boto3, and neither kept nor shown here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from wherry._version import __version__
from wherry.aws import complaints
from wherry.aws.calls import Calls
from wherry.aws.documents import Client
from wherry.aws.failures import Failure, Kind, client_errors
from wherry.aws.pacing import Limiter
from wherry.errors import AwsError, UnknownNameError, UsageError, unknown

if TYPE_CHECKING:
    from wherry.aws.polling import Poller

ClientFactory = Callable[[str], Client | None]
"""Gives a ready client for a service by boto3's name, or nothing for one that we are to make."""

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_CONNECTIONS = 32

_sharing = threading.Lock()
_limiters: WeakValueDictionary[tuple[str, str], Limiter] = WeakValueDictionary()
_pollers: WeakValueDictionary[str, Poller] = WeakValueDictionary()


class Session:
    """One identity in one region. All methods may be called from any thread.

    Args:
        profile: a profile of AWS's configuration; by default the one that boto3 takes.
        region: a region; by default the one that boto3 finds.
        client_factory: gives ready clients, which are used as they are.
        credentials_file: where profiles' credentials are kept; AWS's usual file by default.
    """

    def __init__(
        self,
        profile: str | None = None,
        region: str | None = None,
        *,
        client_factory: ClientFactory | None = None,
        credentials_file: str | None = None,
    ) -> None:
        self._profile = profile
        self._wanted_region = region
        self._credentials_file = credentials_file
        self._given = client_factory or _no_client
        self._lock = threading.RLock()
        self._boto: Any = None
        self._clients: dict[str, Client] = {}
        self._ready: set[str] = set()
        self._calls: dict[str, Calls] = {}
        self._identity = ""
        self._account = ""
        self._poller: Poller | None = None

    # -- what is handed out ---------------------------------------------------------------------

    def calls(self, service: str = "batch") -> Calls:
        """Return the calls of a service; the same object each time.

        Raises:
            UsageError: there is no region, or no such profile.
        """
        with self._lock:
            found = self._calls.get(service)
            if found is None:
                client = self.client(service)
                renew = None if service in self._ready else self._renewer(service)
                found = self._calls[service] = Calls(
                    client,
                    service=service,
                    limiter=self._limiter(service),
                    renew=renew,
                    explain=self._explain,
                )
            return found

    def client(self, service: str) -> Client:
        """Return the client of a service; the same object each time.

        Ours never repeat a call by themselves: `Calls` does, and knows what is safe.

        Raises:
            UsageError: there is no region, or no such profile.
            AwsError: boto3 is not installed, or AWS's configuration cannot be read.
        """
        with self._lock:
            found = self._clients.get(service)
            if found is None:
                found = self._given(service)
                if found is None:
                    found = self._make(service, self._boto_session())
                else:
                    self._ready.add(service)
                self._clients[service] = found
            return found

    def poller(self) -> Poller:
        """Return what watches jobs; one for all sessions of the same identity and region."""
        from wherry.aws.polling import Poller

        with self._lock:
            if self._poller is None:
                calls = self.calls()
                key = self._key("batch")
                with _sharing:
                    self._poller = _pollers.get(key) or _pollers.setdefault(key, Poller(calls))
            return self._poller

    @property
    def profile(self) -> str:
        """The profile of AWS's configuration that is used."""
        named = self._profile or os.environ.get("AWS_DEFAULT_PROFILE")  # botocore's order
        return named or os.environ.get("AWS_PROFILE") or "default"

    @property
    def region(self) -> str:
        """The region.

        Raises:
            UsageError: there is none.
        """
        found = self._region()
        if not found:
            raise UsageError(complaints.no_region(self.profile))
        return found

    @property
    def identity(self) -> str:
        """What tells these credentials from others; says nothing about them.

        It stays the same when temporary credentials are renewed.
        """
        with self._lock:
            if not self._identity:
                self._identity = self._find_identity()
            return self._identity

    def account_id(self) -> str:
        """Return the account's number; asks AWS if the credentials do not say.

        Returns:
            The number; empty for a ready client, whose account AWS Batch does not tell (unless
            there is a ready one of ``sts`` too). The ARN of each job has it.

        Raises:
            AwsError: AWS does not answer, or does not know the credentials.
        """
        if self._is_ready("batch") and not self._is_ready("sts"):
            return ""
        if not self._account:
            known = self._known_account()
            # Not under the lock: whoever renews credentials meanwhile needs it.
            self._account = known or str(self.calls("sts").call("GetCallerIdentity")["Account"])
        return self._account

    def endpoint(self, service: str = "batch") -> str:
        """Return the address at which a service is asked."""
        meta = getattr(self.client(service), "meta", None)
        return str(getattr(meta, "endpoint_url", ""))

    # -- boto3 ----------------------------------------------------------------------------------

    def _boto_session(self) -> Any:
        if self._boto is None:
            self._boto = self._new_boto_session()
        return self._boto

    def _new_boto_session(self) -> Any:
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ProfileNotFound
        except ImportError:
            raise AwsError(
                "AWS needs the package boto3; install it with: pip install 'wherry[aws]'"
            ) from None
        try:
            return boto3.Session(
                # Without a name, variables of the environment would come before the file.
                profile_name=self._profile or ("default" if self._credentials_file else None),
                region_name=self._wanted_region,
                botocore_session=self._botocore_session(),
            )
        except ProfileNotFound:
            raise UnknownNameError(self._unknown_profile()) from None
        except BotoCoreError as error:
            raise AwsError(f"AWS's configuration cannot be used: {error}") from error

    def _botocore_session(self) -> Any:
        """Return a session that reads credentials from the file that was named, if one was."""
        if self._credentials_file is None:
            return None
        path = os.path.expanduser(self._credentials_file)
        if not os.path.isfile(path):
            raise UsageError(f"the credentials file {self._credentials_file!r} does not exist")
        import botocore.session

        session = botocore.session.Session()
        session.set_config_variable("credentials_file", path)
        return session

    def _make(self, service: str, boto: Any) -> Client:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError, ProfileNotFound

        config = Config(
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            max_pool_connections=_CONNECTIONS,
            tcp_keepalive=True,
            user_agent_extra=f"wherry/{__version__}",
        )
        region = self._region() or None
        try:
            return boto.client(service, region_name=region, config=config)
        except NoRegionError:
            raise UsageError(complaints.no_region(self.profile)) from None
        except ProfileNotFound:
            # Where the configuration was read before, the session does not look for it.
            raise UnknownNameError(self._unknown_profile()) from None
        except (BotoCoreError, ValueError) as error:
            raise UsageError(f"no client of {service} can be made: {error}") from error

    def _renewer(self, service: str) -> Callable[[Client], Client | None]:
        def renew(stale: Client) -> Client | None:
            return self._renewed(service, stale)

        return renew

    def _renewed(self, service: str, stale: Client) -> Client | None:
        """Read the credentials again: somebody may have logged in, or written a file, meanwhile."""
        with self._lock:
            if self._clients.get(service) is stale:
                self._boto = self._new_boto_session()
                for name in list(self._clients):
                    if name not in self._ready:
                        del self._clients[name]
            return self.client(service)

    # -- who we are -----------------------------------------------------------------------------

    def _given_region(self) -> str:
        """Return the region of a ready client."""
        client = self._given("batch")
        name = getattr(getattr(client, "meta", None), "region_name", None)
        return name if isinstance(name, str) else ""

    def _region(self) -> str:
        if self._wanted_region:
            return self._wanted_region
        with self._lock:
            return self._given_region() or str(self._boto_session().region_name or "")

    def _find_identity(self) -> str:
        import hashlib

        if self._is_ready("batch"):
            return f"client-{id(self.client('batch')):x}"
        known = self._of_credentials("account_id") or self._of_credentials("access_key")
        return hashlib.sha256((known or f"profile {self.profile}").encode()).hexdigest()[:16]

    def _known_account(self) -> str:
        return "" if self._is_ready("batch") else self._of_credentials("account_id")

    def _of_credentials(self, name: str) -> str:
        """Return what the credentials say; nothing when they cannot be had now.

        The first call will say why.
        """
        boto = self._boto_session()
        try:
            found = getattr(boto.get_credentials(), name, None)
        except client_errors():
            return ""
        return found if isinstance(found, str) else ""

    def _is_ready(self, service: str) -> bool:
        return service in self._ready or self._given(service) is not None

    def _key(self, service: str) -> str:
        # Ready clients need nothing of the configuration here, and it may not be in order.
        region = self._given_region() if self._is_ready("batch") else self._region()
        return f"{self.identity} {region} {self.endpoint(service)}"

    def _limiter(self, service: str) -> Limiter:
        key = (service, self._key(service))
        with _sharing:
            found = _limiters.get(key)
            if found is None:
                found = _limiters[key] = Limiter()
            return found

    # -- words ----------------------------------------------------------------------------------

    def _unknown_profile(self) -> str:
        name = self.profile
        source = "" if self._profile else " (from AWS_PROFILE)"
        return unknown("AWS profile", name, self._profiles()).replace(
            repr(name), repr(name) + source, 1
        )

    def _profiles(self) -> list[str]:
        import botocore.session

        session = self._botocore_session() or botocore.session.Session()
        return list(session.available_profiles)

    def _explain(self, failure: Failure) -> str:
        if failure.kind not in (Kind.UNREACHABLE, Kind.EXPIRED, Kind.CREDENTIALS):
            return ""
        with self._lock:
            if self._is_ready("batch"):
                around = complaints.Surroundings(ready=True)
            else:
                boto = self._boto_session()
                around = complaints.Surroundings(
                    profile=self.profile,
                    profiles=self._profiles(),
                    method=self._of_credentials("method"),
                    region=boto.region_name or "",
                    regions=boto.get_available_regions("batch"),
                )
        return complaints.explained(failure, around)


def session_of(clients: Mapping[str, Client | None], **options: str | None) -> Session:
    """Make a session with some ready clients.

    Args:
        clients: service → client; ``None`` for one that the session is to make.
        options: ``profile``, ``region`` and ``credentials_file``, as for `Session`.
    """
    return Session(
        options.get("profile"),
        options.get("region"),
        client_factory=lambda service: clients.get(service),
        credentials_file=options.get("credentials_file"),
    )


def _no_client(_service: str) -> Client | None:
    return None
