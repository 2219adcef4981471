"""The program that ncu runs: warms a kernel up, then makes one call of it between profiler start and stop.

`python -m warpsmith.measure.counters.runner QUESTION.json SECONDS`: after so many seconds it ends itself.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import signal
import sys
from pathlib import Path

import torch

from warpsmith.contracts.measurement import Contender
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.inputs import make_one
from warpsmith.measure.worker.loading import load_implementation, load_target
from warpsmith.measure.worker.protocol import Count

WARM_UP_CALLS = 3


def main(question_path: str, limit_s: str) -> None:
    """Reads the question from a file and runs its call on the current GPU."""
    signal.alarm(int(limit_s))
    question = Count.model_validate_json(Path(question_path).read_text(encoding="utf-8"))
    target = load_target(question.target.path)
    contender = Contender(name="counted", source=question.source)
    implementation = load_implementation(target, contender, question.target.root)
    device = torch.device("cuda", torch.cuda.current_device())
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


if __name__ == "__main__":
    main(*sys.argv[1:])
