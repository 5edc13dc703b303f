"""S3 by way of obstore: the quick one, for nearly everything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from wherry.store.api import Buffer
from wherry.store.s3_access import Access
from wherry.store.s3_failures import Kind, S3Failure, of_obstore
from wherry.store.s3_wire import PARALLEL, Entry

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAGE = 1000
_CLIENT: dict[str, Any] = {
    "connect_timeout": "10s",
    # A part of 8 MiB may take this long; on a slow line twelve of them share it.
    "read_timeout": "180s",
    "timeout": "900s",
    "pool_idle_timeout": "30s",
}
_RETRY: dict[str, Any] = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=8),
        "base": 2,
    },
}


class ObstoreWire:
    """A client of one bucket.

    Its threads do not survive a fork: `S3Store` takes the other one in a child.

    Args:
        access: who we are, and where the bucket is.
    """

    def __init__(self, access: Access) -> None:
        import obstore

        self._obstore = obstore
        self._access = access
        self._store = _store(access)

    def get(self, key: str, most: int) -> tuple[int, Buffer | None]:
        """Return an object's size and, if that is not more than ``most``, its bytes."""
        try:
            found = self._obstore.get(self._store, key)
            size = found.meta["size"]
            return size, memoryview(found.bytes()) if size <= most else None
        except Exception as error:
            raise self._failure(error) from error

    def get_range(self, key: str, start: int, end: int | None, etag: str = "") -> Buffer:
        """Return what there is of a range, which begins inside the object."""
        wanted: Any = {"offset": start} if end is None else (start, end)
        options: Any = {"range": wanted, **({"if_match": etag} if etag else {})}
        try:
            return memoryview(self._obstore.get(self._store, key, options=options).bytes())
        except Exception as error:
            raise self._failure(error) from error

    def put(self, key: str, data: Buffer, *, new: bool = False) -> None:
        """Store an object in one request, on condition that it is a new one."""
        mode: Any = "create" if new else "overwrite"
        try:
            self._obstore.put(self._store, key, data, mode=mode, use_multipart=False)
        except Exception as error:
            raise self._failure(error) from error

    def put_large(self, key: str, pieces: Iterator[Buffer], piece: int) -> None:
        """Store an object in parts of ``piece`` bytes, many at once."""
        try:
            self._obstore.put(
                self._store,
                key,
                pieces,
                use_multipart=True,
                chunk_size=piece,
                max_concurrency=PARALLEL,
            )
        except Exception as error:
            raise self._failure(error) from error

    def head(self, key: str) -> Entry | None:
        """Tell about an object; ``None`` if the server has none, or no bucket."""
        try:
            return _entry(self._obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failure(error) from error

    def pages(self, prefix: str) -> Iterator[Sequence[Entry]]:
        """List the objects below a prefix, which ends with a slash or is empty."""
        try:
            for page in self._obstore.list(self._store, prefix, chunk_size=_PAGE):
                yield [_entry(meta) for meta in page]
        except Exception as error:
            raise self._failure(error) from error

    def delete(self, keys: Sequence[str]) -> None:
        """Remove at most 1,000 objects."""
        try:
            self._obstore.delete(self._store, list(keys))
        except FileNotFoundError as error:
            failure = self._failure(error)
            if failure.kind is Kind.NO_BUCKET:
                raise failure from error
        except Exception as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Let go of connections; obstore does so by itself."""

    def _failure(self, error: Exception) -> S3Failure:
        """Read a failure; what the credentials said is not in obstore's text."""
        why = self._access.failure
        return why if why is not None else of_obstore(error)


def _store(access: Access) -> Any:
    from obstore.store import S3Store

    server = access.server()
    client = {**_CLIENT, "allow_http": server.url.startswith("http://")}
    if access.certificates:
        with open(access.certificates, "rb") as file:
            client["root_certificate"] = file.read()
    config: dict[str, Any] = {
        "endpoint": server.url,
        "region": server.region,
        "virtual_hosted_style_request": server.in_host,
        "skip_signature": False,
        "conditional_put": "etag",
    }
    # obstore reads this variable by itself, and prefers it to what it is given.
    if os.environ.get("AWS_ENDPOINT_URL_S3"):
        config["aws_endpoint_url_s3"] = server.url
    return S3Store(
        access.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=client,  # type: ignore[arg-type]
        retry_config=_RETRY,  # type: ignore[arg-type]
        credential_provider=access.credentials,  # type: ignore[arg-type]
    )


def _entry(meta: ObjectMeta) -> Entry:
    modified = meta["last_modified"].timestamp()
    return Entry(meta["path"], meta["size"], modified, meta["e_tag"] or "")
