"""Variants: complete drop-in sources, each with a prediction that was written before its result."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from warpsmith.contracts.base import Document, Settings, Sha256
from warpsmith.contracts.device import Origin
from warpsmith.contracts.examination import Examination
from warpsmith.contracts.verdict import Outcome, Verdict

#: What is no strategy of its own: what won apart put together, and the best without what brought nothing.
COMBINATION, ABLATION = "combination", "ablation"
REFINEMENTS = frozenset({COMBINATION, ABLATION})


class VariantStatus(str, Enum):
    PROPOSED = "proposed"
    INAPPLICABLE = "inapplicable"
    NOT_ADMITTED = "not_admitted"
    COMPILE_FAILED = "compile_failed"
    INCORRECT = "incorrect"
    FAILED = "failed"
    JUDGED = "judged"


class Variant(Document):
    """optimization/<kernel>/<kernel>_vN.json. `based_on` is the variant number it builds on; 0 is the original.

    The prediction is the speed-up over the original in the goal mode, as a range; `evidence` are the figures that the
    hypothesis rests on, `basis` is where the range comes from, `taught` what the variants before it taught, a line
    each. `origin` is that of every measured figure in it. `plots` are relative to the workspace. `examination` is what
    the gate found where it ended there; else the file has no such field. `without` are the variants, of those that it
    builds on, whose changes it takes out again; where there are none, the file has no such field either.
    """

    number: int = Field(ge=1)
    strategy: str
    title: str
    based_on: int
    hypothesis: str
    evidence: tuple[str, ...] = ()
    basis: tuple[str, ...] = ()
    taught: tuple[str, ...] = ()
    predicted_low: float = Field(gt=0)
    predicted_high: float = Field(gt=0)
    status: VariantStatus = VariantStatus.PROPOSED
    detail: str | None = None
    source_sha256: Sha256 | None = None
    changes: tuple[str, ...] = ()
    #: case name -> settings a sweep chose there
    chosen_settings: dict[str, Settings] = Field(default_factory=dict)
    verdict: Verdict | None = None
    origin: Origin
    learnings: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    examination: Examination | None = None
    without: tuple[int, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_was_not(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        if self.examination is None:
            del content["examination"]
        if not self.without:
            del content["without"]
        return content

    @model_validator(mode="after")
    def _a_verdict_exactly_when_judged(self) -> Variant:
        if (self.status is VariantStatus.JUDGED) != (self.verdict is not None):
            raise ValueError(f"variant {self.number}: status {self.status.value} with verdict {self.verdict!r}")
        return self

    @property
    def accepted(self) -> bool:
        return self.verdict is not None and self.verdict.outcome is Outcome.ACCEPTED

    def against_prediction(self, speedup: float) -> Literal["within", "above", "below"]:
        """Where a speed-up lies relative to the predicted range."""
        if speedup > self.predicted_high:
            return "above"
        return "within" if speedup >= self.predicted_low else "below"
