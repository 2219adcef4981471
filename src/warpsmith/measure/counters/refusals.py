"""Why ncu refuses, told apart by what it prints, each with the remedy. None of them is applied by warpsmith.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A known refusal. `sign` is looked for in the output, whatever its case; the first that is found counts."""

    sign: str
    reason: str
    remedy: str


#: Words are those of ncu 2021 to 2026, where no other source is named: from NVIDIA's Kernel Profiling Guide (FAQ) and
#: release notes (known issues), and from outputs that users of ncu published.
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
    Refusal(  # a lock file that is never removed; in /tmp the kernel's fs.protected_regular keeps it its maker's
        r"InterprocessLockFailed|nsight-compute-lock",
        "ncu cannot open its lock file, which another user has made (nsight-compute-lock)",
        "set TMPDIR to a folder of your own",
    ),
    Refusal(  # ENOSPC, EDQUOT
        r"no space left on device|disk quota exceeded",
        "there is no space left where ncu keeps its report",
        "free some, or set TMPDIR to a folder with space",
    ),
    Refusal(  # forums.developer.nvidia.com/t/260814
        r"Windows Subsystem for Linux",
        "ncu does not support profiling on this WSL",
        "use Windows 11 with a current driver, or Linux itself",
    ),
    Refusal(
        r"\bon MIG\b|not supported[^\n]*\bMIG\b",
        "ncu does not get the counters of this MIG instance",
        "profile on a GPU that is not divided, or on an instance that shares nothing with others",
    ),
    Refusal(  # NVIDIA, vGPU User Guide: profiling is off unless enable_profiling is set
        r"\bvGPU\b|virtual GPU",
        "ncu does not get the counters of this virtual GPU",
        "have the administrator of the host set enable_profiling for it",
    ),
    Refusal(
        r"stub libcuda",
        "ncu finds the toolkit's stub of libcuda in the place of the driver",
        "take the toolkit's `stubs` folder off LD_LIBRARY_PATH",
    ),
    Refusal(  # also in sandboxes such as gVisor, which do not pass the profiling interface on
        r"LibraryNotLoaded",
        "a library that ncu profiles with cannot be loaded (LibraryNotLoaded)",
        "install ncu whole, with its target libraries, in a version that the driver supports; "
        "in a container, expose the driver's `compute` and `utility` libraries; some sandboxes have no such interface",
    ),
    Refusal(
        r"driver is not compatible with Nsight|Failed to load Nsight Compute CUDA modules"
        r"|Failed to prepare kernel for profiling",
        "this ncu does not work with the driver or the GPU",
        "install the NVIDIA Nsight Compute of the CUDA version that `nvidia-smi` shows, or a newer one",
    ),
    Refusal(
        r"no NVIDIA driver|no CUDA-capable device|driver version is insufficient|libcuda\.so"
        r"|driver (on your system )?is (not|older|too old)|CUDA driver initialization",
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
        "install an NVIDIA Nsight Compute whose `ncu --list-chips` has it: a newer one, or an older one for an old GPU",
    ),
    Refusal(
        r"Failed to save memory for replay|ContextSaveFailed|Unhandled C\+\+ exception: bad allocation"
        r"|==ERROR==[^\n]*out of memory",
        "there is no memory to save what a kernel changes, which ncu restores before it runs it again",
        "count a smaller case, or end what else uses the GPU's and the host's memory",
    ),
    Refusal(  # ptrace(2) and what a seccomp filter makes of it
        r"ptrace|==ERROR==[^\n]*(operation not permitted|permission denied)",
        "ncu may not take hold of the process",
        "run where ptrace is allowed and outside of a sandbox; in a container, with --cap-add=SYS_PTRACE",
    ),
)

#: What the program under ncu prints when its call is made. Without it the launches that ncu tells are not all.
CALL_IS_MADE = "warpsmith: the call is made"

_NOTHING_LAUNCHED = (
    "no kernel was launched in the profiled range",
    "see that the kernel launches at all at this case: `warpsmith doctor`",
)
#: What leads up to the cause, or comes of it.
_NO_CAUSE = re.compile(r"application returned|An error was reported by|Failed to profile|An error occurred while")
_OWN_WORDS = re.compile(r"^==ERROR==\s*(?P<words>.+)$", re.MULTILINE)
_UNKNOWN_METRICS = re.compile(r"Failed to (?:find|access)[^\n]*? metrics?:?(?P<names> [^\n]+)")
_EXCEPTION = re.compile(r"^(?P<words>[\w.]*(Error|Exception|Interrupt)\b.*)$", re.MULTILINE)


def last_exception(output: str) -> str | None:
    """What Python raised last in the program under a tool."""
    exceptions = _EXCEPTION.findall(output)
    return exceptions[-1][0][:300] if exceptions else None


def refused_metrics(output: str, asked: Sequence[str]) -> frozenset[str]:
    """Those of the metrics asked for that ncu says it does not have on this GPU, and for want of which it does nothing.

    Some versions tell a metric by its name, some by a pattern of it: `regex:^a__b\\.(sum|avg)$`.
    """
    told = " ".join(_UNKNOWN_METRICS.findall(output))
    stems = {word.split("(")[0].rstrip(".$,;") for word in re.sub(r"regex:\^?|[\\'\"]", "", told).split()}
    return frozenset(
        name for name in asked if any(name == stem or name.startswith(f"{stem}.") for stem in stems if stem)
    )


def explain_refusal(output: str) -> tuple[str, str]:
    """(why there are no counters, what would mend it) from all that ncu and the program under it printed."""
    for refusal in REFUSALS:
        if re.search(refusal.sign, output, re.IGNORECASE):
            return refusal.reason, refusal.remedy
    if (raised := last_exception(output)) is not None:
        return f"the call failed under ncu: {raised}", "run the same call without ncu"
    if words := sorted(_OWN_WORDS.findall(output), key=lambda line: _NO_CAUSE.search(line) is not None):
        return f"ncu failed: {words[0].strip()[:300]}", "run a small CUDA program under ncu by hand"
    if "No kernels were profiled" in output:
        return _NOTHING_LAUNCHED
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"ncu gave no whole table; its last words: {(lines or ['none'])[-1][:300]}", "run `ncu --version` by hand"
