"""The five answers of a report's first screen, whatever the outcome."""

from __future__ import annotations

import pytest
import report_fixtures as run

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.verdict import GuardrailResult, Interval, Verdict
from warpsmith.report.answers import answers
from warpsmith.report.context import ReportContext

CHANGED, BRINGS, SURE, COSTS, UNDO = (
    "What changed", "How much it brings, where", "How sure", "What it costs", "How to undo it",
)  # fmt: skip


def told(context: ReportContext) -> dict[str, str]:
    return {answer.question: answer.told for answer in answers(context)}


def confirmed(verdict: Verdict, **changes: object) -> ReportContext:
    result = run.context().result.model_copy(update={"confirmation": verdict})
    return run.context(result=result, **changes)


def rail(metric: str, baseline: float, variant: float, unit: str) -> GuardrailResult:
    return GuardrailResult(metric=metric, baseline=baseline, variant=variant, unit=unit, limit="some", ok=True)


def test_an_applied_winner_is_told_with_its_place_and_size() -> None:
    assert told(run.context())[CHANGED] == (
        "v1, Launch settings as a table by shape and GPU, in `src/warpsmith/kernels/rms_norm.py`. 2 lines added, "
        "2 removed."
    )


def test_the_gain_is_told_with_its_interval_and_where_it_is_least_and_most() -> None:
    said = told(run.context())[BRINGS]

    assert said.startswith(
        "1.307× [1.301, 1.314] as fast in full over 5 tuning cases: from 1.035× (4096×16384 bf16) to 1.457× "
        "(32768×2048 bf16). At the same cases forward 1.001× to 1.010×, backward 1.049× to 1.769×. At 3 held-out cases "
        "from 1.182× (6144×5120 bf16) to 1.302× (8192×4096 fp16)."
    )
    assert "Faster than liger, torch, torch_compile at 4 of 5 tuning cases in full." in said


def test_what_is_slower_is_counted_and_the_worst_named() -> None:
    cases = [c.model_copy(update={"regressed": False}) for c in run.case_speedups()]
    worst = next(i for i, c in enumerate(cases) if c.mode is Mode.FORWARD and c.role is Role.HELD_OUT)
    cases[worst] = cases[worst].model_copy(update={"speedup": Interval(value=0.97, low=0.96, high=0.98)})
    slower = confirmed(run.accepted().model_copy(update={"cases": tuple(cases)}))

    assert "None of the 24 pairs of case and mode is measurably slower." in told(run.context())[BRINGS]
    assert (
        "1 of the 24 pairs of case and mode is measurably slower, at most 6144×5120 bf16 in forward at 0.970×."
        in told(slower)[BRINGS]
    )


def test_a_run_for_memory_tells_of_memory_first() -> None:
    said = told(confirmed(run.accepted().model_copy(update={"objective": Objective.MEMORY})))[BRINGS]

    assert said.startswith("The original's peak memory in full is 1.307× [1.301, 1.314] the winner's; its time is from")


def test_costs_name_what_grew_most_of_each_kind_and_what_was_not_measured() -> None:
    rails = (
        rail("largest memory of a call in forward, 8192x8192-bf16", 2**20, 2**20, "bytes"),
        rail("largest memory of a call in backward, 8192x8192-bf16", 100 * 2**20, 103 * 2**20, "bytes"),
        rail("host time a call (lower quartile), 2048x2048-bf16 forward", 70.0, 69.0, "us"),
        rail("specializations, all cases", 25, 27, "kernels"),
    )
    said = told(confirmed(run.accepted().model_copy(update={"guardrails": rails})))[COSTS]

    assert said == (
        "Largest memory of a call: 100.0 MiB before, 103.0 MiB after in backward (+3.0%). Host time a call: no more "
        "than before. Specializations: 25 kernels before, 27 kernels after (+8.0%). Not measured: cold compile time. "
        "To read: 2 lines more and 2 fewer; a table of settings by GPU and shape, to be searched anew when the "
        "kernel's code changes."
    )


def test_new_names_are_counted_as_something_to_read() -> None:
    names = "".join(f"+_T{n}: dict[int, int] = {{}}\n" for n in range(8))
    diff = f"--- a/k.py\n+++ b/k.py\n@@ -1,1 +1,9 @@\n{names}+    inner = 1\n x = 1\n"

    shown = "`_T0`, `_T1`, `_T2`, `_T3`, `_T4`, `_T5` and 2 more"
    said = f"9 lines more and 0 fewer, with 8 new names in the module ({shown});"
    assert said in told(run.context(diff=diff))[COSTS]


def test_how_to_undo_is_the_command_that_the_run_has() -> None:
    assert told(run.context())[UNDO] == "`git checkout -- src/warpsmith/kernels/rms_norm.py`"
    assert told(run.context(FinalOutcome.REVERTED, revert_commands=()))[UNDO] == "There is nothing to undo."


@pytest.mark.parametrize("outcome", [each for each in FinalOutcome if each is not FinalOutcome.APPLIED])
def test_what_was_not_applied_costs_nothing_and_brings_nothing(outcome: FinalOutcome) -> None:
    said = told(run.context(outcome, revert_commands=()))

    assert said[CHANGED].startswith("Nothing: `src/warpsmith/kernels/rms_norm.py` is as it was.")
    assert said[BRINGS].startswith("Nothing")
    assert said[COSTS] == "Nothing: the kernel is as it was."


def test_without_improvement_the_best_of_the_search_is_named_with_why_it_lost() -> None:
    context = run.context(FinalOutcome.NO_IMPROVEMENT)

    assert told(context)[BRINGS] == (
        "Nothing. The best that was timed, v2, Eviction policies for streamed and reused data, was at 1.299× [1.292, "
        "1.306] in the search: slower than the best so far, v1, over the tuning cases: 0.994 [0.992, 0.996]."
    )
    assert told(context)[SURE].startswith("1 of 2 variants came as far as being timed")
    untimed = run.context(FinalOutcome.NO_IMPROVEMENT, variants=run.variants()[2:])
    assert told(untimed)[BRINGS] == "Nothing: no variant came as far as being timed."


def test_what_the_search_had_found_stands_beside_what_was_not_confirmed() -> None:
    said = told(run.context(FinalOutcome.NOT_CONFIRMED))[SURE]

    assert said.startswith(
        "The search had found 1.307× [1.301, 1.314]; measured afresh in new processes, on inputs that no search has "
        "seen, it is rejected: 1.004× [0.998, 1.010] the original"
    )


def test_a_reverted_winner_is_told_with_the_tests_that_failed() -> None:
    said = told(run.context(FinalOutcome.REVERTED))

    assert "was put in and taken out again when the kernel's tests failed on it" in said[CHANGED]
    assert "The kernel's own tests failed: 40 passed, 1 failed." in said[SURE]


def test_a_recorded_figure_is_never_told_as_measured_here() -> None:
    recorded = Origin(kind=OriginKind.RECORDED, gpu="NVIDIA H200", date="2026-11-29")
    context = run.context()
    context = context.model_copy(update={"profile": context.profile.model_copy(update={"origin": recorded})})

    assert told(context)[SURE].endswith("Every figure is recorded on NVIDIA H200, 2026-11-29.")
