"""Owns the conclusion of a mode: a sentence or two, with the figures that settle it. Must not know what to try."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Bottleneck, LaunchOverhead
from warpsmith.diagnose.code_signals import distinct, emptiest_grid, resident_share
from warpsmith.diagnose.counter_signals import nearer_memory
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.headroom import headroom_us, share_of_ceiling
from warpsmith.diagnose.kernels import kernel_times, overhead_us
from warpsmith.diagnose.places import Place, Site, Throughputs, achieved
from warpsmith.diagnose.roofline import ceilings_told
from warpsmith.diagnose.rules import NEAR_PEAK_SHARE, class_of
from warpsmith.diagnose.signals import EMULATED, MUCH_OVERHEAD, PLAIN_UNITS, emulates
from warpsmith.diagnose.soundness import nothing_wrong
from warpsmith.diagnose.work import (
    library_part,
    loops_over_rows,
    mostly_library,
    ridge_of,
    uses_matrix_units,
    what_it_walks,
)

CLASS_TOLD = {
    Bottleneck.NEAR_PEAK: "near its peak",
    Bottleneck.MEMORY_BOUND: "memory-bound",
    Bottleneck.COMPUTE_BOUND: "compute-bound",
    Bottleneck.LATENCY_BOUND: "latency-bound",
    Bottleneck.GRID_TOO_SMALL: "held back by a grid that is too small",
    Bottleneck.BALANCED: "balanced",
}

#: What is concluded where the share of the ceiling is not known.
NOT_HELD = "How near it comes to its ceiling is not known: see the first observation."


def conclusion(found: Bottleneck, at: Sequence[Place], place: Place, seen: Throughputs, evidence: Evidence) -> str:
    """Of a mode that was timed: the class by which figures, and what is left to win."""
    share, left_us = share_of_ceiling(at), headroom_us(at)
    most = max(at, key=lambda p: p.headroom_us)
    at_most = f", at most {most.headroom_us:.1f} µs, at {most.case.name}" if len(at) > 1 and left_us > 0 else ""
    left = f"{left_us:.1f} µs of a call {'are' if left_us >= 1.05 else 'is'} left to win{at_most}"
    if found is Bottleneck.NEAR_PEAK:
        rest = f"Only {left}." if left_us >= 0.05 else "Nothing is left to win."
        told = f"Near its peak, at {share:.0%} of the measured ceiling: stop here. {rest}"
    else:
        why = _why(found, place, seen, evidence)
        # not told as the 90% from which it would be near its peak
        reached = f"{share:.1%}" if round(share, 2) >= NEAR_PEAK_SHARE else f"{share:.0%}"
        told = f"{_sentence(CLASS_TOLD[found])}: {why} at {place.case.name}. At {reached} of its ceiling, {left}."
        times = kernel_times(place)
        beside_us = overhead_us(times)
        if beside_us > 0 and beside_us >= MUCH_OVERHEAD * sum(t.us for t in times):
            told += f" {beside_us:.1f} µs of a call there are fills and copies beside the kernel."
        library = library_part(place, evidence)
        if library is not None and library.share >= MUCH_OVERHEAD:
            of = " of its passes" if place.of_passes else ""
            told += f" {library.share:.0%} of the device time{of} there is in library kernels, such as {library.main}."
        sound = nothing_wrong(place, evidence) if found is Bottleneck.MEMORY_BOUND else None
        told += f" Nothing in the source looks wrong: {sound}." if sound else ""
    return told


def outlier_told(at: Sequence[Place], place: Place, evidence: Evidence) -> str | None:
    """A sentence where most of the other cases would be of another class than the one that the class is read off.

    All are judged by their device time alone, so that counted cases and others compare.
    """
    others = [each for each in at if each is not place]
    here = _by_time(place, evidence)
    differing = Counter(found for each in others if (found := _by_time(each, evidence)) is not here)
    if 2 * differing.total() <= len(others):
        return None
    shares = [each.share for each in others]
    told = " and ".join(f"{CLASS_TOLD[found]} at {count}" for found, count in differing.most_common())
    return (
        f"{place.case.name} is not typical: by device time alone it is {CLASS_TOLD[here]} ({place.share:.0%} of "
        f"its ceiling), and of the {len(others)} other cases, at {min(shares):.0%} to {max(shares):.0%}, the pass is "
        f"{told}."
    )


def _by_time(place: Place, evidence: Evidence) -> Bottleneck:
    return class_of(place.share, achieved(place, evidence), None, looping=True)


def launch_bound_told(at: Sequence[Place], overheads: Sequence[LaunchOverhead]) -> str | None:
    """A sentence where the host takes longer over a call than the GPU at every tuning case, None elsewhere.

    Host time is measured at the smallest case; launching costs about the same at any.
    """
    mode, longest = at[0].baseline.mode, max(at, key=lambda p: p.time_ms)
    host_us = next((o.host_us for o in overheads if o.mode is mode and o.provider == ORIGINAL), None)
    if host_us is None or host_us <= longest.time_us:
        return None
    return (
        f"Plain calls in a row are launch-bound: each takes the host {host_us:.1f} µs, the GPU at most "
        f"{longest.time_us:.1f} µs."
    )


def predicted_conclusion(found: Bottleneck, site: Site, evidence: Evidence) -> str:
    """Of a mode of which nothing was run: the class it would have by which figures, and what would decide."""
    for record, fit in distinct(site):
        if fit.waves is None:
            name, gpu = record.jit_function, evidence.device.name
            return f"{name} cannot be launched at {site.case.name} on the {gpu}: no block fits an SM ({fit.limiter})."
    decide = f"timings on an actual {evidence.device.name} would decide."
    nothing = [record for record in site.launches if not math.prod(record.grid)]
    if site.launches and len(nothing) == len(site.launches):
        grids = " and ".join(dict.fromkeys(f"{r.jit_function} has a grid of {r.grid}" for r in nothing))
        return f"It launches no program at {site.case.name}: {grids}. There is nothing to make faster there."
    ridge = ridge_of(site, evidence)
    if ridge is None or not site.cost.bytes_moved:
        return f"{_unknown_ceiling(found, site, evidence)} Nothing was run; {decide}"
    why = _predicted_why(found, site, ridge, evidence)
    sound = nothing_wrong(site, evidence) if found is Bottleneck.MEMORY_BOUND else None
    if sound:
        why += f". Nothing in the source looks wrong: {sound}"
    return (
        f"Predicted {CLASS_TOLD[found]}: {why}. Nothing was run, so how near it comes to its ceiling is not known; "
        f"{decide}"
    )


def _why(found: Bottleneck, place: Place, seen: Throughputs, evidence: Evidence) -> str:
    """The telling figures."""
    busy = _busy_told(seen)
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{busy}, as {place.waves or 0.0:.2f} waves of programs leave SMs idle"
    if found is Bottleneck.LATENCY_BOUND:
        filled = None if mostly_library(place, evidence) else _filled_told(place, evidence)
        resident = f", and {filled}" if filled else ""
        loop = f" with programs that loop over {what_it_walks(place)}" if loops_over_rows(place, evidence) else ""
        neither = "neither unit is busy" if seen.by_ncu else "neither ceiling is near"
        return f"{neither} ({busy}){resident}{loop if filled else ''}"
    nearer = nearer_memory(place, seen) if found is Bottleneck.MEMORY_BOUND else None
    return f"{busy}; not DRAM but {nearer}" if nearer else busy


def _busy_told(seen: Throughputs) -> str:
    """Percentages: ncu's, or, of a model, those of the ceilings that round to one at least."""
    if seen.by_ncu:
        of = " by ncu in its passes" if seen.of_passes else ""
        return f"compute {seen.compute_pct:.0f}%, memory {seen.memory_pct:.0f}% of their peaks{of}"
    shares = (("operations", seen.compute_pct, "matmul"), ("bytes", seen.memory_pct, "copy"))
    told = [f"{what} {pct:.0f}% of the {ceiling} ceiling" for what, pct, ceiling in shares if pct >= 1]
    return ", ".join(told) or "less than 1% of either"


def _unknown_ceiling(found: Bottleneck, site: Site, evidence: Evidence) -> str:
    """What is left to say where there is no ridge: what is missing, and that the grid alone decides nothing else."""
    device, dtype = evidence.device, site.case.dtype.short
    dtype = site.cost.operands or dtype
    missing = "matmul ceiling" if device.copy_ceilings else "ceiling"
    emulated = f" ({EMULATED})" if emulates(site, evidence) else ""
    grid = "the grid fills the GPU"
    if found is Bottleneck.GRID_TOO_SMALL:
        grid = f"{site.waves or 0.0:.2f} waves of programs at {site.case.name} leave SMs idle"
    elif found is Bottleneck.LATENCY_BOUND:
        grid = _filled_told(site, evidence) or grid
    return (
        f"What would hold it back is not known: no {missing} of the {device.name} is known for {dtype}{emulated}. "
        f"Of its launches alone: {grid}."
    )


def _predicted_why(found: Bottleneck, site: Site, ridge: float, evidence: Evidence) -> str:
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{site.waves or 0.0:.2f} waves of programs at {site.case.name} leave SMs idle"
    if found is Bottleneck.LATENCY_BOUND:
        filled = _filled_told(site, evidence)
        return f"{filled} with programs that loop over the rows at {site.case.name}, too few to hide latency"
    intensity = site.cost.flops / site.cost.bytes_moved
    side = "above" if intensity > ridge else "below"
    units = "" if uses_matrix_units(site, evidence) else f" of {PLAIN_UNITS}"
    told = ceilings_told(evidence.device)
    return f"{intensity:.2g} operations a byte are {side} the ridge{units} at {ridge:.0f} ({told})"


def _filled_told(site: Site, evidence: Evidence) -> str | None:
    """How much of an SM the emptiest of the grids fills; of several, by name. None where none speaks for the call."""
    emptiest = emptiest_grid(site, evidence)
    if emptiest is None:
        return None
    record, found = emptiest
    of = f" of {record.jit_function}" if len(distinct(site)) > 1 else ""
    return f"the grid{of} fills {resident_share(found):.0%} of an SM's warps"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
