"""The profiles as one page that GitHub shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from claiming import Cells, Claim, claims_told, table

from profiling.claims import misfits
from profiling.gains import Compared, Grid, Prediction, at_every_shape, predictions
from profiling.kept import Kept
from profiling.telling import WORTH_TELLING, repeated
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import PricedOpportunity
from warpsmith.diagnose.observations import MORE
from warpsmith.report import quantities
from warpsmith.report.profile_view import SETTINGS_MEANS, first_recommendation, is_open, why_not_settings

if TYPE_CHECKING:
    from profiling.summary import Row

#: Of a pass without an opportunity that is worth telling.
NONE = f"none above {WORTH_TELLING:.1%}"
BEST_HEAD = ("kernel", "opportunity", "at", "predicted at most", "best measured", "one over the other")


def page(kept: Sequence[Kept], found: Sequence[Row], asked: Sequence[Claim], grid: Grid, missing: Sequence[str]) -> str:
    environment = kept[0].profile.device.environment
    packages = ", ".join(dict.fromkeys(each.of for each in kept))
    longest = max(each.elapsed_s for each in kept)
    return f"""# What profiles say of the library and of Liger-Kernel

{len(kept)} profiles on {environment.gpu_name} (driver {environment.driver}, CUDA {environment.cuda}, torch
{environment.torch}, Triton {environment.triton}) of {packages}, by `python benchmark/profiles.py measure`; written by
`summarize`. Each is what `warpsmith profile` says of the kernel at its tuning cases, all in bf16, with L2 cold.
Held-out cases are left out, because no diagnosis is read off them, and so are other implementations, which
[the comparison of the library](../library/README.md) has; the longest took {longest:.0f} s. Liger-Kernel's files are
those of its package, unchanged: `benchmark/liger/targets.py` says how they are called. Its RMSNorm is profiled on both
paths, since in place it allocates no gradient; its cross-entropy has one pass, which writes the gradient over the
logits.
{_missing(missing)}
## What must hold

{claims_told(asked)}

{table(BEST_HEAD, _gains(kept, grid))}

The last of these claims is no test of the rules on new data: the figures that it compares are those that the rules were
fitted on. The rules of the program count and of a fill's speed were made on Liger's RMSNorm and LayerNorm backward
passes at the very shapes of this grid, and so was what other warps bring to a loop over rows. What settings win of a
headroom was read off Liger's LayerNorm, RMSNorm and GeGLU, and what pipelined loads bring off the recorded run of this
repository's rms_norm, of which that gain is told too. All other rules are chosen. Nothing on this page compares a price
with a gain that was measured afterwards.

At each shape of the grid that was profiled, what is predicted and what was measured, for all numbers of programs an SM
that were tried; a loss is below 0. A rule that predicts none is right where more programs lose, but no rule predicts a
loss. Where they disagree on whether there is anything to win, the last column says so.

{table(("kernel", "opportunity", "at", "predicted", "measured", "agree"), _at_every_shape(kept, grid))}

The gain of that change alone in a call of Liger's RMSNorm backward pass, measured before with nothing else changed
([measured_gains.json](measured_gains.json); {grid.told}). The path in place was not measured itself: an output that is
allocated empty moves the same bytes, and stands in for it.

## Passes

*Of the ceiling* is the least work over the device time, beside what the best copy or cuBLAS's product reached on the
same GPU, as a geometric mean over the cases, in which no case counts as more than 100%: data that stay in L2 at one
make up for nothing at another. *Headroom* is what the ceiling would save of a call. Classes, shares and prices are what
this version makes of the measured times, counters and code (`profiles.py rediagnose`). *ncu's rule* is worked out anew
from the counters, at the case that the profile reads the class off; a pass that has none of its own is not judged by
it. Of the opportunities, the best of each kind, with the speed-up of that pass that the profile predicts at most, where
that is above {WORTH_TELLING:.1%}.
{_repeated(kept)}
![share of the ceiling by kernel and pass, coloured by class](profiles.png)

{table(("kernel", "pass", "class", "of the ceiling", "headroom", "ncu's rule", "opportunities"), map(_pass, found))}

{_unknown(kept)}{_alone(kept)}
## What to do first

Settings are {SETTINGS_MEANS}.

{table(("kernel", "goal", "first", "predicted", "why"), map(_first, kept))}

## Where ncu's rule says something else

{_disagreements(found)}
"""


def _repeated(kept: Sequence[Kept]) -> str:
    found = [f"{each.kernel} ({ratio:.2f}×)" for each in kept if (ratio := repeated(each)) is not None]
    if not found:
        return ""
    return f"""
Forward and backward apart take much longer than the whole call of {", ".join(found)}:
run alone, the backward pass computes again what the call computes once. That part of its headroom and of its excess
traffic is in no call of a user, so judge these kernels by full.
"""


def _missing(missing: Sequence[str]) -> str:
    return f"\nNot profiled: {', '.join(missing)}.\n" if missing else ""


def _gains(kept: Sequence[Kept], grid: Grid) -> list[Cells]:
    return [_gain(each) for each in predictions({k.kernel: k.profile for k in kept}, grid)]


def _gain(each: Prediction) -> Cells:
    named = (each.kernel, quantities.words(each.kind.value), quantities.case_label(each.case or "") or "–")
    if each.predicted_us is None or each.before_us is None or each.after_us is None:
        return (*named, "–", "–", each.why or "–")
    before, after = quantities.time(each.before_us / 1e3), quantities.time(each.after_us / 1e3)
    measured = f"{quantities.time((each.before_us - each.after_us) / 1e3)} ({before} to {after})"
    ratio = each.why if each.over_measured is None else f"{each.over_measured:.2f}"
    return (*named, quantities.time(each.predicted_us / 1e3), measured, str(ratio))


def _at_every_shape(kept: Sequence[Kept], grid: Grid) -> list[Cells]:
    return [_compared(each) for each in at_every_shape({k.kernel: k.profile for k in kept}, grid)]


def _compared(each: Compared) -> Cells:
    low, high = each.predicted_us
    measured = ", ".join(
        f"{us:.1f} µs" + (f" ({programs} an SM)" if len(each.measured_us) > 1 else "")
        for programs, us in each.measured_us
    )
    return (
        each.kernel,
        quantities.words(each.kind.value),
        "×".join(map(str, each.shape)),
        quantities.microseconds_range(low, high) if high > 0 else "none",
        measured,
        "no" if each.wrong_way else "yes",
    )


def _unknown(kept: Sequence[Kept]) -> str:
    """The passes whose share is not told, for a ceiling that does not fit."""
    told = [f"{each.kernel} {m.mode.value}" for each in kept for m in each.profile.modes if misfits(each.profile, m)]
    if not told:
        return ""
    return (
        f"Profiled before the matmul ceiling of its operands was known, to be measured anew: {', '.join(told)}. How "
        "near it comes to that ceiling is not known; class and prices are those of its other cases.\n\n"
    )


def _alone(kept: Sequence[Kept]) -> str:
    """The passes backward that are no part of the whole call."""
    told = []
    for each in kept:
        left = {mode.mode: mode.headroom_us for mode in each.profile.modes}
        whole, alone = left.get(Mode.FULL), left.get(Mode.BACKWARD)
        if whole is not None and alone is not None and alone > MORE * whole:
            told.append(
                f"{each.kernel} ({quantities.time(alone / 1e3)} of headroom, {quantities.time(whole / 1e3)} of full)"
            )
    if not told:
        return ""
    return (
        f"Backward alone is no part of full in {', '.join(told)}: run by itself it makes what the pass forward has "
        "made already, or moves what full moves once, while its cost model has backward's share alone. Judge these by "
        "full.\n"
    )


def _pass(row: Row) -> Cells:
    rule = "–" if row.by_ncu is None else quantities.words(row.by_ncu.value)
    return (
        row.kernel,
        row.mode.value,
        quantities.words(row.bottleneck.value),
        "not known" if row.share is None else quantities.percent(row.share),
        quantities.MISSING if row.headroom_us is None else quantities.time(row.headroom_us / 1e3),
        rule if row.by_ncu in (None, row.bottleneck) else f"{rule}, differs",
        ", ".join(map(_opportunity, row.best)) or ("those of its passes" if row.mode is Mode.FULL else NONE),
    )


def _opportunity(each: PricedOpportunity) -> str:
    return f"{quantities.words(each.opportunity.kind.value)} {each.predicted_high:.2f}×"


def _first(kept: Kept) -> Cells:
    profile = kept.profile
    first = first_recommendation(profile)
    if first is None:
        open_ended = "settings, to make sure" if why_not_settings(profile) is None else "no strategy applies"
        left = open_ended if is_open(profile) else "nothing: stop here"
        why = profile.recommendations[0].why if profile.recommendations else "the profile recommends nothing"
        return (kept.kernel, profile.goal.value, left, quantities.MISSING, why)
    predicted = quantities.predicted_range(first.predicted_low, first.predicted_high)
    return (kept.kernel, profile.goal.value, quantities.words(first.strategy), predicted, first.why)


def _disagreements(found: Sequence[Row]) -> str:
    lines = [
        f"- {row.kernel}, {row.mode.value}: {quantities.cell(row.disagreement or 'no reason is given')}."
        for row in found
        if row.by_ncu not in (None, row.bottleneck)
    ]
    return "\n".join(lines) or "Nowhere."
