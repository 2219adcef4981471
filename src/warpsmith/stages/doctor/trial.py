"""Launches one tiny kernel by itself, under ncu and under compute-sanitizer, each in a process of its own.

That a tool is installed says little: whether it may count, or take hold of a process, shows when it tries.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.device.gpus import VISIBLE_DEVICES, Gpu
from warpsmith.measure.counters.ncu import find_ncu
from warpsmith.measure.counters.refusals import Refusal, explain_refusal, last_exception
from warpsmith.measure.counters.sanitizer import explain_no_report, find_sanitizer
from warpsmith.measure.counters.tool import printed_by, version_of
from warpsmith.stages.doctor.finding import Finding

#: A program of the measuring room: it imports torch and triton, so this process only names it.
RUNNER = "warpsmith.measure.tiny_launch"

#: What the runner prints last, and the kernel that it launches.
LAUNCHED, KERNEL = "warpsmith: launched", "tiny_kernel"

#: Chosen: importing torch takes some seconds, under a tool some more; beyond this it hangs.
TIME_LIMIT_S = 120.0

_NO_COUNTERS = "no hardware counters; the profile goes on with durations and compiled code"
_NO_SANITIZER = "no memory checker"
_METRIC = "gpu__time_duration.sum"

#: Why a kernel does not launch by itself.
_FAILURES: tuple[Refusal, ...] = (
    Refusal("failed to find C compiler", "triton finds no C compiler", "install gcc or clang, or set CC"),
    Refusal(r"Python\.h", "triton finds no Python headers", "install them (python3-dev)"),
    Refusal("not compiled with CUDA", "torch is built without CUDA", "install a torch for CUDA"),
    Refusal("driver.*(too old|is insufficient)", "the driver is too old for torch's CUDA", "install a newer driver"),
    Refusal("no kernel image", "torch or ptxas has no code for this GPU", "see the pairs above"),
    Refusal("out of memory", "the GPU has no memory left", "end the other processes on it"),
    Refusal("No module named 'torch'", "torch is not installed", "install a torch for CUDA"),
)


@dataclass(frozen=True)
class Tool:
    """A tool to launch under: what is printed where it worked, and how to tell why it did not."""

    name: str
    path: str | None
    options: tuple[str, ...]
    sign: str
    consequence: str
    install: str

    def why_not(self, output: str) -> tuple[str, str]:
        """(reason, remedy) from all that was printed."""
        return explain_refusal(output) if self.name == "ncu" else explain_no_report(output)


def tools() -> tuple[Tool, Tool]:
    """ncu and compute-sanitizer, called as they are for a measurement."""
    of_the_program = ("--target-processes", "application-only")
    ncu = Tool(
        "ncu",
        find_ncu(),
        (
            *of_the_program,
            "--kernel-name",
            KERNEL,
            "--clock-control",
            "none",
            "--csv",
            "--page",
            "raw",
            "--metrics",
            _METRIC,
        ),
        rf"{re.escape(_METRIC)}[\s\S]*{KERNEL}",
        _NO_COUNTERS,
        "install NVIDIA Nsight Compute and put ncu on the path",
    )
    sanitizer = Tool(
        "compute-sanitizer",
        find_sanitizer(),
        ("--tool", "memcheck", *of_the_program, "--report-api-errors", "no"),
        rf"{LAUNCHED}[\s\S]*ERROR SUMMARY",
        _NO_SANITIZER,
        "install compute-sanitizer, which is part of the CUDA toolkit, and put it on the path",
    )
    return ncu, sanitizer


def trial_findings(gpu: Gpu | None, *, time_limit_s: float = TIME_LIMIT_S) -> Iterator[Finding]:
    """What came of each trial on that GPU; None, nothing is tried."""
    launches = None
    if gpu is not None:
        launches = _by_itself(gpu, time_limit_s)
        yield launches
    for tool in tools():
        if tool.path is None:
            yield Finding(
                name=tool.name, ok=False, found="not installed", consequence=tool.consequence, remedy=tool.install
            )
        elif gpu is None:
            yield Finding(name=tool.name, ok=True, found=f"{tool.path}; not tried, no GPU")
        elif launches is None or not launches.ok:
            found = f"{tool.path}; not tried, a kernel does not launch without it either"
            yield Finding(name=tool.name, ok=False, found=found, consequence=tool.consequence)
        else:
            yield _under(tool, tool.path, gpu, time_limit_s)


def _by_itself(gpu: Gpu, time_limit_s: float) -> Finding:
    name, consequence = f"gpu {gpu.index} trial", "nothing can be measured"
    try:
        output = _printed((), gpu, time_limit_s)
    except subprocess.TimeoutExpired:
        found = f"a tiny kernel did not end within {time_limit_s:g} s"
        return Finding(name=name, ok=False, found=found, consequence=consequence, remedy="look at `nvidia-smi`")
    if LAUNCHED in output:
        return Finding(name=name, ok=True, found="a tiny kernel was compiled and ran")
    for failure in _FAILURES:
        if re.search(failure.sign, output, re.IGNORECASE):
            return Finding(name=name, ok=False, found=failure.reason, consequence=consequence, remedy=failure.remedy)
    found = f"a tiny kernel failed: {last_exception(output) or _last_line(output)}"
    return Finding(name=name, ok=False, found=found, consequence=consequence, remedy=f"python -m {RUNNER} 60")


def _under(tool: Tool, path: str, gpu: Gpu, time_limit_s: float) -> Finding:
    try:
        version = version_of(path)
        output = _printed((path, *tool.options), gpu, time_limit_s)
    except subprocess.TimeoutExpired:
        found = f"{path} did not end within {time_limit_s:g} s with a tiny kernel"
        return Finding(name=tool.name, ok=False, found=found, consequence=tool.consequence)
    except OSError as error:
        found = f"{path} cannot be run: {error}"
        return Finding(name=tool.name, ok=False, found=found, consequence=tool.consequence, remedy=tool.install)
    if re.search(tool.sign, output):
        return Finding(name=tool.name, ok=True, found=f"{path} {version or '(it tells no version)'}: usable")
    reason, remedy = tool.why_not(output)
    return Finding(name=tool.name, ok=False, found=f"{path}: {reason}", consequence=tool.consequence, remedy=remedy)


def _printed(tool: Sequence[str], gpu: Gpu, time_limit_s: float) -> str:
    """Raises TimeoutExpired, OSError."""
    runner = (sys.executable, "-m", RUNNER, str(int(time_limit_s) + 1))
    with tempfile.TemporaryDirectory(prefix="warpsmith-doctor-") as folder:
        return printed_by((*tool, *runner), Path(folder) / "output", time_limit_s, {VISIBLE_DEVICES: gpu.uuid})


def _last_line(output: str) -> str:
    return ([line.strip() for line in output.splitlines() if line.strip()] or ["nothing was printed"])[-1][:300]
