"""Owns the reading of hardware counters: several launches' rows to one figure a metric. Names are ncu's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.contracts.counters import CounterRow

DURATION = "gpu__time_duration.sum"
COMPUTE_PCT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_PCT = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM_PCT = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
L1_HIT_PCT, L2_HIT_PCT = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
OCCUPANCY_PCT = "sm__warps_active.avg.pct_of_peak_sustained_active"
WAVES = "launch__waves_per_multiprocessor"
#: What tells, where it was counted, which memory is busy when DRAM is not.
L1_PCT, L2_PCT = (
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
)
#: Bytes of a sector of 32 that an access to global memory uses; 0 where there is no such access.
BYTES_A_SECTOR = {
    "loads": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "stores": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
}
SHARED_CONFLICTS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
SHARED_WAVEFRONTS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)
LOCAL_LOADS, LOCAL_STORES = "smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum"
WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"


def total(rows: Sequence[CounterRow], metric: str) -> float | None:
    """Sum over the launches, None where a launch lacks the metric."""
    found = [row.metrics[metric] for row in rows if metric in row.metrics]
    return math.fsum(found) if found and len(found) == len(rows) else None


def counted_bytes(rows: Sequence[CounterRow]) -> float | None:
    """DRAM bytes read plus written by all launches, None where they were not counted."""
    read, written = total(rows, DRAM_READ), total(rows, DRAM_WRITE)
    return read + written if read is not None and written is not None else None


def local_instructions(rows: Sequence[CounterRow]) -> float | None:
    """Local loads plus stores executed by all launches, None where neither was counted."""
    return sum_of(rows, (LOCAL_LOADS, LOCAL_STORES))


def bank_conflicts(rows: Sequence[CounterRow]) -> float | None:
    """Of the passes through shared memory, the share that is there for bank conflicts; None where there are none."""
    conflicts, wavefronts = sum_of(rows, SHARED_CONFLICTS), sum_of(rows, SHARED_WAVEFRONTS)
    return conflicts / wavefronts if conflicts is not None and wavefronts else None


def sum_of(rows: Sequence[CounterRow], metrics: Sequence[str]) -> float | None:
    """Sum over launches and metrics, None where none of the metrics was counted at every launch."""
    found = [value for metric in metrics if (value := total(rows, metric)) is not None]
    return math.fsum(found) if found else None


def average(rows: Sequence[CounterRow], metric: str) -> float | None:
    """Mean over the launches weighted by their durations (equal ones where any lacks), None without the metric."""
    timed = all(DURATION in row.metrics for row in rows)
    found = [(row.metrics[DURATION] if timed else 1.0, row.metrics[metric]) for row in rows if metric in row.metrics]
    weight = math.fsum(duration for duration, _ in found)
    return math.fsum(duration * value for duration, value in found) / weight if weight else None


def most_waves(rows: Sequence[CounterRow]) -> float | None:
    """Waves of the launch that has most."""
    return max((row.metrics[WAVES] for row in rows if WAVES in row.metrics), default=None)


def main_stall(rows: Sequence[CounterRow]) -> tuple[str, float] | None:
    """The reason for which warps wait longest, and its share of a warp's latency between two instructions."""
    latency = average(rows, WARP_LATENCY)
    names = sorted({n for row in rows for n in row.metrics if n.startswith(STALL_PREFIX) and n.endswith(STALL_SUFFIX)})
    reasons = {name.removeprefix(STALL_PREFIX).removesuffix(STALL_SUFFIX): average(rows, name) for name in names}
    stalls = {reason: value for reason, value in reasons.items() if value is not None and reason != "selected"}
    if not stalls or not latency:
        return None
    longest = max(stalls, key=lambda reason: stalls[reason])
    share = stalls[longest] / latency
    return (longest, share) if share <= 1 else None  # more than the whole was not counted over the same launches
