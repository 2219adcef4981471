"""Runs a source under compute-sanitizer, in a process of its own. Trouble with the tool is told, never raised.

Owns the command and the refusals. What a report says is read elsewhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.measure.counters.refusals import Refusal, last_exception
from warpsmith.measure.counters.sanitizer_report import parse_report
from warpsmith.measure.counters.tool import find_tool, printed_by, version_of
from warpsmith.measure.worker.protocol import Sanitize

#: Chosen, below the limit of the question: every access is watched, which slows a kernel a hundredfold.
TIME_LIMIT_S = 540.0

RUNNER = "warpsmith.measure.counters.sanitizer_runner"

#: torch hands out pieces of large allocations, in which an access beyond a tensor is a valid one. Without its cache
#: each tensor is an allocation that the tool knows the end of.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

#: memcheck: bytes that belong to nobody after each allocation, else the next one may begin there.
_PADDING_BYTES = 512

_INSTALL = "install compute-sanitizer, which is part of the CUDA toolkit, and put it on the path"

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        r"device (is )?not supported|unsupported (gpu|device)|not supported on (this )?device",
        "this compute-sanitizer does not support the GPU",
        "install a newer CUDA toolkit",
    ),
    Refusal(
        r"multiple.?subscribers|another (tool|profiler|debugger)|debugger.*attached",
        "another tool holds the GPU, such as a debugger or a profiler",
        "stop it meanwhile",
    ),
    Refusal(
        r"no NVIDIA driver|no CUDA-capable device|driver version is insufficient|libcuda\.so"
        r"|driver is (not|older|too old)|(incompatible|unsupported) driver|cudaErrorInsufficientDriver",
        "compute-sanitizer finds no NVIDIA driver that it can work with",
        "install a driver that this compute-sanitizer supports, or a toolkit that fits the driver",
    ),
    Refusal(
        r"permission denied|operation not permitted|ptrace",
        "compute-sanitizer may not attach to the process",
        "run where ptrace is allowed; in a container, with --cap-add=SYS_PTRACE",
    ),
    Refusal(
        r"terminated before first instrumented API call|(unable|failed) to (load|find|inject).*(library|injection)",
        "compute-sanitizer could not take hold of the process",
        "run `compute-sanitizer python -c 'import torch; torch.zeros(1).cuda()'` by hand",
    ),
)


def sanitize(question: Sanitize, *, program: str | None = None, time_limit_s: float = TIME_LIMIT_S) -> Sanitization:
    """What the tool finds over one call at each case, or why it could not be asked and what would mend it.

    `program` is the path of compute-sanitizer; None looks for it.
    """
    program = program or find_sanitizer()
    if program is None:
        return _refused(question, "compute-sanitizer is not installed", _INSTALL)
    with tempfile.TemporaryDirectory(prefix="warpsmith-sanitizer-") as folder:
        asked = Path(folder) / "question.json"
        asked.write_text(question.model_dump_json(), encoding="utf-8")
        runner = [sys.executable, "-m", RUNNER, str(asked), str(int(time_limit_s) + 1)]
        words = command(program, question.tool, runner)
        try:
            version = version_of(program)
            output = printed_by(words, Path(folder) / "output", time_limit_s, _ENVIRONMENT)
        except subprocess.TimeoutExpired:
            reason = f"{question.tool.value} did not finish within {time_limit_s:g} s"
            return _refused(question, reason, "add a smaller case to the target")
        except OSError as error:
            return _refused(question, f"{program} cannot be run: {error}", _INSTALL)
    report = parse_report(output)
    if report is None:
        return _refused(question, *explain_no_report(output))
    return Sanitization(
        tool=question.tool, errors=report.errors, warnings=report.warnings, first=report.first, version=version
    )


def find_sanitizer() -> str | None:
    """The compute-sanitizer on the path, else the one of a CUDA toolkit."""
    toolkit = Path("/usr/local/cuda")
    return find_tool(
        "compute-sanitizer", toolkit / "bin/compute-sanitizer", toolkit / "compute-sanitizer/compute-sanitizer"
    )


def command(sanitizer: str, tool: SanitizerTool, program: Sequence[str]) -> list[str]:
    """compute-sanitizer around a program. Calls of the CUDA API that fail are torch's own business: it asks for much
    that need not be there."""
    padding = ("--padding", str(_PADDING_BYTES)) if tool is SanitizerTool.MEMCHECK else ()
    return [
        sanitizer,
        *("--tool", tool.value, *padding),
        *("--target-processes", "application-only"),
        *("--report-api-errors", "no"),
        *("--show-backtrace", "no"),
        *("--print-limit", "20"),
        *program,
    ]


def explain_no_report(output: str) -> tuple[str, str]:
    """(why there is no report, what would mend it) from all that the tool and the program under it printed."""
    if (raised := last_exception(output)) is not None and "CUDA" not in raised:
        return f"the call failed under compute-sanitizer: {raised}", "run the same call without compute-sanitizer"
    for refusal in REFUSALS:
        if re.search(refusal.sign, output, re.IGNORECASE):
            return refusal.reason, refusal.remedy
    if raised is not None:
        return f"the call failed under compute-sanitizer: {raised}", "run the same call without compute-sanitizer"
    lines = [line.strip("= ") for line in output.splitlines() if line.strip("= ")]
    last = (lines or ["none"])[-1][:300]
    return f"compute-sanitizer gave no report; its last words: {last}", "run `compute-sanitizer --version` by hand"


def _refused(question: Sanitize, reason: str, remedy: str) -> Sanitization:
    return Sanitization(tool=question.tool, unavailable=reason, remedy=remedy)
