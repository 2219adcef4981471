"""Stage 1: what is wrong with a kernel is said before anything is measured; what is right ends in a profile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulated_gpu import CASES, killed_by_torch
from simulated_kernel import BACKWARD, FORWARD
from simulated_run import KERNEL_TESTS, SOURCE, TARGET_FILE, Run

from warpsmith.contracts.case import Cost, Mode
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, Time, WorkerError
from warpsmith.stages import profiler
from warpsmith.workspace.documents import read_document

#: Of the tuning cases the one that moves the fewest bytes.
SMALL = "2048x2048-bf16"


def profile_of(run: Run) -> Profile:
    return read_document(run.workspace.profile, Profile)


def refused(run: Run) -> PreflightError:
    """The error of a profile that must not come to be, and must not have timed anything."""
    with pytest.raises(PreflightError) as caught:
        run.profile()
    assert not run.workspace.profile.exists()
    assert "time" not in {question.kind for question in run.gpu.asked}
    return caught.value


def test_the_profile_says_what_holds_each_pass_back_and_what_to_try(profiled: Run) -> None:
    profile = profile_of(profiled)
    assert {m.mode: m.bottleneck for m in profile.modes} == {
        Mode.FORWARD: Bottleneck.NEAR_PEAK,
        Mode.BACKWARD: Bottleneck.LATENCY_BOUND,
        Mode.FULL: Bottleneck.MEMORY_BOUND,
    }
    assert profile.recommendations[0].strategy == "settings"
    assert "forward is left alone" in profile.recommendations[0].why
    assert profiled.workspace.profile_page.is_file() and profiled.workspace.baseline_csv.is_file()
    assert profiled.workspace.samples_csv(0).is_file()


def test_every_case_mode_and_provider_has_a_baseline_and_a_missing_provider_says_why(profiled: Run) -> None:
    rows = profile_of(profiled).baselines
    assert {(r.case, r.mode, r.provider) for r in rows} == {
        (case, mode, provider) for case in CASES for mode in Mode for provider in ("original", "torch", "liger")
    }
    assert {(r.time_ms, r.unavailable) for r in rows if r.provider == "liger"} == {
        (None, "No module named 'liger_kernel'")
    }
    assert all(r.time_ms is not None and r.peak_bytes for r in rows if r.provider != "liger")


def test_what_fits_l2_is_timed_warm_too_and_apart(profiled: Run) -> None:
    profile = profile_of(profiled)
    fits = {(SMALL, mode) for mode in Mode} | {("64x8192-bf16", mode) for mode in Mode}
    assert {(row.case, row.mode) for row in profile.warm_baselines} == fits
    assert {row.provider for row in profile.warm_baselines} == {"original", "torch"}
    page = profiled.workspace.profile_page.read_text()
    assert "<br>warm 4.5" in page
    assert "Warm is with the inputs left in L2, where the least bytes fit its 50.0 MiB." in page


def test_a_run_that_is_asked_for_warm_l2_is_warm_throughout(run: Run) -> None:
    run.ask_for(autonomous=True, l2="warm")
    profile = run.profile()
    asked = [(q.case.name, q.mode, q.l2) for q in run.gpu.asked if isinstance(q, Time)]
    assert len(asked) == len(set(asked))
    assert set(asked) == {(case, mode, L2.WARM) for case in CASES for mode in Mode}
    assert (profile.l2, profile.warm_baselines) == (L2.WARM, ())
    assert "L2 is warm unless said otherwise" in run.workspace.profile_page.read_text()


def test_the_host_time_of_each_pass_stands_beside_its_device_time_at_the_smallest_tuning_case(profiled: Run) -> None:
    rows = profile_of(profiled).launch_overheads
    passes = (Mode.FORWARD, Mode.BACKWARD)
    assert [(r.case, r.mode, r.provider, r.host_us) for r in rows] == [
        (SMALL, mode, provider, 20.0) for mode in passes for provider in ("original", "torch")
    ]
    forward = rows[0]
    assert forward.device_us == pytest.approx(4.5, rel=0.01) and forward.is_launch_bound
    assert "- Launch-bound: a forward call takes the host 20.00 µs and the GPU 4.5" in (
        profiled.workspace.profile_page.read_text()
    )


def test_a_host_time_that_cannot_be_had_is_no_end_of_the_profile(run: Run) -> None:
    run.gpu.worker_failure = lambda question: "signal 11" if question.kind == "host_time" else None
    profile = run.profile()
    assert profile.launch_overheads == ()
    assert profile.no_launch_overhead == {Mode.FORWARD: "died: signal 11", Mode.BACKWARD: "died: signal 11"}
    assert "- No host time of forward: died: signal 11." in run.workspace.profile_page.read_text()


def test_a_provider_that_kills_the_worker_is_left_out_with_the_reason(run: Run) -> None:
    run.gpu.worker_failure = killed_by_torch
    profile = run.profile()

    rows = {(row.provider, row.time_ms is None, row.unavailable) for row in profile.baselines}
    assert rows >= {("original", False, None), ("torch", True, "died: signal 11")}
    assert {row.provider for row in profile.baselines if row.peak_bytes} == {"original"}
    for told in (
        f"{SMALL} full: without torch, died: signal 11",
        f"{SMALL}: peak memory without torch, died: signal 11",
    ):
        assert told in run.told.lines


def test_a_provider_without_a_peak_leaves_the_others_theirs(run: Run) -> None:
    run.gpu.worker_failure = lambda question: killed_by_torch(question) if question.kind == "memory" else None
    rows = run.profile().baselines

    assert {(row.provider, row.peak_bytes) for row in rows if row.time_ms} == {("original", 1 << 20), ("torch", None)}


def test_an_original_that_kills_the_worker_by_itself_ends_the_profile(run: Run) -> None:
    run.gpu.worker_failure = lambda question: "signal 11" if question.kind == "time" else None
    with pytest.raises(WorkerError, match="signal 11"):
        run.profile()


def test_the_roofline_is_drawn_before_the_profile_counts_as_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, Path, bool]] = []
    there = run.workspace.profile.exists
    monkeypatch.setattr(profiler, "save_roofline", lambda found, into: drawn.append((found.kernel, into, there())))
    run.profile()
    assert drawn == [("rms_norm", run.workspace.plots, False)]


def test_the_snapshot_is_the_production_file_and_the_production_file_is_untouched(profiled: Run) -> None:
    assert profiled.workspace.original.read_bytes() == profiled.production.read_bytes()
    assert {record.jit_function for record in profile_of(profiled).launches[CASES[0]][Mode.FORWARD]} == {FORWARD}
    assert {record.jit_function for record in profile_of(profiled).launches[CASES[0]][Mode.BACKWARD]} == {BACKWARD}


def test_counters_that_are_refused_are_asked_for_once(profiled: Run) -> None:
    (refusal,) = profile_of(profiled).counters
    assert (refusal.rows, refusal.unavailable) == ((), "ncu is not on the path")
    assert profile_of(profiled).evidence_tier == "kernel durations"


def test_profiling_again_measures_nothing_and_ends_the_same(profiled: Run) -> None:
    before = profile_of(profiled)
    profiled.workspace.profile.unlink()
    assert profiled.profile() == before
    assert profiled.gpu.asked == []


def test_a_target_that_cannot_be_loaded_says_why_and_which_file_to_edit(run: Run) -> None:
    run.gpu.target_failure = "must define `target = Target(...)`"
    error = refused(run)
    assert error.message == "the target cannot be loaded: bad_target: must define `target = Target(...)`"
    assert error.next_command == f"edit {run.root / TARGET_FILE}"


def test_a_cost_model_that_claims_too_much_is_told_once_on_the_page_and_no_share_by_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = run.gpu._describe

    def claiming(question: Describe) -> TargetSpec:
        spec = as_it_is(question)
        costs = {
            case: {mode: Cost(bytes_moved=1000 * cost.bytes_moved, flops=cost.flops) for mode, cost in by.items()}
            for case, by in spec.costs.items()
        }
        return spec.model_copy(update={"costs": costs})

    monkeypatch.setattr(run.gpu, "_describe", claiming)
    profile = run.profile()
    page = run.workspace.profile_page.read_text()
    assert page.count("the cost model claims more work than the time allows: check cost()") == 1
    assert max(float(share) for share in re.findall(r"([0-9.]+)%", page)) <= 100
    assert {m.share_of_ceiling for m in profile.modes} == {None}
    assert "stop here" not in page and "Nothing is predicted" in page


def test_tests_that_are_not_there_are_named(run: Run) -> None:
    (run.root / KERNEL_TESTS).unlink()
    assert refused(run).message == f"{TARGET_FILE} names tests that are not there: {KERNEL_TESTS}"


def test_a_target_without_tests_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = type(run.session()).describe
    monkeypatch.setattr(
        "warpsmith.stages.session.Session.describe", lambda session: describe(session).model_copy(update={"tests": ()})
    )
    error = refused(run)
    why = "without them a winner could not be applied safely; add tests=(...)"
    assert (error.message, error.next_command) == (f"{TARGET_FILE} names no tests: {why}", f"edit {TARGET_FILE}")


def test_a_call_that_launches_no_kernel_of_the_source_is_refused(run: Run) -> None:
    run.gpu.launches_nothing = True
    error = refused(run)
    assert f"calling rms_norm at {CASES[0]}, forward, launched no Triton kernel of {SOURCE}" in error.message
    assert error.next_command == f"edit {TARGET_FILE}"


def test_an_original_that_does_not_compile_is_refused(run: Run) -> None:
    run.gpu.compile_failure = lambda work: "out of shared memory" if work.mode is Mode.BACKWARD else None
    assert refused(run).message == f"{SOURCE} fails at {CASES[0]}, backward: out of shared memory"


def test_an_original_that_fails_its_own_gate_is_refused(run: Run) -> None:
    run.gpu.wrong_result = lambda work: "two calls differ"
    assert refused(run).message == (
        f"the original does not pass its own gate: {CASES[0]}, values: two calls differ; and {len(CASES) - 1} more"
    )


def test_a_reference_that_computes_something_else_is_refused(run: Run) -> None:
    run.gpu.original_rms = 0.5
    error = refused(run)
    assert error.message.startswith(f"the reference disagrees with the original at {CASES[0]}, dx: ")
    assert "error 0.5, expected below 0.125" in error.message
    assert error.next_command == f"edit {TARGET_FILE}"


def mutant(name: str, part: str = "output", *, refused: bool = False, skipped: str | None = None) -> MutantCheck:
    return MutantCheck(case=CASES[0], part=part, mutant=name, refused=refused, skipped=skipped)


def test_a_target_that_lets_a_wrong_result_pass_is_refused(run: Run) -> None:
    run.gpu.mutants = (mutant("zeros", refused=True), mutant("transposed"), mutant("its mean", "gradient of x"))
    error = refused(run)
    assert f"at {CASES[0]}, output: transposed, passes (and 1 more); make_inputs should give random" in error.message
    assert error.next_command == f"edit {TARGET_FILE}"


def test_an_output_that_is_constant_at_every_case_is_refused(run: Run) -> None:
    run.gpu.mutants = (mutant("zeros", refused=True), *(mutant("its mean", skipped="it is right") for _ in range(2)))
    error = refused(run)
    assert f"is the same as its mean at every case, first at {CASES[0]}" in error.message


def test_mutants_that_are_refused_or_say_nothing_at_some_cases_are_no_hole(run: Run) -> None:
    run.gpu.mutants = (
        mutant("its mean", skipped="it is right"),
        mutant("its mean", refused=True),
        mutant("zeros", "gradient of x", skipped="it is right"),
        mutant("a copy of x", skipped="it is right"),
    )
    run.profile()
    assert run.workspace.profile.exists()


def test_a_production_file_that_changed_since_the_run_began_is_refused(run: Run) -> None:
    run.workspace.original.write_bytes(run.production.read_bytes() + b"# before\n")
    error = refused(run)
    assert error.message == f"{SOURCE} has changed since this run began"
    assert error.next_command == "warpsmith run rms_norm --fresh"


def test_a_worker_that_dies_leaves_a_run_that_goes_on_where_it_was(run: Run) -> None:
    run.gpu.worker_failure = lambda question: "signal 9" if question.kind == "memory" else None
    with pytest.raises(WorkerError, match="died: signal 9"):
        run.profile()
    answered = [question.identity for question in run.gpu.asked if question.kind != "memory"]

    run.gpu.worker_failure = lambda question: None
    run.gpu.asked.clear()
    run.profile()
    assert not set(answered) & {question.identity for question in run.gpu.asked}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"{SOURCE}, line 1: the file is empty; expected a Triton kernel"),
        (b"\n\n  \n", f"{SOURCE}, line 1: the file is empty; expected a Triton kernel"),
        (b"import triton\n\ndef f(:\n", f"{SOURCE}, line 3: the source is not valid Python: invalid syntax"),
        (b"x = 1\ny = '\xe4'\n", f"{SOURCE}, line 2: expected utf-8, found the byte 0xe4 (invalid continuation byte)"),
        (b"# coding: klingon\n", f"{SOURCE}, line 1: unknown encoding: klingon; expected the name of a text encoding"),
    ],
    ids=["empty", "blank", "syntax", "not UTF-8", "unknown encoding"],
)
def test_a_source_that_cannot_be_read_is_told_by_file_and_line(run: Run, content: bytes, message: str) -> None:
    run.production.write_bytes(content)
    assert refused(run).message == message
    assert run.production.read_bytes() == content
