"""What the user asked for."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from warpsmith.contracts.aim import Aim, CaseWeight, Condition, Objective, TargetMetric
from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2

#: What a run is after beyond its mode. A request has those that are no default.
AIM_FIELDS = ("objective", "regime", "weights", "target_metric")


class RecordingRef(Contract):
    """The recording whose answers a run replays, by the hash of the answers; GPU and day of its measurements."""

    answers_sha256: Sha256
    gpu: str
    date: str


class Request(Document):
    """optimization/<kernel>/request.json.

    `autonomous` goes through without stopping; otherwise a person approves after profile and after
    optimize. `target_speedup` ends the search early. Times in seconds. `recording` is set when the run begins and
    holds to its end: a run is measured or replayed, never both. `predicted` is set in its place where there was neither
    a GPU nor a recording: such a run has a profile in which nothing was run, and no more. `target_gpu` is a GPU to
    compile for without having it. `l2` is what the timed calls find in the L2 cache. `objective`, `regime`, `weights`
    and `target_metric` are the parts of the `aim`.
    """

    kernel: str
    run_id: str
    created_at: str
    goal: Mode = Mode.FULL
    autonomous: bool = False
    max_variants: int = Field(default=8, ge=1)
    target_speedup: float | None = Field(default=None, gt=1)
    time_budget_s: float = Field(default=1800, gt=0)
    device: str = "auto"
    seed: int = 0
    recording: RecordingRef | None = None
    predicted: bool = False
    target_gpu: str | None = None
    l2: L2 = L2.COLD
    objective: Objective = Objective.SPEED
    regime: tuple[Condition, ...] = ()
    weights: tuple[CaseWeight, ...] = ()
    target_metric: TargetMetric | None = None

    @property
    def aim(self) -> Aim:
        return Aim(objective=self.objective, regime=self.regime, weights=self.weights, target=self.target_metric)

    @model_serializer(mode="wrap")
    def _without_an_aim_that_was_not_asked_for(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        for name in AIM_FIELDS:
            if getattr(self, name) == type(self).model_fields[name].default:
                content.pop(name, None)
        return content
