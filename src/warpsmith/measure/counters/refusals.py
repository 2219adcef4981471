"""Why ncu refuses, told apart by what it prints, each with the remedy. None of them is applied by warpsmith.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A known refusal. `sign` is looked for in the output, whatever its case; the first that is found counts."""

    sign: str
    reason: str
    remedy: str


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        r"ERR_NVGPUCTRPERM",
        "the driver gives performance counters to administrators only (ERR_NVGPUCTRPERM)",
        "run as root or with CAP_PERFMON, or have an administrator set the driver option "
        "NVreg_RestrictProfilingToAdminUsers=0; root inside a container cannot grant it",
    ),
    Refusal(
        r"driver resource was unavailable|\bDCGM\b|another (tool|profiler|profiling)|multiple.?subscribers",
        "another tool holds the performance counters, such as DCGM or a second profiler",
        "stop it meanwhile: for DCGM `dcgmi profiling --pause`; run without another profiler around this program",
    ),
    Refusal(
        r"LibraryNotLoaded",
        "a library that ncu profiles with cannot be loaded (LibraryNotLoaded)",
        "install ncu whole, with its target libraries, in a version that the driver supports; "
        "in a container, expose the driver's `compute` and `utility` libraries",
    ),
    Refusal(
        r"no NVIDIA driver|no CUDA-capable device|driver version is insufficient|libcuda\.so"
        r"|driver is (not|older|too old)|CUDA driver (initialization|is not)",
        "ncu finds no usable NVIDIA driver",
        "install a driver that this ncu supports",
    ),
    Refusal(
        r"command not found|No such file or directory: '[^']*ncu'",
        "ncu is not installed",
        "install NVIDIA Nsight Compute and put ncu on the path",
    ),
    Refusal(
        r"not supported on (this )?device|unsupported (gpu|device|chip)|InvalidChip",
        "this ncu does not support the GPU",
        "install a newer NVIDIA Nsight Compute",
    ),
)

_NOTHING_LAUNCHED = (
    "no kernel was launched in the profiled range",
    "see that the kernel launches at all at this case: `warpsmith doctor`",
)
_OWN_WORDS = re.compile(r"^==ERROR==\s*(?P<words>.+)$", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?P<words>[\w.]*(Error|Exception|Interrupt)\b.*)$", re.MULTILINE)


def last_exception(output: str) -> str | None:
    """What Python raised last in the program under a tool."""
    exceptions = _EXCEPTION.findall(output)
    return exceptions[-1][0][:300] if exceptions else None


def explain_refusal(output: str) -> tuple[str, str]:
    """(why there are no counters, what would mend it) from all that ncu and the program under it printed."""
    for refusal in REFUSALS:
        if re.search(refusal.sign, output, re.IGNORECASE):
            return refusal.reason, refusal.remedy
    if (raised := last_exception(output)) is not None:
        return f"the call failed under ncu: {raised}", "run the same call without ncu"
    if words := [line for line in _OWN_WORDS.findall(output) if "application returned" not in line]:
        return f"ncu failed: {words[0].strip()[:300]}", "run a small CUDA program under ncu by hand"
    if "No kernels were profiled" in output:
        return _NOTHING_LAUNCHED
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"ncu gave no table; its last words: {(lines or ['none'])[-1][:300]}", "run `ncu --version` by hand"
