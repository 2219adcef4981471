from __future__ import annotations

import struct

import pytest

from warpsmith.measure.compiled.machine_code import machine_code_sha256, sections

ALLOCATED, PROGBITS, NO_BITS = 2, 1, 8


def make_cubin(*parts: tuple[str, int, int, bytes, int]) -> bytes:
    """An ELF file with sections of (name, kind, flags, content, info)."""
    table = [("", 0, 0, b"", 0), *parts, (".shstrtab", 3, 0, b"", 0)]
    names = b"".join(name.encode() + b"\0" for name, *_ in table)
    table[-1] = (".shstrtab", 3, 0, names, 0)
    body, headers, name_at = b"", b"", 0
    for name, kind, flags, content, info in table:
        offset = 64 + len(body)
        size = 1024 if kind == NO_BITS else len(content)
        headers += struct.pack("<IIQQQQIIQQ", name_at, kind, flags, 0, offset, size, 0, info, 1, 0)
        body += content
        name_at += len(name) + 1
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    start = 64 + len(body)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", identity, 2, 190, 1, 0, 0, start, 0, 64, 0, 0, 64, len(table), len(table) - 1
    )
    return header + body + headers


CODE = (".text.k", PROGBITS, ALLOCATED, b"instructions", 39 << 24 | 9)
DEBUG = (".debug_line", PROGBITS, 0, b"somewhere.py", 0)
SHARED = (".nv.shared.k", NO_BITS, ALLOCATED, b"", 0)


def sha256(*parts: tuple[str, int, int, bytes, int], num_warps: int = 4, shared_bytes: int = 32) -> str:
    return machine_code_sha256(make_cubin(*parts), num_warps=num_warps, shared_bytes=shared_bytes)


def test_sections_are_read_by_name() -> None:
    found = {
        each.name: (each.content, each.size_bytes, each.loaded) for each in sections(make_cubin(CODE, DEBUG, SHARED))
    }

    assert {name: found[name] for name in (".text.k", ".debug_line", ".nv.shared.k")} == {
        ".text.k": (b"instructions", 12, True),
        ".debug_line": (b"somewhere.py", 12, False),
        ".nv.shared.k": (b"", 1024, True),
    }


def test_what_is_not_loaded_does_not_count() -> None:
    elsewhere = (".debug_line", PROGBITS, 0, b"elsewhere.py, line 7", 0)

    assert sha256(CODE, DEBUG) == sha256(elsewhere, CODE) == sha256(CODE)


@pytest.mark.parametrize(
    "other",
    [
        sha256((".text.k", PROGBITS, ALLOCATED, b"instructionz", 39 << 24 | 9)),
        sha256((".text.k", PROGBITS, ALLOCATED, b"instructions", 40 << 24 | 9)),
        sha256(CODE, SHARED),
        sha256(CODE, num_warps=8),
        sha256(CODE, shared_bytes=64),
    ],
)
def test_instructions_registers_warps_and_shared_memory_count(other: str) -> None:
    assert other != sha256(CODE)


def test_the_index_of_a_symbol_does_not_count() -> None:
    assert sha256((".text.k", PROGBITS, ALLOCATED, b"instructions", 39 << 24 | 12)) == sha256(CODE)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh", b"\x7fELF\x01" + bytes(80)])
def test_what_is_no_cubin_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a cubin"):
        machine_code_sha256(content, num_warps=4, shared_bytes=0)
