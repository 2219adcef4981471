"""Launches of jit functions, and what the compiler made of them."""

from __future__ import annotations

from warpsmith.contracts.base import Contract, Settings, Sha256


class CompiledFacts(Contract):
    """What the compiler reports of one specialization."""

    binary_sha256: Sha256
    registers: int
    spills: int
    shared_bytes: int
    num_warps: int
    num_stages: int


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
    compile_s: float | None = None
    notes: tuple[str, ...] = ()
