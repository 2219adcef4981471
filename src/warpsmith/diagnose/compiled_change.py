"""Owns which launch of a change stands beside which of its base, and what of each is compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.compiled_change import CompiledLaunch, LaunchPair
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.diagnose.occupancy import occupancy

#: A spill is counted in registers, of 32 bits: measure/compiled/machine_code.py.
SPILL_BYTES = 4


def paired(
    case: str, mode: Mode, base: Sequence[LaunchRecord], change: Sequence[LaunchRecord], gpu: TargetGpu
) -> tuple[LaunchPair, ...]:
    """The launches of one call, in the order of the change: each beside the base's of the same jit function, the first
    beside the first. Where as many are left over on both sides, their functions have new names, and they are paired
    in order; else each stands alone, those of the base last.

    Raises Unavailable for an unknown compute capability.
    """
    partners = _partners([each.jit_function for each in base], [each.jit_function for each in change])
    left = [index for index in range(len(base)) if index not in partners.values()]
    alone = [index for index in range(len(change)) if index not in partners]
    if len(left) == len(alone):
        partners.update(zip(alone, left, strict=True))
        left = []
    pairs = [(base[partners[index]] if index in partners else None, each) for index, each in enumerate(change)]
    return tuple(
        LaunchPair(case=case, mode=mode, base=_told(before, gpu), change=_told(after, gpu))
        for before, after in (*pairs, *((base[index], None) for index in left))
    )


def _partners(base: Sequence[str], change: Sequence[str]) -> dict[int, int]:
    """Index in the change -> index in the base, of the same function's same turn."""
    turns = {turn: index for index, turn in enumerate(_turns(base))}
    return {index: turns[turn] for index, turn in enumerate(_turns(change)) if turn in turns}


def _turns(names: Sequence[str]) -> Iterator[tuple[str, int]]:
    for index, name in enumerate(names):
        yield name, names[:index].count(name)


def _told(record: LaunchRecord | None, gpu: TargetGpu) -> CompiledLaunch | None:
    if record is None:
        return None
    compiled = record.compiled
    found = occupancy(compiled, record.grid, gpu.capability, gpu.sm_count)
    return CompiledLaunch(
        jit_function=record.jit_function,
        grid=record.grid,
        num_warps=compiled.num_warps,
        num_stages=compiled.num_stages,
        num_ctas=compiled.num_ctas,
        registers=compiled.registers,
        spill_bytes=SPILL_BYTES * compiled.spills,
        shared_bytes=compiled.shared_bytes,
        resident_warps=found.blocks_per_sm * compiled.num_warps,
        limiter=found.limiter,
        fits_at_once=found.waves is not None and found.waves <= 1,
        binary_sha256=compiled.binary_sha256,
    )
