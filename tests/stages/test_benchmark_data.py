"""The figures of an applied winner, as rows of a repository's own benchmark data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from simulated_gpu import TARGET_FILE, described
from simulated_run import Run

from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import Rejected, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalResult
from warpsmith.stages import benchmark_data
from warpsmith.stages.benchmark_data import rows_of_the_winner
from warpsmith.workspace.documents import read_document, write_document


@pytest.fixture
def finalized(optimized: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    @contextmanager
    def worker(root: object) -> Iterator[object]:
        yield optimized.gpu

    monkeypatch.setattr(benchmark_data, "worker_without_gpu", worker)
    optimized.finalize()
    return optimized


def rows(run: Run) -> list[dict[str, str]]:
    return rows_of_the_winner(run.workspace, run.root / TARGET_FILE, "liger")


def test_there_is_a_row_for_each_case_mode_and_metric_that_was_measured_afresh(finalized: Run) -> None:
    found, spec = rows(finalized), described(finalized.root)
    speed = [row for row in found if row["metric_name"] == "speed"]
    assert len(speed) == len(spec.cases) * len(spec.modes)
    assert {row["kernel_provider"] for row in found} == {"liger"}
    assert {row["metric_name"] for row in found} == {"speed", "memory"}
    verdict = read_document(finalized.workspace.final_result, FinalResult).confirmation
    assert verdict is not None
    told = {(case.case, case.mode.value): case.variant_ms for case in verdict.cases}
    first = speed[0]
    case = next(c for c in spec.cases if c.axes["N"] == int(first["x_value"]))
    assert float(first["y_value_50"]) == pytest.approx(told[case.name, first["kernel_operation_mode"]], rel=0.01)
    assert float(first["y_value_20"]) <= float(first["y_value_50"]) <= float(first["y_value_80"])


def test_there_are_none_before_a_run_has_ended(optimized: Run) -> None:
    with pytest.raises(UsageError, match="no finished run"):
        rows(optimized)


def test_a_winner_that_was_taken_back_has_none(finalized: Run) -> None:
    path = finalized.workspace.final_result
    result = read_document(path, FinalResult)
    write_document(path, result.model_copy(update={"taken_back_at": "2026-01-31T00:00:00+00:00"}))
    with pytest.raises(Rejected, match="is as it was"):
        rows(finalized)


def test_figures_of_another_machine_are_none_of_this_repository(finalized: Run) -> None:
    path = finalized.workspace.profile
    profile = read_document(path, Profile)
    recorded = Origin(kind=OriginKind.RECORDED, gpu="NVIDIA H200", date="2026-01-31")
    write_document(path, profile.model_copy(update={"origin": recorded}))
    with pytest.raises(Rejected, match="recorded on NVIDIA H200"):
        rows(finalized)
