"""What a report's figures rest on: how they were timed, how often, how noisy, how right. A sentence a line; pure."""

from __future__ import annotations

from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.measurement import OPTIMIZED
from warpsmith.report import quantities
from warpsmith.report.context import ReportContext
from warpsmith.report.correctness_view import skipped_lines

#: What a reader may not know of the report's own words, told where they first stand.
ROUND = (
    "In a round the sides are timed in turn, in random order; inputs, addresses, loaded code and captures are made "
    "anew for it, the same for both."
)
SPECIALIZATION = (
    "A specialization is a kernel that Triton compiles for one combination of types, constants and divisible sizes."
)


def sureness(context: ReportContext) -> tuple[str, ...]:
    """What the figures rest on, a sentence a line."""
    lines = []
    optimized = [row for row in context.rows if row.provider == OPTIMIZED and row.time_ms is not None]
    if optimized:
        methods = " and ".join(sorted({quantities.method(row.method.value) for row in optimized}))
        rounds = _range([row.rounds for row in optimized])
        lines.append(
            f"Device time by {methods}, {context.request.l2.value} L2, in {rounds} rounds a case and process. {ROUND}"
        )
        lines.append(
            "A speed-up is the 20% trimmed mean over rounds of the logarithm of original over optimized, its 95% "
            "interval a bootstrap over rounds; where processes disagree by more than their rounds explain, the "
            "interval is widened by the Birge ratio."
        )
    if context.result.confirmation is not None:
        lines.append(
            "Measured afresh in new processes, on inputs that no search has seen; no other figure counts. The goal on "
            "the tuning cases was confirmed in three cold processes, everything else in one."
        )
    floor = context.search.noise_floor
    if floor is not None:
        lines.append(
            "Noise floor of the goal metric, the original against a copy of itself over the tuning cases by the same "
            f"procedure: {100 * floor:.2f}%. Of a single case it is more."
        )
    return tuple(lines)


def correctness(context: ReportContext) -> tuple[str, ...]:
    """What was held against what, and what came of it."""
    lines = []
    if context.correctness is not None:
        lines += [_correctness_line(context), *_sanitizer_lines(context), *skipped_lines(context.correctness)]
    if context.result.tests is not None:
        tests = context.result.tests
        counts = ", ".join(f"{count} {outcome}" for outcome, count in tests.counts.items())
        told = "passed" if tests.passed else "failed"
        where = "" if context.profile.origin.kind is OriginKind.MEASURED else ", run on this machine, not recorded"
        lines.append(f"The kernel's own tests {told}: {counts} in {tests.duration_s:.0f} s{where}.")
    return tuple(lines)


def cost_notes(context: ReportContext) -> tuple[str, ...]:
    """What to know of the guardrails' figures, a sentence each."""
    rails = context.result.confirmation.guardrails if context.result.confirmation else ()
    notes = []
    if any(rail.metric.startswith("host time") for rail in rails):
        notes.append(quantities.HOST_TIME_DRIFTS)
    if any(rail.metric.startswith("specializations") for rail in rails):
        notes.append(SPECIALIZATION)
    return tuple(notes)


def _correctness_line(context: ReportContext) -> str:
    assert context.correctness is not None
    checks = context.correctness.checks
    failed = [check.case.name for check in checks if check.failures]
    if failed:
        return f"Wrong at {len(failed)} of {len(checks)} cases against float64: {', '.join(failed)}."
    return f"Correct at all {len(checks)} cases against float64, outputs and gradients, as accurate as the original."


def _sanitizer_lines(context: ReportContext) -> list[str]:
    """A sentence for each of compute-sanitizer's tools that was asked of the winner."""
    found = context.correctness.sanitizations if context.correctness else ()
    return [f"{each}, at the smallest case of each dtype and the three smallest of all." for each in found]


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
