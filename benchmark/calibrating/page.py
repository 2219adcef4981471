"""The calibration as a page that GitHub shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrating.summary import Line, Summary


def page(summary: Summary, lines: Sequence[Line]) -> str:
    where = summary.environment
    rows = "\n".join(f"| {line.asked} | {line.found} | {'yes' if line.holds else '**no**'} |" for line in lines)
    readings = "\n".join(
        f"| {r.rows} | {r.graph:.2f} | {r.profiler:.2f} | {r.beyond:+.1%} | {r.events:.1f} | {r.do_bench:.1f} | "
        f"{r.do_bench_cudagraph:.2f} |"
        for r in summary.readings
    )
    return f"""# How far the measuring can be trusted

Measured on {summary.gpus} {where["gpu_name"]} (driver {where["driver"]}, CUDA {where["cuda"]}, torch {where["torch"]},
Triton {where["triton"]}) on {summary.date} by `python benchmark/calibration.py measure`; written by `summarize` from
the raw samples in `calibration.jsonl.gz`. The kernel does as much as it is told to
(`benchmark/calibrating/kernel.py`), so the true ratio of two sources is known: it is the mean over
{max(t.processes for t in summary.truths)} processes.

| asked | found | holds |
|---|---|---|
{rows}

![intervals of identical sources, and of planted differences](calibration.png)

What earlier calibrations found, and what was changed after them: [HISTORY.md](HISTORY.md).

## One kernel, read in every way there is
Microseconds a call, forward, (rows, 2048) bf16, L2 cold for all but the last. `events` and `do_bench` time eager
calls, so the gaps between launches are in them; `do_bench_cudagraph` does not clear L2.

| rows | graph replay | profiler | difference | events | do_bench | do_bench_cudagraph |
|---|---|---|---|---|---|---|
{readings}
"""
