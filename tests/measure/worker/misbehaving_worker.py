"""A worker process whose answers depend on the target's path: it obeys, prints, dies, hangs or breaks.

Where the answer has room for it, it is the process's id.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from warpsmith.contracts.device import Environment
from warpsmith.contracts.measurement import Compilation, Memories, Memory
from warpsmith.measure.worker.protocol import (
    Compile,
    CompiledAnswer,
    Identify,
    MeasureCompilation,
    MeasureMemory,
    WorkerError,
    WorkerFailure,
)
from warpsmith.measure.worker.serve import retire, serve


def identify(question: Identify) -> Environment:
    wish = question.target.path
    if wish == "print":
        print("a gigabyte, or at least a line, on standard output")
        os.write(1, b'{"answer": "forged"}\n')
    if wish == "die":
        print("my last words", file=sys.stderr, flush=True)
        os._exit(9)
    if wish == "exit":
        sys.exit(3)
    if wish == "vanish":
        os._exit(3)
    if wish == "hang":
        time.sleep(3600)
    if wish.startswith("tell "):
        with open(wish.removeprefix("tell "), "w"):
            pass
        time.sleep(3600)
    if wish.startswith("start another"):
        with open(wish.removeprefix("start another "), "w") as pipe:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], pass_fds=[pipe.fileno()])
            print("running", file=pipe, flush=True)
            time.sleep(3600)
    if wish == "retire":
        retire("it was told to")
    if wish == "read":
        return _environment(repr(sys.stdin.read()))
    if wish == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if wish == "refuse":
        raise WorkerError(WorkerFailure(status="bad_target", message="no such target"))
    return _environment(str(os.getpid()))


def compile_all(question: Compile) -> CompiledAnswer:
    identify(Identify(target=question.target))
    return CompiledAnswer(compiled=())


def memory(question: MeasureMemory) -> Memories:
    wish, _, path = question.target.path.partition(" ")
    if wish in ("r", "w"):
        open(path, wish).close()  # waits for another process at the other end
    peaks, failures = {"a": os.getpid()}, {}
    if wish == "crowded" and not os.path.exists(path):
        open(path, "x").close()
        peaks, failures = {}, {"a": "out_of_memory: OutOfMemoryError: CUDA out of memory"}
    if wish == "full":
        raise WorkerError(WorkerFailure(status="out_of_memory", message="too large"))
    return Memories(
        memories=tuple(
            Memory(case=question.case, mode=mode, peak_bytes=peaks, failures=failures) for mode in question.modes
        )
    )


def compilation(question: MeasureCompilation) -> Compilation:
    identify(Identify(target=question.target))
    return Compilation(source_sha256=question.source.sha256, case=question.case, specializations={"a": os.getpid()})


def _environment(gpu_name: str) -> Environment:
    return Environment(
        gpu_name=gpu_name,
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
    serve(lambda: {"identify": identify, "compile": compile_all, "memory": memory, "compilation": compilation})
