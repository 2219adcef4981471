"""A winner is applied on the word of the tests, target, settings and harness that the run began with, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_run import KERNEL_TESTS, PASSING_TEST, SOURCE, TARGET_FILE, Run

from warpsmith.contracts.errors import ExitCode, Rejected
from warpsmith.contracts.guarded import GuardedFiles
from warpsmith.contracts.result import FinalOutcome
from warpsmith.stages import guarding
from warpsmith.workspace.documents import read_document, write_document


def refused(run: Run) -> Rejected:
    """What finalize says, with the production file as it was before the run."""
    with pytest.raises(Rejected) as caught:
        run.finalize()
    assert run.production.read_bytes() == run.workspace.original.read_bytes()
    assert not run.workspace.final_result.exists()
    assert (caught.value.exit_code, caught.value.next_command) == (
        ExitCode.REJECTED,
        "warpsmith run rms_norm --fresh",
    )
    return caught.value


def append(path: Path, text: str = "# edited\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


EDITS: dict[str, tuple[Callable[[Run], None], str]] = {
    "a test": (lambda run: append(run.root / KERNEL_TESTS), f"{KERNEL_TESTS} was changed"),
    "the target": (lambda run: append(run.root / TARGET_FILE), f"{TARGET_FILE} was changed"),
    "the settings": (lambda run: append(run.root / "warpsmith.yaml"), "warpsmith.yaml was changed"),
    "no settings": (lambda run: (run.root / "warpsmith.yaml").unlink(), "warpsmith.yaml was deleted"),
    "pytest's settings": (lambda run: append(run.root / "pytest.ini", "[pytest]\n"), "pytest.ini was added"),
    "a conftest": (lambda run: append(run.root / "tests" / "conftest.py"), "tests/conftest.py was added"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_decides_about_the_winner_may_not_change_before_it_is_applied(optimized: Run, edit: str) -> None:
    change, told = EDITS[edit]
    change(optimized)
    assert refused(optimized).message == (
        f"{told} since the kernel was profiled, and the winner would be judged by something else than the original "
        "was; nothing is applied"
    )
    assert "confirming the winner on new inputs, in new processes" not in optimized.told.lines


def test_every_changed_file_is_named(optimized: Run) -> None:
    append(optimized.root / KERNEL_TESTS)
    append(optimized.root / TARGET_FILE)
    assert f"{TARGET_FILE} was changed, {KERNEL_TESTS} was changed since" in refused(optimized).message


def test_another_harness_may_not_judge_the_winner(optimized: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "harness_sha256", lambda: "0" * 64)
    assert refused(optimized).message.startswith("warpsmith itself was changed since")


def test_a_change_while_the_winner_is_confirmed_is_seen_too(optimized: Run) -> None:
    optimized.gpu.watch = lambda question: (
        (optimized.root / KERNEL_TESTS).write_text(PASSING_TEST + "# edited\n") and None
    )
    assert refused(optimized).message.endswith("nothing is applied")


def test_tests_that_rewrite_themselves_bring_the_original_back(optimized: Run) -> None:
    optimized.write_tests(
        "from pathlib import Path\n\n\ndef test_the_kernel() -> None:\n"
        "    Path(__file__).write_text('def test_the_kernel(): ...\\n')\n"
    )
    assert refused(optimized).message.startswith(f"{KERNEL_TESTS} was changed since")
    assert [event["event"] for event in optimized.workspace.events()][-2:] == ["applying", "reverted"]


def test_a_winner_that_a_killed_run_left_is_taken_back_from_other_tests(optimized: Run) -> None:
    optimized.left_by_a_kill(optimized.workspace.variant(3).read_bytes())
    append(optimized.root / KERNEL_TESTS)
    assert refused(optimized).message.startswith(f"{KERNEL_TESTS} was changed since")
    assert optimized.workspace.events()[-1]["event"] == "reverted"


def test_where_nothing_is_on_record_nothing_is_applied(optimized: Run) -> None:
    guarded = read_document(optimized.workspace.guarded, GuardedFiles)
    write_document(optimized.workspace.guarded, guarded.model_copy(update={"run_id": "another"}))
    assert refused(optimized).message.startswith("optimization/rms_norm/guarded.json is of another run, another since")
    optimized.workspace.guarded.unlink()
    assert refused(optimized).message.startswith("optimization/rms_norm/guarded.json is not there: ")


def test_what_decides_nothing_may_change(optimized: Run) -> None:
    append(optimized.root / "README.md")
    append(optimized.root / "tests" / "kernels" / "test_another_kernel.py", "def test_it(): assert False\n")
    assert optimized.finalize().outcome is FinalOutcome.APPLIED


def test_the_record_is_of_the_files_that_the_profile_found(profiled: Run) -> None:
    guarded = read_document(profiled.workspace.guarded, GuardedFiles)
    assert (guarded.source, guarded.target_file, guarded.tests) == (SOURCE, TARGET_FILE, (KERNEL_TESTS,))
    assert set(guarded.files) == {TARGET_FILE, KERNEL_TESTS, "warpsmith.yaml"}
