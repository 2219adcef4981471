"""An H200 and a small RMSNorm target, and timings at chosen shares of the copy ceiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from warpsmith.contracts.audit import (
    JitFunction,
    Knob,
    KnobKind,
    KnobOrigin,
    Opportunity,
    OpportunityKind,
    SourceAudit,
    Tier,
)
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.counters import CounterRow, Counters, Durations, KernelDuration
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.contracts.measurement import Block, Timing, TimingMethod
from warpsmith.contracts.target import TargetSpec
from warpsmith.diagnose.evidence import Evidence

FORWARD, BACKWARD = "_forward_kernel", "_backward_kernel"
COPY_GB_S = 4100.0


def make_device(**changes: Any) -> DeviceFacts:
    facts = DeviceFacts(
        name="NVIDIA H200",
        uuid="GPU-0",
        capability=(9, 0),
        architecture="Hopper",
        sm_count=132,
        memory_bytes=150_000_000_000,
        l2_bytes=50 * 1024**2,
        shared_memory_per_sm_bytes=228 * 1024,
        shared_memory_per_block_bytes=227 * 1024,
        registers_per_sm=65536,
        max_threads_per_sm=2048,
        max_sm_clock_mhz=1980,
        copy_ceilings=(CopyCeiling(footprint_bytes=64 * 1024**2, gb_s=COPY_GB_S, kernel="vector"),),
        matmul_tflops={DType.BFLOAT16: 790.0},
        environment=Environment(
            gpu_name="NVIDIA H200",
            gpu_uuid="GPU-0",
            driver="580",
            cuda="12.8",
            torch="2.11",
            triton="3.6",
            ptxas=None,
            fp_fusion=True,
            harness="1",
        ),
        measured_at="2026-11-29T00:00:00Z",
    )
    return facts.model_copy(update=changes)


def make_case(rows: int, columns: int, *, role: Role = Role.TUNING, weight: float = 1.0) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16, role=role, weight=weight)


def make_cost(case: Case, mode: Mode) -> Cost:
    """Forward reads and writes the rows once, backward reads twice and writes once."""
    elements, passes = case.axes["M"] * case.axes["N"], {Mode.FORWARD: 2, Mode.BACKWARD: 3, Mode.FULL: 5}[mode]
    return Cost(bytes_moved=passes * elements * case.dtype.itemsize_bytes, flops=4 * elements)


def make_spec(*cases: Case, modes: tuple[Mode, ...] = (Mode.FORWARD, Mode.BACKWARD), **changes: Any) -> TargetSpec:
    spec = TargetSpec(
        name="norm",
        source="norm.py",
        module="norm",
        target_file="benchmark_norm.py",
        source_sha256="0" * 64,
        cases=cases,
        modes=modes,
        differentiable=("x",),
        overwrites=(),
        costs={case.name: {mode: make_cost(case, mode) for mode in Mode} for case in cases},
        providers=(),
        missing_providers={},
        tests=(),
        plot_axis="N",
    )
    return spec.model_copy(update=changes)


def make_timing(
    case: Case, mode: Mode, times_ms: Mapping[str, float], failures: Mapping[str, str] | None = None
) -> Timing:
    """Three equal rounds of each contender."""
    return Timing(
        case=case,
        mode=mode,
        method=TimingMethod.GRAPH,
        calls_per_sample=1,
        input_sets=2,
        same_addresses=True,
        blocks=tuple(Block(contender=n, round=r, samples_ms=(t,)) for n, t in times_ms.items() for r in range(3)),
        failures=dict(failures or {}),
    )


def make_timing_at(case: Case, mode: Mode, share: float) -> Timing:
    """The original at this share of the copy ceiling."""
    return make_timing(case, mode, {"original": make_cost(case, mode).bytes_moved / (COPY_GB_S * 1e6) / share})


def make_launch(
    jit_function: str = FORWARD, blocks: int = 8192, *, registers: int = 39, num_warps: int = 8, **facts: Any
) -> LaunchRecord:
    compiled = {"spills": 0, "shared_bytes": 32, "num_stages": 3, **facts}
    return LaunchRecord(
        jit_function=jit_function,
        host_function="backward" if jit_function == BACKWARD else "forward",
        line=10,
        grid=(blocks, 1, 1),
        constexprs={},
        host_integers={},
        host_tensors={},
        compiled=CompiledFacts(binary_sha256="2" * 64, registers=registers, num_warps=num_warps, **compiled),
    )


def make_knob(jit_function: str, kind: KnobKind, *, line: int = 20, tunable: bool = True) -> Knob:
    return Knob(
        id=f"{jit_function}.{kind.value}",
        kind=kind,
        jit_function=jit_function,
        host_function="backward" if jit_function == BACKWARD else "forward",
        name=kind.value,
        origin=KnobOrigin.FORMULA,
        variable=kind.value,
        line=line,
        anchor_line=line,
        expression="8",
        tunable=tunable,
    )


def make_opportunity(kind: OpportunityKind, function: str, line: int = 30) -> Opportunity:
    return Opportunity(kind=kind, function=function, line=line, what="found here", why="it costs a pass")


def make_audit(*opportunities: Opportunity, knobs: tuple[Knob, ...] = (), loops: tuple[str, ...] = ()) -> SourceAudit:
    functions = [
        JitFunction(
            name=name, line=1, tier=Tier.REDUCTION, has_loop=name in loops, loads=2, stores=1, atomics=0, reductions=1
        )
        for name in (FORWARD, BACKWARD)
    ]
    return SourceAudit(
        tier=Tier.REDUCTION, jit_functions=tuple(functions), launches=(), knobs=knobs, opportunities=opportunities
    )


def make_evidence(spec: TargetSpec, *timings: Timing, **changes: Any) -> Evidence:
    launches = {
        case.name: {Mode.FORWARD: (make_launch(),), Mode.BACKWARD: (make_launch(BACKWARD, 132),)}
        for case in spec.tuning_cases
    }
    given = {"device": make_device(), "audit": make_audit(), "launches": launches, **changes}
    return Evidence(spec=spec, timings=timings, **given)


def make_counters(
    case: Case, *metrics: Mapping[str, float], mode: Mode = Mode.FORWARD, kernels: tuple[str, ...] = ()
) -> Counters:
    """One launch each; of the mode's own kernel where none is named."""
    named = kernels or (BACKWARD if mode is Mode.BACKWARD else FORWARD,) * len(metrics)
    rows = tuple(
        CounterRow(kernel=name, grid="", block="", metrics=dict(each))
        for name, each in zip(named, metrics, strict=True)
    )
    return Counters(case=case, mode=mode, rows=rows, ncu_version="2025.3.1")


def make_throughput(compute_pct: float, memory_pct: float, waves: float = 5.0, **more: float) -> dict[str, float]:
    return {
        "gpu__time_duration.sum": 1000.0,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": compute_pct,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": memory_pct,
        "launch__waves_per_multiprocessor": waves,
        **more,
    }


def make_durations(case: Case, mode: Mode, **kernels_us: float) -> Durations:
    """By kernel; FILL and COPY stand for torch's."""
    names = {"FILL": "void at::native::elementwise<FillFunctor<float>>(int)", "COPY": "direct_copy_kernel_cuda"}
    kernels = tuple(KernelDuration(name=names.get(n, n), samples_us=(us,) * 3) for n, us in kernels_us.items())
    return Durations(case=case, mode=mode, kernels=kernels)


class Made:
    """The makers, as one fixture."""

    device = staticmethod(make_device)
    case = staticmethod(make_case)
    cost = staticmethod(make_cost)
    spec = staticmethod(make_spec)
    timing = staticmethod(make_timing)
    timing_at = staticmethod(make_timing_at)
    launch = staticmethod(make_launch)
    knob = staticmethod(make_knob)
    opportunity = staticmethod(make_opportunity)
    counters = staticmethod(make_counters)
    throughput = staticmethod(make_throughput)
    durations = staticmethod(make_durations)
    audit = staticmethod(make_audit)
    evidence: Callable[..., Evidence] = staticmethod(make_evidence)


@pytest.fixture(scope="session")
def made() -> type[Made]:
    return Made
