"""Stage 1: measures the kernel as it is, reads its source, and says what holds it back and what to try first."""

from __future__ import annotations

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts, TargetGpu
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL, Counters
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.known_gpus import known_gpu, target_gpu_of
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.profile import assemble
from warpsmith.measure.worker.protocol import Count, Inspect
from warpsmith.project.snapshot import file_sha256, read_source
from warpsmith.report.pages import render_profile
from warpsmith.report.tables import baseline_frame, to_csv
from warpsmith.search.bench import Bench
from warpsmith.stages.baselines import measure_baselines
from warpsmith.stages.guarding import guard
from warpsmith.stages.offline import compile_offline
from warpsmith.stages.preflight import preflight_correctness, preflight_files, preflight_launches, preflight_source
from warpsmith.stages.session import Session
from warpsmith.stages.timings import heaviest_tuning_case, pairs
from warpsmith.workspace.documents import write_bytes, write_document, write_text
from warpsmith.workspace.layout import Workspace

#: What a person is told step by step, and one more where code is compiled for a GPU that is not there.
STEPS = 5


def profile(session: Session) -> Profile:
    """Runs stage 1 and writes profile.json and profile.md. Raises PreflightError, WorkerError."""
    progress, workspace = session.progress, session.workspace
    progress.step("pre-flight", 1, of=_steps(session))
    spec = session.describe()
    _settle_goal(session, spec)
    preflight_files(session.root, spec)
    _snapshot(session, spec)
    guard(session, spec)
    audit = preflight_source(read_source(workspace.original), spec)
    launches = preflight_launches(session, spec)
    progress.step("device facts and ceilings", 2, of=_steps(session))
    device = session.ask(Inspect(target=session.target), DeviceFacts)
    progress.step(f"correctness of the original at {len(spec.cases)} cases", 3, of=_steps(session))
    preflight_correctness(session, spec)
    bench = session.bench(spec, device)
    progress.step(f"baselines: {', '.join((ORIGINAL, *spec.providers))}", 4, of=_steps(session))
    measured = measure_baselines(bench)
    counters = _counters(session, bench)
    evidence = Evidence(
        spec=spec,
        device=device,
        audit=audit,
        launches=launches,
        timings=tuple(measured.timings),
        memories=tuple(measured.memories),
        counters=counters,
        warm_timings=tuple(measured.warm_timings),
        host_times=tuple(measured.host_times),
        no_host_time=measured.no_host_time,
    )
    result = assemble(evidence, session.request, session.origin(device))
    if (gpu := _gpu_to_compile_for(session, device)) is not None:
        progress.step(f"compiling for {gpu.name}, with no GPU", 6, of=_steps(session))
        result = result.model_copy(update={"offline": compile_offline(session, spec, bench.original, gpu)})
    _write(workspace, evidence, result)
    return result


def _write(workspace: Workspace, evidence: Evidence, result: Profile) -> None:
    timings = (*evidence.timings, *evidence.warm_timings)
    frame = baseline_frame(evidence.spec, timings, evidence.memories, evidence.device, host_times=evidence.host_times)
    write_text(workspace.baseline_csv, to_csv(frame, result.origin))
    write_text(workspace.profile_page, render_profile(result))
    write_document(workspace.profile, result)
    workspace.log("profiled")


def _steps(session: Session) -> int:
    request = session.request
    return STEPS + int(request.target_gpu is not None or request.recording is not None)


def _gpu_to_compile_for(session: Session, device: DeviceFacts) -> TargetGpu | None:
    """The GPU that was asked for, or on replay the one that was recorded; a run on a GPU has its own code's facts."""
    if session.request.target_gpu is not None:
        return known_gpu(session.request.target_gpu)
    return None if session.request.recording is None else target_gpu_of(device)


def _settle_goal(session: Session, spec: TargetSpec) -> None:
    """The goal among the target's modes. A kernel without a backward pass has its forward pass for a goal.

    Raises PreflightError for another goal that the target does not have.
    """
    request = session.request
    if request.goal in spec.modes:
        return
    if request.goal is not Mode.FULL or len(spec.modes) > 1:
        modes = ", ".join(mode.value for mode in spec.modes)
        raise PreflightError(
            f"the goal {request.goal.value} is not among the modes of {spec.name}: {modes}",
            next_command=f"warpsmith run {request.kernel} --goal {spec.modes[0].value} --fresh",
        )
    session.request = request.model_copy(update={"goal": spec.modes[0]})
    write_document(session.workspace.request, session.request)
    session.progress.note(f"{spec.name} has one mode, so the goal is {session.request.goal.value}")


def _snapshot(session: Session, spec: TargetSpec) -> None:
    """The production file's bytes, kept once. Raises PreflightError where the file has changed since."""
    production, snapshot = session.root / spec.source, session.workspace.original
    if not snapshot.is_file():
        write_bytes(snapshot, read_source(production))
    if file_sha256(snapshot) != spec.source_sha256:
        raise PreflightError(
            f"{spec.source} has changed since this run began",
            next_command=f"warpsmith run {session.request.kernel} --fresh",
        )


def _counters(session: Session, bench: Bench) -> tuple[Counters, ...]:
    """Hardware counters of each pass at the heaviest tuning case."""
    session.progress.step("hardware counters (ncu)", 5, of=_steps(session))
    counters: list[Counters] = []
    todo = pairs([heaviest_tuning_case(bench.spec)], bench.spec.passes)
    for index, (case, mode) in enumerate(todo):
        session.progress.note(f"ncu: {case.name} {mode.value}", index, len(todo))
        question = Count(target=bench.target, seed=bench.seed, source=bench.original, case=case, mode=mode)
        counters.append(session.ask(question, Counters))
        if counters[-1].unavailable is not None:
            session.progress.note(f"ncu: {counters[-1].unavailable}")
            break  # what refuses one launch refuses them all
    return tuple(counters)
