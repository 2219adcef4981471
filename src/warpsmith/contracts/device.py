"""Facts of a GPU and of the software on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import Field

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import DType


class OriginKind(str, Enum):
    MEASURED = "measured"
    RECORDED = "recorded"
    PREDICTED = "predicted"


class Origin(Contract):
    """Where a figure comes from. Stands beside every figure in a table, plot or JSON."""

    kind: OriginKind
    gpu: str | None = None
    date: str | None = None

    def __str__(self) -> str:
        if self.kind is OriginKind.RECORDED:
            return f"recorded on {self.gpu}, {self.date}"
        return str(self.kind.value)


class Environment(Contract):
    """What a figure depends on beside the source. Two measurements compare only if these agree.

    `packages` has the version of each installed distribution that provides kernels to compare with.
    """

    gpu_name: str
    gpu_uuid: str
    driver: str
    cuda: str
    torch: str
    triton: str
    ptxas: str | None
    fp_fusion: bool
    harness: str
    packages: dict[str, str] = Field(default_factory=dict)

    def is_that_of(self, recorded: Mapping[str, Any]) -> bool:
        """Whether a stored environment is this one, but for the UUID: an answer is a whole comparison on one GPU."""
        return not self.changes_since(recorded)

    def changes_since(self, recorded: Mapping[str, Any]) -> tuple[str, ...]:
        """What a stored environment had otherwise, each as "driver 580.1, now 590.2"; the UUID may differ."""
        then, now = _flat(recorded), _flat(self.model_dump(mode="json"))
        return tuple(
            f"{name} {_told(then.get(name))}, now {_told(now.get(name))}"
            for name in dict.fromkeys((*now, *then))
            if then.get(name) != now.get(name)
        )

    @property
    def packages_told(self) -> str:
        """The packages in a line, such as "liger-kernel 0.8.5"; empty where there are none."""
        return ", ".join(f"{name} {version}" for name, version in sorted(self.packages.items()))


def _flat(environment: Mapping[str, Any]) -> dict[str, Any]:
    """An environment by field and by package. One that was stored before packages were is as one without any."""
    fields = {name: value for name, value in environment.items() if name not in ("gpu_uuid", "packages")}
    return {**fields, **(environment.get("packages") or {})}


def _told(version: object) -> str:
    return "none" if version is None else str(version)


class CopyCeiling(Contract):
    """The best copy kernel at one footprint. Bandwidth counts bytes read plus bytes written."""

    footprint_bytes: int
    gb_s: float
    kernel: str


class TargetGpu(Contract):
    """A GPU to compile for, which need not be there: what a compiler and host code ask of one. Sizes in bytes.

    `memory_gb_s` and `matmul_tflops` (dense, no sparsity; float32 by its own units, not TF32) are a data sheet's peaks,
    which no kernel reaches.
    """

    name: str
    capability: tuple[int, int]
    sm_count: int = Field(gt=0)
    memory_bytes: int = Field(gt=0)
    l2_bytes: int = Field(gt=0)
    memory_gb_s: float | None = Field(default=None, gt=0)
    matmul_tflops: dict[DType, float] = Field(default_factory=dict)


class DeviceFacts(Contract):
    """One GPU. Sizes in bytes, clocks in MHz. Ceilings are measured on it, unless `ceilings_from` says otherwise.

    `ceilings_from` is "measured", or the words for a data sheet's peaks, where the GPU is not there: then `uuid` and
    the driver of `environment` are "none". `ceilings_measured_at` is when, where they were kept from an earlier run on
    the same GPU with the same driver.
    """

    name: str
    uuid: str
    capability: tuple[int, int]
    architecture: str
    sm_count: int = Field(gt=0)
    memory_bytes: int
    l2_bytes: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_bytes: int
    registers_per_sm: int
    max_threads_per_sm: int
    max_sm_clock_mhz: int | None
    copy_ceilings: tuple[CopyCeiling, ...]
    #: dtype -> TFLOP/s of a large square matmul
    matmul_tflops: dict[DType, float]
    environment: Environment
    measured_at: str
    ceilings_from: str = "measured"
    ceilings_measured_at: str | None = None
    #: torch's name of a dtype that no case has, such as "int8" -> TOP/s of a large square product of two of it
    operand_tflops: dict[str, float] = Field(default_factory=dict)

    def copy_ceiling_gb_s(self, footprint_bytes: int) -> float:
        """The copy ceiling at that footprint, in GB/s: linear in the footprint's logarithm between the two measured
        ones around it, and that of the nearest beyond the smallest and the largest.

        Raises ValueError where there are no copy ceilings.
        """
        if not self.copy_ceilings:
            raise ValueError(f"{self.name} has no copy ceilings")
        ceilings = sorted(self.copy_ceilings, key=lambda ceiling: ceiling.footprint_bytes)
        below = [ceiling for ceiling in ceilings if ceiling.footprint_bytes <= footprint_bytes]
        above = ceilings[len(below) :]
        if not below or not above:
            return (below or above[:1])[-1].gb_s
        low, high = below[-1], above[0]
        share = math.log(footprint_bytes / low.footprint_bytes) / math.log(high.footprint_bytes / low.footprint_bytes)
        return low.gb_s + share * (high.gb_s - low.gb_s)
