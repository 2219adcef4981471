"""Alignment hints: an offset or a width that the compiler cannot follow is told to be a multiple of 16.

Why: a thread moves 16 bytes at once only if address and mask are known to go in such steps. Triton 3.7.1 follows
arguments that 16 divides through casts, products, sums, loops and division by powers of two (read off its PTX), so that
a hint there changes nothing. It cannot follow what is loaded, and a hint that is wrong reads the wrong memory: what is
loaded is a multiple only by a contract that no source shows. So this is for whoever knows that contract.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.case import DType
from warpsmith.contracts.launch import AccessKind, LaunchRecord
from warpsmith.contracts.profile import Profile
from warpsmith.device.architecture import THREADS_PER_WARP
from warpsmith.diagnose.grounds import open_passes
from warpsmith.diagnose.price_rules import block_of
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import by_function, open_launches

BRIEF = """\
- When: "Compiled code" shows accesses of 2 to 8 bytes a thread in a kernel that waits for memory, on rows that lie
  16 bytes apart. Accesses that are 16 bytes wide already gain nothing.
- Look for what hides it, seen in PTX (Triton 3.7.1, bf16 rows, sm_90: 8 accesses of 2 bytes instead of 1 of 16):
  an offset, a stride or a width that is loaded (ragged sequences); a pointer that is loaded and cast; an argument in
  do_not_specialize; a division by no power of two; tl.where on the offsets. A loaded row number times an argument
  that 16 divides is followed, as are int64 casts, products, `// 2`, `%` and steps of a `while`.
- Change the smallest thing: take the argument out of do_not_specialize, if recompiling per value is no matter; mask
  the load in place of tl.where on its offsets; else `start = tl.multiple_of(tl.load(starts_ptr + i), 16)`. A mask
  counts too: `cols < width` is wide only if 16 is known to divide width.
- Must stay: a hint is a promise. Only for what host code makes a multiple by construction, with a line that says
  where; never because the cases at hand happen to be. A guarded second launch for the others keeps them right.
- Prove: bytes a thread of that line in the compiled code are 16; held-out cases with sizes that 16 does not divide.
- Give up: nothing shows that it is always a multiple, or the bytes a thread stay what they were."""
#: The most that one instruction moves for a thread before compute capability 10.0.
_WIDE_BYTES = 16
_READS = (AccessKind.LOAD, AccessKind.ASYNC_COPY)
_DTYPES = {each.value: each for each in DType}


def _narrow(profile: Profile) -> Iterator[str]:
    """Of each kernel the first tuning case at which no load moves what a thread could take of a block at once."""
    tuned = {(each.mode, at.case) for each in open_passes(profile) for at in each.headrooms}
    for (mode, function), launches in by_function(open_launches(profile)).items():
        for case, launch in launches:
            widest, could = _widest_load(launch), _bytes_of_a_thread(launch)
            if (mode, case) in tuned and widest is not None and widest < could:
                block = f"a thread has {could} bytes or more of a block"
                yield f"{mode.value}: no load of {function} moves more than {widest} bytes a thread at {case}; {block}"
                break


def _widest_load(launch: LaunchRecord) -> int | None:
    """None where the code was not read, or whole blocks are copied."""
    widths = [each.bytes_a_thread for each in launch.compiled.accesses or () if each.kind in _READS]
    known = [width for width in widths if width is not None]
    return max(known) if known and len(known) == len(widths) else None


def _bytes_of_a_thread(launch: LaunchRecord) -> int:
    """Of the widest block, in the narrowest dtype that the host has; at most what one instruction moves."""
    block = block_of([launch]) or 0
    sizes = [_DTYPES[dtype].itemsize_bytes for dtype in launch.host_tensors.values() if dtype in _DTYPES]
    threads = THREADS_PER_WARP * launch.compiled.num_warps
    return min(_WIDE_BYTES, block * min(sizes, default=0) // threads)


CARD = Card(
    name="alignment_hints",
    title="Wider accesses by what is known of offsets",
    applies="the compiled code of a launched kernel below its ceiling moves less than 16 bytes a thread of rows "
    "that lie 16 bytes apart",
    hypothesis="Offsets and widths that are known to be multiples of 16 let a thread move 16 bytes in one instruction.",
    expected="fewer instructions for the same bytes (8 to 1 for bf16, in PTX); what time that takes is not measured",
    risk="a value that is no multiple makes the kernel read and write other memory than before",
    brief=BRIEF,
    signs=lambda profile: tuple(_narrow(profile)),
)
