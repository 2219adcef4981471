"""Identifies machine code by what it does: the same hash wherever the source lay and whichever line it began on.

Owns the reading of cubins. Must not know torch or how the code came to be.
"""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# ELF-64, little endian: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html, "ELF header" and "Sections".
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
_ALLOCATED = 0x2


@dataclass(frozen=True)
class Section:
    """One section of a cubin. `loaded` tells whether it reaches the device."""

    name: str
    content: bytes
    size_bytes: int
    info: int
    loaded: bool


def machine_code_sha256(cubin: bytes, *, num_warps: int, shared_bytes: int) -> str:
    """The hash of what a launch runs, so that settings with equal hashes need measuring once.

    A cubin as a whole cannot be compared: its debug sections hold the path and the lines of the source and its PTX.
    So only sections that are loaded onto the device are hashed: instructions, constants, shared memory. With them go
    the registers a thread is given (the top byte of a code section's info), the warps and the shared memory that
    the launcher asks for, none of which has to show in the instructions.

    Raises ValueError for what is no cubin.
    """
    digest = hashlib.sha256(f"warps {num_warps} shared {shared_bytes}".encode())
    for section in sorted(sections(cubin), key=lambda s: s.name):
        if section.loaded:
            registers = section.info >> 24 if section.name.startswith(".text") else 0
            digest.update(f"\n{section.name} {section.size_bytes} {registers}\n".encode())
            digest.update(section.content)
    return digest.hexdigest()


def sections(cubin: bytes) -> Iterator[Section]:
    """The sections of a cubin. Raises ValueError for what is no 64-bit ELF file."""
    if len(cubin) < _HEADER.size or cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a cubin: no 64-bit ELF header")
    header = _HEADER.unpack_from(cubin)
    start, count, names_index = header[6], header[12], header[13]
    table = [_SECTION.unpack_from(cubin, start + index * _SECTION.size) for index in range(count)]
    names_at = table[names_index][4]
    for name_at, kind, flags, _, offset, size, _, info, _, _ in table:
        end = cubin.index(b"\0", names_at + name_at)
        yield Section(
            name=cubin[names_at + name_at : end].decode(),
            content=b"" if kind == _NO_BITS else cubin[offset : offset + size],
            size_bytes=size,
            info=info,
            loaded=bool(flags & _ALLOCATED),
        )


def registers_and_spills(cubin: bytes, cuobjdump: str) -> tuple[int, int]:
    """Registers a thread and words of 4 bytes a thread keeps in local memory, with no GPU to ask.

    Both are as the driver counts them where there is one. `cuobjdump` is the path of that tool, which Triton brings.
    Raises CalledProcessError where the tool fails, ValueError where it names no function.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [cuobjdump, "--dump-resource-usage", str(path)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)\b.*?\bLOCAL:(\d+)", printed)
    if found is None:
        raise ValueError(f"cuobjdump names no function's resources: {printed.strip()[:200]}")
    registers, stack_bytes, local_bytes = map(int, found.groups())
    return registers, (stack_bytes + local_bytes) // 4
