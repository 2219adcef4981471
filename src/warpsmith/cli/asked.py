"""What a command line asked of a run, read from its words. Nonsense is an error with an example."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.contracts.aim import CaseWeight, Condition, Objective, TargetMetric, parse_conditions
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import L2

if TYPE_CHECKING:
    from warpsmith.stages.runs import Options

Read = TypeVar("Read")


@dataclass(frozen=True)
class AimText:
    """The options of an aim as they were written; None where one was not given."""

    objective: Objective | None = None
    regime: Sequence[str] | None = None
    weights: Sequence[str] | None = None
    target_metric: str | None = None

    def read(self) -> dict[str, Any]:
        """The fields of a request, None where an option was not given. Raises UsageError."""
        conditions: list[Condition] = []
        for each in self.regime or ():
            conditions += _read("--regime", parse_conditions, each)
        weights = [_read("--weight", CaseWeight.parse, each) for each in self.weights or ()]
        text = self.target_metric
        return {
            "objective": self.objective,
            "regime": tuple(conditions) or None,
            "weights": tuple(weights) or None,
            "target_metric": None if text is None else _read("--target-metric", TargetMetric.parse, text),
        }


NO_AIM = AimText()


def asked_for(
    kernel: str,
    *,
    goal: Mode | None = None,
    autonomous: bool | None = None,
    max_variants: int | None = None,
    target_speedup: float | None = None,
    device: str | None = None,
    target_gpu: str | None = None,
    l2: L2 | None = None,
    aim: AimText = NO_AIM,
    fresh: bool = False,
) -> Options:
    """The options of a run. Raises UsageError."""
    from warpsmith.device.known_gpus import known_gpu
    from warpsmith.stages.runs import Options

    if target_speedup is not None and not (math.isfinite(target_speedup) and target_speedup > 1):
        raise UsageError(f"--target-speedup must be above 1, found {target_speedup}")
    return Options(
        goal=goal,
        autonomous=autonomous,
        max_variants=max_variants,
        target_speedup=target_speedup,
        device=device,
        target_gpu=target_gpu and known_gpu(target_gpu, kernel).name,
        l2=l2,
        fresh=fresh,
        **aim.read(),
    )


def _read(option: str, parse: Callable[[str], Read], text: str) -> Read:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
