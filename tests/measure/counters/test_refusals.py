from __future__ import annotations

import pytest

from warpsmith.measure.counters.refusals import explain_refusal

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


@pytest.mark.parametrize(
    ("output", "reason", "remedy"),
    [
        (PERMISSION, "administrators only", "NVreg_RestrictProfilingToAdminUsers=0"),
        (HELD, "another tool holds the performance counters", "dcgmi profiling --pause"),
        (NO_DRIVER, "no usable NVIDIA driver", "install a driver"),
        ("==ERROR== LibraryNotLoaded\n", "LibraryNotLoaded", "target libraries"),
        ("sh: ncu: command not found", "ncu is not installed", "put ncu on the path"),
        ("==ERROR== Profiling is not supported on device 0.\n", "does not support the GPU", "newer"),
        (FAILED_CALL, "the call failed under ncu: ValueError: rms_norm: a row has 70000 columns", "without ncu"),
        ("==ERROR== Unknown Error on device 0.\n", "ncu failed: Unknown Error on device 0.", "by hand"),
        ("==WARNING== No kernels were profiled.\n", "no kernel was launched in the profiled range", "launches at all"),
        ("something new\n", "its last words: something new", "ncu --version"),
        ("", "its last words: none", "ncu --version"),
    ],
)
def test_every_refusal_has_its_reason_and_remedy(output: str, reason: str, remedy: str) -> None:
    found = explain_refusal(output)

    assert reason in found[0]
    assert remedy in found[1]
