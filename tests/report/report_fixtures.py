"""A finished run of rms_norm on an H200, built by hand: what was judged, and what a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from measured_fixtures import CASES, ORIGIN, ORIGINAL_SHA, TIMES_US, WINNER_SHA, about, cost
from profile_fixtures import profile

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import CaseCheck, Correctness, TimingMethod
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult, TestRun
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import CaseSpeedup, GuardrailResult, Interval, Outcome, Verdict
from warpsmith.report.context import ReportContext
from warpsmith.report.rows import ProviderRow
from warpsmith.verdict.predictions import check_predictions


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


def not_confirmed() -> Verdict:
    """Measured afresh, what the search had found is gone."""
    changes = {
        "outcome": Outcome.REJECTED,
        "reasons": ("1.004× [0.998, 1.010] the original over the tuning cases, below the bar of 1.010×",),
        "goal": Interval(value=1.004, low=0.998, high=1.010),
    }
    return accepted().model_copy(update=changes)


def proposed() -> Variant:
    return Variant(
        number=1,
        strategy="settings",
        title="Launch settings as a table by shape and GPU",
        based_on=0,
        hypothesis="One program an SM leaves most warp slots empty, so latency is not hidden.",
        evidence=("backward: achieved occupancy: 12% of an SM's warps; too few warps (ncu, 32768x2048-bf16)",),
        basis=("line 162, one program per sm: 15.0 to 29.9 µs a call, 1.13× to 1.33× of backward; an SM holds 4",),
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
            "plots": ("plots/sweep_rms_norm_backward_kernel_backward_v1.png",),
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
        taught=("v1, settings: accepted, 1.307×, within the 1.10 to 1.45× predicted",),
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


def search(winner: int | None = 1, numbers: tuple[int, ...] = (1, 2, 3)) -> SearchResult:
    return SearchResult(
        run_id="20261129-140500",
        winner=winner,
        winner_sha256=WINNER_SHA if winner else None,
        stop_reason="every strategy that the profile recommends was tried",
        noise_floor=0.0012,
        variants=numbers,
        origin=ORIGIN,
        predictions=check_predictions(each for each in variants() if each.number in numbers),
    )


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
        FinalOutcome.NOT_CONFIRMED: f"measured afresh, the winner did not hold: {not_confirmed().reasons[0]}",
    }
    result = FinalResult(
        run_id="20261129-140500",
        outcome=outcome,
        reason=reasons[outcome],
        winner=1 if found else None,
        applied_sha256=WINNER_SHA if outcome is FinalOutcome.APPLIED else None,
        original_sha256=ORIGINAL_SHA,
        origin=ORIGIN,
        confirmation=(not_confirmed() if outcome is FinalOutcome.NOT_CONFIRMED else accepted()) if found else None,
        tests=tests if outcome in (FinalOutcome.APPLIED, FinalOutcome.REVERTED) else None,
        style="ruff format: unchanged" if outcome is FinalOutcome.APPLIED else None,
    )
    complete = ReportContext(
        request=request(),
        profile=profile(),
        search=search() if found else search(winner=None, numbers=(2, 3)),
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
