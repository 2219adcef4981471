"""Owns the course of a search over one pass, from knobs to finalists at every case."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.budget import Budget
from warpsmith.search.tuning.results import Tuning


def tune(bench: Bench, tunable: SourceRef, knobs: Sequence[Knob], mode: Mode, budget: Budget) -> Tuning:
    """The settings of `knobs` that are fastest at each tuning case of the target. Raises WorkerError."""
    raise NotImplementedError
