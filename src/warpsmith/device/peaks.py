"""What data sheets give as the peaks of a GPU: memory bandwidth and dense matrix products. Asks no GPU.

Half types are those of the tensor cores with float32 accumulation and no sparsity: where a sheet prints them with
sparsity alone, half of it. float32 is that of the plain units, not TF32. int8 and float8 are told as multiples of the
half types, which the same documents give. A figure that no document gives is left out.
The documents are named with each GPU; the figures were compared with at least one table of others that cites them
(Lightning, torch's inductor, vendors' pages).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpsmith.contracts.case import DType


@dataclass(frozen=True)
class Peaks:
    """In GB/s and TFLOP/s. `bf16` None: the GPU has no such tensor cores.

    `over_fp16` has operands of one byte, by torch's name: how many times as fast as of fp16 their products are.
    """

    memory_gb_s: float
    fp16: float
    bf16: float | None
    fp32: float
    over_fp16: Mapping[str, float] = field(default_factory=dict)

    @property
    def matmul_tflops(self) -> dict[DType, float]:
        found = {DType.BFLOAT16: self.bf16, DType.FLOAT16: self.fp16, DType.FLOAT32: self.fp32}
        return {dtype: tflops for dtype, tflops in found.items() if tflops is not None}


INT8, E4M3, E5M2 = "int8", "float8_e4m3fn", "float8_e5m2"
#: 8.x but 8.9: no float8.
_AMPERE = {INT8: 2.0}
#: GeForce accumulates halves in float32 at half the rate, int32 at the full one.
_GEFORCE_AMPERE = {INT8: 4.0}
_FLOAT8 = {INT8: 2.0, E4M3: 2.0, E5M2: 2.0}
_GEFORCE_FLOAT8 = {INT8: 4.0, E4M3: 2.0, E5M2: 2.0}
#: B300 gave up most of its int8 units.
_NO_INT8 = {E4M3: 2.0, E5M2: 2.0}


def _tensor(memory_gb_s: float, half: float, fp32: float, over_fp16: Mapping[str, float] = _FLOAT8) -> Peaks:
    """A GPU from 8.0 on: bfloat16 at the rate of float16."""
    return Peaks(memory_gb_s, half, half, fp32, over_fp16)


def over_fp16(gpu_name: str, operands: str) -> float | None:
    """How many times as fast as of fp16 matrix products of these operands are, None where no document tells."""
    peaks = PEAKS.get(gpu_name)
    return peaks.over_fp16.get(operands) if peaks is not None else None


#: By the name that CUDA gives a GPU.
PEAKS: dict[str, Peaks] = {
    # Data sheet volta-v100-datasheet-update-us-1165301-r5: 900 GB/s, 125 and 15.7 TFLOPS (SXM2).
    "Tesla V100-SXM2-32GB": Peaks(900, 125, None, 15.7),
    # Data sheet t4-tensor-core-datasheet-951643: 65 and 8.1 TFLOPS; Turing white paper: 320 GB/s (256 bits, 10 Gbit/s).
    "Tesla T4": Peaks(320, 65, None, 8.1, {INT8: 2.0}),
    # Data sheet nvidia-a100-datasheet-us-nvidia-1758950-r4: 2,039 and 1,555 GB/s, 312 and 19.5 TFLOPS.
    "NVIDIA A100-SXM4-80GB": _tensor(2039, 312, 19.5, _AMPERE),
    "NVIDIA A100-SXM4-40GB": _tensor(1555, 312, 19.5, _AMPERE),
    # Data sheet nvidia-a30: 933 GB/s, 165 and 10.3 TFLOPS.
    "NVIDIA A30": _tensor(933, 165, 10.3, _AMPERE),
    # Data sheet a10-datasheet: 600 GB/s, 125 and 31.2 TFLOPS.
    "NVIDIA A10": _tensor(600, 125, 31.2, _AMPERE),
    # White paper nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2: 696 GB/s, 149.7 and 37.4 TFLOPS; 768 GB/s, 154.8
    # and 38.7; 936 GB/s, 71 and 35.6 (GeForce accumulates in float32 at half the rate).
    "NVIDIA A40": _tensor(696, 149.7, 37.4, _AMPERE),
    "NVIDIA RTX A6000": _tensor(768, 154.8, 38.7, _AMPERE),
    "NVIDIA GeForce RTX 3090": _tensor(936, 71, 35.6, _GEFORCE_AMPERE),
    # White paper nvidia-ada-gpu-architecture-whitepaper-v2.1: 300 GB/s, 121 and 30.3 TFLOPS; 864 GB/s, 181 and 90.5;
    # 1,008 GB/s, 165.2 and 82.6; 716.8 GB/s, 97.5 and 48.7 (GeForce as above).
    "NVIDIA L4": _tensor(300, 121, 30.3),
    "NVIDIA L40": _tensor(864, 181, 90.5),
    "NVIDIA GeForce RTX 4090": _tensor(1008, 165.2, 82.6, _GEFORCE_FLOAT8),
    "NVIDIA GeForce RTX 4080": _tensor(716.8, 97.5, 48.7, _GEFORCE_FLOAT8),
    # Data sheet nvidia-l40s: 864 GB/s, 362.05 and 91.6 TFLOPS.
    "NVIDIA L40S": _tensor(864, 362.05, 91.6),
    # Data sheet nvidia-h100-tensor-core-gpu: 3.35 TB/s, 1,979 with sparsity and 67 TFLOPS; PCIe: 2 TB/s, 1,513 and 51.
    "NVIDIA H100 80GB HBM3": _tensor(3350, 989.5, 67),
    "NVIDIA H100 PCIe": _tensor(2000, 756.5, 51),
    # Data sheet nvidia-h200: 4.8 TB/s, 1,979 with sparsity and 67 TFLOPS.
    "NVIDIA H200": _tensor(4800, 989.5, 67),
    # Data sheet grace-hopper-superchip: HBM3 at up to 4 TB/s, 1,979 with sparsity and 67 TFLOPS.
    "NVIDIA GH200 480GB": _tensor(4000, 989.5, 67),
    # NVIDIA publishes no sheet of it; system makers list 4.0 TB/s, 148 and 44 TFLOPS.
    "NVIDIA H20": _tensor(4000, 148, 44),
    # HGX and DGX B200, of eight: 36 PFLOPS with sparsity, 600 TFLOPS and 64 TB/s. HGX B300: the same rates.
    "NVIDIA B200": _tensor(8000, 2250, 75),
    "NVIDIA B300 SXM6 AC": _tensor(8000, 2250, 75, _NO_INT8),
    # GB200 NVL72, of 72: 360 PFLOPS with sparsity, 5,760 TFLOPS and 576 TB/s.
    "NVIDIA GB200": _tensor(8000, 2500, 80),
    # White paper nvidia-rtx-blackwell-gpu-architecture: 1,792 GB/s, 209.5 and 104.8 TFLOPS; 960 GB/s, 112.6 and 56.3.
    "NVIDIA GeForce RTX 5090": _tensor(1792, 209.5, 104.8, _GEFORCE_FLOAT8),
    "NVIDIA GeForce RTX 5080": _tensor(960, 112.6, 56.3, _GEFORCE_FLOAT8),
    # White paper nvidia-rtx-blackwell-pro-gpu-architecture: 1,792 GB/s, 503.8 TFLOPS; data sheet: 125 TFLOPS.
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": _tensor(1792, 503.8, 125),
}
