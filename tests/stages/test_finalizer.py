"""The production file ends as the winner or as the original, byte for byte, and the report says which and why."""

from __future__ import annotations

import csv
import functools
import hashlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from simulated_kernel import Work
from simulated_run import KERNEL_TESTS, SOURCE, Run

from warpsmith.contracts.approval import Gate
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import ApprovalRequired, PreflightError, Rejected, UsageError
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FailedTest, FinalOutcome, FinalResult, RunState, SearchResult, TestRun
from warpsmith.contracts.sanitizing import Sanitization, SanitizerError, SanitizerTool
from warpsmith.measure.worker.protocol import AnyQuestion, Time
from warpsmith.project.tests_gate import run_tests
from warpsmith.stages.checkpoints import approve, next_step, state_of
from warpsmith.stages.runs import Options, begin, take_back_unproven
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.ledger import Ledger

A_TEST = f"{KERNEL_TESTS}::test_the_kernel"

FAILS_ON_THE_WINNER = f"""
from pathlib import Path

def test_the_kernel() -> None:
    assert "_tuned_settings" not in Path({SOURCE!r}).read_text()
"""


@pytest.fixture(autouse=True)
def no_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds; the one test that is about it asks for it by the marker `plots` in its name."""
    if "plots" not in request.node.name:
        monkeypatch.setattr("warpsmith.stages.reporting.save_plots", lambda *_: ())


def original_of(run: Run) -> bytes:
    return run.workspace.original.read_bytes()


def winner_of(run: Run) -> bytes:
    return run.workspace.variant(3).read_bytes()


def is_winner(work: Work) -> bool:
    return "LOOP_STAGES" in work.text


def assert_nothing_happened(run: Run, before: bytes) -> None:
    assert run.production.read_bytes() == before
    assert not run.workspace.final_result.exists()


def test_the_bytes_that_were_measured_are_the_bytes_that_are_applied(optimized: Run) -> None:
    result = optimized.finalize()

    assert optimized.production.read_bytes() == winner_of(optimized) != original_of(optimized)
    assert (result.outcome, result.winner) == (FinalOutcome.APPLIED, 3)
    assert result.applied_sha256 == optimized.variants()[2].source_sha256
    assert result.tests is not None and result.tests.counts == {"passed": 1}
    assert result.style == "no style command is configured"
    assert read_document(optimized.workspace.final_result, FinalResult) == result
    assert state_of(optimized.workspace) is RunState.DONE


def test_a_winner_that_an_answer_does_not_have_is_not_confirmed(optimized: Run) -> None:
    measured = optimized.gpu._time

    def without(question: Time) -> Timing:
        timing = measured(question)
        gone = {OPTIMIZED} if question.case.role is Role.HELD_OUT else set()
        return timing.model_copy(update={"blocks": tuple(b for b in timing.blocks if b.contender not in gone)})

    optimized.gpu._time = without
    result = optimized.finalize()

    assert result.outcome is FinalOutcome.NOT_CONFIRMED
    assert "it was not timed, and nothing says why" in result.reason


def test_a_production_file_that_is_no_longer_what_the_run_applied_is_told_by_the_next_step(optimized: Run) -> None:
    optimized.finalize()
    assert next_step(optimized.workspace, "rms_norm").why == "the run is finished"

    optimized.production.write_bytes(original_of(optimized))
    told = next_step(optimized.workspace, "rms_norm")
    assert told.why == f"the run is finished; the production file, {SOURCE}, is no longer what this run applied"
    assert (told.state, told.command) == (RunState.DONE, "warpsmith report rms_norm")


def test_the_report_has_the_diff_the_confirmation_and_the_plots(optimized: Run) -> None:
    optimized.finalize()
    page = optimized.workspace.report_page.read_text()
    assert f"--- a/{SOURCE}" in page and f"+++ b/{SOURCE}" in page
    assert "## How to undo\n\n```bash\nwarpsmith revert rms_norm\n```" in page
    assert optimized.workspace.report_html.is_file()
    assert {path.stem for path in optimized.workspace.plots.iterdir()} > {"speedup", "speed", "memory", "progress"}


def test_plots_and_every_figure_of_them_link_to_samples_that_are_there(optimized: Run) -> None:
    optimized.finalize()
    folder, page = optimized.workspace.directory, optimized.workspace.report_page.read_text()
    linked = re.findall(r"; drawn from (.+)\)$", page, re.MULTILINE)
    assert len(linked) == page.count("\n![") >= 4
    files = {path for line in linked for path in re.findall(r"\]\(([^)]+)\)", line)}
    assert files > {"benchmarks/confirmation_samples.csv"}
    assert [path for path in sorted(files) if not (folder / path).is_file()] == []


def test_the_samples_of_the_confirmation_are_all_that_was_timed_in_it(optimized: Run) -> None:
    optimized.finalize()
    with optimized.workspace.confirmation_csv.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "time"]
    asked = [question for question in optimized.gpu.asked if isinstance(question, Time)]
    in_three = {(q.case.name, q.mode.value) for q in asked if q.seed == 1002}
    assert {(row["case"], row["mode"]) for row in rows if row["process"] == "2"} == in_three
    assert {(row["case"], row["mode"]) for row in rows} == {(q.case.name, q.mode.value) for q in asked}


def test_what_the_tests_turned_back_is_shown_in_the_report_as_not_applied(optimized: Run) -> None:
    optimized.write_tests(FAILS_ON_THE_WINNER)
    assert optimized.finalize().outcome is FinalOutcome.REVERTED
    page = optimized.workspace.report_page.read_text()
    assert page.startswith("# rms_norm: reverted")
    assert f"not applied to `{SOURCE}`:" in page and f"+++ b/{SOURCE}" in page
    assert "There is nothing to undo." in page


def test_the_confirmation_asks_a_seed_that_no_search_used(optimized: Run) -> None:
    optimized.finalize()
    asked = {(question.kind, question.seed) for question in optimized.gpu.asked}
    in_one_process = {(kind, 1000) for kind in ("check", "sanitize", "time", "memory", "host_time", "compilation")}
    assert asked == {*in_one_process, ("time", 1001), ("time", 1002)}


def test_the_pair_alone_is_confirmed_in_three_cold_processes_and_judged_on_all_of_their_rounds(optimized: Run) -> None:
    result = optimized.finalize()
    asked = [question for question in optimized.gpu.asked if isinstance(question, Time)]
    pair = [each for each in asked if {c.name for c in each.contenders} == {ORIGINAL, OPTIMIZED}]
    in_goal = [each for each in pair if each.mode is Mode.FULL and each.case.role is Role.TUNING]
    assert {each.seed for each in asked if each not in in_goal} == {1000}
    seeds = {case: sorted(e.seed for e in in_goal if e.case.name == case) for case in {e.case.name for e in in_goal}}
    assert set(map(tuple, seeds.values())) == {(1000, 1001, 1002)}
    assert result.confirmation is not None and result.confirmation.goal is not None


def test_failing_tests_bring_the_original_back_byte_for_byte_and_its_tests_are_run_again(optimized: Run) -> None:
    optimized.write_tests(FAILS_ON_THE_WINNER)
    result = optimized.finalize()

    assert optimized.production.read_bytes() == original_of(optimized)
    assert (result.outcome, result.applied_sha256) == (FinalOutcome.REVERTED, None)
    assert result.reason == (
        "the kernel's tests failed on the winner (exit status 1); the original is back and its tests pass: "
        f"{A_TEST} failed in 1 of 1 runs on the winner and in 0 of 2 on the original"
    )
    assert result.tests is not None and result.tests.counts == {"failed": 1}
    events = [e["event"] for e in Ledger(optimized.workspace.ledger).events()]
    assert events[-3:] == ["applying", "reverted", "finished"]
    assert f"- {A_TEST} failed in 1 of 1 runs" in optimized.workspace.report_page.read_text()


def test_tests_that_fail_on_the_original_too_are_told_apart(optimized: Run) -> None:
    optimized.write_tests("def test_the_kernel() -> None:\n    assert False\n")
    result = optimized.finalize()
    assert "its tests fail too, so they were failing before" in result.reason
    assert result.failed_tests == (failed_test(winner=(2, 2), original=(1, 1)),)
    assert result.outcome is FinalOutcome.REVERTED
    assert optimized.production.read_bytes() == original_of(optimized)


def failing_in_runs(run: Run, *numbers: int) -> None:
    """The kernel's own tests, of which one fails in these runs, counted from 1."""
    counted = run.root / "runs"
    run.write_tests(
        f"""
from pathlib import Path

def test_the_kernel() -> None:
    runs = Path({str(counted)!r})
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) not in {numbers!r}
"""
    )


def failed_test(winner: tuple[int, int], original: tuple[int, int]) -> FailedTest:
    return FailedTest(
        node_id=A_TEST,
        winner_failures=winner[0],
        winner_runs=winner[1],
        original_failures=original[0],
        original_runs=original[1],
    )


@pytest.mark.parametrize(("runs", "originals"), [((1, 2), 1), ((1, 3), 2)])
def test_a_test_that_fails_on_the_original_too_is_not_held_against_the_winner_and_is_named(
    optimized: Run, runs: tuple[int, ...], originals: int
) -> None:
    failing_in_runs(optimized, *runs)
    result = optimized.finalize()

    assert result.outcome is FinalOutcome.APPLIED
    assert optimized.production.read_bytes() == winner_of(optimized)
    assert result.failed_tests == (failed_test(winner=(1, 2), original=(1, originals)),)
    assert result.reason == (
        "confirmed afresh, applied, tests passed; flaky tests, which passed on it in another run: "
        f"{A_TEST} failed in 1 of 2 runs on the winner and in 1 of {originals} on the original"
    )
    assert result.tests is not None and result.tests.passed
    for page in (optimized.workspace.report_page, optimized.workspace.report_html):
        assert f"{A_TEST} failed in 1 of 2 runs" in page.read_text()
    events = [e["event"] for e in Ledger(optimized.workspace.ledger).events()]
    assert events[-5:] == ["applying", "reverted", "applying", "applied", "finished"]


def test_a_test_that_fails_on_the_winner_alone_keeps_it_out_though_it_might_pass_in_another_run(optimized: Run) -> None:
    failing_in_runs(optimized, 1)
    result = optimized.finalize()

    assert result.outcome is FinalOutcome.REVERTED
    assert (optimized.root / "runs").read_text() == "xxx"
    assert optimized.production.read_bytes() == original_of(optimized)
    assert result.failed_tests == (failed_test(winner=(1, 1), original=(0, 2)),)
    assert (
        f"its tests pass: {A_TEST} failed in 1 of 1 runs on the winner and in 0 of 2 on the original" in result.reason
    )


def test_a_winner_is_tested_twice_at_most(optimized: Run) -> None:
    failing_in_runs(optimized, 1, 2, 3)
    assert optimized.finalize().outcome is FinalOutcome.REVERTED
    assert (optimized.root / "runs").read_text() == "xxx"
    assert optimized.production.read_bytes() == original_of(optimized)


@pytest.mark.parametrize("on", ["the winner", "the original", "the winner once more"])
def test_an_edit_in_any_run_of_the_tests_is_never_overwritten(
    optimized: Run, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    runs = ["the winner", "the original", "the winner once more"]
    edited: list[bytes] = []

    def edits(*_: object, **__: object) -> TestRun:
        if runs.pop(0) == on:
            optimized.production.write_bytes(optimized.production.read_bytes() + b"EDITED = 1\n")
            edited.append(optimized.production.read_bytes())
        return TestRun(
            command="pytest", passed=False, counts={}, duration_s=1.0, output_tail="", reason="1 failed", failed=("t",)
        )

    monkeypatch.setattr("warpsmith.stages.applying.run_tests", edits)
    with pytest.raises(Rejected, match="changed or deleted while its tests ran; it is left as it is now"):
        optimized.finalize()
    assert optimized.production.read_bytes() == edited[0]
    assert not optimized.workspace.final_result.exists()


def test_tests_that_hang_on_the_winner_are_killed_and_the_original_comes_back(
    optimized: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (optimized.root / "hang.py").write_text(
        f"import signal\n'LOOP_STAGES' in open({SOURCE!r}).read() and signal.pause()\nprint('1 passed in 0.01s')\n"
    )
    (optimized.root / "warpsmith.yaml").write_text("test_command: [python, -I, -S, hang.py]\n")
    optimized.guard_anew()
    monkeypatch.setattr("warpsmith.stages.applying.run_tests", functools.partial(run_tests, timeout_s=5))

    result = optimized.finalize()
    assert (result.outcome, result.reason) == (
        FinalOutcome.REVERTED,
        "the kernel's tests failed on the winner (killed after 5 s); the original is back and its tests pass",
    )
    assert optimized.production.read_bytes() == original_of(optimized)


def test_tests_that_prove_nothing_are_no_pass(optimized: Run) -> None:
    optimized.write_tests("import pytest\n\n@pytest.mark.skip\ndef test_the_kernel(): ...\n")
    result = optimized.finalize()
    assert result.outcome is FinalOutcome.REVERTED
    assert "all 1 tests were skipped" in result.reason
    assert optimized.production.read_bytes() == original_of(optimized)


def test_an_interrupt_while_the_tests_run_brings_the_original_back(
    optimized: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        assert optimized.production.read_bytes() == winner_of(optimized)
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsmith.stages.applying.run_tests", interrupted)
    with pytest.raises(KeyboardInterrupt):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))


def test_a_run_killed_after_applying_is_finished_by_the_next(optimized: Run) -> None:
    optimized.left_by_a_kill(winner_of(optimized))
    assert optimized.finalize().outcome is FinalOutcome.APPLIED
    assert optimized.production.read_bytes() == winner_of(optimized)


def test_a_style_command_that_changes_layout_alone_is_kept(optimized: Run) -> None:
    optimized.configure("""style_command: [python, -c, "import sys; open(sys.argv[1], 'a').write('# end\\\\n')"]""")
    result = optimized.finalize()
    assert optimized.production.read_bytes() == winner_of(optimized) + b"# end\n"
    assert result.style is not None and result.style.endswith("the syntax tree is the one that was measured")
    assert result.outcome is FinalOutcome.APPLIED


def test_a_style_command_that_changes_code_is_undone(optimized: Run) -> None:
    optimized.configure("""style_command: [python, -c, "import sys; open(sys.argv[1], 'a').write('X = 1\\\\n')"]""")
    result = optimized.finalize()
    assert optimized.production.read_bytes() == winner_of(optimized)
    assert result.style is not None and result.style.endswith("so the measured bytes stay")


def test_a_winner_that_does_not_hold_when_measured_afresh_is_not_applied(optimized: Run) -> None:
    optimized.gpu.slowdown = lambda work: 2.0 if is_winner(work) else 1.0
    result = optimized.finalize()

    assert result.outcome is FinalOutcome.NOT_CONFIRMED
    assert result.reason.startswith("measured afresh, the winner did not hold: ")
    assert optimized.production.read_bytes() == original_of(optimized)
    assert "applying" not in {event["event"] for event in Ledger(optimized.workspace.ledger).events()}


def test_a_winner_that_is_wrong_on_new_inputs_is_not_applied(optimized: Run) -> None:
    optimized.gpu.wrong_result = lambda work: "dx is off" if is_winner(work) else None
    result = optimized.finalize()
    assert result.outcome is FinalOutcome.NOT_CONFIRMED
    assert "wrong result: 2048x2048-bf16, values: dx is off" in result.reason
    assert optimized.production.read_bytes() == original_of(optimized)


def test_a_winner_that_races_is_not_applied(optimized: Run) -> None:
    def races(text: str, tool: SanitizerTool) -> Sanitization | None:
        is_found = "LOOP_STAGES" in text and tool is SanitizerTool.RACECHECK
        return Sanitization(tool=tool, errors=1, first=SanitizerError(kind="Race reported")) if is_found else None

    optimized.gpu.sanitizer_says = races
    result = optimized.finalize()
    assert result.outcome is FinalOutcome.NOT_CONFIRMED
    assert "racecheck: compute-sanitizer counts 1 errors, the first: Race reported" in result.reason
    assert optimized.production.read_bytes() == original_of(optimized)


def test_no_improvement_is_reported_and_measures_nothing(optimized: Run) -> None:
    search = read_document(optimized.workspace.search_result, SearchResult)
    none = search.model_copy(update={"winner": None, "winner_sha256": None})
    write_document(optimized.workspace.search_result, none)
    result = optimized.finalize()

    assert (result.outcome, result.confirmation) == (FinalOutcome.NO_IMPROVEMENT, None)
    assert result.reason == "no variant was accepted: every strategy that the profile recommends was tried"
    assert optimized.workspace.report_page.is_file() and optimized.workspace.report_html.is_file()
    assert optimized.production.read_bytes() == original_of(optimized)
    assert optimized.gpu.asked == []


def test_a_production_file_that_changed_since_the_profile_is_refused(optimized: Run) -> None:
    edited = original_of(optimized) + b"# by hand\n"
    optimized.production.write_bytes(edited)
    with pytest.raises(Rejected, match=f"{SOURCE} changed since it was profiled") as caught:
        optimized.finalize()
    assert caught.value.next_command == "warpsmith run rms_norm --fresh"
    assert_nothing_happened(optimized, edited)


def test_a_winner_that_is_not_the_file_that_was_measured_is_refused(optimized: Run) -> None:
    path = optimized.workspace.variant(3)
    path.write_bytes(path.read_bytes() + b"# touched\n")
    with pytest.raises(Rejected, match=r"rms_norm_v3\.py is not the file that was measured"):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))


def test_a_winner_that_is_not_admitted_any_more_is_refused_although_its_hash_is_the_recorded_one(
    optimized: Run,
) -> None:
    path, search = optimized.workspace.variant(3), read_document(optimized.workspace.search_result, SearchResult)
    edited = winner_of(optimized) + b"import os\n\n_HOME = os.environ\n"
    path.write_bytes(edited)
    forged = search.model_copy(update={"winner_sha256": hashlib.sha256(edited).hexdigest()})
    write_document(optimized.workspace.search_result, forged)
    reason = f"line {len(edited.splitlines()) - 2}: imports os; allowed"

    with pytest.raises(Rejected, match=rf"rms_norm_v3\.py is not admitted .* {reason}") as caught:
        optimized.finalize()
    assert (caught.value.exit_code, caught.value.next_command) == (5, "warpsmith run rms_norm --fresh")
    assert optimized.gpu.asked == []
    assert_nothing_happened(optimized, original_of(optimized))


@pytest.mark.parametrize("content", [b"def f(:\n", b"\xff\xfe\x00"])
def test_a_winner_that_is_no_source_is_refused_like_one_that_is_not_admitted(optimized: Run, content: bytes) -> None:
    search = read_document(optimized.workspace.search_result, SearchResult)
    optimized.workspace.variant(3).write_bytes(content)
    forged = search.model_copy(update={"winner_sha256": hashlib.sha256(content).hexdigest()})
    write_document(optimized.workspace.search_result, forged)
    with pytest.raises(Rejected, match=r"rms_norm_v3\.py is not admitted in the place of .* line 1"):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))


@pytest.mark.parametrize("kind", [OriginKind.RECORDED, OriginKind.PREDICTED])
def test_a_winner_that_no_gpu_measured_here_is_refused(optimized: Run, kind: OriginKind) -> None:
    profile = read_document(optimized.workspace.profile, Profile)
    origin = Origin(kind=kind, gpu="H200", date="2026-01-31")
    write_document(optimized.workspace.profile, profile.model_copy(update={"origin": origin}))
    with pytest.raises(Rejected, match="the winner was not measured here"):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))


def test_an_interactive_run_waits_for_a_persons_yes(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    with pytest.raises(ApprovalRequired, match=r"comparison\.md waits for a person's approval") as caught:
        optimized.finalize()
    assert caught.value.next_command == "warpsmith approve rms_norm --gate finalize"
    assert_nothing_happened(optimized, original_of(optimized))

    approve(optimized.workspace, Gate.FINALIZE, from_terminal=False)
    assert optimized.finalize().outcome is FinalOutcome.APPLIED


def test_where_only_a_terminal_counts_even_an_autonomous_run_waits(optimized: Run) -> None:
    optimized.configure("approval: tty")
    approve(optimized.workspace, Gate.FINALIZE, from_terminal=False)
    with pytest.raises(ApprovalRequired, match="from a terminal"):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))

    approve(optimized.workspace, Gate.FINALIZE, from_terminal=True)
    assert optimized.finalize().outcome is FinalOutcome.APPLIED


def test_without_a_search_there_is_nothing_to_finalize(profiled: Run) -> None:
    with pytest.raises(PreflightError, match="stage 3 builds on the search") as caught:
        profiled.finalize()
    assert caught.value.next_command == "warpsmith optimize rms_norm"


def test_a_winner_left_by_a_killed_run_is_taken_back_when_it_does_not_hold(optimized: Run) -> None:
    optimized.left_by_a_kill(winner_of(optimized))
    optimized.gpu.slowdown = lambda work: 2.0 if is_winner(work) else 1.0

    assert optimized.finalize().outcome is FinalOutcome.NOT_CONFIRMED
    assert optimized.production.read_bytes() == original_of(optimized)


EDITS_THE_KERNEL = f"""
from pathlib import Path

def test_the_kernel() -> None:
    path = Path("{SOURCE}")
    path.write_text(path.read_text() + "# an edit of somebody's\\n")
"""


def test_an_edit_while_the_tests_run_is_never_overwritten(optimized: Run) -> None:
    optimized.write_tests(EDITS_THE_KERNEL)
    with pytest.raises(Rejected, match="changed or deleted while its tests ran; it is left as it is now"):
        optimized.finalize()

    assert optimized.production.read_bytes() == winner_of(optimized) + b"# an edit of somebody's\n"


def test_a_snapshot_that_was_edited_is_neither_compared_with_nor_put_back(optimized: Run) -> None:
    optimized.left_by_a_kill(winner_of(optimized))
    with optimized.workspace.original.open("ab") as snapshot:
        snapshot.write(b"EDITED = 1\n")
    with pytest.raises(Rejected, match=r"original_rms_norm\.py is not the file that was measured"):
        optimized.finalize()
    with pytest.raises(Rejected, match="has changed"):
        optimized.optimize()
    assert optimized.production.read_bytes() == winner_of(optimized)


@pytest.mark.parametrize("program", ["rm {file}", "truncate -s 7 {file}", "cp /bin/true {file}"])
def test_a_style_command_that_destroys_its_file_destroys_no_kernel(optimized: Run, program: str) -> None:
    optimized.configure(f"style_command: {program}")

    assert optimized.finalize().outcome is FinalOutcome.APPLIED
    assert optimized.production.read_bytes() == winner_of(optimized)


def test_a_run_killed_after_its_style_was_applied_is_finished_by_the_next(optimized: Run) -> None:
    optimized.left_by_a_kill(winner_of(optimized) + b"# end\n")

    assert optimized.finalize().outcome is FinalOutcome.APPLIED
    assert optimized.production.read_bytes() == winner_of(optimized) + b"# end\n"


@pytest.mark.parametrize("holds", [True, False])
def test_an_edit_while_the_winner_is_confirmed_is_never_overwritten(optimized: Run, holds: bool) -> None:
    edited = original_of(optimized) + b"# an edit of somebody's\n"
    optimized.gpu.watch = lambda question: optimized.production.write_bytes(edited) and None
    optimized.gpu.slowdown = lambda work: 2.0 if is_winner(work) and not holds else 1.0
    if holds:
        with pytest.raises(Rejected, match="has changed"):
            optimized.finalize()
    else:
        assert optimized.finalize().outcome is FinalOutcome.NOT_CONFIRMED

    assert optimized.production.read_bytes() == edited


def test_an_edit_while_the_style_command_runs_is_never_overwritten(optimized: Run) -> None:
    (optimized.root / "edit.py").write_text(f"open('{SOURCE}', 'a').write('# an edit\\n')\n")
    optimized.configure("style_command: python edit.py")
    with pytest.raises(Rejected, match="has changed"):
        optimized.finalize()

    assert optimized.production.read_bytes() == winner_of(optimized) + b"# an edit\n"


def truncated_during(run: Run, path: Path, kind: str) -> None:
    """Somebody empties a file of the workspace while that kind of question is asked."""

    def truncate(question: AnyQuestion) -> None:
        if question.kind == kind:
            path.write_bytes(b"")

    run.gpu.watch = truncate


@pytest.mark.parametrize("passing", [True, False])
def test_a_snapshot_that_is_lost_on_the_way_costs_the_production_file_nothing(optimized: Run, passing: bool) -> None:
    before = original_of(optimized)
    winner = winner_of(optimized)
    if not passing:
        optimized.write_tests("def test_the_kernel():\n    assert False\n")
    truncated_during(optimized, optimized.workspace.original, "host_time")
    outcome = optimized.finalize().outcome
    assert outcome is (FinalOutcome.APPLIED if passing else FinalOutcome.REVERTED)
    assert optimized.production.read_bytes() == (winner if passing else before)


def test_a_winner_that_is_changed_on_the_way_is_applied_as_it_was_measured(optimized: Run) -> None:
    winner = winner_of(optimized)
    number = read_document(optimized.workspace.search_result, SearchResult).winner
    assert number is not None
    truncated_during(optimized, optimized.workspace.variant(number), "host_time")
    assert optimized.finalize().outcome is FinalOutcome.APPLIED
    assert optimized.production.read_bytes() == winner


def test_a_search_of_another_profile_is_refused(optimized: Run) -> None:
    search = read_document(optimized.workspace.search_result, SearchResult)
    elsewhere = search.origin.model_copy(update={"kind": OriginKind.RECORDED})
    write_document(optimized.workspace.search_result, search.model_copy(update={"origin": elsewhere}))
    with pytest.raises(Rejected, match=r"comparison\.json is of another run than the profile"):
        optimized.finalize()
    assert_nothing_happened(optimized, original_of(optimized))


def test_a_winner_that_somebody_put_in_place_by_hand_is_theirs(optimized: Run) -> None:
    optimized.production.write_bytes(winner_of(optimized))
    with pytest.raises(Rejected, match="changed since it was profiled"):
        optimized.finalize()
    begin(optimized.workspace, "rms_norm", Options(fresh=True))
    (archived,) = optimized.workspace.history.iterdir()
    assert optimized.production.read_bytes() == (archived / "rms_norm_v3.py").read_bytes()


@pytest.mark.parametrize("ledger", [None, b"", b"\0" * 512, b'{"event": "begun"}\n'])
def test_a_winner_in_place_whose_ledger_is_lost_is_nobodys_new_original(optimized: Run, ledger: bytes | None) -> None:
    winner, before = winner_of(optimized), original_of(optimized)
    optimized.left_by_a_kill(winner)
    optimized.workspace.ledger.unlink()
    if ledger is not None:
        optimized.workspace.ledger.write_bytes(ledger)
    for attempt in (optimized.finalize, lambda: begin(optimized.workspace, "rms_norm", Options(fresh=True))):
        with pytest.raises(UsageError, match=r"ledger\.jsonl tells any more") as caught:
            attempt()
        assert optimized.production.read_bytes() == winner
    subprocess.run(shlex.split(caught.value.next_command or ""), cwd=optimized.root, check=True)
    assert optimized.production.read_bytes() == before
    assert optimized.finalize().outcome is FinalOutcome.APPLIED


def test_a_winner_taken_back_once_and_then_put_in_by_hand_is_theirs(optimized: Run) -> None:
    winner = winner_of(optimized)
    optimized.left_by_a_kill(winner)
    take_back_unproven(optimized.workspace)
    assert optimized.production.read_bytes() == original_of(optimized)
    optimized.production.write_bytes(winner)
    take_back_unproven(optimized.workspace)
    assert optimized.production.read_bytes() == winner


def test_tests_that_delete_the_kernel_are_told_and_the_way_back_is_named(optimized: Run) -> None:
    optimized.write_tests(f"import os\n\n\ndef test_the_kernel():\n    os.remove({str(optimized.production)!r})\n")
    before = original_of(optimized)
    with pytest.raises(Rejected, match="changed or deleted while its tests ran") as caught:
        optimized.finalize()
    subprocess.run(shlex.split(caught.value.next_command or ""), cwd=optimized.root, check=True)
    assert optimized.production.read_bytes() == before
