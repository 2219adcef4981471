"""A page that is lost is made again from its document; what cannot be made again says how it can."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_run import Run

from warpsmith.contracts.approval import Gate
from warpsmith.contracts.errors import ExitCode, UsageError
from warpsmith.contracts.result import RunState, SearchResult
from warpsmith.stages.checkpoints import approve, next_step, state_of
from warpsmith.stages.pages import ensure_page, ensure_pages, page_text
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace


def test_the_pages_that_a_person_judges_by_are_made_again_byte_for_byte(optimized: Run) -> None:
    pages = (optimized.workspace.profile_page, optimized.workspace.comparison)
    before = [page.read_bytes() for page in pages]
    for page in pages:
        page.unlink()

    ensure_pages(optimized.workspace)

    assert [page.read_bytes() for page in pages] == before


def test_the_roofline_comes_back_with_the_page_that_shows_it(profiled: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr("warpsmith.report.roofline.save_roofline", lambda profile, directory: drawn.append(directory))
    ensure_pages(profiled.workspace)
    assert drawn == []
    profiled.workspace.profile_page.unlink()
    ensure_pages(profiled.workspace)
    assert drawn == [profiled.workspace.plots]


def test_a_yes_counts_again_once_the_page_that_it_was_given_for_is_back(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    approve(optimized.workspace, Gate.FINALIZE, from_terminal=False)
    optimized.workspace.comparison.unlink()
    assert state_of(optimized.workspace) is RunState.WAITING_FINALIZE

    ensure_page(optimized.workspace, optimized.workspace.comparison)

    assert state_of(optimized.workspace) is RunState.FINALIZE


def test_a_page_that_is_there_stays_as_it_is_and_may_be_no_utf8(optimized: Run) -> None:
    page = optimized.workspace.comparison
    page.write_bytes(b"# mine \xff\n")

    assert page_text(optimized.workspace, page) == "# mine \ufffd\n"
    assert page.read_bytes() == b"# mine \xff\n"


def test_before_its_document_a_page_is_not_missed(run: Run) -> None:
    ensure_pages(run.workspace)

    assert not run.workspace.profile_page.exists()
    with pytest.raises(UsageError, match=r"profile\.json is not there"):
        ensure_page(run.workspace, run.workspace.profile_page)


def test_a_lost_report_names_itself_and_the_command_that_writes_it_again(optimized: Run) -> None:
    optimized.finalize()
    report = optimized.workspace.report_page.read_text(encoding="utf-8")
    optimized.workspace.report_page.unlink()

    with pytest.raises(UsageError, match=r"^optimization/rms_norm/report\.md is not there, though") as caught:
        page_text(optimized.workspace, optimized.workspace.report_page)

    assert caught.value.exit_code is ExitCode.USAGE
    move, _, then = (caught.value.next_command or "").partition(" && ")
    subprocess.run(move, shell=True, check=True)
    assert next_step(optimized.workspace, "rms_norm").command == then == "warpsmith finalize rms_norm"
    optimized.finalize()
    assert optimized.workspace.report_page.read_text(encoding="utf-8").splitlines()[0] == report.splitlines()[0]


@pytest.mark.parametrize(
    "lost_file", [Workspace.variant, Workspace.variant_record, lambda workspace, _: workspace.original]
)
def test_a_file_that_a_document_names_is_missed_and_the_told_command_brings_it_back(
    optimized: Run, lost_file: Callable[[Workspace, int], Path]
) -> None:
    search = read_document(optimized.workspace.search_result, SearchResult)
    assert search.winner is not None
    lost = lost_file(optimized.workspace, search.winner)
    before = lost.read_bytes()
    winner = optimized.workspace.search_result.read_bytes()
    lost.unlink()

    with pytest.raises(UsageError, match=rf"^optimization/rms_norm/{lost.name} is not there, though") as caught:
        next_step(optimized.workspace, "rms_norm")

    subprocess.run(caught.value.next_command or "", shell=True, check=True)
    if next_step(optimized.workspace, "rms_norm").state is RunState.PROFILE:
        optimized.profile()
    else:
        optimized.optimize()
    assert lost.read_bytes() == before
    assert optimized.workspace.search_result.read_bytes() == winner
    assert next_step(optimized.workspace, "rms_norm").state is RunState.FINALIZE
