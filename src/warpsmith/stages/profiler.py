"""Stage 1: measures the kernel as it is, reads its source, and says what holds it back and what to try first."""

from __future__ import annotations

from dataclasses import asdict

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.device import DeviceFacts, TargetGpu
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import OfflineCompilation, Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.known_gpus import known_gpu, target_gpu_of
from warpsmith.device.notes import device_notes
from warpsmith.device.predicted import predicted_facts
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.profile import assemble
from warpsmith.project.snapshot import file_sha256, read_source
from warpsmith.report.pages import render_profile
from warpsmith.report.roofline import save_roofline
from warpsmith.report.samples import samples_csv
from warpsmith.report.tables import baseline_frame, to_csv
from warpsmith.stages.aiming import bench_in_regime, expect_aim_fits
from warpsmith.stages.baselines import measure_baselines
from warpsmith.stages.beginning import settled_goal
from warpsmith.stages.checkpoints import profile_command
from warpsmith.stages.counting import count_or_time
from warpsmith.stages.guarding import guard
from warpsmith.stages.inspecting import inspect
from warpsmith.stages.machine import listed_gpus, software
from warpsmith.stages.offline import compile_offline
from warpsmith.stages.prediction import gpu_of
from warpsmith.stages.preflight import (
    odd_names,
    preflight_correctness,
    preflight_files,
    preflight_launches,
    preflight_source,
    preflight_without_running,
    refuse_uncompilable,
)
from warpsmith.stages.probing import probe_settings
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import write_bytes, write_document, write_text
from warpsmith.workspace.layout import Workspace

#: What a person is told step by step, and one more where code is compiled for a GPU that is not there.
STEPS, PREDICTED_STEPS = 6, 3


def profile(session: Session) -> Profile:
    """Runs stage 1 and writes profile.json and profile.md. Raises PreflightError, WorkerError."""
    session.progress.step("pre-flight", 1, of=_steps(session))
    session.progress.note("loading the target")
    spec = session.describe()
    for odd in odd_names(spec, session.request.kernel):
        session.progress.note(f"mind: {odd}")
    _settle_goal(session, spec)
    expect_aim_fits(session.request, spec)
    preflight_files(session.root, spec)
    _snapshot(session, spec)
    guard(session, spec)
    audit = preflight_source(read_source(session.workspace.original), spec)
    observed = _predict if session.request.predicted else _measure
    evidence, offline = observed(session, spec, audit)
    result = assemble(evidence, session.request, session.origin(evidence.device))
    result = result.model_copy(update={"offline": offline})
    _write(session.workspace, evidence, result)
    return result


def _measure(session: Session, spec: TargetSpec, audit: SourceAudit) -> tuple[Evidence, OfflineCompilation | None]:
    """What a GPU tells, or what one told when it was recorded. Raises PreflightError, WorkerError."""
    progress, steps = session.progress, _steps(session)
    launches = preflight_launches(session, spec)
    progress.step("device facts and ceilings", 2, of=steps)
    device = inspect(session)
    progress.step(f"correctness of the original at {len(spec.cases)} cases", 3, of=steps)
    preflight_correctness(session, spec)
    bench = session.bench(spec, device)
    progress.step(f"baselines: {', '.join((ORIGINAL, *spec.providers))}", 4, of=steps)
    measured = measure_baselines(bench)
    progress.step("hardware counters (ncu)", 5, of=steps)
    counters, durations = count_or_time(bench_in_regime(bench, session.request), measured.timings)
    progress.step("what each launch setting changes of the code", 6, of=steps)
    probes = probe_settings(session, bench, audit, launches, target_gpu_of(device))
    offline = _compiled_for_another(session, spec, device)
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
        durations=durations,
        probes=probes,
        device_notes=device_notes(_asked_for(session), device, listed_gpus(session)),
    )
    return evidence, offline


def _predict(session: Session, spec: TargetSpec, audit: SourceAudit) -> tuple[Evidence, OfflineCompilation | None]:
    """What source, cost model and compiler tell without running anything. Raises PreflightError.

    Launches that cannot be had without a GPU are a reason in the compilation, and no error.
    """
    gpu = gpu_of(session.request)
    device = predicted_facts(gpu, **asdict(software(session, gpu)))
    session.progress.note(f"compiling the first call for {gpu.name}")
    preflight_without_running(session, spec, gpu)
    session.progress.step(f"compiling for {gpu.name}", 2, of=_steps(session))
    offline = compile_offline(session, spec, session.original, gpu)
    refuse_uncompilable(session, spec, gpu)
    session.progress.step("what each launch setting changes of the code", 3, of=_steps(session))
    probes = probe_settings(session, session.bench(spec, device), audit, offline.launches, gpu)
    evidence = Evidence(
        spec=spec,
        device=device,
        audit=audit,
        launches=offline.launches,
        timings=(),
        probes=probes,
        device_notes=device_notes(gpu, device, None),
        notes=offline.notes,
    )
    return evidence, offline


def _compiled_for_another(session: Session, spec: TargetSpec, device: DeviceFacts) -> OfflineCompilation | None:
    """For the GPU that was asked for, or on replay the one that was recorded: a GPU's own code is known by itself."""
    replayed = session.request.recording is not None
    gpu = _asked_for(session) or (target_gpu_of(device) if replayed else None)
    if gpu is None:
        return None
    session.progress.step(f"compiling for {gpu.name}, with no GPU", STEPS + 1, of=_steps(session))
    return compile_offline(session, spec, session.original, gpu)


def _asked_for(session: Session) -> TargetGpu | None:
    return None if session.request.target_gpu is None else known_gpu(session.request.target_gpu)


def _write(workspace: Workspace, evidence: Evidence, result: Profile) -> None:
    """profile.json last: where it lies, the rest does."""
    if evidence.timings:
        timings = (*evidence.timings, *evidence.warm_timings)
        frame = baseline_frame(
            evidence.spec, timings, evidence.memories, evidence.device, host_times=evidence.host_times
        )
        write_text(workspace.baseline_csv, to_csv(frame, result.origin))
        comparisons = {"cold": evidence.timings, "warm": evidence.warm_timings}
        write_text(workspace.samples_csv(0), samples_csv(comparisons, evidence.memories, result.origin))
    save_roofline(result, workspace.plots)
    write_text(workspace.profile_page, render_profile(result))
    write_document(workspace.profile, result)
    workspace.log("profiled")


def _steps(session: Session) -> int:
    request = session.request
    if request.predicted:
        return PREDICTED_STEPS
    return STEPS + int(request.target_gpu is not None or request.recording is not None)


def _settle_goal(session: Session, spec: TargetSpec) -> None:
    """Raises PreflightError for a goal that the target does not have."""
    request = session.request
    goal = settled_goal(request.goal, spec, _command_anew(request))
    if goal is request.goal:
        return
    session.request = request.model_copy(update={"goal": goal})
    write_document(session.workspace.request, session.request)
    session.progress.note(f"{spec.name} has one mode, so the goal is {goal.value}")


def _snapshot(session: Session, spec: TargetSpec) -> None:
    """The production file's bytes, kept once. Raises PreflightError where the file has changed since."""
    production, snapshot = session.root / spec.source, session.workspace.original
    if not snapshot.is_file():
        write_bytes(snapshot, read_source(production))
    if file_sha256(snapshot) != spec.source_sha256:
        again = _command_anew(session.request)
        raise PreflightError(f"{spec.source} has changed since this run began", next_command=again)


def _command_anew(request: Request) -> str:
    """What begins such a run afresh, where this one can be begun."""
    return f"{profile_command(request) if request.predicted else f'warpsmith run {request.kernel}'} --fresh"
