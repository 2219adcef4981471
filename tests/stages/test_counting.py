"""Where counters are asked for, what stands in for them, and that their absence ends no profile."""

from __future__ import annotations

from pathlib import Path

from simulated_gpu import ENVIRONMENT
from simulated_kernel import FORWARD, Work
from simulated_run import Run

from warpsmith.contracts.case import Mode
from warpsmith.contracts.counters import CounterRow, Counters, Durations
from warpsmith.contracts.profile import Profile
from warpsmith.measure.worker.protocol import Count, MeasureDurations
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.stages.profiler import profile
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.store import MeasurementStore

HEAVIEST, MIDDLE = "8192x8192-bf16", "8192x4096-bf16"
PASSES = (Mode.FORWARD, Mode.BACKWARD)


def rows(question: Count) -> Counters:
    row = CounterRow(kernel=FORWARD, grid="(1, 1, 1)", block="(128, 1, 1)", metrics={"gpu__time_duration.sum": 1.0})
    return Counters(case=question.case, mode=question.mode, rows=(row,))


def slow_in_the_middle(work: Work) -> float:
    return 5.0 if work.case.name == MIDDLE and work.mode is Mode.BACKWARD else 1.0


def places(run: Run, kind: type[Count] | type[MeasureDurations]) -> list[tuple[str, Mode]]:
    return [(asked.case.name, asked.mode) for asked in run.gpu.asked if isinstance(asked, kind)]


def test_counters_are_those_of_each_pass_at_the_heaviest_case_and_where_it_has_most_to_win(run: Run) -> None:
    run.gpu.counted, run.gpu.slowdown = rows, slow_in_the_middle
    profiled = run.profile()
    asked = [(HEAVIEST, Mode.FORWARD), (HEAVIEST, Mode.BACKWARD), (MIDDLE, Mode.BACKWARD)]
    assert places(run, Count) == asked
    assert [(each.case.name, each.mode) for each in profiled.counters if each.rows] == asked


def test_where_the_heaviest_case_has_most_to_win_it_is_counted_once(run: Run) -> None:
    run.gpu.counted = rows
    run.profile()
    assert places(run, Count) == [(HEAVIEST, mode) for mode in PASSES]


def test_where_ncu_counts_no_durations_are_asked_for(run: Run) -> None:
    run.gpu.counted = rows
    assert run.profile().durations == ()
    assert places(run, MeasureDurations) == []


def test_where_ncu_refuses_each_pass_has_its_kernels_durations_at_the_same_places(run: Run) -> None:
    run.gpu.slowdown = slow_in_the_middle
    durations = run.profile().durations
    told = [(HEAVIEST, Mode.FORWARD), (HEAVIEST, Mode.BACKWARD), (MIDDLE, Mode.BACKWARD)]
    assert [(each.case.name, each.mode) for each in durations] == told
    assert [kernel.name for kernel in durations[0].kernels] == [FORWARD]
    assert places(run, Count) == [(HEAVIEST, Mode.FORWARD)]


def test_a_count_that_kills_the_worker_is_a_refusal_with_its_reason(run: Run) -> None:
    run.gpu.worker_failure = lambda question: "signal 11" if question.kind == "count" else None
    found = run.profile()
    assert [each.unavailable for each in found.counters] == ["died: signal 11"]
    assert len(found.durations) == 2


def test_durations_that_are_refused_are_asked_for_once_and_say_why(run: Run) -> None:
    run.gpu.profiled = lambda question: Durations(case=question.case, mode=question.mode, unavailable="CUPTI is busy")
    assert [each.unavailable for each in run.profile().durations] == ["CUPTI is busy"]
    assert len(places(run, MeasureDurations)) == 1


def replayed_without(run: Run, *kinds: str) -> Profile:
    """The profile of a finished one, from its answers as a recording that lacks those of these kinds."""
    store = run.workspace.measurements
    kept = [line for line in store.read_bytes().splitlines(keepends=True) if not any(k in line for k in _marks(kinds))]
    recording = Path(run.root / "recorded.jsonl")
    recording.write_bytes(b"".join(kept))
    store.unlink()
    run.workspace.profile.unlink()
    session = run.session()
    session.worker = StoredWorker(
        MeasurementStore(store), None, session.worker.identify, recording=MeasurementStore(recording), offline=run.gpu
    )
    profile(session)
    return read_document(run.workspace.profile, Profile)


def _marks(kinds: tuple[str, ...]) -> list[bytes]:
    return [f'"kind": "{kind}"'.encode() for kind in kinds]


def test_what_a_recording_was_not_asked_is_left_out_with_a_note(profiled: Run) -> None:
    before = read_document(profiled.workspace.profile, Profile)
    found = replayed_without(profiled, "count", "durations")
    assert (found.counters, found.durations) == ((), ())
    assert found.baselines == before.baselines and before.device.environment == ENVIRONMENT
    assert f"ncu: {HEAVIEST} forward was not recorded" in profiled.told.lines
    assert not any(line.startswith("kernel durations") for line in profiled.told.lines)


def test_a_refusal_that_was_recorded_without_durations_is_replayed_alone(profiled: Run) -> None:
    found = replayed_without(profiled, "durations")
    assert [each.unavailable for each in found.counters] == ["ncu is not on the path"]
    assert found.durations == ()
    assert f"kernel durations: {HEAVIEST} backward was not recorded" in profiled.told.lines
