from __future__ import annotations

import pytest

from warpsmith.measure.counters.refusals import explain_refusal, refused_metrics

PERMISSION = """\
==PROF== Connected to process 41 (python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the \
target device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 41
==WARNING== No kernels were profiled.
"""
HELD = """\
==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) is \
concurrently collecting profiling data. See https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#faq
==ERROR== Failed to profile "kernel" in process 41
"""
NO_DRIVER = """\
Traceback (most recent call last):
RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU.
==ERROR== The application returned an error code (1).
==WARNING== No kernels were profiled.
"""
FAILED_CALL = """\
Traceback (most recent call last):
  File "kernel.py", line 3, in forward
ValueError: rms_norm: a row has 70000 columns; at most 65536 are supported
==ERROR== The application returned an error code (1).
==WARNING== No kernels were profiled.
"""


#: As ncu 2022 to 2026 tell them.
LOCKED = """\
Failed to open/create lock file /tmp/nsight-compute-lock
==ERROR== InterprocessLockFailed
"""
WSL = "==ERROR== Profiling is not supported on device 0 as it uses the Windows Subsystem for Linux (WSL).\n"
CHIP = "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.\n"
MIG = """\
==PROF== Profiling "kernel" - 0: 0%
==ERROR== An error was reported by the driver

==ERROR== Cannot lock GPU clock frequencies on MIG! Try locking the clocks externally.
==ERROR== Failed to profile "kernel" in process 41
"""
STUB = "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).\n"
LIBRARY = """\
==ERROR== An error was reported by the counter measurement library:
==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check that a compatible driver library is loaded.
==PROF== Trying to shutdown target application
==ERROR== The application returned an error code (9).
"""
OLD_DRIVER = """\
==ERROR== Cuda driver is not compatible with Nsight Compute.
==WARNING== Failed to load Nsight Compute CUDA modules.
"""
OLD_NCU = """\
==ERROR== Failed to prepare kernel for profiling
==ERROR== Unknown Error on device 0.
==ERROR== Failed to profile "kernel" in process 41
"""
REPLAY = """\
==WARNING== Backing up device memory in system memory. Kernel replay might be slow.
==ERROR== Failed to save memory for replay. Consider using --replay-mode application.
"""
NO_MEMORY = """\
==WARNING== Backing up device memory in system memory. Kernel replay might be slow.
==ERROR== Unhandled C++ exception: bad allocation
==ERROR== Failed to profile "kernel"
"""
#: On a MIG instance ncu warns so, and counts the rest.
SHARED_UNITS = """\
==WARNING== Unable to access the following 1 metrics: pcie__read_bytes.sum. If profiling on a MIG instance, it is not \
possible to collect metrics from GPU units that are shared with other MIG instances.
==WARNING== No kernels were profiled.
"""


@pytest.mark.parametrize(
    ("output", "reason", "remedy"),
    [
        (PERMISSION, "administrators only", "NVreg_RestrictProfilingToAdminUsers=0"),
        (HELD, "another tool holds the performance counters", "dcgmi profiling --pause"),
        (NO_DRIVER, "no usable NVIDIA driver", "install a driver"),
        ("==ERROR== LibraryNotLoaded\n", "LibraryNotLoaded", "target libraries"),
        ("sh: ncu: command not found", "ncu is not installed", "put ncu on the path"),
        (LOCKED, "lock file, which another user has made", "TMPDIR"),
        ("==ERROR== Failed to write the report: No space left on device\n", "no space left", "free some"),
        ("OSError: [Errno 122] Disk quota exceeded\n", "no space left", "TMPDIR"),
        (WSL, "this WSL", "Windows 11"),
        (MIG, "this MIG instance", "not divided"),
        ("==ERROR== Profiling is not supported on this vGPU\n", "this virtual GPU", "enable_profiling"),
        (STUB, "stub of libcuda", "LD_LIBRARY_PATH"),
        (LIBRARY, "cannot be loaded (LibraryNotLoaded)", "sandboxes"),
        (OLD_DRIVER, "does not work with the driver or the GPU", "nvidia-smi"),
        (OLD_NCU, "does not work with the driver or the GPU", "or a newer one"),
        (CHIP, "does not support the GPU", "--list-chips"),
        (REPLAY, "no memory to save what a kernel changes", "smaller case"),
        (NO_MEMORY, "no memory to save what a kernel changes", "smaller case"),
        ("ptrace(PTRACE_SEIZE): Operation not permitted\n", "may not take hold of the process", "SYS_PTRACE"),
        ("==ERROR== Failed to attach: Permission denied\n", "may not take hold of the process", "SYS_PTRACE"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB\n",
            "the call failed under ncu",
            "without",
        ),
        ("PermissionError: [Errno 13] Permission denied: 'x'\n", "the call failed under ncu", "without"),
        (SHARED_UNITS, "no kernel was launched", "launches at all"),
        ("==ERROR== Profiling is not supported on device 0.\n", "does not support the GPU", "newer"),
        (FAILED_CALL, "the call failed under ncu: ValueError: rms_norm: a row has 70000 columns", "without ncu"),
        ("==ERROR== Unknown Error on device 0.\n", "ncu failed: Unknown Error on device 0.", "by hand"),
        ("==ERROR== The application returned an error code (11).\n", "ncu failed: The application returned", "by hand"),
        (
            "==ERROR== An error was reported by the driver\n\n==ERROR== New words.\n==ERROR== Failed to profile\n",
            "ncu failed: New words.",
            "by hand",
        ),
        ("==WARNING== No kernels were profiled.\n", "no kernel was launched in the profiled range", "launches at all"),
        ("something new\n", "its last words: something new", "ncu --version"),
        ("", "its last words: none", "ncu --version"),
    ],
)
def test_every_refusal_has_its_reason_and_remedy(output: str, reason: str, remedy: str) -> None:
    found = explain_refusal(output)

    assert reason in found[0]
    assert remedy in found[1]


ASKED = ("dram__bytes_read.sum", "dram__bytes_write.sum", "smsp__inst.sum", "smsp__inst_executed.sum")


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("==ERROR== Failed to find metric dram__bytes_read.sum\n", {"dram__bytes_read.sum"}),
        (r"==ERROR== Failed to find metric regex:^dram__bytes_read\.sum$", {"dram__bytes_read.sum"}),
        (
            r"==ERROR== Failed to find metric regex:^smsp__inst\.(sum|min|max|avg|pct|ratio|max_rate)$",
            {"smsp__inst.sum"},
        ),
        (
            "==ERROR== Failed to access the following 2 metrics: dram__bytes_read.sum, dram__bytes_write.sum\n",
            {"dram__bytes_read.sum", "dram__bytes_write.sum"},
        ),
        (
            "==ERROR== Failed to find metric dram__bytes_read.sum\n==ERROR== Failed to find metric 'smsp__inst.sum'.\n",
            {"dram__bytes_read.sum", "smsp__inst.sum"},
        ),
        ("==ERROR== Failed to find metric another__one.sum\n", set()),
        ("==WARNING== Unable to access the following 1 metrics: dram__bytes_read.sum.\n", set()),
        ("Failed to find metric\n", set()),
        (PERMISSION, set()),
        ("", set()),
    ],
)
def test_metrics_that_ncu_does_not_have_are_those_that_it_names(output: str, refused: set[str]) -> None:
    assert refused_metrics(output, ASKED) == refused
