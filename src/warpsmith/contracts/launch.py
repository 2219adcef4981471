"""Launches of jit functions, and what the compiler made of them."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field

from warpsmith.contracts.base import Contract, Settings, Sha256
from warpsmith.contracts.case import Mode


class AccessKind(str, Enum):
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    #: from global to shared memory, past the registers
    ASYNC_COPY = "async copy"


class GlobalAccess(Contract):
    """Instructions of one kind and width that touch global memory, as they stand in the code, not as they run.

    `bytes_a_thread` is what one instruction moves for one thread: 16 is the widest there is (32 from 10.0 on); None for
    a bulk copy, whose size is not in the instruction. `line` is that of the target's source, None where the
    instruction comes from elsewhere.
    """

    kind: AccessKind
    bytes_a_thread: int | None = Field(default=None, gt=0)
    instructions: int = Field(gt=0)
    line: int | None = None


class CompiledFacts(Contract):
    """What the compiler reports of one specialization.

    `accesses`, and `matrix_instructions` (mnemonic, such as "wgmma.mma_async" -> how many), are None where the
    code was not read; empty, there are none. A program of the grid is `num_ctas` blocks, which share a cluster.
    """

    binary_sha256: Sha256
    registers: int
    spills: int
    shared_bytes: int
    num_warps: int
    num_stages: int
    num_ctas: int = Field(default=1, gt=0)
    accesses: tuple[GlobalAccess, ...] | None = None
    matrix_instructions: dict[str, int] | None = None


class LaunchRecord(Contract):
    """One launch as it happened.

    `host_function` is the function of the target's source that launched, `host_integers` its integer
    locals at that moment (sizes, block widths, counts), by name. `host_tensors` are its tensor
    locals: name -> dtype.
    """

    jit_function: str
    host_function: str
    line: int
    grid: tuple[int, ...]
    constexprs: dict[str, int | float | str | bool | None]
    host_integers: dict[str, int]
    host_tensors: dict[str, str]
    compiled: CompiledFacts


class CompiledSettings(Contract):
    """What one choice of settings compiles to at one case, or why it does not. `notes` qualify the launches."""

    settings: Settings
    launches: tuple[LaunchRecord, ...] = ()
    failure: str | None = None
    #: whose code raised the failure before any launch, and would on any GPU; None where that is not known
    at_fault: Literal["source", "target"] | None = None
    compile_s: float | None = None
    notes: tuple[str, ...] = ()


class SettingsProbe(Contract):
    """What one knob changes of the machine code at one case and mode, compiled and not run, all else as it is.

    `alike` groups the values that give the same machine code, in the order tried; one group means that the knob changes
    nothing there. `failures` says why a value does not compile.
    """

    knob: str
    case: str
    mode: Mode
    alike: tuple[tuple[int, ...], ...]
    failures: dict[int, str] = Field(default_factory=dict)

    @property
    def is_inert(self) -> bool:
        """Whether values that compile, two at least, make no difference."""
        return len(self.alike) == 1 and len(self.alike[0]) > 1
