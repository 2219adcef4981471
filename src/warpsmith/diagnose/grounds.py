"""Owns what a hypothesis and its prediction rest on: the figures of the profile that speak of a strategy, and the
opportunities whose prices add up to its range. Pure; reads a profile, and must not know how a strategy is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.profile import Bottleneck, EvidenceRow, ModeProfile, PricedOpportunity, Profile, Recommendation
from warpsmith.diagnose.architectures import strategies_for
from warpsmith.diagnose.recommend import KNOBS, REWRITES, SETTINGS

#: What every strategy has to win: the first row of each mode's evidence.
_LEFT_TO_WIN = "least work over device time"
#: strategy -> how the signals begin that it hopes to change.
_SIGNALS: dict[str, tuple[str, ...]] = {
    SETTINGS: ("achieved occupancy", "occupancy of", "waves"),
    "needless_initialisation": ("device time of a call by kernel",),
    "pipelined_loop": ("longest stall",),
    "cache_hints": ("DRAM throughput", "bytes through DRAM"),
    "stream_once_stores": ("DRAM throughput", "bytes through DRAM"),
    "grouped_ordering": ("DRAM throughput", "bytes through DRAM"),
    "loop_invariant_loads": ("longest stall",),
    "two_dimensional_tiles": ("achieved occupancy", "longest stall", "waves"),
    "dot_precision": ("compute and memory throughput", "arithmetic intensity"),
    "cheap_functions": ("compute and memory throughput", "longest stall"),
    "past_l1": ("DRAM throughput", "bytes through DRAM"),
    "specialized_warps_by_descriptor": ("longest stall",),
    "specialized_warps": ("longest stall",),
}


def evidence_for(profile: Profile, strategy: str) -> tuple[str, ...]:
    """The figures of the goal's open passes, a line each; at least what is left to win, where that was measured."""
    wanted = (_LEFT_TO_WIN, *_SIGNALS.get(strategy, ()))
    return tuple(
        f"{mode.mode.value}: {row.signal}: {row.observation}; {row.supports} ({row.source})"
        for mode in open_passes(profile)
        for row in _speaking(mode.evidence, wanted)
    )


def basis_of(profile: Profile, recommendation: Recommendation) -> tuple[str, ...]:
    """Where a predicted range comes from, a line a priced opportunity; empty where nothing was timed."""
    general = KNOBS if recommendation.strategy == SETTINGS else (REWRITES.get(recommendation.strategy),)
    kinds = strategies_for(profile.device.capability).get(recommendation.strategy, general)
    modes = {mode.mode for mode in open_passes(profile)}
    prices = [p for p in profile.opportunities if p.opportunity.kind in kinds and p.mode in modes]
    if prices:
        return tuple(map(_priced, prices))
    if recommendation.strategy == SETTINGS and recommendation.predicted_high > 1:
        return ("no opportunity is priced: by the share of their headroom that settings won in kernels of this class",)
    return ()


def open_passes(profile: Profile) -> list[ModeProfile]:
    """The passes of the goal that are not near their peak."""
    passes = [m for m in profile.modes if m.mode in profile.goal.passes]
    return [mode for mode in passes if mode.bottleneck is not Bottleneck.NEAR_PEAK]


def _speaking(rows: Sequence[EvidenceRow], beginnings: Sequence[str]) -> list[EvidenceRow]:
    return [row for row in rows if row.signal.startswith(tuple(beginnings))]


def _priced(price: PricedOpportunity) -> str:
    line, what = price.opportunity.line, price.opportunity.kind.value.replace("_", " ")
    saved = f"{price.low_us:.1f} to {price.high_us:.1f} µs a call"
    speedup = f"{price.predicted_low:.2f}× to {price.predicted_high:.2f}× of {price.mode.value}"
    return f"line {line}, {what}: {saved}, {speedup}; {price.basis}"
