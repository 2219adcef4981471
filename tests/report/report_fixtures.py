"""A run of rms_norm on an H200, built by hand: every contract that the report room takes, with plausible figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.audit import (
    JitFunction,
    Knob,
    KnobKind,
    KnobOrigin,
    LaunchSite,
    Opportunity,
    OpportunityKind,
    SourceAudit,
    Tier,
)
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment, Origin, OriginKind
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.contracts.measurement import (
    Block,
    CaseCheck,
    Correctness,
    CounterRow,
    Counters,
    Memory,
    Timing,
    TimingMethod,
)
from warpsmith.contracts.profile import (
    Baseline,
    Bottleneck,
    EvidenceRow,
    LaunchOverhead,
    ModeProfile,
    Profile,
    Recommendation,
)
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult, TestRun
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import CaseSpeedup, GuardrailResult, Interval, Outcome, Verdict
from warpsmith.report.context import ReportContext
from warpsmith.report.rows import ProviderRow

ORIGINAL_SHA, WINNER_SHA, BINARY_SHA = "a1" * 32, "b2" * 32, "d4" * 32
SOURCE = "src/warpsmith/kernels/rms_norm.py"
GPU = "NVIDIA H200"
ORIGIN = Origin(kind=OriginKind.MEASURED, gpu=GPU, date="2026-11-29")


def tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


TUNING = (tuning(2048, 2048), tuning(8192, 4096), tuning(8192, 8192), tuning(4096, 16384), tuning(32768, 2048))
HELD_OUT = (
    Case(axes={"M": 6144, "N": 5120}, dtype=DType.BFLOAT16, role=Role.HELD_OUT),
    Case(axes={"M": 8192, "N": 4096}, dtype=DType.FLOAT16, role=Role.HELD_OUT),
    Case(axes={"M": 4096, "N": 4096}, dtype=DType.BFLOAT16, role=Role.HELD_OUT, options={"layout": "row_strided"}),
)
CASES = (*TUNING, *HELD_OUT)

#: µs of each provider at each of CASES; None where it was not measured.
TIMES_US: dict[Mode, dict[str, tuple[float | None, ...]]] = {
    Mode.FORWARD: {
        "original": (6.10, 33.42, 65.91, 66.80, 66.40, 31.20, 33.50, 17.90),
        "optimized": (6.08, 33.40, 65.72, 66.15, 66.21, 31.18, 33.49, 17.91),
        "liger": (6.31, 34.62, 71.10, 69.40, 71.20, 32.50, 34.70, 18.80),
        "torch": (8.92, 41.10, 80.40, 83.90, 84.10, 39.00, 41.20, 22.40),
        "torch_compile": (6.40, 33.10, 66.20, 66.10, 66.30, None, None, None),
    },
    Mode.BACKWARD: {
        "original": (14.20, 93.70, 121.30, 124.20, 170.40, 88.00, 93.80, 49.10),
        "optimized": (11.90, 64.10, 112.60, 118.40, 96.30, 69.70, 64.30, 37.20),
        "liger": (21.60, 120.90, 181.70, 172.00, 305.80, 118.00, 121.10, 66.00),
        "torch": (29.80, 146.30, 270.40, 268.10, 190.60, 139.00, 146.10, 80.30),
        "torch_compile": (13.90, 59.30, 171.20, 172.90, 110.20, None, None, None),
    },
}
TIMES_US[Mode.FULL] = {
    name: tuple(
        None if f is None or b is None else f + b for f, b in zip(forward, TIMES_US[Mode.BACKWARD][name], strict=True)
    )
    for name, forward in TIMES_US[Mode.FORWARD].items()
}


def cost(case: Case, mode: Mode) -> Cost:
    matrices = {Mode.FORWARD: 2, Mode.BACKWARD: 3, Mode.FULL: 5}[mode]
    elements = case.axes["M"] * case.axes["N"]
    return Cost(bytes_moved=matrices * elements * case.dtype.itemsize_bytes, flops=4 * elements)


def about(value: float, *, half_width: float = 0.002) -> Interval:
    return Interval(value=value, low=value * (1 - half_width), high=value * (1 + half_width))


def device() -> DeviceFacts:
    return DeviceFacts(
        name=GPU,
        uuid="GPU-00000000-1111-2222-3333-444444444444",
        capability=(9, 0),
        architecture="Hopper",
        sm_count=132,
        memory_bytes=150_754_820_096,
        l2_bytes=62_914_560,
        shared_memory_per_sm_bytes=233_472,
        shared_memory_per_block_bytes=232_448,
        registers_per_sm=65_536,
        max_threads_per_sm=2048,
        max_sm_clock_mhz=1980,
        copy_ceilings=(
            CopyCeiling(footprint_bytes=16 * 2**20, gb_s=3120.4, kernel="copy_ 1024 threads"),
            CopyCeiling(footprint_bytes=256 * 2**20, gb_s=4180.6, kernel="triton BLOCK=4096"),
        ),
        matmul_tflops={DType.BFLOAT16: 788.2, DType.FLOAT32: 388.9},
        environment=Environment(
            gpu_name=GPU,
            gpu_uuid="GPU-00000000-1111-2222-3333-444444444444",
            driver="580.82.07",
            cuda="13.0",
            torch="2.11.0",
            triton="3.6.0",
            ptxas="12.9.86",
            fp_fusion=True,
            harness="1",
        ),
        measured_at="2026-11-29T14:05:00Z",
    )


def spec() -> TargetSpec:
    return TargetSpec(
        name="rms_norm",
        source=SOURCE,
        module="warpsmith.kernels.rms_norm",
        target_file="benchmark/benchmark_rms_norm.py",
        source_sha256=ORIGINAL_SHA,
        cases=CASES,
        modes=tuple(Mode),
        differentiable=("x", "weight"),
        overwrites=(),
        costs={case.name: {mode: cost(case, mode) for mode in Mode} for case in CASES},
        providers=("torch", "torch_compile", "liger"),
        missing_providers={},
        tests=("tests/kernels/test_rms_norm.py",),
        plot_axis="N",
    )


def timing(case: Case, mode: Mode, samples_ms: dict[str, Sequence[Sequence[float]]], **rest: object) -> Timing:
    """A timing of contender -> blocks of samples, one block a round."""
    blocks = tuple(
        Block(contender=name, round=index, samples_ms=tuple(samples))
        for name, rounds in samples_ms.items()
        for index, samples in enumerate(rounds)
    )
    values = {"method": TimingMethod.GRAPH, "calls_per_sample": 16, "input_sets": 4, "same_addresses": True}
    return Timing.model_validate({"case": case, "mode": mode, "blocks": blocks, **values, **rest})


def baseline(case: Case, mode: Mode, provider: str, microseconds: float) -> Baseline:
    least_bytes = cost(case, mode).bytes_moved
    ceiling_gb_s = device().copy_ceiling_gb_s(least_bytes)
    gb_s = least_bytes / microseconds / 1e3
    return Baseline(
        case=case.name,
        role=case.role,
        mode=mode,
        provider=provider,
        time_ms=about(microseconds / 1000),
        peak_bytes=least_bytes // 2,
        gb_s=gb_s,
        ceiling_gb_s=ceiling_gb_s,
        share_of_ceiling=min(gb_s / ceiling_gb_s, 1.0),
        method="events" if provider == "torch_compile" and mode is not Mode.FORWARD else "graph",
    )


def baselines() -> tuple[Baseline, ...]:
    found = [
        baseline(case, mode, provider, microseconds)
        for mode, by_provider in TIMES_US.items()
        for provider, times in by_provider.items()
        if provider != "optimized"
        for case, microseconds in zip(CASES, times, strict=True)
        if microseconds is not None
    ]
    absent = {"time_ms": None, "peak_bytes": None, "gb_s": None, "share_of_ceiling": None, "method": None}
    index = next(i for i, b in enumerate(found) if b.provider == "liger" and b.mode is Mode.FULL)
    found[index] = found[index].model_copy(update={**absent, "unavailable": "out of memory | needs 3 GiB"})
    return tuple(found)


def warm_baselines() -> tuple[Baseline, ...]:
    """The smallest case's forward pass again, with L2 warm: the only one whose 16 MiB fit L2."""
    return tuple(
        baseline(TUNING[0], Mode.FORWARD, provider, 0.6 * times[0])
        for provider, times in TIMES_US[Mode.FORWARD].items()
        if provider != "optimized" and times[0] is not None
    )


def launch_overheads() -> tuple[LaunchOverhead, ...]:
    return tuple(
        LaunchOverhead(case=TUNING[0].name, mode=mode, provider=provider, host_us=host_us, device_us=device_us)
        for mode, provider, host_us, device_us in (
            (Mode.FORWARD, "original", 14.1, 6.1),
            (Mode.FORWARD, "torch", 9.6, None),
            (Mode.BACKWARD, "original", 11.9, 14.2),
        )
    )


def launch(jit_function: str, line: int, grid: int, *, registers: int, warps: int) -> LaunchRecord:
    return LaunchRecord(
        jit_function=jit_function,
        host_function=jit_function.strip("_").removesuffix("_kernel"),
        line=line,
        grid=(grid,),
        constexprs={"BLOCK_SIZE": 4096},
        host_integers={"n_rows": 8192, "n_cols": 4096},
        host_tensors={"rows": "bfloat16"},
        compiled=CompiledFacts(
            binary_sha256=BINARY_SHA, registers=registers, spills=0, shared_bytes=64, num_warps=warps, num_stages=3
        ),
    )


def launches() -> dict[str, dict[Mode, tuple[LaunchRecord, ...]]]:
    found = {}
    for case in CASES:
        forward = launch("_rms_norm_forward_kernel", 137, case.axes["M"], registers=40, warps=8)
        backward = launch("_rms_norm_backward_kernel", 172, 132, registers=72, warps=8)
        found[case.name] = {
            Mode.FORWARD: (forward,),
            Mode.BACKWARD: (backward,),
            Mode.FULL: (forward, backward),
        }
    return found


def audit() -> SourceAudit:
    def knob(function: str, name: str, kind: KnobKind, line: int, **rest: object) -> Knob:
        host = function.strip("_").removesuffix("_kernel")
        values = {
            "id": f"{function}.{name}",
            "jit_function": function,
            "host_function": host,
            "name": name,
            "kind": kind,
            "line": line,
            "anchor_line": line,
            "variable": name,
            "origin": KnobOrigin.HELPER,
            "expression": "_launch_settings(n_cols)",
            "tunable": True,
        }
        return Knob.model_validate({**values, **rest})

    forward, backward = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"
    return SourceAudit(
        tier=Tier.REDUCTION,
        jit_functions=(
            JitFunction(
                name=forward, line=46, tier=Tier.REDUCTION, has_loop=False, loads=2, stores=2, atomics=0, reductions=1
            ),
            JitFunction(
                name=backward, line=78, tier=Tier.REDUCTION, has_loop=True, loads=4, stores=2, atomics=0, reductions=1
            ),
        ),
        launches=(
            LaunchSite(jit_function=forward, host_function="rms_norm_forward", line=137, grid="(n_rows,)"),
            LaunchSite(jit_function=backward, host_function="rms_norm_backward", line=172, grid="(programs,)"),
        ),
        knobs=(
            knob(forward, "num_warps", KnobKind.NUM_WARPS, 132),
            knob(
                forward,
                "BLOCK_SIZE",
                KnobKind.BLOCK_COVERING,
                132,
                tunable=False,
                why_not="a block must hold the whole row",
            ),
            knob(backward, "num_warps", KnobKind.NUM_WARPS, 170),
            knob(
                backward,
                "programs",
                KnobKind.PROGRAMS_PER_SM,
                164,
                origin=KnobOrigin.SM_COUNT,
                expression="torch.cuda.get_device_properties(x.device).multi_processor_count",
            ),
        ),
        opportunities=(
            Opportunity(
                kind=OpportunityKind.ONE_PROGRAM_PER_SM,
                function="rms_norm_backward",
                line=164,
                what="one program an SM loops over the rows",
                why="With 8 of 64 warps an SM has too few loads in flight to hide latency.",
            ),
            Opportunity(
                kind=OpportunityKind.NEEDLESS_INITIALISATION,
                function="rms_norm_backward",
                line=168,
                what="dw_partial is zeroed and then wholly overwritten",
                why="The memset is a launch and a pass of writes.",
            ),
        ),
        not_covered=("line 212: grid computed by a lambda",),
    )


def counters() -> tuple[Counters, ...]:
    metrics = {
        "gpu__time_duration.sum": 34_560.0,
        "dram__bytes.sum.per_second": 3.71e12,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 77.2,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 36.1,
        "launch__waves_per_multiprocessor": 7.76,
        "launch__registers_per_thread": 40.0,
    }
    row = CounterRow(kernel="_rms_norm_forward_kernel", grid="(8192, 1, 1)", block="(256, 1, 1)", metrics=metrics)
    return (
        Counters(
            case=TUNING[1],
            mode=Mode.FORWARD,
            rows=(row,),
            ncu_version="2025.3.1",
            missing_metrics=("lts__t_sector_hit_rate.pct",),
        ),
        Counters(
            case=TUNING[1],
            mode=Mode.BACKWARD,
            unavailable="ERR_NVGPUCTRPERM: the driver lets only an administrator read counters.",
            remedy="Ask the administrator to load the driver with NVreg_RestrictProfilingToAdminUsers=0.",
        ),
    )


def mode_profiles() -> tuple[ModeProfile, ...]:
    def evidence(signal: str, observation: str, supports: str, source: str = "graph replay") -> EvidenceRow:
        return EvidenceRow(signal=signal, observation=observation, supports=supports, source=source)

    return (
        ModeProfile(
            mode=Mode.FORWARD,
            bottleneck=Bottleneck.NEAR_PEAK,
            share_of_ceiling=0.953,
            headroom_us=1.62,
            evidence=(evidence("share of ceiling", "95.3% over 5 cases", "near peak"),),
            ncu_disagreement="ncu's rule says latency-bound at SM 36%; the bytes over the time say otherwise.",
        ),
        ModeProfile(
            mode=Mode.BACKWARD,
            bottleneck=Bottleneck.LATENCY_BOUND,
            share_of_ceiling=0.614,
            headroom_us=38.4,
            evidence=(
                evidence("share of ceiling", "61.4% over 5 cases", "not near peak"),
                evidence(
                    "theoretical occupancy", "8 of 64 warps | one program an SM", "latency bound", "compiled code"
                ),
            ),
        ),
        ModeProfile(
            mode=Mode.FULL,
            bottleneck=Bottleneck.LATENCY_BOUND,
            share_of_ceiling=0.702,
            headroom_us=40.1,
            evidence=(evidence("share of ceiling", "70.2% over 5 cases", "the backward pass holds it back"),),
        ),
    )


def profile(**changes: object) -> Profile:
    complete = Profile(
        kernel="rms_norm",
        run_id="20261129-140500",
        goal=Mode.FULL,
        source=SOURCE,
        source_sha256=ORIGINAL_SHA,
        device=device(),
        origin=ORIGIN,
        baselines=baselines(),
        launches=launches(),
        counters=counters(),
        evidence_tier="hardware counters",
        audit=audit(),
        modes=mode_profiles(),
        recommendations=(
            Recommendation(
                strategy="settings",
                why="The backward pass runs one program an SM; more of them hide latency.",
                predicted_low=1.10,
                predicted_high=1.45,
                lines=(164, 170),
            ),
            Recommendation(
                strategy="needless_initialisation",
                why="dw_partial is zeroed and then overwritten.",
                predicted_low=1.0,
                predicted_high=1.04,
                lines=(168,),
            ),
        ),
        expected_variants=4,
        observations=("num_stages compiles to the same machine code: neither kernel has a pipelined loop.",),
        warm_baselines=warm_baselines(),
        launch_overheads=launch_overheads(),
    )
    return complete.model_copy(update=changes)


def case_speedups(*, modes: Sequence[Mode] = tuple(Mode)) -> tuple[CaseSpeedup, ...]:
    found = []
    for mode in modes:
        pairs = zip(CASES, TIMES_US[mode]["original"], TIMES_US[mode]["optimized"], strict=True)
        for case, original_us, optimized_us in pairs:
            assert original_us is not None and optimized_us is not None
            speedup = CaseSpeedup(
                case=case.name,
                role=case.role,
                mode=mode,
                baseline_ms=original_us / 1000,
                variant_ms=optimized_us / 1000,
                speedup=about(original_us / optimized_us, half_width=0.006),
                regression_p=1.0,
                regressed=False,
            )
            found.append(speedup)
    return tuple(found)


GUARDRAILS = (
    GuardrailResult(
        metric="peak memory, 32768x2048-bf16 backward", baseline=129.0, variant=137.2, unit="MiB", limit="+5%", ok=False
    ),
    GuardrailResult(
        metric="host time a call (lower quartile), 2048x2048-bf16 forward",
        baseline=14.1,
        variant=14.9,
        unit="us",
        limit="at most 10% or 3 us more",
        ok=True,
    ),
    GuardrailResult(
        metric="specializations, all cases",
        baseline=12,
        variant=14,
        unit="kernels",
        limit="at most 2 times as many",
        ok=True,
    ),
)


def accepted() -> Verdict:
    return Verdict(
        outcome=Outcome.ACCEPTED,
        reasons=("1.307× in full, interval clear of 1%", "no case slower beyond noise"),
        goal_mode=Mode.FULL,
        goal=Interval(value=1.307, low=1.301, high=1.314),
        noise_floor=0.0012,
        cases=case_speedups(),
        guardrails=GUARDRAILS[1:],
    )


def proposed() -> Variant:
    return Variant(
        number=1,
        strategy="settings",
        title="Launch settings as a table by shape and GPU",
        based_on=0,
        hypothesis="One program an SM leaves most warp slots empty, so latency is not hidden.",
        predicted_low=1.10,
        predicted_high=1.45,
        origin=ORIGIN,
    )


def variants() -> tuple[Variant, ...]:
    backward = "_rms_norm_backward_kernel"
    first = proposed().model_copy(
        update={
            "status": VariantStatus.JUDGED,
            "source_sha256": WINNER_SHA,
            "changes": ("a table of num_warps and programs for the backward launch, 3 bands",),
            "chosen_settings": {
                "8192x4096-bf16": {f"{backward}.num_warps": 8, f"{backward}.programs": 4},
                "8192x8192-bf16": {},
            },
            "verdict": accepted(),
            "learnings": ("predicted 1.10 to 1.45 ×, found 1.307 ×: within the prediction",),
        }
    )
    second = Variant(
        number=2,
        strategy="cache_hints",
        title="Eviction policies for streamed and reused data",
        based_on=1,
        hypothesis="Rows are streamed once; marking them keeps the weight in L2.",
        predicted_low=1.31,
        predicted_high=1.36,
        origin=ORIGIN,
        status=VariantStatus.JUDGED,
        source_sha256="e5" * 32,
        verdict=Verdict(
            outcome=Outcome.REJECTED,
            reasons=("slower than the best so far, v1, over the tuning cases: 0.994 [0.992, 0.996]",),
            goal_mode=Mode.FULL,
            goal=Interval(value=1.299, low=1.292, high=1.306),
            over_best=Interval(value=0.994, low=0.992, high=0.996),
            noise_floor=0.0012,
        ),
        learnings=("predicted 1.31 to 1.36 ×, found 1.299 ×: below the prediction",),
    )
    third = Variant(
        number=3,
        strategy="pipelined_loop",
        title="Issue the next rows' loads ahead",
        based_on=1,
        hypothesis="Stages ahead hide the latency of a row's loads.",
        predicted_low=1.32,
        predicted_high=1.44,
        origin=ORIGIN,
        status=VariantStatus.COMPILE_FAILED,
        detail="8192x8192-bf16, backward: out of resource: shared memory,\nRequired: 262208, limit: 232448",
    )
    return first, second, third


DIFF = '''--- original_rms_norm.py
+++ rms_norm_v1.py
@@ -161,7 +161,8 @@
     """dx and dw. A fence in a docstring: ``` stays inside the block."""
     dy_rows, rows = _as_rows(dy), _as_rows(x)
     n_rows, n_cols = rows.shape
-    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
+    sm_count = torch.cuda.get_device_properties(x.device).multi_processor_count
+    programs = sm_count * _programs_per_sm(n_rows, n_cols, x.dtype)
     dx = torch.empty_like(rows)
     dw_partial = None
-    # <b> & "quotes"
'''


def provider_rows() -> tuple[ProviderRow, ...]:
    return tuple(
        ProviderRow(
            provider=provider,
            case=case.name,
            role=case.role,
            mode=mode,
            time_ms=about(microseconds / 1000),
            peak_bytes=cost(case, mode).bytes_moved // 2 + (2**20 if provider == "optimized" else 0),
            method=TimingMethod.EVENTS if provider == "torch_compile" else TimingMethod.GRAPH,
            rounds=20,
            samples=400,
            apart=provider == "torch_compile",
        )
        for mode, by_provider in TIMES_US.items()
        for provider, times in by_provider.items()
        for case, microseconds in zip(CASES, times, strict=True)
        if microseconds is not None
    )


def correctness() -> Correctness:
    checks = tuple(CaseCheck(case=case, errors=(), failures=()) for case in CASES)
    return Correctness(source_sha256=WINNER_SHA, checks=checks)


def request() -> Request:
    return Request(kernel="rms_norm", run_id="20261129-140500", created_at="2026-11-29T14:00:00Z")


def context(outcome: FinalOutcome = FinalOutcome.APPLIED, **changes: object) -> ReportContext:
    """A finished run: with a winner and its fresh measurement, except where no improvement was found."""
    found = outcome is not FinalOutcome.NO_IMPROVEMENT
    tests = TestRun(
        command="python -m pytest tests/kernels/test_rms_norm.py",
        passed=outcome is FinalOutcome.APPLIED,
        counts={"passed": 41} if outcome is FinalOutcome.APPLIED else {"passed": 40, "failed": 1},
        duration_s=12.4,
        output_tail="41 passed in 12.40s" if outcome is FinalOutcome.APPLIED else "1 failed, 40 passed in 12.40s",
    )
    reasons = {
        FinalOutcome.APPLIED: "confirmed afresh, applied, tests passed",
        FinalOutcome.NO_IMPROVEMENT: "no variant was accepted: every strategy that the profile recommends was tried",
        FinalOutcome.REVERTED: "the kernel's tests failed on the winner; the original is back and its tests pass",
        FinalOutcome.NOT_CONFIRMED: "measured afresh, the winner did not hold: 1.004×, interval reaches 1%",
    }
    result = FinalResult(
        run_id="20261129-140500",
        outcome=outcome,
        reason=reasons[outcome],
        winner=1 if found else None,
        applied_sha256=WINNER_SHA if outcome is FinalOutcome.APPLIED else None,
        original_sha256=ORIGINAL_SHA,
        origin=ORIGIN,
        confirmation=accepted() if found else None,
        tests=tests if outcome in (FinalOutcome.APPLIED, FinalOutcome.REVERTED) else None,
        style="ruff format: unchanged" if outcome is FinalOutcome.APPLIED else None,
    )
    stop_reason = "every strategy that the profile recommends was tried"
    complete = ReportContext(
        request=request(),
        profile=profile(),
        search=SearchResult(
            run_id="20261129-140500",
            winner=1 if found else None,
            winner_sha256=WINNER_SHA if found else None,
            stop_reason=stop_reason,
            noise_floor=0.0012,
            variants=(1, 2, 3) if found else (2, 3),
            origin=ORIGIN,
        ),
        result=result,
        variants=variants() if found else variants()[1:],
        folder=Path("optimization/rms_norm"),
        rows=provider_rows() if found else (),
        correctness=correctness() if found else None,
        diff=DIFF if found else "",
        reproduce_commands=("warpsmith bench rms_norm --providers original,optimized",) if found else (),
        revert_commands=("git checkout -- src/warpsmith/kernels/rms_norm.py",) if found else (),
    )
    return complete.model_copy(update=changes)


def memory(case: Case, mode: Mode, **peak_bytes: int) -> Memory:
    return Memory(case=case, mode=mode, peak_bytes=peak_bytes)
