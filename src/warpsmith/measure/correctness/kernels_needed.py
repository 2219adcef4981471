"""Kernels that run for show: with every launch left out, the results are there all the same.

It is asked after other values, so that results which are kept from an earlier call are found there for what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.allocations import GuardedAllocations, Poison
from warpsmith.measure.correctness.attempts import attempt
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.launched import nothing_launched
from warpsmith.measure.correctness.library_calls import ALLOWED
from warpsmith.measure.correctness.repeats import differences, limits_of
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation

NAME = "kernels needed"


def kernels_needed(bout: Bout) -> Iterator[CheckFailure]:
    """In a pass in which the original launches kernels of its own, some result of the candidate needs its launches.

    Held against it where it is so of the original. A plain function, with no source, is held to nothing.
    """
    if bout.candidate.source_path is None:
        return
    passes = {
        name: [part for part, result in bout.known.results.items() if result is not None and _is_of(name, part)]
        for name, launches in bout.known.launches.items()
        if launches.of_file(bout.original.source_path)
    }
    if bout.found.operations - ALLOWED:
        bout.skipped[NAME] = "it calls operators, as the original does, that may take what a kernel wrote for an index"
        return
    idle = [name for name, parts in passes.items() if parts and _same_without(bout, bout.candidate, parts)]
    for name in idle:
        if not _same_without(bout, bout.original, passes[name]):
            message = f"the {name} pass gives the same with no kernel launched: operators of torch do the work"
            yield CheckFailure(check=NAME, message=message)


def _is_of(name: str, part: str) -> bool:
    return part.startswith("gradient of ") == (name == "backward")


def _same_without(bout: Bout, side: Implementation, parts: list[str]) -> bool:
    """Whether all these results are what they are, within rounding, though nothing is launched."""
    without = _without_launches(bout.trial, side)
    left = {part: without[part] for part in parts if without.get(part) is not None}
    if len(left) < len(parts) or any(bool(part.isnan().all()) for part in left.values() if part is not None):
        return False
    limits = {part: 2 * limit for part, limit in limits_of(bout.errors).items()}
    return not any(differences(left, bout.trial.run(side), limits))


def _without_launches(trial: Trial, side: Implementation) -> Results:
    """Nothing where a side cannot do without its kernels."""

    def run() -> Results:
        with nothing_launched():
            return trial.run(side, GuardedAllocations(Poison.NOT_A_NUMBER, trial.guard_bytes))

    try:
        results = attempt(run, trial)
    except torch.OutOfMemoryError:  # a size that a kernel should have written
        return {}
    return {} if isinstance(results, str) else results
