"""S3 by way of botocore: slower, and it works where obstore does not.

That is in a child of a process that has used obstore, whose threads a fork leaves behind; with
servers that do not mark a range as one (status 200); for the condition on an object in parts; and
for what obstore does not ask: which buckets there are.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from wherry.store.api import Buffer
from wherry.store.s3_access import Access
from wherry.store.s3_failures import S3Failure, kind_of, of_botocore
from wherry.store.s3_wire import PARALLEL, Entry

_ATTEMPTS = 8
_CONNECTIONS = 64


class BotocoreWire:
    """A client of one bucket.

    Args:
        access: who we are, and where the bucket is.
    """

    def __init__(self, access: Access) -> None:
        self._bucket = access.bucket
        self._access = access
        with _read():
            self._client = _client(access)

    def get(self, key: str, most: int) -> tuple[int, Buffer | None]:
        """Return an object's size and, if that is not more than ``most``, its bytes."""
        with _read():
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            size = int(answer["ContentLength"])
            with answer["Body"] as body:
                return size, body.read() if size <= most else None

    def get_range(self, key: str, start: int, end: int | None, etag: str = "") -> Buffer:
        """Return what there is of a range, which begins inside the object."""
        last = "" if end is None else str(end - 1)
        condition = {"IfMatch": etag} if etag else {}
        with _read():
            answer = self._client.get_object(
                Bucket=self._bucket, Key=key, Range=f"bytes={start}-{last}", **condition
            )
            with answer["Body"] as body:
                data: bytes = body.read()
        return data

    def put(self, key: str, data: Buffer, *, new: bool = False) -> None:
        """Store an object in one request; ``new`` if only where there is none."""
        condition = {"IfNoneMatch": "*"} if new else {}
        with _read():
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=ViewFile(memoryview(data)), **condition
            )

    def put_large(
        self, key: str, pieces: Iterator[Buffer], piece: int, *, new: bool = False
    ) -> None:
        """Store an object in parts, many at once; on condition that it is a new one.

        Args:
            key: its key.
            pieces: its bytes, in parts of the right length.
            piece: that length; unused.
            new: whether it is to be stored only where there is none.
        """
        del piece
        about = {"Bucket": self._bucket, "Key": key}
        with _read():
            about["UploadId"] = self._client.create_multipart_upload(**about)["UploadId"]
            try:
                parts = self._sent(about, pieces)
                condition = {"IfNoneMatch": "*"} if new else {}
                self._client.complete_multipart_upload(
                    **about, MultipartUpload={"Parts": parts}, **condition
                )
            except BaseException:
                self._abort(about)
                raise

    def _sent(self, about: dict[str, str], pieces: Iterator[Buffer]) -> list[dict[str, Any]]:
        def send(number: int, data: Buffer) -> dict[str, Any]:
            body = ViewFile(memoryview(data))
            answer = self._client.upload_part(**about, PartNumber=number, Body=body)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        done: list[dict[str, Any]] = []
        waiting: deque[Future[dict[str, Any]]] = deque()
        with ThreadPoolExecutor(PARALLEL, "wherry-s3") as pool:
            for number, data in enumerate(pieces, 1):
                if len(waiting) >= PARALLEL:
                    done.append(waiting.popleft().result())
                waiting.append(pool.submit(send, number, data))
            done.extend(future.result() for future in waiting)
        return done

    def _abort(self, about: dict[str, str]) -> None:
        try:
            self._client.abort_multipart_upload(**about)
        except Exception:  # noqa: BLE001, S110 — what went wrong before is what matters
            pass

    def head(self, key: str) -> Entry | None:
        """Tell about an object; ``None`` if the server has none, or no bucket."""
        try:
            with _read():
                found = self._client.head_object(Bucket=self._bucket, Key=key)
        except S3Failure as failure:
            if failure.status == 404:
                return None
            raise
        return Entry(key, found["ContentLength"], found["LastModified"].timestamp(), found["ETag"])

    def pages(self, prefix: str) -> Iterator[Sequence[Entry]]:
        """List the objects whose keys begin so."""
        with _read():
            lister = self._client.get_paginator("list_objects_v2")
            for page in lister.paginate(Bucket=self._bucket, Prefix=prefix):
                yield [_entry(found) for found in page.get("Contents", ())]

    def delete(self, keys: Sequence[str]) -> None:
        """Remove at most 1,000 objects."""
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        with _read():
            answer = self._client.delete_objects(Bucket=self._bucket, Delete=wanted)
        for error in answer.get("Errors", ()):
            code = error.get("Code", "")
            if code != "NoSuchKey":
                raise S3Failure(kind_of(code, 0), error.get("Message", ""), code=code)

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def buckets(self) -> list[str]:
        """Return the buckets that there are; none when we may not know."""
        try:
            return [found["Name"] for found in self._client.list_buckets()["Buckets"]]
        except Exception:  # noqa: BLE001 — it was asked for a hint only
            return []


class ViewFile(io.RawIOBase):
    """A file of a buffer's bytes, which are not copied until they are sent.

    Args:
        view: the buffer.
    """

    def __init__(self, view: memoryview) -> None:
        self._view = view.cast("B")
        self._at = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be read again."""
        return True

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._view.nbytes}[whence]
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: piece.nbytes] = piece
        self._at += piece.nbytes
        return piece.nbytes


def _client(access: Access) -> Any:
    from botocore.config import Config

    server = access.server()
    aws = access.endpoint == ""
    config = Config(
        retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        connect_timeout=10,
        read_timeout=180,
        max_pool_connections=_CONNECTIONS,
        tcp_keepalive=True,
        s3={"addressing_style": "auto" if aws else "path"},
        # Servers other than AWS's send the checksum of an object along with a part of it.
        response_checksum_validation="when_required",
        request_checksum_calculation="when_required",
    )
    return access.session().create_client(
        "s3", region_name=server.region, endpoint_url=None if aws else server.url, config=config
    )


@contextmanager
def _read() -> Iterator[None]:
    """Turn what botocore raises into failures."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise of_botocore(error) from error


def _entry(found: dict[str, Any]) -> Entry:
    return Entry(found["Key"], found["Size"], found["LastModified"].timestamp(), found["ETag"])
