from __future__ import annotations

import pytest

from warpsmith.contracts.sanitizing import SanitizerError
from warpsmith.measure.counters.sanitizer_report import ALL_DONE, Report, parse_report

CLEAN = f"""\
========= COMPUTE-SANITIZER
warpsmith: at 64x8192-bf16
{ALL_DONE}
========= ERROR SUMMARY: 0 errors
"""

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
warpsmith: at 64x8192-bf16
warpsmith: at 127x1021-fp16
========= Invalid __global__ read of size 4 bytes
=========     at _rms_norm_forward_kernel+0x1c0 in /repository/optimization/rms_norm/rms_norm_v3.py:63
=========     by thread (31,0,0) in block (126,0,0)
=========     Access to 0x7f2b4a03fa2c is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2b4a000000 of size 260,334 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at _rms_norm_forward_kernel+0x1d0 in /repository/optimization/rms_norm/rms_norm_v3.py:63
=========     by thread (30,0,0) in block (126,0,0)
=========     Access to 0x7f2b4a03fa28 is out of bounds
=========
Traceback (most recent call last):
  File "sanitizer_runner.py", line 34, in main
torch.AcceleratorError: CUDA error: unspecified launch failure
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
"""

#: As CUDA 11 and the first toolkits of 12 tell it, with the frames of the host.
OLDER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at 0xda0 in /opt/moe/fused_moe.py:175:fused_moe_kernel
=========     by thread (96,0,0) in block (44,0,0)
=========     Address 0x763995f9f000 is out of bounds
=========     and is 1,241,911,296 bytes before the nearest allocation at 0x7639e0000000 of size 5,033,164,800 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2f26f0]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========
========= ERROR SUMMARY: 1 error
"""

MISALIGNED = """\
========= Invalid __shared__ read of size 16 bytes
=========     at _kernel+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x8 is misaligned
========= ERROR SUMMARY: 1 error
"""

RACE = f"""\
========= COMPUTE-SANITIZER
warpsmith: at 64x8192-bf16
========= Error: Race reported between Write access at _kernel+0x490 in /tmp/k.py:12
=========     and Read access at _kernel+0x4a0 in /tmp/k.py:14 [4 hazards]
=========     and Read access at _kernel+0x4b0 in /tmp/k.py:15 [8 hazards]
=========
{ALL_DONE}
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""

WARNING = f"""\
========= Warning: Race reported between Read access at void at::native::reduce_kernel<512>(T3)+0x570
=========     and Write access at void at::native::reduce_kernel<512>(T3)+0x200 [4 hazards]
=========
{ALL_DONE}
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""


@pytest.mark.parametrize(
    ("output", "report"),
    [
        (CLEAN, Report(0, 0, None)),
        (
            OUT_OF_BOUNDS,
            Report(
                2,
                0,
                SanitizerError(
                    kind="Invalid __global__ read of size 4 bytes",
                    kernel="_rms_norm_forward_kernel",
                    place="rms_norm_v3.py:63",
                    detail="is out of bounds and is 1 bytes after the nearest allocation of size 260,334 bytes",
                    case="127x1021-fp16",
                ),
            ),
        ),
        (
            OLDER,
            Report(
                1,
                0,
                SanitizerError(
                    kind="Invalid __global__ write of size 16 bytes",
                    kernel="fused_moe_kernel",
                    place="fused_moe.py:175",
                    detail="is out of bounds and is 1,241,911,296 bytes before the nearest allocation of size "
                    "5,033,164,800 bytes",
                ),
            ),
        ),
        (
            MISALIGNED,
            Report(
                1,
                0,
                SanitizerError(
                    kind="Invalid __shared__ read of size 16 bytes", kernel="_kernel", detail="is misaligned"
                ),
            ),
        ),
        (
            RACE,
            Report(
                1,
                0,
                SanitizerError(
                    kind="Race reported between Write access",
                    kernel="_kernel",
                    place="k.py:12",
                    detail="and Read access in k.py:14",
                    case="64x8192-bf16",
                ),
            ),
        ),
        (WARNING, Report(0, 1, None)),
    ],
    ids=["clean", "out of bounds", "older", "misaligned", "race", "warning"],
)
def test_a_report_is_read(output: str, report: Report) -> None:
    assert parse_report(output) == report


def test_a_program_that_never_made_its_calls_has_no_report_of_no_errors() -> None:
    assert parse_report("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") is None
    assert parse_report(CLEAN.replace(ALL_DONE, "Killed")) is None


def test_without_a_summary_there_is_no_report() -> None:
    assert parse_report(OUT_OF_BOUNDS.rpartition("=========")[0]) is None
    assert parse_report("") is None


def test_errors_are_counted_where_none_can_be_read() -> None:
    assert parse_report("========= Unknown words\n========= ERROR SUMMARY: 3 errors\n") == Report(3, 0, None)


def test_an_error_is_told_in_a_line() -> None:
    report = parse_report(RACE)
    assert report is not None
    assert str(report.first) == (
        "64x8192-bf16: Race reported between Write access at _kernel in k.py:12: and Read access in k.py:14"
    )
