"""The tuned kernels as one page that GitHub shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from claiming import Cells, Claim, claims_told, table

from tuning.claims import CHOSEN, KnownGain, found_at, loss_of, part_of
from tuning.kept import Exhausted, SweptPass, Tuned
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.verdict import CaseSpeedup, Outcome
from warpsmith.report import quantities
from warpsmith.search.tuning.space import label
from warpsmith.verdict.statistics import median_ms

KERNEL_HEAD = ("kernel", "verdict", "goal", "forward", "backward", "settings tried", "device time", "took")
COMPARISON_HEAD = (
    "kernel", "pass", "case", "settings", "original", "exhaustive", "search", "behind by", "of its device time",
)  # fmt: skip


def page(
    kernels: Mapping[str, Tuned],
    comparisons: Sequence[Exhausted],
    known: Sequence[KnownGain],
    asked: Sequence[Claim],
    missing: Sequence[str],
) -> str:
    first = next(iter(kernels.values()))
    environment = first.device.environment
    return f"""# What launch settings alone win on Liger-Kernel

The kernels of {first.of}, its files unchanged but for a table of launch settings that warpsmith found and wrote, on
{environment.gpu_name} (driver {environment.driver}, CUDA {environment.cuda}, torch {environment.torch}, Triton
{environment.triton}); measured by `python benchmark/tuned.py measure`, written by `summarize`. Each variant went
through the same gate and the same comparison as any other: interleaved with the original, L2 cold, at its tuning and
its held-out cases. Every raw sample is beside this page.
{_missing(missing)}
## What must hold

{claims_told(asked)}

## Gains that are known

Found by hand, with nothing else changed ([known_gains.json](known_gains.json)), and found here.

{table(("kernel", "pass", "case", "by hand", "", "found", ""), _known(kernels, known))}

## Kernels

![speed-up by kernel, pass and case, with the gains that are known](tuned.png)

{table(KERNEL_HEAD, map(_kernel, kernels.values()))}

*Forward* and *backward* have the least and the greatest speed-up over the tuning cases. *Settings tried* are those that
were timed, of all that were thought of, over the cases. *Device time* is what the searches timed, *took* is all of it:
compiling, gate and judgement too.

{_changes(kernels.values())}

## Beside an exhaustive search

Every setting that runs, each timed to 0.25%, settings of identical machine code not grouped; then both choices and the
original side by side. The device time is that of all samples.

{table(COMPARISON_HEAD, map(_comparison, comparisons))}
"""


def _missing(missing: Sequence[str]) -> str:
    return f"\nNot tuned: {', '.join(missing)}.\n" if missing else ""


def _known(kernels: Mapping[str, Tuned], known: Sequence[KnownGain]) -> Iterable[Cells]:
    for gain in known:
        tuned = kernels.get(gain.kernel)
        at = found_at(tuned, gain.mode, gain.case) if tuned is not None else None
        by_hand = f"{gain.speedup:.2f}× ({gain.before_us:g} to {gain.after_us:g} µs)"
        found = (quantities.MISSING, quantities.MISSING)
        if at is not None:
            found = (f"{at.speedup.value:.2f}× ({_time(at.baseline_ms)} to {_time(at.variant_ms)})", str(at.speedup))
        yield gain.kernel, gain.mode.value, quantities.case_label(gain.case), gain.what, by_hand, *found


def _time(time_ms: float) -> str:
    return quantities.time(time_ms)


def _kernel(tuned: Tuned) -> Cells:
    verdict = tuned.verdict
    timed = sum(1 for swept in tuned.passes for reading in swept.readings if reading.time_ms is not None)
    return (
        tuned.kernel,
        _outcome(tuned),
        f"{verdict.goal.value:.3f}×" if verdict and verdict.goal else quantities.MISSING,
        _range(tuned, "forward"),
        _range(tuned, "backward"),
        f"{timed} of {sum(len(swept.readings) for swept in tuned.passes)}",
        _time(tuned.device_time_ms),
        f"{tuned.elapsed_s:.0f} s",
    )


def _outcome(tuned: Tuned) -> str:
    """With the first reason, where it is no win."""
    verdict = tuned.verdict
    if verdict is None:
        return f"{quantities.words(tuned.status.value)}: {tuned.detail}"
    if verdict.outcome is Outcome.ACCEPTED:
        return verdict.outcome.value
    return f"{verdict.outcome.value}: {verdict.reasons[0]}"


def _range(tuned: Tuned, mode: str) -> str:
    found = sorted(each.speedup.value for each in _tuning(tuned) if each.mode.value == mode)
    return f"{found[0]:.2f}× to {found[-1]:.2f}×" if found else quantities.MISSING


def _tuning(tuned: Tuned) -> list[CaseSpeedup]:
    every = tuned.verdict.cases if tuned.verdict is not None else ()
    return [each for each in every if each.role.value == "tuning"]


def _changes(kernels: Iterable[Tuned]) -> str:
    lines: list[str] = []
    for tuned in kernels:
        lines += [f"- {tuned.kernel}: {quantities.cell(change)}" for change in tuned.changes]
        lines += [f"- {tuned.kernel}: {quantities.cell(_stopped(swept))}" for swept in tuned.passes if swept.stopped]
    return "\n".join(lines)


def _stopped(swept: SweptPass) -> str:
    return f"the sweep of {swept.jit_function} ended early: {swept.stopped}"


def _comparison(each: Exhausted) -> Cells:
    names = {block.contender for block in each.last.blocks} - {ORIGINAL, CHOSEN}
    best = min(names, key=lambda name: median_ms(each.last, name).value)
    return (
        each.kernel,
        each.mode.value,
        quantities.case_label(each.case.name),
        f"{each.n_runnable} of {each.n_settings}, {each.n_distinct} distinct",
        _time(median_ms(each.last, ORIGINAL).value),
        f"{_time(median_ms(each.last, best).value)}, {best}",
        f"{_time(median_ms(each.last, CHOSEN).value)}, {label(each.chosen)}",
        f"{loss_of(each):.1%}",
        f"{part_of(each):.0%} ({_time(each.search_device_time_ms)} of {_time(each.exhaustive_device_time_ms)})",
    )
