"""What compute-sanitizer says of a source: accesses out of bounds and misaligned, races in shared memory."""

from __future__ import annotations

from enum import Enum

from pydantic import Field, model_validator

from warpsmith.contracts.base import Contract


class SanitizerTool(str, Enum):
    """Of compute-sanitizer. memcheck watches every access to memory, racecheck those to shared memory."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"


class SanitizerError(Contract):
    """One error as the tool tells it, such as kind "Invalid __global__ read of size 4 bytes".

    `place` is file and line where the kernel was compiled with line information. `detail` is the address and what lies
    near it, or the other side of a race. `case` is the one that was running.
    """

    kind: str
    kernel: str | None = None
    place: str | None = None
    detail: str | None = None
    case: str | None = None

    def __str__(self) -> str:
        where = " in ".join(part for part in (self.kernel, self.place) if part)
        told = f"{self.kind} at {where}" if where else self.kind
        told = f"{told}: {self.detail}" if self.detail else told
        return f"{self.case}: {told}" if self.case else told


class Sanitization(Contract):
    """A source under one tool at some cases, forward and backward; or why it could not be, and what would mend it.

    `errors` counts them all, `first` is the first that was told. Warnings are possible races that the tool is not sure
    of, and are no errors.
    """

    tool: SanitizerTool
    errors: int | None = Field(default=None, ge=0)
    warnings: int = Field(default=0, ge=0)
    first: SanitizerError | None = None
    version: str | None = None
    unavailable: str | None = None
    remedy: str | None = None

    @model_validator(mode="after")
    def _counted_or_unavailable(self) -> Sanitization:
        if (self.errors is None) != (self.unavailable is not None):
            raise ValueError(f"{self.errors} errors, unavailable: {self.unavailable}; expected one or the other")
        return self

    def __str__(self) -> str:
        if self.unavailable is not None:
            return f"compute-sanitizer's {self.tool.value} says nothing ({self.unavailable})"
        found = f"counts {self.errors} errors" if self.errors else "finds nothing"
        return f"compute-sanitizer's {self.tool.value} {found}"

    @property
    def clean(self) -> bool:
        """Whether the tool ran and found nothing."""
        return self.errors == 0
