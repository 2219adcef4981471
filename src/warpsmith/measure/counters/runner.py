"""The program that ncu runs: warms a kernel up, then makes one call of it between profiler start and stop.

`python -m warpsmith.measure.counters.runner QUESTION.json SECONDS`: after so many seconds it ends itself.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import signal
import sys
from pathlib import Path

import torch

from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.counters.refusals import CALL_IS_MADE
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one
from warpsmith.measure.worker.loading import load_implementation, load_target
from warpsmith.measure.worker.protocol import Count, TargetRef

WARM_UP_CALLS = 3


def main(question_path: str, limit_s: str) -> None:
    """Reads the question from a file and runs its call on the current GPU."""
    signal.alarm(int(limit_s))
    question = Count.model_validate_json(Path(question_path).read_text(encoding="utf-8"))
    target, implementation, device = loaded(question.target, question.source)
    one = make_one(target, question.case, question.mode, seed=question.seed, device=device)
    implementation.activate()
    call = prepared(implementation, question.mode, [one])
    for _ in range(WARM_UP_CALLS):
        call(0)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStart()
    call(0)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStop()
    print(CALL_IS_MADE, flush=True)


def loaded(target_ref: TargetRef, source: SourceRef) -> tuple[Target, Implementation, torch.device]:
    """The target, the source as its one implementation, and the current GPU. Raises WorkerError."""
    target = load_target(target_ref.path)
    implementation = load_implementation(target, Contender(name="counted", source=source), target_ref.root)
    return target, implementation, torch.device("cuda", torch.cuda.current_device())


if __name__ == "__main__":
    main(*sys.argv[1:])
