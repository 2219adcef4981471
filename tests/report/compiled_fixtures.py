"""What rms_norm compiles to, built by hand: launches with their access to memory, and what knobs change."""

from __future__ import annotations

from measured_fixtures import CASES, TUNING

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import AccessKind, CompiledFacts, GlobalAccess, LaunchRecord, SettingsProbe

BINARY_SHA = "d4" * 32


def access(kind: AccessKind, bytes_a_thread: int | None, instructions: int, line: int | None) -> GlobalAccess:
    return GlobalAccess(kind=kind, bytes_a_thread=bytes_a_thread, instructions=instructions, line=line)


FORWARD_ACCESSES = (
    access(AccessKind.LOAD, 16, 2, 61),
    access(AccessKind.LOAD, 16, 2, 69),
    access(AccessKind.STORE, 16, 2, 71),
    access(AccessKind.STORE, 4, 1, 66),
)
BACKWARD_ACCESSES = (
    access(AccessKind.LOAD, 16, 2, 96),
    access(AccessKind.LOAD, 8, 4, 101),
    access(AccessKind.LOAD, 4, 1, 101),
    access(AccessKind.LOAD, 4, 1, None),
    access(AccessKind.STORE, 16, 2, 118),
    access(AccessKind.ASYNC_COPY, None, 1, 102),
)


def launch(
    jit_function: str,
    line: int,
    grid: int,
    *,
    registers: int,
    warps: int,
    spills: int = 0,
    accesses: tuple[GlobalAccess, ...] | None = None,
) -> LaunchRecord:
    return LaunchRecord(
        jit_function=jit_function,
        host_function=jit_function.strip("_").removesuffix("_kernel"),
        line=line,
        grid=(grid,),
        constexprs={"BLOCK_SIZE": 4096},
        host_integers={"n_rows": 8192, "n_cols": 4096},
        host_tensors={"rows": "bfloat16"},
        compiled=CompiledFacts(
            binary_sha256=BINARY_SHA,
            registers=registers,
            spills=spills,
            shared_bytes=64,
            num_warps=warps,
            num_stages=3,
            accesses=accesses,
            matrix_instructions=None if accesses is None else {},
        ),
    )


def launches(*, accesses: bool = True) -> dict[str, dict[Mode, tuple[LaunchRecord, ...]]]:
    """Of every case. `accesses` is whether the code was read."""
    found = {}
    for case in CASES:
        forward = launch(
            "_rms_norm_forward_kernel",
            137,
            case.axes["M"],
            registers=40,
            warps=8,
            accesses=FORWARD_ACCESSES if accesses else None,
        )
        backward = launch(
            "_rms_norm_backward_kernel",
            172,
            132,
            registers=72,
            warps=8,
            spills=46,
            accesses=BACKWARD_ACCESSES if accesses else None,
        )
        found[case.name] = {
            Mode.FORWARD: (forward,),
            Mode.BACKWARD: (backward,),
            Mode.FULL: (forward, backward),
        }
    return found


def probes() -> tuple[SettingsProbe, ...]:
    """num_stages changes nothing anywhere, num_warps does; 32 warps do not compile in the backward pass."""
    stages = [
        SettingsProbe(knob=f"_rms_norm_{name}_kernel.num_stages", case=TUNING[1].name, mode=mode, alike=((1, 2, 3, 4),))
        for name, mode in (("forward", Mode.FORWARD), ("backward", Mode.BACKWARD))
    ]
    warps = SettingsProbe(
        knob="_rms_norm_backward_kernel.num_warps",
        case=TUNING[1].name,
        mode=Mode.BACKWARD,
        alike=((4,), (8,), (16,)),
        failures={32: "out of resource: registers,\nRequired: 80 | limit: 64"},
    )
    again = stages[0].model_copy(update={"case": TUNING[3].name})
    return (warps, *stages, again)
