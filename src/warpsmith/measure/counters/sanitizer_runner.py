"""The program that compute-sanitizer runs: one call at each case, with its gradients where the target has them.

`python -m warpsmith.measure.counters.sanitizer_runner QUESTION.json SECONDS`: after so many seconds it ends itself.
What it prints tells the reader of the report which case an error is of, and that none was left out.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import signal
import sys
from pathlib import Path

import torch

from warpsmith.contracts.case import Mode
from warpsmith.measure.counters.runner import loaded
from warpsmith.measure.counters.sanitizer_report import ALL_DONE, CASE_BEGINS
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.inputs import make_one
from warpsmith.measure.worker.protocol import Sanitize


def main(question_path: str, limit_s: str) -> None:
    """Reads the question from a file and makes its calls on the current GPU."""
    signal.alarm(int(limit_s))
    question = Sanitize.model_validate_json(Path(question_path).read_text(encoding="utf-8"))
    target, implementation, device = loaded(question.target, question.source)
    mode = Mode.FULL if Mode.BACKWARD in target.modes else Mode.FORWARD
    for case in question.cases:
        print(f"{CASE_BEGINS}{case.name}", flush=True)
        one = make_one(target, case, mode, seed=question.seed, device=device)
        implementation.activate()
        prepared(implementation, mode, [one])(0)
        torch.cuda.synchronize(device)
    print(ALL_DONE, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
