"""Counts one call of a kernel with ncu, in a process of its own. Trouble with the tool is told, never raised.

Owns the command. Must not know what a counter means.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.counters import Counters
from warpsmith.measure.counters.metrics import ASKED
from warpsmith.measure.counters.raw_csv import parse_raw_csv
from warpsmith.measure.counters.refusals import CALL_IS_MADE, explain_refusal, refused_metrics
from warpsmith.measure.counters.tool import find_tool, printed_by, version_of
from warpsmith.measure.worker.protocol import Count

#: Chosen: counting replays each kernel some tens of times, which takes seconds; more than this is a hang.
TIME_LIMIT_S = 180.0

RUNNER = "warpsmith.measure.counters.runner"


def count(question: Count, *, ncu: str | None = None, time_limit_s: float = TIME_LIMIT_S) -> Counters:
    """One row a kernel launch of the asked case and mode, or why there is none and what would mend it.

    `ncu` is the tool's path; None looks for it.
    """
    ncu = ncu or find_ncu()
    if ncu is None:
        return _refused(question, *explain_refusal("ncu: command not found"))
    with tempfile.TemporaryDirectory(prefix="warpsmith-ncu-") as folder:
        asked = Path(folder) / "question.json"
        asked.write_text(question.model_dump_json(), encoding="utf-8")
        runner = [sys.executable, "-m", RUNNER, str(asked), str(int(time_limit_s) + 1)]
        try:
            version = version_of(ncu)
            output = _counted(ncu, runner, Path(folder) / "output", time_limit_s)
        except subprocess.TimeoutExpired:
            return _refused(question, f"ncu did not finish within {time_limit_s:g} s", "try a smaller case")
        except OSError as error:
            return _refused(question, f"{ncu} cannot be run: {error}", "install NVIDIA Nsight Compute anew")
    rows, missing = parse_raw_csv(output)
    if not rows or CALL_IS_MADE not in output:
        return _refused(question, *explain_refusal(output))
    return Counters(case=question.case, mode=question.mode, rows=rows, ncu_version=version, missing_metrics=missing)


def find_ncu() -> str | None:
    """The ncu on the path, else the one of a CUDA toolkit, else the newest of Nsight Compute's own installations."""
    installed = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    return find_tool("ncu", "/usr/local/cuda/bin/ncu", *installed)


def _counted(ncu: str, runner: Sequence[str], output: Path, time_limit_s: float) -> str:
    """What ncu printed in the end. Where it refuses to count at all for want of a metric, it is asked again without.

    Raises TimeoutExpired, OSError.
    """
    until_s, metrics = time.monotonic() + time_limit_s, ASKED
    while True:
        printed = printed_by(command(ncu, runner, metrics), output, until_s - time.monotonic())
        refused = refused_metrics(printed, metrics)
        if not refused or parse_raw_csv(printed)[0]:
            return printed
        metrics = tuple(name for name in metrics if name not in refused)


def command(ncu: str, program: Sequence[str], metrics: Sequence[str] = ASKED) -> list[str]:
    """ncu around a program, counting only between the program's profiler start and stop.

    That range is the process's, so it holds what autograd launches from its own thread. Kernels are named in full:
    the bare name of one of torch's does not say what it computes.
    """
    return [
        ncu,
        *("--target-processes", "application-only"),
        *("--profile-from-start", "off"),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled"),
        *("--metrics", ",".join(metrics)),
        *program,
    ]


def _refused(question: Count, reason: str, remedy: str) -> Counters:
    return Counters(case=question.case, mode=question.mode, unavailable=reason, remedy=remedy)
