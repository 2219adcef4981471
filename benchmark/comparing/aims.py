"""What is asked of each kernel: in which pass, beside whom, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.contracts.case import Mode


@dataclass(frozen=True)
class Aim:
    """The least that the time of `beside` over the library's may be. None is the fastest of all others."""

    least: float
    beside: str | None = None

    def __str__(self) -> str:
        return f"{self.least:g} of {self.beside or 'the fastest other'}"


#: Of a kernel that AIMS does not name.
ROWS: Mapping[Mode, Aim] = {Mode.FORWARD: Aim(0.97), Mode.BACKWARD: Aim(0.85)}
#: A loss is compared with its gradient: which pass computes it differs.
LOSS: Mapping[Mode, Aim] = {Mode.FULL: Aim(1.0, beside="liger")}
AIMS: Mapping[str, Mapping[Mode, Aim]] = {
    "cross_entropy": LOSS,
    "fused_linear_cross_entropy": LOSS,
    "matmul": {Mode.FORWARD: Aim(0.8), Mode.BACKWARD: Aim(0.8)},
    "quantized_matmul": {Mode.FORWARD: Aim(1.3, beside="cublas_bf16")},
}
#: What these are for is memory too: it is measured.
SAVE_MEMORY = frozenset({"cross_entropy", "fused_linear_cross_entropy"})


def aims_of(kernel: str) -> Mapping[Mode, Aim]:
    return AIMS.get(kernel, ROWS)
