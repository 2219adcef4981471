"""The optimized kernels as one page that GitHub shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from claiming import Cells, Claim, claims_told, table

from optimizing.fixed import FixedCases
from optimizing.kept import Optimized, Tried
from optimizing.rows import Row
from warpsmith.contracts.case import Mode
from warpsmith.contracts.verdict import Verdict
from warpsmith.report import quantities

KERNEL_HEAD = ("kernel", "outcome", "goal, afresh", "in the search", "forward", "backward", "ended because", "took")
CASE_HEAD = ("kernel", "pass", "case", "of the ceiling", "counts", "original", "winner", "speed-up")
VARIANT_HEAD = ("kernel", "variant", "strategy", "on top of", "predicted", "measured", "outcome", "why")


def page(kernels: Mapping[str, Optimized], fixed: FixedCases, rows: Sequence[Row], asked: Sequence[Claim]) -> str:
    first = next(iter(kernels.values()))
    there, then = first.device.environment, fixed.environment
    missing = [each.kernel for each in fixed.kernels if each.kernel not in kernels]
    return f"""# What warpsmith by itself makes of Liger-Kernel

The kernels of {first.of}, its files unchanged, gone through by warpsmith {first.warpsmith} without a person or a model
that writes variants: `warpsmith profile`, `warpsmith optimize`, and the winner measured afresh, as `warpsmith finalize`
does before it applies one. On {there.gpu_name} (driver {there.driver}, CUDA {there.cuda}, torch {there.torch}, Triton
{there.triton}), {_days(kernels)}, L2 cold, by `python benchmark/autonomous.py measure`; written by `summarize`. The raw
samples of each last comparison are beside this page, with every variant in short and the winner as a patch.
{_missing(missing)}
## What must hold

{claims_told(asked)}

Which cases count was fixed before anything was tried ([cases.json](cases.json)), by profiles of the kernels as they are
on {then.gpu_name} (torch {then.torch}, Triton {then.triton}), {_profiled(fixed)}: those whose pass stays below
{fixed.line:.0%} of the measured ceiling, which is a copy or a product of that size. All are here, those that do not
count too.

![speed-up by kernel, pass and case; filled where the case counts](autonomous.png)

## Kernels

{table(KERNEL_HEAD, (_kernel(each, rows) for each in kernels.values()))}

*Goal* is the weighted geometric mean over the tuning cases of the whole call, or of the one pass that there is. In the
search the winner is the best of several, which is why only what it is afresh counts: in cold processes, three of them
for the goal, and on other inputs. *Forward* and *backward* have the least and the greatest speed-up over the tuning
cases. *Took* is all of it, over so many sittings.

{_changes(kernels.values())}

## Cases

{table(CASE_HEAD, map(_case, rows))}

## Variants

{table(VARIANT_HEAD, (_variant(each.kernel, tried) for each in kernels.values() for tried in each.tried))}

*Predicted* was written before the variant was tried; both are of the goal, over the original.
"""


def _missing(missing: Sequence[str]) -> str:
    return f"\nNot optimized: {', '.join(missing)}.\n" if missing else ""


def _days(kernels: Mapping[str, Optimized]) -> str:
    return _span({optimized.device.measured_at[:10] for optimized in kernels.values()})


def _profiled(fixed: FixedCases) -> str:
    return _span({each.measured_at[:10] for each in fixed.kernels})


def _span(days: set[str]) -> str:
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


def _kernel(optimized: Optimized, rows: Sequence[Row]) -> Cells:
    sittings = len(optimized.sittings_s)
    return (
        optimized.kernel,
        _outcome(optimized),
        _goal(optimized.confirmed),
        _goal(optimized.searched),
        _range(optimized, rows, Mode.FORWARD),
        _range(optimized, rows, Mode.BACKWARD),
        optimized.stop_reason,
        f"{sum(optimized.sittings_s):.0f} s in {sittings}",
    )


def _goal(verdict: Verdict | None) -> str:
    return quantities.ratio_interval(verdict.goal if verdict else None)


def _outcome(optimized: Optimized) -> str:
    if optimized.winner is None:
        return "no improvement found"
    if optimized.is_gain:
        return f"v{optimized.winner} ([patch]({optimized.kernel}.diff))"
    assert optimized.confirmed is not None
    return f"v{optimized.winner}, not confirmed: {optimized.confirmed.reasons[0]}"


def _range(optimized: Optimized, rows: Sequence[Row], mode: Mode) -> str:
    of_mode = [row for row in rows if (row.kernel, row.fixed.mode) == (optimized.kernel, mode)]
    found = sorted(row.comparison.speedup.value for row in of_mode if row.comparison is not None)
    return f"{found[0]:.2f}× to {found[-1]:.2f}×" if found else quantities.MISSING


def _changes(kernels: Iterable[Optimized]) -> str:
    changes = [(each.kernel, change) for each in kernels if each.is_gain for change in each.changes]
    told = [f"- {kernel}: {quantities.cell(change)}" for kernel, change in changes]
    return "\n".join(told) or "Nothing was changed."


def _case(row: Row) -> Cells:
    fixed, comparison, told = row.fixed, row.comparison, "not measured"
    if comparison is not None:
        told = quantities.ratio_interval(comparison.speedup)
    elif row.was_tried:
        told = "1, as it was"
    return (
        row.kernel,
        fixed.mode.value,
        quantities.case_label(fixed.case),
        quantities.percent(fixed.share),
        "yes" if fixed.counts else "no",
        quantities.time(comparison.baseline_ms) if comparison else quantities.MISSING,
        quantities.time(comparison.contender_ms) if comparison else quantities.MISSING,
        told,
    )


def _variant(kernel: str, tried: Tried) -> Cells:
    return (
        kernel,
        f"v{tried.number}",
        quantities.words(tried.strategy),
        "the original" if tried.based_on == 0 else f"v{tried.based_on}",
        quantities.predicted_range(tried.predicted_low, tried.predicted_high),
        quantities.MISSING if tried.measured is None else quantities.ratio_interval(tried.measured),
        quantities.words((tried.outcome or tried.status).value),
        tried.reasons[0],
    )
