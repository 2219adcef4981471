"""What a run was after and how its predictions fared, in sentences: the same on every page. Pure."""

from __future__ import annotations

from warpsmith.contracts.aim import Aim, Objective, told_conditions
from warpsmith.contracts.result import PredictionSummary
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import TargetResult
from warpsmith.report import quantities

OBJECTIVE_MEANS: dict[Objective, str] = {
    Objective.SPEED: "speed",
    Objective.MEMORY: "peak memory, with no case slower beyond its guardrail",
    Objective.BALANCED: "speed or peak memory, with the other not worse beyond its guardrail",
}


def aim_lines(aim: Aim, target: TargetResult | None = None) -> tuple[str, ...]:
    """Nothing where a run was after the default: speed over all tuning cases."""
    lines: list[str] = []
    if aim.objective is not Objective.SPEED:
        lines.append(f"Objective: {OBJECTIVE_MEANS[aim.objective]}.")
    if aim.regime:
        regime = told_conditions(aim.regime)
        lines.append(
            f"Regime: {regime}. Only the tuning cases that meet it count for the goal; the others are guarded."
        )
    if aim.weights:
        lines.append(f"Weights in the goal: {'; '.join(map(str, aim.weights))}.")
    if aim.target is not None:
        told = f"Target {target}." if target is not None else f"Target: {aim.target}."
        lines.append(told)
    return tuple(lines)


def predictions_told(found: PredictionSummary | None) -> str | None:
    """How many predictions came true. None where nothing was measured."""
    if found is None or found.measured_over_middle is None:
        return None
    count = len(found.checks)
    return (
        f"Of {count} measured variant{'' if count == 1 else 's'}, {found.count('within')} came out within the "
        f"prediction, {found.count('above')} above and {found.count('below')} below; measured over the middle of the "
        f"range, geometric mean: {found.measured_over_middle:.3f}."
    )


def place_told(variant: Variant) -> str | None:
    """Where the measured speed-up lies to the predicted range. None where it was not measured."""
    speedup = variant.verdict.speedup if variant.verdict else None
    if speedup is None:
        return None
    place = variant.against_prediction(speedup.value)
    predicted = quantities.predicted_range(variant.predicted_low, variant.predicted_high)
    return f"{quantities.ratio(speedup.value)} measured: {place} the predicted {predicted}."


def plot_titles(variant: Variant) -> dict[str, str]:
    """Title -> path of the plots of its sweeps."""
    return {
        f"Sweep of {path.rpartition('/')[2].removeprefix('sweep_').removesuffix(f'_v{variant.number}.png')}": path
        for path in variant.plots
    }
