"""The stand-alone comparison: the kernel as it is, other sources, and the baseline providers, side by side.

It needs no run and touches none: what it measures lies in a folder of its own, and is measured once.
"""

from __future__ import annotations

from pathlib import Path

from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import PreflightError, Unavailable, WarpsmithError
from warpsmith.contracts.measurement import ORIGINAL, SourceRef
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Inspect, TargetRef, WorkerError, answer_of
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import read_source
from warpsmith.report.bench_rows import bench_rows
from warpsmith.report.figures import save_bench_plots
from warpsmith.report.tables import results_frame, to_csv
from warpsmith.search.bench import Bench
from warpsmith.stages.bench_measuring import Measuring
from warpsmith.stages.bench_request import Asked, chosen_of, expect_names, sources_of
from warpsmith.stages.recording import recording_to_replay
from warpsmith.stages.session import (
    Progress,
    described,
    gpu_for,
    kept,
    opened_worker,
    origin_of,
    replaying_told,
    target_ref,
)
from warpsmith.workspace.bench_layout import BenchWorkspace
from warpsmith.workspace.documents import write_document, write_text
from warpsmith.workspace.store import MeasurementStore

#: What a person is told step by step.
STEPS = 3


def expect_answerable(root: Path, config: ProjectConfig, kernel: str, asked: Asked) -> None:
    """What can be told before anything is written: raises UsageError for what is not there, then Unavailable where
    there is neither a GPU nor a recording of this source."""
    target_path = find_target(root, config, kernel)
    expect_names(root, target_path, asked)
    if _recording_to_replay(root, target_path, kernel, asked) is None:
        gpu_for(asked.device)


def _recording_to_replay(root: Path, target_path: Path, kernel: str, asked: Asked) -> Recording | None:
    return recording_to_replay(root, target_path, kernel, asked.device, to_bench=True)


def bench(
    root: Path, config: ProjectConfig, workspace: BenchWorkspace, asked: Asked, progress: Progress
) -> BenchResult:
    """Measures what was asked, or replays what of it is recorded, and writes bench.json, results.csv and the plots.

    Hold the workspace's lock. Raises UsageError for what is not there, Unavailable where nothing can be answered,
    PreflightError where nothing could be timed, WorkerError where the worker cannot work at all: a folder that had
    nothing in it is then gone again, unless something was timed.
    """
    was_empty = workspace.is_empty
    try:
        return _measured(root, config, workspace, asked, progress)
    except (WarpsmithError, WorkerError):
        if was_empty and not _has_timed(workspace):
            workspace.discard()
        raise


def _has_timed(workspace: BenchWorkspace) -> bool:
    records = MeasurementStore(workspace.measurements).records()
    return any(record["kind"] == "time" and not record.get("replayed") for record in records)


def _measured(
    root: Path, config: ProjectConfig, workspace: BenchWorkspace, asked: Asked, progress: Progress
) -> BenchResult:
    files = sources_of(asked)
    target_path = find_target(root, config, workspace.kernel)
    target = target_ref(root, target_path)
    progress.step("target and device", 1, of=STEPS)
    recording, answers = _recording_to_replay(root, target_path, workspace.kernel, asked), None
    if recording is not None:
        progress.note(replaying_told(recording.reference))
        answers = RecordedRun.of(target_path, workspace.kernel).store(recording)
    with opened_worker(root, workspace, target, asked.device, answers, tell=progress.note) as worker:
        spec = described(worker, target)
        chosen = chosen_of(asked, spec)
        whole = chosen if recording is None else spec
        bench = _bench(worker, target, whole, workspace, asked, progress)
        measuring = Measuring(bench, chosen, asked.l2, asked.device_time_only)
        sources = {name: kept(workspace, name, content) for name, content in files.items()}
        progress.step(f"correctness of {', '.join(sources)}" if sources else "no other source", 2, of=STEPS)
        right = measuring.check(sources)
        progress.step(f"measuring {', '.join((ORIGINAL, *right, *chosen.providers))}", 3, of=STEPS)
        measuring.measure(right)
    result = _result(workspace.kernel, measuring, sources, asked, config, replayed=recording is not None)
    _write(workspace, measuring, result)
    return result


def _bench(
    worker: StoredWorker,
    target: TargetRef,
    spec: TargetSpec,
    workspace: BenchWorkspace,
    asked: Asked,
    progress: Progress,
) -> Bench:
    return Bench(
        worker=worker,
        target=target,
        spec=spec,
        device=answer_of(worker, Inspect(target=target), DeviceFacts),
        original=kept(workspace, ORIGINAL, read_source(Path(target.root) / spec.source)),
        keep=lambda name, text: kept(workspace, name, text.encode()),
        report=progress.note,
        method=asked.method,
    )


def _result(
    kernel: str,
    measuring: Measuring,
    sources: dict[str, SourceRef],
    asked: Asked,
    config: ProjectConfig,
    *,
    replayed: bool,
) -> BenchResult:
    """Raises Unavailable or PreflightError where there is not one figure."""
    chosen, device = measuring.chosen, measuring.bench.device
    rows = bench_rows(measuring.seen, measuring.places, chosen, device, config.thresholds.minimum_effect)
    if not any(row.time_ms for row in rows):
        if replayed:
            raise Unavailable(
                f"the recording of {kernel} has no answer to any of this: it holds what its run asked, which is "
                "measured on a GPU",
                next_command=f"warpsmith bench {kernel}   (on a machine with a GPU)",
            )
        raise PreflightError(f"nothing of {kernel} could be timed: {rows[0].unavailable}")
    return BenchResult(
        kernel=kernel,
        source=chosen.source,
        sources={ORIGINAL: measuring.bench.original.sha256, **{name: ref.sha256 for name, ref in sources.items()}},
        providers=chosen.providers,
        cases=tuple(case.name for case in chosen.cases),
        modes=chosen.modes,
        l2=asked.l2,
        method=asked.method,
        device=device,
        origin=origin_of(device, replayed=replayed),
        excluded={**measuring.excluded, **chosen.missing_providers},
        rows=rows,
        notes=measuring.notes(),
        minimum_effect=config.thresholds.minimum_effect,
    )


def _write(workspace: BenchWorkspace, measuring: Measuring, result: BenchResult) -> None:
    """The table as CSV, the plots, and last bench.json."""
    seen, shown = measuring.seen, {*result.sources, *result.providers}
    frame = results_frame(
        measuring.chosen,
        seen.timings,
        seen.memories,
        result.device,
        sources=result.sources,
        host_times=seen.host_times,
    )
    frame = frame[frame["kernel_provider"].isin(shown)]
    write_text(workspace.csv, to_csv(frame, result.origin))
    save_bench_plots(workspace.plots, result)
    write_document(workspace.result, result)
