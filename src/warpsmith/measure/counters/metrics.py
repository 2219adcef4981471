"""Which counters are asked of ncu, by the names that ncu gives them."""

from __future__ import annotations

#: Every reason that ncu names on Hopper: with one left out, the longest of the rest would pass for the longest.
_STALLS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)

#: Those of a row, by their names on Hopper.
METRICS: tuple[str, ...] = (
    "gpu__time_duration.sum",
    # throughput, in percent of peak
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    # traffic
    "dram__bytes.sum.per_second",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    # caches
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    # what the SMs ask of L2, in sectors of 32 bytes: written data counts here, which device memory may get later
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    # coalescing: of the 32 bytes of a sector, how many a global access uses
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    # shared memory: how many of its wavefronts are there because threads asked one bank for several words
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    # occupancy and what limits it
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__occupancy_limit_blocks",
    "launch__waves_per_multiprocessor",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_static",
    # spills
    "smsp__inst_executed_op_local_ld.sum",
    "smsp__inst_executed_op_local_st.sum",
    # stalls: each reason as a share of the latency
    "smsp__average_warp_latency_per_inst_issued.ratio",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in _STALLS),
    # issue slots and tensor cores
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)

#: The name of a metric above -> what it is called elsewhere: device memory on Blackwell, local loads and stores where
#: ncu counts them by the machine code, as in the recorded outputs. A row has the figure under the name above.
OTHER_NAMES: dict[str, str] = {
    "dram__bytes_read.sum": "dram__bytes_op_read.sum",
    "dram__bytes_write.sum": "dram__bytes_op_write.sum",
    "smsp__inst_executed_op_local_ld.sum": "smsp__sass_inst_executed_op_local_ld.sum",
    "smsp__inst_executed_op_local_st.sum": "smsp__sass_inst_executed_op_local_st.sum",
}

#: What ncu is asked for. A name that it does not know on a GPU costs that name alone: see `refused_metrics`.
ASKED: tuple[str, ...] = (*METRICS, *OTHER_NAMES.values())
