"""Reads PTX: which instructions touch global memory, how wide and from which line, and which multiply matrices.

PTX and not machine code, because there the width of an access is settled (ptxas widens nothing that is not aligned by
what PTX says), each loop stands once, where ptxas unrolls it, and lines follow inlined functions back to their caller.
Owns the syntax (https://docs.nvidia.com/cuda/parallel-thread-execution/). Must not know torch, Triton or any GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.launch import AccessKind, GlobalAccess
from warpsmith.measure.compiled.ptx_lines import Lines, is_location

#: An instruction's name with its modifiers, such as "ld.global.L1::evict_last.v4.b32".
_INSTRUCTION = re.compile(
    r"(?<![\w.%$])(?:ld|ldu|st|atom|red|multimem|cp|mma|wmma|wgmma|tcgen05)(?:\s*\.[\w:]+)+", flags=re.ASCII
)
_MATRIX = re.compile(r"(?:mma\.(?:sync|sp)|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)(?!\w)")
_ORDINARY = {
    "ld": AccessKind.LOAD,
    "ldu": AccessKind.LOAD,
    "ld_reduce": AccessKind.LOAD,
    "st": AccessKind.STORE,
    "atom": AccessKind.ATOMIC,
    "red": AccessKind.ATOMIC,
}
_STATE_SPACES = frozenset({"global", "shared", "local", "param", "const"})
#: "b32", "bf16x2", "e4m3x4": bits of an element and how many are packed.
_TYPE = re.compile(r"(?:(?:b|u|s|f|bf)(8|16|32|64|128)|e\dm\d)(?:x(\d))?")
_VECTOR = re.compile(r"v(\d)")
#: The third operand of cp.async, after the two addresses.
_COPY_SIZE = re.compile(r"\][^\[]*\[[^\]]*\]\s*,\s*(0x[0-9a-fA-F]+|\d+)")
#: Registers that hold the address of a thread's own stack.
_STACK = re.compile(r"\[\s*%SPL?\b")
#: A thread moves 32 bytes at once at most (ld.global.v8.b32); more is room to grow. Chosen.
_MOST_BYTES = 128
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Code:
    """What stands in the PTX of one kernel and of what it calls. `matrix_instructions`: mnemonic -> how many."""

    accesses: tuple[GlobalAccess, ...]
    matrix_instructions: dict[str, int]


def read_ptx(ptx: str, *, with_lines: bool) -> Code:
    """The accesses to global memory and the matrix instructions. Equal accesses are one entry with their count.

    With `with_lines` a line is that of the file in which the kernel stands: the innermost one there, so that of a
    helper in the same file, and the call's for a helper elsewhere. Without, and where the PTX does not tell, None.
    """
    lines = Lines(ptx) if with_lines else None
    accesses: Counter[tuple[AccessKind, int | None, int | None]] = Counter()
    matrix: Counter[str] = Counter()
    for statement in _statements(ptx):
        if is_location(statement):
            if lines is not None:
                lines.move(statement)
        elif (found := _INSTRUCTION.search(statement)) is not None:
            instruction = "".join(found.group().split())
            if (multiplies := _MATRIX.match(instruction)) is not None:
                matrix[multiplies.group()] += 1
            elif (access := _access(instruction, statement)) is not None:
                accesses[(*access, lines.current if lines is not None else None)] += 1
    return Code(tuple(_merged(accesses)), dict(sorted(matrix.items())))


def _statements(ptx: str) -> Iterator[str]:
    """Instructions, each up to its semicolon and without comments, and `.loc` directives, with theirs.

    Not the directives inside inline assembly, which is how Triton writes most accesses: from 3.8 on there is one for
    each line of it, and each counts a line of the source further. The right one stands before it.
    """
    pending, assembly = "", False
    for line in _BLOCK_COMMENT.sub("", ptx.partition("\n\t.section")[0]).splitlines():
        if line.endswith(("// begin inline asm", "// end inline asm")):
            assembly = line.endswith("begin inline asm")
        if is_location(line):
            if not assembly:
                yield line
            continue
        *whole, pending = f"{pending} {line.partition('//')[0].strip()}".split(";")
        yield from whole


def _access(instruction: str, statement: str) -> tuple[AccessKind, int | None] | None:
    """Its kind and bytes a thread; None for what leaves global memory alone.

    An address without a state space counts as global: what Triton keeps elsewhere, it says so of.
    """
    name, *modifiers = instruction.split(".")
    spaces = [space for m in modifiers if (space := m.partition("::")[0]) in _STATE_SPACES]
    if name == "cp":
        return _copy(modifiers, spaces, statement)
    if name == "multimem":
        name = modifiers[0]
    if name not in _ORDINARY or spaces not in ([], ["global"]) or _STACK.search(statement):
        return None
    return _ORDINARY[name], _bytes(modifiers)


def _copy(modifiers: list[str], spaces: list[str], statement: str) -> tuple[AccessKind, int | None] | None:
    """Copies between global and shared memory; the first state space is where they go. Bulk ones have no size."""
    if sorted(spaces) != ["global", "shared"]:
        return None
    if "reduce" in modifiers:
        return AccessKind.ATOMIC, None
    if spaces[0] == "global":
        return AccessKind.STORE, None
    size = None if "bulk" in modifiers else _COPY_SIZE.search(statement)
    return AccessKind.ASYNC_COPY, _sane(int(size.group(1), base=0)) if size is not None else None


def _bytes(modifiers: list[str]) -> int | None:
    """Elements of the vector times the element's size, which is the last of the modifiers that name a type."""
    elements = next((int(found.group(1)) for m in modifiers if (found := _VECTOR.fullmatch(m))), 1)
    types = [found for m in modifiers if (found := _TYPE.fullmatch(m))]
    if not types:
        return None
    bits, packed = types[-1].groups()
    return _sane(elements * int(bits or 8) * int(packed or 1) // 8)


def _sane(size_bytes: int) -> int | None:
    """None for what no instruction moves."""
    return size_bytes if 0 < size_bytes <= _MOST_BYTES else None


def _merged(accesses: Counter[tuple[AccessKind, int | None, int | None]]) -> Iterator[GlobalAccess]:
    """One entry each, by line; those without a line last."""
    for (kind, size, line), count in sorted(
        accesses.items(), key=lambda each: (each[0][2] is None, each[0][2] or 0, each[0][0].value, -(each[0][1] or 0))
    ):
        yield GlobalAccess(kind=kind, bytes_a_thread=size, instructions=count, line=line)
