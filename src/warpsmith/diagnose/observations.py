"""Owns what stands out in a profile, in plain sentences: where the time is, where headroom is, what changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline, Bottleneck, ModeProfile
from warpsmith.contracts.target import TargetSpec
from warpsmith.diagnose.code_signals import distinct
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import tail_share
from warpsmith.diagnose.places import Place, places, row_loops, sites
from warpsmith.diagnose.probes import inert_knobs
from warpsmith.diagnose.roofline import Doubt, least_ms
from warpsmith.diagnose.rules import TAIL
from warpsmith.diagnose.scaling import bends, largest_size
from warpsmith.diagnose.work import main_launch
from warpsmith.verdict.statistics import geometric_mean

#: Chosen: a provider must be this much faster than the original to be worth a sentence.
FASTER = 1.02
#: Chosen: backward that takes this share of the whole call's time leaves no room for a pass forward.
WHOLE = 0.95
#: Chosen: so much longer apart than together is more than caches explain.
APART = 1.15
#: Chosen: headroom of backward beside that of the whole call from which on it is not a part of it.
MORE = 1.1


def observations(evidence: Evidence, modes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> tuple[str, ...]:
    """Sentences, the most telling first."""
    passes = [m for m in modes if m.mode is not Mode.FULL] or list(modes)
    return (
        *_doubts(evidence, modes, baselines),
        *_slowest(evidence, passes, baselines),
        *_whole_in_backward(evidence, modes, baselines),
        *_most_headroom(evidence, passes, baselines),
        *_near_peak(passes),
        *largest_size(evidence.spec, passes, baselines),
        *bends(evidence.spec, passes, baselines),
        *_faster_providers(evidence.spec, passes, baselines),
        *_tails(evidence, passes),
        *_inert(evidence.probes),
    )


def _doubts(evidence: Evidence, modes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    """Once for each kind, with the place at which the least work is most beside the time taken."""
    for doubt in Doubt:
        found = [
            (
                (least_ms(p.cost, p.case.dtype, evidence.device) or 0.0) / p.time_ms,
                f"{m.mode.value} at {p.case.name}",
                p,
            )
            for m in modes
            for p in places(m.mode, evidence, baselines)
            if p.doubt is doubt
        ]
        if found:
            times, where, place = max(found, key=lambda each: each[:2])
            others = f" (and it is so at {len(found) - 1} more of the tuning cases and modes)" if len(found) > 1 else ""
            yield f"{_doubted(doubt, times, where, place)}{others}"


def _doubted(doubt: Doubt, times: float, where: str, place: Place) -> str:
    if doubt is Doubt.COST:
        least = f"the least work of {where} would take {times:.3g} times as long at the ceiling"
        return f"{doubt.value}: check cost(); {least}"
    if doubt is Doubt.MISFIT:
        return (
            f"no share of the ceiling is told: {where} does {times:.2f} times the operations a second that the matmul "
            f"ceiling of {place.cost.operands or place.case.dtype.short} allows, which no kernel does. Either cost() "
            'counts too many, or they are of other operands: name them, as Cost(operands="int8")'
        )
    return (
        f"no share of the ceiling is told: no matmul ceiling of {place.cost.operands} is known for this GPU, and at "
        f"{where} its operations may be the nearer limit"
    )


def _slowest(evidence: Evidence, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    if len(passes) < 2 or not evidence.is_measured:
        return
    totals = {m.mode: math.fsum(p.case.weight * p.time_ms for p in places(m.mode, evidence, baselines)) for m in passes}
    slowest = max(totals, key=lambda mode: totals[mode])
    part = totals[slowest] / math.fsum(totals.values())
    yield f"{slowest.value} is the slowest pass: {part:.0%} of the device time over the tuning cases"


def _whole_in_backward(
    evidence: Evidence, modes: Sequence[ModeProfile], baselines: Sequence[Baseline]
) -> Iterator[str]:
    """Backward that takes what full does, or has more to win than it, is not a part of it: it does other work."""
    if not {Mode.FORWARD, Mode.BACKWARD, Mode.FULL} <= {m.mode for m in modes}:
        return
    at = {m: {p.case.name: p for p in places(m, evidence, baselines)} for m in (Mode.BACKWARD, Mode.FULL)}
    shared = [(at[Mode.BACKWARD][name], whole) for name, whole in at[Mode.FULL].items() if name in at[Mode.BACKWARD]]
    backward_us = math.fsum(p.case.weight * p.time_us for p, _ in shared)
    full_us = math.fsum(p.case.weight * p.time_us for _, p in shared)
    left_us = [math.fsum(p.case.weight * p.headroom_us for p in of) for of in zip(*shared, strict=True)]
    if shared and (backward_us >= WHOLE * full_us or left_us[0] > MORE * left_us[1]):
        more = f" and has {left_us[0] / left_us[1]:.1f} times its headroom" if left_us[1] else ""
        yield (
            f"backward alone is no part of the whole call: it takes {backward_us / full_us:.0%} of its time over the "
            f"tuning cases{more}. Run by itself it makes the pass forward again, or its cost model is that of other "
            "work; judge by full"
        )
        return
    by_name = {p.case.name: p for p in places(Mode.FORWARD, evidence, baselines)}
    forward_us = math.fsum(p.case.weight * by_name[p.case.name].time_us for _, p in shared if p.case.name in by_name)
    if shared and forward_us + backward_us >= APART * full_us:
        yield (
            f"forward and backward apart take {(forward_us + backward_us) / full_us:.2f} times as long as the whole "
            "call: run by itself backward makes a part of the pass forward again, which is in no call; judge by full"
        )


def _most_headroom(evidence: Evidence, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    at = [(m.mode, p) for m in passes for p in places(m.mode, evidence, baselines)]
    if not at:
        return
    mode, place = max(at, key=lambda pair: pair[1].headroom_us)
    if place.headroom_us > 0:
        yield (
            f"most headroom: {mode.value} at {place.case.name} takes {place.time_ms * 1e3:.1f} µs, "
            f"{place.headroom_us:.1f} µs more than at its ceiling ({place.share:.0%} of it)"
        )


def _near_peak(passes: Sequence[ModeProfile]) -> Iterator[str]:
    for profile in passes:
        if profile.bottleneck is Bottleneck.NEAR_PEAK:
            share = f"{profile.share_of_ceiling:.0%}"
            yield f"{profile.mode.value} is near its peak, {share} of the ceiling: no strategy is recommended for it"


def _tails(evidence: Evidence, passes: Sequence[ModeProfile]) -> Iterator[str]:
    """The worst tail of each pass's main launch; programs that loop over the rows have none to speak of."""
    for profile in passes:
        tails = [
            (tail_share(found.waves), found.waves, record.jit_function, site.case.name)
            for site in sites(profile.mode, evidence)
            for record, found in distinct(site)
            if found.waves
            and (main := main_launch(site))
            and record.jit_function == main.jit_function
            and record.jit_function not in row_loops([record], evidence.audit, evidence.device.sm_count)
        ]
        if tails and max(tails)[0] > TAIL:
            share, waves, function, case = max(tails)
            yield (
                f"{profile.mode.value} has a tail at {case}: {waves:.2f} waves of {function} leave {share:.0%} of the "
                "room that the waves have empty"
            )


def _inert(probes: Sequence[SettingsProbe]) -> Iterator[str]:
    for knob, values in inert_knobs(probes).items():
        yield f"{knob} changes nothing: the machine code is the same for {', '.join(map(str, values))}"


def _faster_providers(spec: TargetSpec, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    """Each mode's fastest provider over the tuning cases, where it beats the original at the same cases."""
    tuning = {case.name for case in spec.tuning_cases}
    for profile in passes:
        times = {
            (b.provider, b.case): b.time_ms.value
            for b in baselines
            if b.mode is profile.mode and b.time_ms is not None and b.case in tuning
        }
        gains = {p: g for p in spec.providers if (g := _gain(times, p)) is not None}
        if gains and (best := max(gains, key=lambda p: gains[p])) and gains[best] > FASTER:
            yield f"{best} is {gains[best]:.2f}× as fast as the original in {profile.mode.value} over the tuning cases"


def _gain(times: dict[tuple[str, str], float], provider: str) -> float | None:
    """Geometric mean of original over provider, None unless the provider ran wherever the original did."""
    cases = [case for name, case in times if name == ORIGINAL]
    if not cases or any((provider, case) not in times for case in cases):
        return None
    return geometric_mean([times[ORIGINAL, case] / times[provider, case] for case in cases])
