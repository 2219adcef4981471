"""The facts of a GPU that is not here, by its data sheet: for a profile that predicts. Asks no GPU, reads no clock."""

from __future__ import annotations

from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment, TargetGpu
from warpsmith.device.architecture import architecture_of, limits_of

#: The words that `DeviceFacts.ceilings_from` has for it.
DATA_SHEET = "the data sheet's peaks"

#: Stands where only a GPU that is there has a name, a driver or a CUDA.
ABSENT = "none"

#: The one footprint of a peak: well beyond every L2.
_FOOTPRINT_BYTES = 1 << 30


def predicted_facts(gpu: TargetGpu, *, torch: str, triton: str, ptxas: str | None, harness: str) -> DeviceFacts:
    """Its limits and peaks, and the versions of the software that compiles for it.

    Nothing was measured: `uuid`, `driver` and `cuda` are "none", `measured_at` is empty, and the clock is not known. A
    peak that no document gives is left out. Raises Unavailable for an architecture that is not known.
    """
    limits = limits_of(gpu.capability)
    peak = gpu.memory_gb_s
    copies = (CopyCeiling(footprint_bytes=_FOOTPRINT_BYTES, gb_s=peak, kernel="data sheet peak"),) if peak else ()
    return DeviceFacts(
        name=gpu.name,
        uuid=ABSENT,
        capability=gpu.capability,
        architecture=architecture_of(gpu.capability),
        sm_count=gpu.sm_count,
        memory_bytes=gpu.memory_bytes,
        l2_bytes=gpu.l2_bytes,
        shared_memory_per_sm_bytes=limits.shared_memory_per_sm_bytes,
        shared_memory_per_block_bytes=limits.shared_memory_per_block_bytes,
        registers_per_sm=limits.registers_per_sm,
        max_threads_per_sm=limits.max_threads_per_sm,
        max_sm_clock_mhz=None,
        copy_ceilings=copies,
        matmul_tflops=dict(gpu.matmul_tflops),
        environment=Environment(
            gpu_name=gpu.name,
            gpu_uuid=ABSENT,
            driver=ABSENT,
            cuda=ABSENT,
            torch=torch,
            triton=triton,
            ptxas=ptxas,
            fp_fusion=True,
            harness=harness,
        ),
        measured_at="",
        ceilings_from=DATA_SHEET,
    )
