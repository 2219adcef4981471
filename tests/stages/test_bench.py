"""A bench stands alone: it measures once, times nothing wrong, leaves runs alone, and replays what is recorded."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from simulated_bench import LARGE, SMALL, TORCH, Benched, put_gpu, record_profile, row_of
from simulated_gpu import CASES, SimulatedGpu, killed_by_torch
from simulated_kernel import Work
from simulated_run import KERNEL, SOURCE, Run, make_repository

from warpsmith.contracts.bench import BenchResult, Finding
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.measurement import L2, Timing, TimingMethod
from warpsmith.contracts.verdict import Interval
from warpsmith.measure.worker.protocol import AnyQuestion, MeasureHostTime, MeasureMemory, Time
from warpsmith.report.bench_rows import finding
from warpsmith.report.bench_view import bench_lines
from warpsmith.verdict.decision import MIN_ROUNDS
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.runs import archive

BOTH = (SMALL, LARGE)
MARK = "# the slow one\n"


@pytest.fixture
def benched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benched:
    monkeypatch.setattr("warpsmith.stages.bench.save_bench_plots", lambda *_: ())
    return Benched(make_repository(tmp_path / "repository"))


@pytest.fixture
def gpu(benched: Benched, monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    return put_gpu(monkeypatch, benched.root)


@pytest.fixture
def recorded(profiled: Run, monkeypatch: pytest.MonkeyPatch) -> Benched:
    """A repository whose profile is recorded, on a machine without a GPU."""
    record_profile(profiled)
    monkeypatch.setattr("warpsmith.stages.bench.save_bench_plots", lambda *_: ())
    monkeypatch.setattr("warpsmith.stages.recording.choose", lambda device: None)
    return Benched(profiled.root)


def timed(gpu: SimulatedGpu) -> list[Time]:
    return [question for question in gpu.asked if isinstance(question, Time)]


def test_every_contender_has_a_row_at_every_case_and_mode(benched: Benched, gpu: SimulatedGpu) -> None:
    result = benched(l2=L2.COLD)

    assert {(row.case, row.mode, row.contender) for row in result.rows} == {
        (case, mode, name) for case in CASES for mode in Mode for name in ("original", "torch")
    }
    assert all(row.time_ms and row.peak_bytes == 1 << 20 and row.host_us == 20.0 for row in result.rows)
    assert result.excluded == {"liger": "No module named 'liger_kernel'"}
    assert str(result.origin) == "measured"


def test_device_time_alone_asks_for_nothing_else(benched: Benched, gpu: SimulatedGpu) -> None:
    result = benched(cases=(SMALL,), device_time_only=True)
    assert all(row.time_ms and (row.peak_bytes, row.host_us) == (None, None) for row in result.rows)
    assert {question.kind for question in gpu.asked} <= {"describe", "identify", "inspect", "time"}


def test_a_speedup_is_over_the_original_with_its_interval(benched: Benched, gpu: SimulatedGpu) -> None:
    result = benched(cases=(LARGE,), modes=(Mode.FORWARD,))
    original, torch = row_of(result, "original", case=LARGE), row_of(result, "torch", case=LARGE)

    assert original.speedup is None and original.finding is None
    assert original.time_ms is not None and torch.time_ms is not None and torch.speedup is not None
    assert torch.speedup.value == pytest.approx(original.time_ms.value / torch.time_ms.value, rel=1e-3)
    assert torch.speedup.low < torch.speedup.value < torch.speedup.high < 1
    assert torch.finding is Finding.SLOWER
    assert torch.share_of_ceiling == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (1.001, 1.004, Finding.FASTER),
        (0.95, 0.999, Finding.SLOWER),
        (0.995, 1.005, Finding.NO_DIFFERENCE),
        (0.97, 1.005, Finding.INCONCLUSIVE),
        (0.995, 1.02, Finding.INCONCLUSIVE),
    ],
)
def test_what_an_interval_around_one_says_depends_on_its_width(low: float, high: float, found: Finding) -> None:
    assert finding(Interval(value=(low + high) / 2, low=low, high=high), MIN_ROUNDS, 0.01) is found


def test_few_rounds_are_inconclusive_however_narrow_their_interval() -> None:
    sure = Interval(value=2.0, low=2.0, high=2.0)
    assert finding(sure, MIN_ROUNDS - 1, 0.01) is Finding.INCONCLUSIVE
    assert finding(sure, MIN_ROUNDS, 0.01) is Finding.FASTER


def test_one_round_is_no_finding(benched: Benched, gpu: SimulatedGpu) -> None:
    measured = gpu._time

    def once(question: Time) -> Timing:
        timing = measured(question)
        first = tuple(block for block in timing.blocks if block.round == 0)
        return timing.model_copy(update={"blocks": first, "capped": True})

    gpu._time = once
    result = benched(cases=(LARGE,), modes=(Mode.FORWARD,))

    assert (row_of(result, "torch", case=LARGE).finding, row_of(result, "torch", case=LARGE).rounds) == (
        Finding.INCONCLUSIVE,
        1,
    )
    assert "8192×8192 bf16, forward, L2 cold (1 of at least 8 rounds, cut off by the time cap)" in bench_lines(result)


def test_warm_rows_are_there_only_where_the_working_set_fits_l2(benched: Benched, gpu: SimulatedGpu) -> None:
    result = benched(cases=BOTH, modes=(Mode.FORWARD,), providers=TORCH)

    assert [(row.case, row.l2) for row in result.rows if row.contender == "original"] == [
        (SMALL, L2.COLD),
        (SMALL, L2.WARM),
        (LARGE, L2.COLD),
    ]
    assert [question.l2 for question in timed(gpu)] == [L2.COLD, L2.WARM, L2.COLD]


@pytest.mark.parametrize("l2", list(L2))
def test_a_state_of_l2_that_is_asked_for_is_the_only_one(benched: Benched, gpu: SimulatedGpu, l2: L2) -> None:
    result = benched(cases=BOTH, modes=(Mode.FORWARD,), l2=l2, method=TimingMethod.EVENTS)

    assert {row.l2 for row in result.rows} == {l2}
    assert [(question.l2, question.method) for question in timed(gpu)] == [(l2, TimingMethod.EVENTS)] * 2
    assert {row.method for row in result.rows} == {TimingMethod.EVENTS}


def test_a_second_bench_asks_nothing_that_the_first_one_asked(benched: Benched, gpu: SimulatedGpu) -> None:
    first = benched(cases=(SMALL,), files=(benched.source("other"),))
    asked = len(gpu.asked)
    again = benched(cases=(SMALL,), files=(benched.source("other"),))

    assert asked > 0 and len(gpu.asked) == asked
    assert again == first
    gpu.asked.clear()
    benched(cases=BOTH, files=(benched.source("other"),))
    assert {question.case.name for question in timed(gpu)} == {LARGE}


def test_a_bench_that_was_cut_off_goes_on_where_it_was(benched: Benched, gpu: SimulatedGpu) -> None:
    def cut_off(question: AnyQuestion) -> None:
        if isinstance(question, Time) and question.case.name == LARGE:
            raise KeyboardInterrupt

    gpu.watch = cut_off
    with pytest.raises(KeyboardInterrupt):
        benched(cases=BOTH, modes=(Mode.FORWARD,))
    assert not benched.workspace.result.exists()
    gpu.asked.clear()
    gpu.watch = lambda question: None
    benched(cases=BOTH, modes=(Mode.FORWARD,))
    assert [question.case.name for question in timed(gpu)] == [LARGE]


def test_another_source_is_checked_and_then_compared(benched: Benched, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 1.5 if MARK in work.text else 1.0
    result = benched(cases=(SMALL,), modes=(Mode.FORWARD,), files=(benched.source("slow", line=MARK),))

    kinds = [question.kind for question in gpu.asked]
    assert kinds.index("check") < kinds.index("time")
    speedup = row_of(result, "slow").speedup
    assert speedup is not None and speedup.value == pytest.approx(1 / 1.5, rel=0.01)
    assert [contender.name for contender in timed(gpu)[0].contenders] == ["original", "slow", "torch"]
    assert set(result.sources) == {"original", "slow"}


def test_a_wrong_source_is_told_and_not_timed(benched: Benched, gpu: SimulatedGpu) -> None:
    gpu.wrong_result = lambda work: "dx: off by 3" if MARK in work.text else None
    files = (benched.source("wrong", line=MARK), benched.source("right"))
    result = benched(cases=BOTH, modes=(Mode.FORWARD,), files=files)

    assert result.excluded["wrong"] == f"wrong_result: {SMALL}, values: dx: off by 3; and 1 more"
    measured = [q for q in gpu.asked if isinstance(q, Time | MeasureMemory | MeasureHostTime)]
    assert measured and all("wrong" not in {c.name for c in question.contenders} for question in measured)
    assert row_of(result, "right").time_ms is not None


def test_a_contender_that_fails_has_a_reason_and_the_others_their_figures(benched: Benched, gpu: SimulatedGpu) -> None:
    def fails(work: Work) -> str | None:
        return "out_of_memory: 3 GiB" if MARK in work.text and work.case.name == LARGE else None

    gpu.run_failure = fails
    files = (benched.source("big", line=MARK),)
    result = benched(cases=BOTH, modes=(Mode.FORWARD,), files=files)

    failed = row_of(result, "big", case=LARGE)
    assert (failed.time_ms, failed.unavailable) == (None, "out_of_memory: 3 GiB")
    assert row_of(result, "big").time_ms and row_of(result, "original", case=LARGE).time_ms
    hosted = [q for q in gpu.asked if isinstance(q, MeasureHostTime) and q.case.name == LARGE]
    assert [[contender.name for contender in question.contenders] for question in hosted] == [["original", "torch"]]


def test_a_provider_that_cannot_be_captured_is_compared_apart_and_leaves_the_others_alone(
    benched: Benched, gpu: SimulatedGpu
) -> None:
    measured = gpu._time

    def times(question: Time) -> Timing:
        has_torch = any(contender.name == "torch" for contender in question.contenders)
        return measured(question).model_copy(update={"method": TimingMethod.EVENTS} if has_torch else {})

    gpu._time = times
    result = benched(cases=(LARGE,), modes=(Mode.FORWARD,), files=(benched.source("other"),))

    methods = {row.contender: row.method for row in result.rows}
    assert methods == {"original": TimingMethod.GRAPH, "other": TimingMethod.GRAPH, "torch": TimingMethod.EVENTS}
    assert row_of(result, "torch", case=LARGE).speedup is not None
    assert "8192×8192 bf16, forward, L2 cold (torch by CUDA events)" in bench_lines(result)


def test_a_comparison_that_kills_the_worker_costs_only_its_own_rows(benched: Benched, gpu: SimulatedGpu) -> None:
    gpu.worker_failure = lambda q: "signal 11" if isinstance(q, Time) and q.case.name == LARGE else None
    result = benched(cases=BOTH, modes=(Mode.FORWARD,))

    assert row_of(result, "original", case=LARGE).unavailable == "died: signal 11"
    assert row_of(result, "original").time_ms is not None


def test_a_provider_that_kills_the_worker_costs_only_its_own_row(benched: Benched, gpu: SimulatedGpu) -> None:
    gpu.worker_failure = killed_by_torch
    result = benched(cases=(LARGE,), modes=(Mode.FORWARD,), files=(benched.source("other"),))

    assert row_of(result, "torch", case=LARGE).unavailable == "died: signal 11"
    assert row_of(result, "other", case=LARGE).finding is not None
    assert f"{LARGE} forward: without torch, died: signal 11" in benched.told.lines


def test_where_nothing_runs_there_is_no_result(benched: Benched, gpu: SimulatedGpu) -> None:
    gpu.worker_failure = lambda question: "signal 11" if isinstance(question, Time) else None
    with pytest.raises(PreflightError, match="nothing of rms_norm could be timed: died: signal 11"):
        benched(cases=(SMALL,))
    assert not benched.workspace.result.exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"providers": ("flash",)}, "--providers flash: rms_norm has torch"),
        ({"providers": ("liger",)}, "--providers liger: it cannot be measured here: No module named 'liger_kernel'"),
        ({"cases": ("2048x2048-bf61",)}, r"--case 2048x2048-bf61: rms_norm has .*; did you mean 2048x2048-bf16\?"),
    ],
)
def test_what_is_not_there_is_a_usage_error_that_names_what_is(
    benched: Benched, gpu: SimulatedGpu, asked: dict[str, tuple[str, ...]], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        benched(**asked)
    assert gpu.asked == []


def test_files_must_be_there_and_have_names_of_their_own(benched: Benched, gpu: SimulatedGpu) -> None:
    there = benched.source("other")
    with pytest.raises(UsageError, match=r"--with .*othre\.py: no such file; .* has other\.py"):
        benched(files=(there.with_name("othre.py"),))
    with pytest.raises(UsageError, match="'other' is taken"):
        benched(files=(there, there))
    with pytest.raises(UsageError, match="'torch' is a baseline provider of rms_norm"):
        benched(files=(benched.source("torch"),))
    with pytest.raises(UsageError, match="'my-kernel' is no Python identifier"):
        benched(files=(benched.source("my-kernel"),))
    assert gpu.asked == []


def test_what_is_written_is_whole(benched: Benched, gpu: SimulatedGpu) -> None:
    result = benched(cases=(SMALL,), modes=(Mode.FORWARD,), files=(benched.source("other"),))

    assert read_document(benched.workspace.result, BenchResult) == result
    rows = list(csv.DictReader(benched.workspace.csv.read_text().splitlines()))
    speed = [row for row in rows if row["metric_name"] == "speed"]
    assert [(row["kernel_provider"], json.loads(row["extra_benchmark_config_str"]).get("l2")) for row in speed] == [
        (name, l2) for l2 in (None, "warm") for name in ("original", "other", "torch")
    ]
    assert {row["metric_name"] for row in rows} == {"speed", "memory", "host_time"}
    assert {row["source_sha256"] for row in rows if row["kernel_provider"] == "other"} == {result.sources["other"]}
    assert {row["origin"] for row in rows} == {"measured"}


def test_plots_show_cold_and_warm_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benched = Benched(make_repository(tmp_path / "repository"))
    put_gpu(monkeypatch, benched.root)
    benched(cases=(SMALL,), modes=(Mode.FORWARD,))

    names = sorted(path.name for path in benched.workspace.plots.iterdir())
    assert names == [f"{stem}.{kind}" for stem in ("memory", "speed", "speed_warm") for kind in ("png", "svg")]


def test_no_run_is_touched_and_a_new_run_leaves_the_bench_where_it_is(
    profiled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.stages.bench.save_bench_plots", lambda *_: ())
    put_gpu(monkeypatch, profiled.root)
    before = {path: path.read_bytes() for path in profiled.workspace.directory.iterdir() if path.is_file()}
    benched = Benched(profiled.root)
    result = benched(cases=(SMALL,))

    after = {path: path.read_bytes() for path in profiled.workspace.directory.iterdir() if path.is_file()}
    assert after == before
    history = archive(profiled.workspace)
    assert history is not None and not (history / "bench").exists()
    assert read_document(benched.workspace.result, BenchResult) == result
    assert archive(profiled.workspace) is None


def test_an_edit_of_the_kernel_is_another_kernel(benched: Benched, gpu: SimulatedGpu) -> None:
    benched(cases=(SMALL,), modes=(Mode.FORWARD,))
    asked = len(timed(gpu))
    with (benched.root / SOURCE).open("a") as file:
        file.write("# edited\n")
    benched(cases=(SMALL,), modes=(Mode.FORWARD,))
    assert len(timed(gpu)) == 2 * asked


def test_without_a_gpu_the_baselines_of_a_recorded_run_are_all_there(recorded: Benched) -> None:
    result = recorded()

    assert result.origin == Origin(kind=OriginKind.RECORDED, gpu="Simulated H200", date="2026-01-31")
    assert {row.unavailable for row in result.rows} == {None}
    assert {(row.case, row.mode) for row in result.rows if row.l2 is L2.WARM} >= {(SMALL, mode) for mode in Mode}
    assert {(row.case, row.mode) for row in result.rows if row.host_us is not None} == {
        (SMALL, mode) for mode in (Mode.FORWARD, Mode.BACKWARD)
    }
    assert all(row.peak_bytes for row in result.rows)


def test_a_replay_shows_of_the_recorded_comparisons_what_was_asked_for(recorded: Benched) -> None:
    result = recorded(cases=(SMALL,), modes=(Mode.BACKWARD,), l2=L2.COLD, providers=TORCH)

    assert [(row.contender, row.mode) for row in result.rows] == [("original", Mode.BACKWARD), ("torch", Mode.BACKWARD)]
    rows = list(csv.DictReader(recorded.workspace.csv.read_text().splitlines()))
    assert {row["kernel_operation_mode"] for row in rows} == {"backward"}


def test_what_a_recording_does_not_hold_is_told_in_its_place(recorded: Benched) -> None:
    result = recorded(cases=BOTH, modes=(Mode.FORWARD,), l2=L2.WARM, files=(recorded.source("other"),))

    assert row_of(result, "original", l2=L2.WARM).time_ms is not None
    assert row_of(result, "original", case=LARGE, l2=L2.WARM).unavailable == "not in the recording"
    assert result.excluded["other"] == "not in the recording"
    assert result.notes[0].startswith("1 of 2 comparisons are not in the recording")


def test_a_replay_that_can_answer_nothing_is_unavailable_and_says_what_would(recorded: Benched) -> None:
    with pytest.raises(Unavailable, match="the recording of rms_norm has no answer to any of this") as caught:
        recorded(method=TimingMethod.EVENTS)
    assert caught.value.exit_code == 6
    assert caught.value.next_command == f"warpsmith bench {KERNEL}   (on a machine with a GPU)"
