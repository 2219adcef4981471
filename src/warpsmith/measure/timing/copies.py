"""Copy kernels, of which the fastest is a GPU's copy ceiling. Owns the kernels and their launch settings."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import triton
import triton.language as tl

#: Copies the buffer of that index.
Copy = Callable[[int], object]

#: Elements and warps of one program that copies one block. 16 to 128 bytes a thread, in accesses of 16.
BLOCKS = ((1024, 4), (2048, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16))

#: Elements, warps, and programs for each SM, of a program that copies block after block.
LOOPS = ((2048, 4, 8), (4096, 8, 4), (8192, 8, 4), (8192, 16, 2))


@triton.jit
def _copy_kernel(source_ptr, target_ptr, elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < elements
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def _looping_copy_kernel(source_ptr, target_ptr, elements, blocks, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    for block in tl.range(tl.program_id(0), blocks, tl.num_programs(0)):
        offsets = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < elements
        tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=mask), mask=mask)


def copies(sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> Iterator[tuple[str, Copy]]:
    """Every copy that is tried, by its name: torch's, a block a program, and as many programs as run at once.

    All tensors are flat, of one length and dtype.
    """
    sm_count = torch.cuda.get_device_properties(sources[0].device).multi_processor_count
    yield "torch copy_", lambda index: targets[index].copy_(sources[index])
    for block, warps in BLOCKS:
        yield f"triton, block {block}, {warps} warps", _by_block(sources, targets, block, warps)
    for block, warps, a_sm in LOOPS:
        name = f"triton, block {block}, {warps} warps, {a_sm} programs an SM"
        yield name, _looping(sources, targets, block, warps, programs=a_sm * sm_count)


def _by_block(sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], block: int, warps: int) -> Copy:
    elements = sources[0].numel()
    grid = (triton.cdiv(elements, block),)
    return lambda index: _copy_kernel[grid](sources[index], targets[index], elements, BLOCK=block, num_warps=warps)


def _looping(
    sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], block: int, warps: int, *, programs: int
) -> Copy:
    elements = sources[0].numel()
    blocks = triton.cdiv(elements, block)
    grid = (min(programs, blocks),)
    return lambda index: _looping_copy_kernel[grid](
        sources[index], targets[index], elements, blocks, BLOCK=block, num_warps=warps
    )
