"""Where a workspace's files lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.workspace.bench_layout import BenchWorkspace
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.ledger import Ledger
from warpsmith.workspace.lock import run_lock


def test_every_file_has_the_place_that_the_design_names(tmp_path: Path) -> None:
    workspace, bench = Workspace(tmp_path, "rms_norm"), BenchWorkspace(tmp_path, "rms_norm")
    paths = (
        workspace.request,
        workspace.original,
        workspace.variant(0),
        workspace.profile_page,
        workspace.profile,
        workspace.variant(3),
        workspace.variant_notes(3),
        workspace.variant_record(3),
        workspace.baseline_csv,
        workspace.results_csv(3),
        workspace.samples_csv(3),
        workspace.confirmation_csv,
        workspace.measurements,
        workspace.sweep_csv,
        workspace.comparison,
        workspace.plots,
        workspace.report_page,
        workspace.report_html,
        workspace.ledger,
        workspace.approvals,
        workspace.search_result,
        workspace.final_result,
        bench.result,
        bench.csv,
        bench.measurements,
    )

    assert [workspace.relative(path).removeprefix("optimization/rms_norm/") for path in paths] == [
        "request.json",
        "original_rms_norm.py",
        "original_rms_norm.py",
        "profile.md",
        "profile.json",
        "rms_norm_v3.py",
        "rms_norm_v3_notes.md",
        "rms_norm_v3.json",
        "benchmarks/v0_baseline.csv",
        "benchmarks/v3_results.csv",
        "benchmarks/v3_samples.csv",
        "benchmarks/confirmation_samples.csv",
        "measurements.jsonl",
        "sweep.csv",
        "comparison.md",
        "plots",
        "report.md",
        "report.html",
        "ledger.jsonl",
        "approvals.json",
        "comparison.json",
        "report.json",
        "bench/bench.json",
        "bench/results.csv",
        "bench/measurements.jsonl",
    ]


def test_a_bench_may_lie_anywhere_but_among_the_files_of_runs(tmp_path: Path) -> None:
    bench = BenchWorkspace(tmp_path, "rms_norm")
    for into in (tmp_path / "elsewhere", bench.directory / "below"):
        replace(bench, into=into).create()
        assert into.is_dir()
    for into in (tmp_path / "optimization", tmp_path / "optimization" / "rms_norm", tmp_path / "optimization" / "new"):
        with pytest.raises(UsageError, match="lies among the files of runs"):
            replace(bench, into=into).create()


def test_a_bench_that_came_to_nothing_takes_its_folder_away_but_none_that_others_use(tmp_path: Path) -> None:
    bench = BenchWorkspace(tmp_path, "rms_norm")
    bench.create()
    bench.lock.touch()
    assert bench.is_empty and (bench.directory / ".gitignore").read_text() == "*\n"
    (bench.directory / ".hidden").touch()
    assert not bench.is_empty
    bench.discard()
    assert not bench.directory.parent.exists()

    bench.create()
    Workspace(tmp_path, "rms_norm").request.touch()
    bench.discard()
    assert [path.name for path in bench.directory.parent.iterdir()] == ["request.json"]


def test_a_bench_goes_only_where_nothing_is_or_where_a_bench_was(tmp_path: Path) -> None:
    there = BenchWorkspace(tmp_path / "here", "rms_norm", tmp_path / "there")
    there.create()
    with run_lock(there):
        there.scratch.mkdir()
    there.create()  # a bench that was cut off goes on

    other = Workspace(tmp_path / "other", "rms_norm")
    with run_lock(other):
        other.request.write_text("{}")
    for folder, found in ((other.directory, r"\.lock"), (other.root, "optimization"), (tmp_path, "other")):
        with pytest.raises(UsageError, match=f"{folder} has files that no bench wrote, such as {found}; choose"):
            replace(there, into=folder).create()

    (other.directory / "bench.json").write_text("{}")
    replace(there, into=other.directory).create()


@pytest.mark.parametrize("kernel", ["", "../x", "a/b", "a-b", "1a", "a b", "a\n", "é", "a.b"])
def test_a_name_that_is_no_identifier_is_refused(tmp_path: Path, kernel: str) -> None:
    with pytest.raises(UsageError, match="letters, digits and underscores"):
        Workspace(tmp_path, kernel)


def test_a_new_workspace_is_out_of_git(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")

    workspace.create()
    workspace.create()

    assert workspace.directory.is_dir()
    assert (tmp_path / "optimization" / ".gitignore").read_text() == "*\n"


def test_a_repositorys_own_rule_is_left_alone(tmp_path: Path) -> None:
    ignore = tmp_path / "optimization" / ".gitignore"
    ignore.parent.mkdir()
    ignore.write_text("*\n!example/\n")

    Workspace(tmp_path, "rms_norm").create()

    assert ignore.read_text() == "*\n!example/\n"


def test_a_file_in_the_place_of_the_workspace_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "optimization").mkdir()
    (tmp_path / "optimization" / "rms_norm").touch()

    with pytest.raises(Unavailable, match=r"cannot write .*/optimization/rms_norm: File exists"):
        Workspace(tmp_path, "rms_norm").create()


def test_variant_records_come_by_number_and_nothing_else_is_one(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    for name in ("rms_norm_v10.json", "rms_norm_v2.json", "rms_norm_v2.py", "xrms_norm_v1.json", "rms_norm_vx.json"):
        (workspace.directory / name).touch()

    assert workspace.variant_records() == (workspace.variant_record(2), workspace.variant_record(10))


def test_there_are_no_variant_records_before_there_is_a_workspace(tmp_path: Path) -> None:
    assert Workspace(tmp_path, "rms_norm").variant_records() == ()


def test_a_logged_event_is_in_the_ledger(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")

    assert workspace.last_event() is None
    workspace.log("begun", run_id="r1")
    workspace.log("profiled")

    first, last = Ledger(workspace.ledger).events()
    assert (first["event"], first["run_id"]) == ("begun", "r1")
    assert workspace.last_event() == last
