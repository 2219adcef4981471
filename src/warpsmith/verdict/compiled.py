"""Owns which differences of compiled code are regressions, and the limits for that. Knows nothing of compiling.

A limit says that code got worse in a way that usually costs time, or did not; only a measurement says what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from warpsmith.contracts.base import Contract
from warpsmith.contracts.compiled_change import CallGap, CompiledRegression, Fact, LaunchPair


class CompiledLimits(Contract):
    """What compiled code may lose against its base. All defaults are chosen; warpsmith.yaml changes them.

    Attributes:
        spill_bytes: bytes that a thread spills more. Of a launch that the base does not make, all are more.
        resident_warps: share of the warps that an SM holds at once which may be lost, by registers, shared memory or
            the number of warps, where the grid is large enough to feel it; 0.1 is a tenth.
        shared_memory: growth of a block's shared memory, as a share of the most that a block can have on that GPU. Not
            of what it had: a pipelined loop has many times that, and costs no warp where there is room.
        specializations: growth of the number of different machine codes over the cases; 1.0 is twice as many.
    """

    spill_bytes: int = Field(default=0, ge=0)
    resident_warps: float = Field(default=0.10, ge=0)
    shared_memory: float = Field(default=0.25, ge=0)
    specializations: float = Field(default=1.0, ge=0)


def compiled_regressions(
    pairs: Sequence[LaunchPair], gaps: Iterable[CallGap], limits: CompiledLimits, most_shared_bytes: int
) -> tuple[CompiledRegression, ...]:
    """What is over a limit: calls that no longer compile first, then launch by launch, then the number of them all.

    `most_shared_bytes` is what a block can have on the GPU.
    """
    lost = (
        CompiledRegression(fact=Fact.COMPILES, limit="has to", case=gap.case, mode=gap.mode)
        for gap in gaps
        if gap.base is None and gap.change is not None
    )
    of_launches = (found for pair in pairs for found in _of_launch(pair, limits, most_shared_bytes))
    return (*lost, *of_launches, *_of_specializations(pairs, limits))


def specializations(pairs: Iterable[LaunchPair]) -> tuple[int, int]:
    """How many different machine codes the launches have: of the base, of the change."""
    sides = list(zip(*((pair.base, pair.change) for pair in pairs), strict=True)) or [(), ()]
    base, change = ({(each.jit_function, each.binary_sha256) for each in side if each} for side in sides)
    return len(base), len(change)


def _of_launch(pair: LaunchPair, limits: CompiledLimits, most_shared_bytes: int) -> Iterator[CompiledRegression]:
    now, base = pair.change, pair.base
    if now is None:
        return

    def over(fact: Fact, limit: str, before: int | None, after: int) -> CompiledRegression:
        return CompiledRegression(
            fact=fact,
            limit=limit,
            jit_function=now.jit_function,
            case=pair.case,
            mode=pair.mode,
            base=before,
            change=after,
        )

    spilled = base.spill_bytes if base else 0
    if now.spill_bytes - spilled > limits.spill_bytes:
        limit = f"at most {limits.spill_bytes} B more" if limits.spill_bytes else "none more"
        yield over(Fact.SPILLS, limit, spilled if base else None, now.spill_bytes)
    if base is None:
        return
    if now.shared_bytes - base.shared_bytes > limits.shared_memory * most_shared_bytes:
        limit = f"at most {_percent(limits.shared_memory)} of {most_shared_bytes} B more"
        yield over(Fact.SHARED_MEMORY, limit, base.shared_bytes, now.shared_bytes)
    if not now.fits_at_once and now.resident_warps < base.resident_warps * (1 - limits.resident_warps):
        limit = f"at most {_percent(limits.resident_warps)} fewer"
        yield over(Fact.RESIDENT_WARPS, limit, base.resident_warps, now.resident_warps)


def _of_specializations(pairs: Sequence[LaunchPair], limits: CompiledLimits) -> Iterator[CompiledRegression]:
    base, change = specializations(pairs)
    if base and change > base * (1 + limits.specializations):
        limit = f"at most {_percent(limits.specializations)} more"
        yield CompiledRegression(fact=Fact.SPECIALIZATIONS, limit=limit, base=base, change=change)


def _percent(share: float) -> str:
    return f"{100 * share:g}%"
