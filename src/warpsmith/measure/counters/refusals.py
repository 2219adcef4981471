"""Why ncu refuses, told apart by what it prints, each with the remedy. None of them is applied by warpsmith."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    sign: str
    reason: str
    remedy: str


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "ERR_NVGPUCTRPERM",
        "the driver gives performance counters to administrators only",
        "run as root or with CAP_PERFMON, or have an administrator set the driver option "
        "NVreg_RestrictProfilingToAdminUsers=0; root inside a container cannot grant it",
    ),
    Refusal(
        "profiling session",
        "another tool holds the performance counters, such as DCGM or a second profiler",
        "stop it meanwhile: for DCGM `dcgmi profiling --pause`",
    ),
    Refusal(
        "LibraryNotLoaded",
        "the driver's profiling library cannot be loaded here, as in some sandboxes",
        "run where the NVIDIA driver is not behind a sandbox",
    ),
    Refusal("driver", "ncu finds no usable NVIDIA driver", "install a driver that this ncu supports"),
    Refusal(
        "No kernels were profiled",
        "no kernel was launched in the profiled range",
        "see the worker's log: the call may have failed before it launched",
    ),
)


def explain_refusal(output: str) -> tuple[str, str]:
    """(reason, remedy) for ncu's output, whatever it is."""
    for refusal in REFUSALS:
        if refusal.sign.lower() in output.lower():
            return refusal.reason, refusal.remedy
    last = next((line for line in reversed(output.strip().splitlines()) if line.strip()), "no output")
    return f"ncu failed: {last.strip()[:300]}", "run `ncu --version` and a small program under ncu by hand"
