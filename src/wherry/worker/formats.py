"""The formats in which calls go to a job and outcomes come back.

Layout under a store's URL:

    blobs/ab/abcd…            content-addressed by SHA-256 (hex): functions, arguments, items, code
    jobs/JOB/call.json        the call document (`Call`): the one reference a job is given
    jobs/JOB/job.json         the client's record of the job; the worker does not read it
    jobs/JOB/out/INDEX        the outcome of child INDEX (0 for a single job), in an `Outcome`
    jobs/JOB/beat/INDEX       what that child is doing, in JSON: phase, time, attempt
    jobs/JOB/files/INDEX/…    output files of that child, under their names

A *record* is one pickled value: a pickle of protocol 5 and its out-of-band buffers.

    u32 n, u32 reserved, n × u64 length, then the n parts: the pickle first, then the buffers

A *pack* is many records in one object, read by range: a map's items.

    b"WHERRYP1", u64 count, (count + 1) × u64 offset from the object's beginning, records

An *outcome* is a JSON header and parts:

    b"WHERRYO1", u64 length of the header, the header (UTF-8 JSON), the parts one after the other

All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypedDict

    Buffer = bytes | bytearray | memoryview

    class Part(TypedDict, total=False):
        """Where a blob is, and how long it is."""

        blob: str  # SHA-256, hex
        size: int

    class Tree(TypedDict, total=False):
        """A workspace archive, and where it is laid."""

        manifest: str  # blob of the manifest (wherry.workspace)
        target: str  # folder; relative to the working directory

    class Install(TypedDict, total=False):
        """What is installed before the call."""

        pip: list[str]
        requirements: str  # the text of a requirements file
        lock: str  # the text of a lock file (pylock.toml or uv's export)
        bash: list[str]  # lines of shell, run in order, before pip
        modules: list[Part]  # zips of modules put on sys.path

    class Call(TypedDict, total=False):
        """The call document."""

        version: int  # FORMAT
        job: str
        python: str  # the client's, such as "3.11.7"
        cloudpickle: str
        function: Part  # a record whose value is the callable
        arguments: Part  # a record whose value is (args, kwargs); of a single call or a gang
        items: Part  # a pack of records whose values are (args, kwargs); of a map
        count: int  # items of the map
        chunksize: int  # items of one child; the last may have fewer
        indices: list[int]  # item of each child's place, when it is not the identity (a rerun)
        first: int  # the first child's number, when an array is one of several
        parallel: int  # processes that share a chunk's items; the vCPUs when 0
        initializer: Part  # a record (callable, args), called once in each process
        code: list[Tree]
        syspath: list[str]  # folders put in front of sys.path: in the trees, or (local) absolute
        cwd: str  # the working directory to change to (local); empty: where it starts
        deps: Install
        inputs: dict[str, Any]  # name → Part, or {"url": "s3://…"}
        outputs: list[str]  # patterns
        nodes: int  # of a gang
        beat: float  # seconds between heartbeats; 0 for none
        environ: dict[str, str]  # variables set before anything of the user's is imported

    class Failure(TypedDict, total=False):
        """An exception."""

        kind: str  # of KINDS
        type: str  # module.qualname
        message: str
        traceback: str
        exception: int  # the part that holds its record, when it can be pickled
        limit: int  # of a MemoryError: the bytes that the process may use; 0 when not bounded

    class Item(TypedDict, total=False):
        """What came of one item."""

        item: int
        ok: bool
        value: int  # number of its first part: a record, as parts (head, pickle, buffers …)
        parts: int  # how many parts
        error: Failure
        warnings: list[dict[str, Any]]  # message, category, filename, lineno
        wall: float
        cpu: float

    class Header(TypedDict, total=False):
        """The header of an outcome."""

        version: int
        job: str
        child: int
        attempt: int
        python: str
        cloudpickle: str
        host: str
        started: float
        ended: float
        phases: dict[str, float]  # phase → seconds
        cpu: float
        peak_kib: int
        items: list[Item]
        error: Failure  # before any item ran: deps, fetching, unpickling the function
        exit: int  # the code that the process is about to leave with
        stdout: int  # part; the end of what was written, at most STREAM_MOST bytes
        stderr: int
        outputs: dict[str, Part]  # file name → its SHA-256 and size; it is at `file_key`
        parts: list[int]  # lengths
        digest: str  # SHA-256 of all parts


FORMAT = 1
PACK_MAGIC = b"WHERRYP1"
OUTCOME_MAGIC = b"WHERRYO1"
STREAM_MOST = 1 << 20

PHASES = ("fetching", "installing", "running", "storing")

KINDS = (
    "exception",  # the user's function raised
    "exit",  # sys.exit
    "deps",  # an installation failed
    "fetch",  # the call, code, an input or an argument could not be had
    "unpickle",  # the function or its arguments do not load here
    "result",  # the value cannot be pickled
    "store",  # the value cannot be stored: no room, no permission
    "initializer",  # the initializer raised
    "output",  # an output pattern matched nothing, or a file could not be read
    "python",  # this Python cannot run the call
    "lost",  # the process that ran the item died (in a shared chunk)
)

EXIT_ERROR = 1

CALL_ENV = "WHERRY_CALL"
"""Names the call document: the store's URL and the key, as one URL."""

_RECORD = struct.Struct("<II")
_U64 = struct.Struct("<Q")


def blob_key(digest: str) -> str:
    """Return the key of a content-addressed object."""
    return f"blobs/{digest[:2]}/{digest}"


def call_key(job: str) -> str:
    """Return the key of a job's call document."""
    return f"jobs/{job}/call.json"


def job_key(job: str) -> str:
    """Return the key of the client's record of a job."""
    return f"jobs/{job}/job.json"


def out_key(job: str, child: int) -> str:
    """Return the key of a child's outcome."""
    return f"jobs/{job}/out/{child}"


def beat_key(job: str, child: int) -> str:
    """Return the key of a child's heartbeat."""
    return f"jobs/{job}/beat/{child}"


def file_key(job: str, child: int, name: str) -> str:
    """Return the key of a child's output file."""
    return f"jobs/{job}/files/{child}/{name}"


def record_parts(pickled: Buffer, buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return a record as parts, none of them copied."""
    parts = [pickled, *buffers]
    lengths = [memoryview(part).nbytes for part in parts]
    head = _RECORD.pack(len(parts), 0) + struct.pack(f"<{len(parts)}Q", *lengths)
    return [head, *parts]


def read_record(data: Buffer) -> tuple[memoryview, list[memoryview]]:
    """Take a record apart: the pickle, and its buffers, as views.

    Raises:
        ValueError: it is not one.
    """
    view = memoryview(data)
    if view.nbytes < _RECORD.size:
        raise ValueError("a record that is cut off")
    count, _ = _RECORD.unpack_from(view)
    at = _RECORD.size + count * _U64.size
    if not count or view.nbytes < at:
        raise ValueError("a record that is cut off")
    lengths = struct.unpack_from(f"<{count}Q", view, _RECORD.size)
    if view.nbytes != at + sum(lengths):
        raise ValueError("a record that is cut off")
    pieces = []
    for length in lengths:
        pieces.append(view[at : at + length])
        at += length
    return pieces[0], pieces[1:]


def pack_index(lengths: Sequence[int]) -> bytes:
    """Return the beginning of a pack whose records have these lengths."""
    count = len(lengths)
    at = len(PACK_MAGIC) + _U64.size * (count + 2)
    offsets = [at]
    for length in lengths:
        at += length
        offsets.append(at)
    return PACK_MAGIC + _U64.pack(count) + struct.pack(f"<{count + 1}Q", *offsets)


def pack_slot(item: int) -> tuple[int, int]:
    """Return the range of a pack that tells where one item begins and ends: two u64."""
    start = len(PACK_MAGIC) + _U64.size * (1 + item)
    return start, start + 2 * _U64.size


def outcome_head(header: Header) -> bytes:
    """Return the beginning of an outcome, up to its first part."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return OUTCOME_MAGIC + _U64.pack(len(text)) + text


def read_outcome(data: Buffer) -> tuple[Header, list[memoryview]]:
    """Take an outcome apart: its header, and its parts as views.

    Raises:
        ValueError: it is not one, or cut off. The digest is not looked at.
    """
    view = memoryview(data)
    start = len(OUTCOME_MAGIC) + _U64.size
    if bytes(view[: len(OUTCOME_MAGIC)]) != OUTCOME_MAGIC or view.nbytes < start:
        raise ValueError("not an outcome")
    (length,) = _U64.unpack_from(view, len(OUTCOME_MAGIC))
    at = start + length
    if view.nbytes < at:
        raise ValueError("an outcome that is cut off")
    header: Header = json.loads(bytes(view[start:at]))
    parts = []
    for size in header.get("parts", []):
        parts.append(view[at : at + size])
        at += size
    if view.nbytes != at:
        raise ValueError("an outcome that is cut off")
    return header, parts
