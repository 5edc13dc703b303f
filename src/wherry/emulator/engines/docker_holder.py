"""The container that holds the namespaces of a task with several containers.

Containers of one ECS task reach each other at ``localhost``, whichever of them comes and goes. So a
container that does nothing keeps the network (and, where the task shares them, process ids and
memory segments) until the task is over. Nothing can be pulled for this: the image is made here,
of one program of a few instructions.
"""

from __future__ import annotations

import io
import struct
import tarfile
from typing import Any, NamedTuple

REPOSITORY = "wherry-holder"
TAG = "1"
IMAGE = f"{REPOSITORY}:{TAG}"


class Machine(NamedTuple):
    """One kind of processor.

    Attributes:
        elf: its number in an ELF header.
        code: ignores SIGCHLD, so that the kernel reaps orphans, and then sleeps for ever.
    """

    elf: int
    code: bytes


_SIGACTION = struct.pack("<4Q", 1, 0, 0, 0)  # SIG_IGN, no flags, no restorer, no mask

_X86_64 = bytes.fromhex(
    "b80d000000"  # mov eax, 13 (rt_sigaction)
    "bf11000000"  # mov edi, 17 (SIGCHLD)
    "488d3513000000"  # lea rsi, [rip+19] (the sigaction behind the code)
    "31d2"  # xor edx, edx
    "41ba08000000"  # mov r10d, 8
    "0f05"  # syscall
    "b822000000"  # mov eax, 34 (pause)
    "0f05"  # syscall
    "ebf7"  # jmp to the last mov
)

_AARCH64 = struct.pack(
    "<13I",
    0xD2800220,  # mov x0, #17 (SIGCHLD)
    0x10000181,  # adr x1, #48 (the sigaction behind the code)
    0xD2800002,  # mov x2, #0
    0xD2800103,  # mov x3, #8
    0xD28010C8,  # mov x8, #134 (rt_sigaction)
    0xD4000001,  # svc #0
    0xD2800000,  # mov x0, #0
    0xD2800001,  # mov x1, #0
    0xD2800002,  # mov x2, #0
    0xD2800003,  # mov x3, #0
    0xD2800928,  # mov x8, #73 (ppoll)
    0xD4000001,  # svc #0
    0x17FFFFFA,  # b to the second mov of x0
)

MACHINES = {
    "x86_64": Machine(62, _X86_64),
    "amd64": Machine(62, _X86_64),
    "aarch64": Machine(183, _AARCH64),
    "arm64": Machine(183, _AARCH64),
}
"""By the architecture that the Engine gives for itself."""

_BASE = 0x400000
_HEADERS = 64 + 56


def program(machine: Machine) -> bytes:
    """Return the program as an ELF file of one segment."""
    body = machine.code + _SIGACTION
    size = _HEADERS + len(body)
    entry = _BASE + _HEADERS
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack(
        "<2HI3QI6H", 2, machine.elf, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<2I6Q", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + body


def archive(machine: Machine) -> bytes:
    """Return the image's only layer."""
    data = program(machine)
    entry = tarfile.TarInfo("hold")
    entry.mode = 0o755
    entry.size = len(data)
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()


def creation(network: str, labels: dict[str, str], extra_hosts: list[str]) -> dict[str, Any]:
    """Return the body that creates a holder; see `docker_container.creation`."""
    host: dict[str, Any] = {
        "NetworkMode": network,
        "IpcMode": "shareable",
        "LogConfig": {"Type": "none"},
        "ReadonlyRootfs": True,
    }
    if extra_hosts:
        host["ExtraHosts"] = extra_hosts
    return {"Image": IMAGE, "Cmd": ["/hold"], "Labels": labels, "HostConfig": host}
