"""Owns the conclusion of a mode: a sentence or two, with the figures that settle it. Must not know what to try."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Bottleneck, LaunchOverhead
from warpsmith.diagnose.code_signals import distinct, resident_share
from warpsmith.diagnose.counter_signals import nearer_memory
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.headroom import headroom_us, share_of_ceiling
from warpsmith.diagnose.kernels import kernel_times, overhead_us
from warpsmith.diagnose.places import Place, Site, Throughputs, loops_over_rows
from warpsmith.diagnose.roofline import ceilings_told, ridge_flops_per_byte
from warpsmith.diagnose.signals import MUCH_OVERHEAD

CLASS_TOLD = {
    Bottleneck.NEAR_PEAK: "near its peak",
    Bottleneck.MEMORY_BOUND: "memory-bound",
    Bottleneck.COMPUTE_BOUND: "compute-bound",
    Bottleneck.LATENCY_BOUND: "latency-bound",
    Bottleneck.GRID_TOO_SMALL: "held back by a grid that is too small",
    Bottleneck.BALANCED: "balanced",
}


def conclusion(found: Bottleneck, at: Sequence[Place], place: Place, seen: Throughputs, evidence: Evidence) -> str:
    """Of a mode that was timed: the class by which figures, and what is left to win."""
    share, left_us = share_of_ceiling(at), headroom_us(at)
    most = max(at, key=lambda p: p.headroom_us)
    at_most = f", at most {most.headroom_us:.1f} us, at {most.case.name}" if len(at) > 1 and left_us > 0 else ""
    left = f"{left_us:.1f} us of a call {'are' if left_us >= 1.05 else 'is'} left to win{at_most}"
    if found is Bottleneck.NEAR_PEAK:
        rest = f"Only {left}." if left_us >= 0.05 else "Nothing is left to win."
        told = f"Near its peak, at {share:.0%} of the measured ceiling: stop here. {rest}"
    else:
        why = _why(found, place, seen, evidence)
        told = f"{_sentence(CLASS_TOLD[found])}: {why} at {place.case.name}. At {share:.0%} of its ceiling, {left}."
        times = kernel_times(place)
        beside_us = overhead_us(times)
        if times and beside_us >= MUCH_OVERHEAD * sum(t.us for t in times):
            told += f" {beside_us:.1f} us of a call there are fills and copies beside the kernel."
    return told


def launch_bound_told(at: Sequence[Place], overheads: Sequence[LaunchOverhead]) -> str | None:
    """A sentence where the host takes longer over a call than the GPU at every tuning case, None elsewhere.

    Host time is measured at the smallest case; launching costs about the same at any.
    """
    mode, longest = at[0].baseline.mode, max(at, key=lambda p: p.time_ms)
    host_us = next((o.host_us for o in overheads if o.mode is mode and o.provider == ORIGINAL), None)
    if host_us is None or host_us <= longest.time_us:
        return None
    return (
        f"Plain calls in a row are launch-bound: each takes the host {host_us:.1f} us, the GPU at most "
        f"{longest.time_us:.1f} us."
    )


def predicted_conclusion(found: Bottleneck, site: Site, evidence: Evidence) -> str:
    """Of a mode of which nothing was run: the class it would have by which figures, and what would decide."""
    why = _predicted_why(found, site, evidence)
    return (
        f"Predicted {CLASS_TOLD[found]}: {why}. Nothing was run, so how near it comes to its ceiling is not known; "
        f"timings on an actual {evidence.device.name} would decide."
    )


def _why(found: Bottleneck, place: Place, seen: Throughputs, evidence: Evidence) -> str:
    """The telling figures."""
    shares = f"compute {seen.compute_pct:.0f}%, memory {seen.memory_pct:.0f}% of "
    busy = shares + ("their peaks" if seen.by_ncu else "their measured ceilings")
    resident = f", and {_filled_told(place)}" if place.launches else ""
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{busy}, as {place.waves or 0.0:.2f} waves of programs leave SMs idle"
    if found is Bottleneck.LATENCY_BOUND:
        looping = loops_over_rows(place.launches, evidence.audit, evidence.device.sm_count)
        loop = " with programs that loop over the rows" if looping else ""
        return f"neither unit is busy ({busy}){resident}{loop}"
    nearer = nearer_memory(place, seen) if found is Bottleneck.MEMORY_BOUND else None
    return f"{busy}; not DRAM but {nearer}" if nearer else busy


def _predicted_why(found: Bottleneck, site: Site, evidence: Evidence) -> str:
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{site.waves or 0.0:.2f} waves of programs at {site.case.name} leave SMs idle"
    if found is Bottleneck.LATENCY_BOUND:
        return (
            f"{_filled_told(site)} with programs that loop over the rows at {site.case.name}, too few to hide latency"
        )
    ridge = ridge_flops_per_byte(site.cost, site.case.dtype, evidence.device)
    if ridge is None or not site.cost.bytes_moved:
        return (
            f"no ceiling of the {evidence.device.name} is known for {site.case.dtype.short}, and the grid fills the GPU"
        )
    intensity = site.cost.flops / site.cost.bytes_moved
    side = "above" if intensity > ridge else "below"
    return f"{intensity:.2g} operations a byte are {side} the ridge at {ridge:.0f} ({ceilings_told(evidence.device)})"


def _filled_told(site: Site) -> str:
    """How much of an SM the emptiest of the grids fills; of several, by name."""
    launched = distinct(site)
    record, found = min(launched, key=lambda pair: resident_share(pair[1]))
    of = f" of {record.jit_function}" if len(launched) > 1 else ""
    return f"the grid{of} fills {resident_share(found):.0%} of an SM's warps"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
