"""A store in S3, or in a server that speaks its protocol."""

from __future__ import annotations

import os
import time

from .credentials import Source, file_region
from .faults import CorruptObject, MissingObject, StoreFault
from .http import Answer, Pool
from .sigv4 import encode, payload_hash, sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .formats import Buffer

PART = 16 << 20
_PARTS_MOST = 9_000
_PARALLEL = 8
_TRIES = 8
_WAIT_FIRST = 0.1
_WAIT_MOST = 10.0
_AGAIN_STATUS = (429, 500, 502, 503, 504)
_AGAIN_CODES = ("SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling")
_EXPIRED_CODES = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken")


class S3Objects:
    """Objects in a bucket, below a prefix. May be used from any thread.

    Args:
        url: ``s3://bucket/prefix``.
    """

    def __init__(self, url: str) -> None:
        bucket, _, prefix = url[len("s3://") :].partition("/")
        if not bucket:
            raise StoreFault(f"A store in S3 is s3://bucket/prefix, not {url!r}.")
        environ = os.environ
        self._url = url
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        self._endpoint = endpoint.rstrip("/")
        self._region = (
            environ.get("AWS_REGION")
            or environ.get("AWS_DEFAULT_REGION")
            or file_region(environ)
            or "us-east-1"
        )
        self._source = Source()
        self._pool = Pool()
        self._skew = 0.0

    def close(self) -> None:
        """Let go of connections."""
        self._pool.close()
        self._source.close()

    def size(self, key: str) -> int:
        """Return how many bytes an object has."""
        answer = self._ask("HEAD", key)
        return int(answer.headers.get("content-length", "0"))

    def read(self, key: str, start: int, end: int | None) -> bytes:
        """Return an object's bytes from ``start`` up to ``end``."""
        headers = {}
        if start or end is not None:
            if end is not None and end <= start:
                return b""
            headers["range"] = f"bytes={start}-" + ("" if end is None else str(end - 1))
        return self._ask("GET", key, headers=headers).body

    def read_into(self, key: str, start: int, view: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on, in parallel parts if large."""
        spans = range(0, view.nbytes, PART)

        def fetch(at: int) -> None:
            self._fill(key, start + at, view[at : at + PART])

        in_parallel(fetch, spans)

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file, in parallel parts if large."""
        import mmap

        size = self.size(key)
        beside = f"{path}.{os.getpid()}.part"
        try:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                if size:
                    _reserve(descriptor, size)
                    with mmap.mmap(descriptor, size) as mapped:
                        view = memoryview(mapped)
                        try:
                            self.read_into(key, 0, view)
                        finally:
                            view.release()
            finally:
                os.close(descriptor)
            os.replace(beside, path)
        except OSError as error:
            raise StoreFault(f"{path} cannot be written: {error.strerror}.") from None
        finally:
            try:
                os.unlink(beside)
            except OSError:
                pass

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object that consists of these parts, in parallel if large."""
        views = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
        size = sum(view.nbytes for view in views)
        if size <= PART:
            self._ask("PUT", key, body=views)
            return
        step = max(PART, -(-size // _PARTS_MOST))
        self._write_parts(key, [_cut(views, at, at + step) for at in range(0, size, step)])

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        import mmap

        try:
            with open(path, "rb", buffering=0) as file:
                if not os.fstat(file.fileno()).st_size:
                    self.write(key, [])
                    return
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    view = memoryview(mapped)
                    try:
                        self.write(key, [view])
                    finally:
                        view.release()
        except OSError as error:
            raise StoreFault(f"{path} cannot be read: {error.strerror}.") from None

    def _write_parts(self, key: str, bodies: list[list[memoryview]]) -> None:
        begun = self._ask("POST", key, query="uploads=")
        upload = _tag(begun.body, "UploadId")
        if not upload:
            raise StoreFault(f"{self._name(key)}: the server began no upload in parts.")
        tags: dict[int, str] = {}

        def send(number: int) -> None:
            query = f"partNumber={number}&uploadId={encode(upload)}"
            tags[number] = self._ask("PUT", key, query=query, body=bodies[number - 1]).headers.get(
                "etag", ""
            )

        try:
            in_parallel(send, range(1, len(bodies) + 1))
            lines = [
                f"<Part><PartNumber>{number}</PartNumber><ETag>{tags[number]}</ETag></Part>"
                for number in sorted(tags)
            ]
            text = f"<CompleteMultipartUpload>{''.join(lines)}</CompleteMultipartUpload>"
            self._ask("POST", key, query=f"uploadId={encode(upload)}", body=[text.encode()])
        except BaseException:
            try:
                self._ask("DELETE", key, query=f"uploadId={encode(upload)}", tries=2)
            except StoreFault:
                pass  # A lifecycle rule clears what is left of unfinished uploads.
            raise

    def _fill(self, key: str, start: int, view: memoryview) -> None:
        headers = {"range": f"bytes={start}-{start + view.nbytes - 1}"}
        answer = self._ask("GET", key, headers=headers, into=view)
        if answer.status == 416 or answer.filled != view.nbytes:
            raise CorruptObject(
                f"{self._name(key)} is cut off: {view.nbytes:,} bytes were expected from "
                f"{start:,} on, and there are {answer.filled:,}."
            )

    def _ask(
        self,
        method: str,
        key: str,
        *,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: Sequence[Buffer] = (),
        into: memoryview | None = None,
        tries: int = _TRIES,
    ) -> Answer:
        """Send a signed request until it is answered for good.

        Raises:
            StoreFault: it was refused, or nobody answers.
        """
        why = ""
        wait = 0.0
        for _ in range(tries):
            if wait:
                time.sleep(wait * (0.5 + os.urandom(1)[0] / 256))
            wait = min(_WAIT_MOST, wait * 2 or _WAIT_FIRST)
            path = encode(self._prefix + key, "/") + (f"?{query}" if query else "")
            url = f"{bucket_url(self._bucket, self._region, self._endpoint)}/{path}"
            credentials = self._source.get()
            signed = sign(
                url,
                method,
                headers or {},
                payload_hash(url, body),
                credentials,
                self._region,
                time.time() + self._skew,
            )
            try:
                answer = self._pool.request(url, method, signed, body, into)
            except OSError as error:
                why = f"{type(error).__name__}: {error}"
                continue
            code = _tag(answer.body, "Code") if b"<Error>" in answer.body[:1000] else ""
            if answer.status == 416 and into is not None:
                return answer
            if 200 <= answer.status < 300 and not (code and method == "POST"):
                return answer
            why = _why(answer, code)
            if self._follow(answer):
                wait = 0.0
            elif code in _EXPIRED_CODES:
                if not self._source.refused(credentials):
                    raise StoreFault(
                        f"{self._name(key)}: the credentials from {credentials.source} have "
                        "expired, and cannot be renewed from here. Give the job a role instead."
                    )
                wait = 0.0 if wait <= _WAIT_FIRST else wait
            elif code == "RequestTimeTooSkewed":
                self._adjust_clock(answer)
            elif answer.status not in _AGAIN_STATUS and code not in _AGAIN_CODES:
                raise self._refusal(method, key, answer, why)
        raise StoreFault(f"{self._name(key)}: the store does not answer: {why}")

    def _follow(self, answer: Answer) -> bool:
        """Take note of where the bucket really is; tell whether that is news."""
        actual = answer.headers.get("x-amz-bucket-region") or _tag(answer.body, "Region")
        if answer.status not in (301, 307, 400) or not actual or actual == self._region:
            return False
        self._region = actual
        return True

    def _adjust_clock(self, answer: Answer) -> None:
        from email.utils import parsedate_to_datetime

        try:
            theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return
        self._skew = theirs - time.time()

    def _refusal(self, method: str, key: str, answer: Answer, why: str) -> StoreFault:
        name = self._name(key)
        if answer.status == 404:
            if "NoSuchBucket" in why:
                return StoreFault(f"{name}: there is no bucket {self._bucket!r}.")
            return MissingObject(f"{name} is not there; it was deleted, or never stored.")
        if answer.status == 403:
            doing = "read" if method in ("GET", "HEAD") else "written"
            return StoreFault(
                f"{name} may not be {doing} with the credentials from "
                f"{self._source.get().source}: {why}. The job's role needs s3:GetObject and "
                f"s3:PutObject on arn:aws:s3:::{self._bucket}/{self._prefix}*."
            )
        return StoreFault(f"{name}: {why}")

    def _name(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def bucket_url(bucket: str, region: str, endpoint: str) -> str:
    """Return where a bucket is: in the path of a custom endpoint, in the host's name at AWS."""
    if endpoint:
        return f"{endpoint}/{bucket}"
    place = f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
    # A certificate's wildcard stands for one label, so a name with dots goes into the path.
    return f"https://{place}/{bucket}" if "." in bucket else f"https://{bucket}.{place}"


def in_parallel(work: Callable[[int], None], numbers: Sequence[int]) -> None:
    """Call something for each number, in a few threads; the first trouble ends it, and is raised.

    One number needs no thread.
    """
    if len(numbers) <= 1:
        for number in numbers:
            work(number)
        return
    import threading

    left = iter(numbers)
    lock = threading.Lock()
    troubles: list[BaseException] = []

    def run() -> None:
        while not troubles:
            with lock:
                number = next(left, None)
            if number is None:
                return
            try:
                work(number)
            except BaseException as trouble:  # noqa: BLE001 — raised by the one who waits
                troubles.append(trouble)

    threads = [threading.Thread(target=run) for _ in range(min(_PARALLEL, len(numbers)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]


def _cut(views: list[memoryview], start: int, end: int) -> list[memoryview]:
    """Return the bytes from ``start`` up to ``end`` of views that follow each other, as views."""
    made = []
    at = 0
    for view in views:
        first, last = max(start - at, 0), min(end - at, view.nbytes)
        if first < last:
            made.append(view[first:last])
        at += view.nbytes
    return made


def _tag(body: bytes, name: str) -> str:
    start = body.find(f"<{name}>".encode())
    end = body.find(f"</{name}>".encode(), start)
    if start < 0 or end < 0:
        return ""
    return body[start + len(name) + 2 : end].decode("utf-8", "replace").strip()


def _why(answer: Answer, code: str) -> str:
    said = _tag(answer.body, "Message")
    return f"HTTP {answer.status}" + (f" {code}" if code else "") + (f": {said}" if said else "")


def _reserve(descriptor: int, size: int) -> None:
    """Take the room at once: a mapped file that finds none later ends the process."""
    os.ftruncate(descriptor, size)
    os.posix_fallocate(descriptor, 0, size)
