"""What is known of a run so far: short, whatever the run has tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from simulated_run import KERNEL, REPOSITORY, make_repository

from warpsmith.contracts.result import NextStep, RunState
from warpsmith.contracts.variant import Variant
from warpsmith.stages.checkpoints import REFERENCES, next_step
from warpsmith.stages.known import MOST_CHARACTERS, MOST_VARIANTS, known_so_far
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace

#: What an agent has room for, and about how many characters of English and JSON a token is.
MOST_TOKENS, CHARACTERS_A_TOKEN = 2000, 3.5
SKILL = REPOSITORY / "skills" / "triton-kernel-perf"


def tokens(step: NextStep) -> float:
    return len(step.model_dump_json(indent=2)) / CHARACTERS_A_TOKEN


@pytest.fixture
def searched(tmp_path: Path) -> Workspace:
    """The committed example as it was before its winner was applied."""
    root = make_repository(tmp_path)
    example = REPOSITORY / "optimization" / KERNEL
    left_out = shutil.ignore_patterns("plots", "benchmarks", "report.*")
    shutil.copytree(example, root / "optimization" / KERNEL, ignore=left_out)
    return Workspace(root, KERNEL)


def test_the_next_step_of_the_committed_example_fits_beside_an_agent_s_work() -> None:
    step = next_step(Workspace(REPOSITORY, KERNEL), KERNEL)

    tried = len(Workspace(REPOSITORY, KERNEL).variant_records())
    assert step.state is RunState.DONE and len(step.known_so_far) == tried + 1
    assert tokens(step) < MOST_TOKENS


def test_so_does_that_of_a_run_that_tried_much_and_had_much_to_say(searched: Workspace) -> None:
    first = read_document(searched.variant_record(1), Variant)
    for number in range(5, 100):
        write_document(
            searched.variant_record(number), first.model_copy(update={"number": number, "strategy": "s" * 999})
        )

    step = next_step(searched, KERNEL)

    assert step.state is RunState.FINALIZE
    assert step.known_so_far[0] == "87 variants before these; each has its notes in optimization/rms_norm"
    assert [line[:3] for line in step.known_so_far[1:]] == [f"v{number}" for number in range(88, 100)]
    assert len(step.known_so_far) == MOST_VARIANTS + 1
    assert {len(line) for line in step.known_so_far[1:]} == {MOST_CHARACTERS}
    assert tokens(step) < MOST_TOKENS


def test_before_any_variant_the_profile_is_what_is_known(searched: Workspace) -> None:
    for path in searched.variant_records():
        path.unlink()
    known = known_so_far(searched, RunState.OPTIMIZE)

    assert [line.split(":")[0] for line in known] == [
        "profile, forward",
        "profile, backward",
        "profile, full",
        "profile recommends",
    ]
    assert "of its ceiling (measured" in known[0] and known[3].startswith("profile recommends: settings")
    assert known_so_far(searched, RunState.FINALIZE) == ()


@pytest.mark.parametrize("state", RunState)
def test_every_state_but_the_last_names_a_page_of_the_skill_that_is_there(state: RunState) -> None:
    page: Path | None = SKILL / "references" / f"{REFERENCES[state]}.md" if state in REFERENCES else None

    assert (page is None) is (state is RunState.DONE)
    assert page is None or page.is_file()
