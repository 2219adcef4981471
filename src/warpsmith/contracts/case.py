"""Cases: the shapes and dtypes a kernel is searched on and judged by."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from warpsmith.contracts.base import Contract


class DType(str, Enum):
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @property
    def itemsize_bytes(self) -> int:
        return 4 if self is DType.FLOAT32 else 2

    @property
    def short(self) -> str:
        return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[self.value]


class Mode(str, Enum):
    """What one timed call does. FULL is forward then backward."""

    FORWARD = "forward"
    BACKWARD = "backward"
    FULL = "full"

    @property
    def passes(self) -> tuple[Mode, ...]:
        """The passes that it is made of."""
        return (Mode.FORWARD, Mode.BACKWARD) if self is Mode.FULL else (self,)


class Role(str, Enum):
    """Tuning cases are searched; held-out cases only judge."""

    TUNING = "tuning"
    HELD_OUT = "held_out"


class Case(Contract):
    """One named set of axis values and a dtype.

    `axes` are sizes, such as {"M": 8192, "N": 4096}. `options` is whatever else make_inputs needs
    to know, such as {"layout": "row_strided"}; it is not an axis of a plot.
    """

    axes: dict[str, int]
    dtype: DType
    role: Role = Role.TUNING
    weight: float = Field(default=1.0, gt=0)
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """Unique within a target: "8192x4096-bf16", then one "-value" an option."""
        sizes = "x".join(str(size) for size in self.axes.values())
        extras = "".join(f"-{key}={value}" for key, value in sorted(self.options.items()))
        return f"{sizes}-{self.dtype.short}{extras}"


class Cost(Contract):
    """The least work one call must do: bytes that must cross device memory, and operations of arithmetic.

    `operands` is what the operations are of where that is not the dtype of the case, by torch's name, such as "int8" or
    "float8_e4m3fn": it decides which matmul ceiling they are held against.
    """

    bytes_moved: int = Field(ge=0)
    flops: int = Field(ge=0)
    operands: str | None = None
