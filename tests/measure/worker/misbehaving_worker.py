"""A worker process whose answer to `identify` depends on the target's path: it obeys, prints, dies, hangs or breaks."""

from __future__ import annotations

import os
import sys
import time

from warpsmith.contracts.device import Environment
from warpsmith.measure.worker.protocol import Identify, WorkerError, WorkerFailure
from warpsmith.measure.worker.serve import serve


def identify(question: Identify) -> Environment:
    wish = question.target.path
    if wish == "print":
        print("a gigabyte, or at least a line, on standard output")
        os.write(1, b'{"answer": "forged"}\n')
    if wish == "die":
        print("my last words", file=sys.stderr, flush=True)
        os._exit(9)
    if wish == "hang":
        time.sleep(3600)
    if wish == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if wish == "refuse":
        raise WorkerError(WorkerFailure(status="bad_target", message="no such target"))
    return Environment(
        gpu_name=str(os.getpid()),
        gpu_uuid="",
        driver="",
        cuda="",
        torch="",
        triton="",
        ptxas=None,
        fp_fusion=True,
        harness="",
    )


if __name__ == "__main__":
    serve({"identify": identify})
