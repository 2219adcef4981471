"""Tunes the launch settings of a kernel and judges the variant, with no profile before it and nothing else changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from jobs import Telling

from tuning.kept import TUNED, KeptReading, SweptPass, Tuned
from tuning.tally import Tally
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.request import Request
from warpsmith.contracts.variant import VariantStatus
from warpsmith.project.config import ProjectConfig, load_config
from warpsmith.project.snapshot import read_source
from warpsmith.report.diff import unified_diff
from warpsmith.search.bench import Bench
from warpsmith.search.strategies.base import Inapplicable, Proposal
from warpsmith.search.strategies.tuned import tuned
from warpsmith.search.tuning.catalogue import Searched, originals
from warpsmith.search.tuning.results import Tuning
from warpsmith.source.encoding import encoded
from warpsmith.stages.beginning import settled_goal
from warpsmith.stages.inspecting import inspect
from warpsmith.stages.judge import Judgement, time_copy
from warpsmith.stages.narrowing import judge_proposal
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.session import Session, open_session, source_ref, text_of
from warpsmith.stages.timings import COPY
from warpsmith.verdict.noise import noise_floor
from warpsmith.workspace.documents import write_bytes
from warpsmith.workspace.layout import Workspace


@dataclass(frozen=True)
class Kernel:
    """A kernel of a scratch project with a session that asks about it. `text` is its source."""

    name: str
    of: str
    session: Session
    bench: Bench
    text: str


@contextmanager
def opened(root: Path, kernel: str, of: str, tell: Callable[[str], None]) -> Iterator[Kernel]:
    """Raises Unavailable where there is no GPU, PreflightError for a target that cannot be loaded, WorkerError."""
    config: ProjectConfig = load_config(root)
    workspace = Workspace(root, kernel)
    workspace.create()
    request = Request(
        kernel=kernel,
        run_id="tuned",
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        autonomous=True,
    )
    with open_session(root, config, workspace, request, Telling(tell)) as session:
        yield kernel_of(session, of)


def kernel_of(session: Session, of: str) -> Kernel:
    """The kernel that a session is about, its source as it is now. Raises PreflightError, WorkerError.

    The session's goal is settled as a profile does it: a kernel without a backward pass has its forward pass for one.
    """
    spec, workspace = session.describe(), session.workspace
    goal = settled_goal(session.request.goal, spec, f"warpsmith run {session.request.kernel}")
    session.request = session.request.model_copy(update={"goal": goal})
    write_bytes(workspace.original, read_source(session.root / spec.source))
    bench = session.bench(spec, inspect(session))
    return Kernel(session.request.kernel, of, session, bench, text_of(workspace.original))


def launched(kernel: Kernel) -> list[tuple[Mode, str]]:
    """Each pass with the jit functions of the source that it launches at any tuning case. Raises WorkerError."""
    found: dict[tuple[Mode, str], None] = {}
    for mode in kernel.bench.spec.passes:
        catalogues, failures = originals(Searched(kernel.bench, kernel.bench.original, mode))
        for name, why in failures.items():
            kernel.bench.report(f"{name} {mode.value} was left out: {why}")
        found.update({(mode, e.jit_function): None for each in catalogues.values() for e in each.launches})
    return list(found)


def tune_alone(kernel: Kernel) -> Tuned:
    """The variant by settings alone, and the judgement on it beside the original. Raises WorkerError."""
    began_s, session, bench = time.monotonic(), kernel.session, kernel.bench
    tally = Tally(bench.worker)
    rules = Rules.of(session.request, session.config.thresholds, bench.spec, None)
    floor = noise_floor(time_copy(bench, rules, kernel.text), ORIGINAL, COPY, weights=rules.weights)
    rules = replace(rules, noise_floor=floor)
    proposal, judgement = None, Judgement(VariantStatus.INAPPLICABLE)
    try:
        proposal = tuned(replace(bench, worker=tally), kernel.text, launched(kernel))
        proposal, judgement = judge_proposal(bench, rules, kernel.text, proposal, lambda each: _placed(kernel, each))
    except Inapplicable as reason:
        judgement = replace(judgement, detail=str(reason))
    sweeps = proposal.sweeps if proposal else ()
    return Tuned(
        kernel=kernel.name,
        of=kernel.of,
        elapsed_s=round(time.monotonic() - began_s, 1),
        device=bench.device,
        noise_floor=floor,
        status=judgement.status,
        detail=judgement.detail,
        changes=proposal.changes if proposal else (),
        learnings=proposal.learnings if proposal else (),
        diff=unified_diff(kernel.text, proposal.source, "original", TUNED) if proposal else "",
        device_time_ms=tally.device_time_ms,
        passes=tuple(map(_swept, sweeps)),
        verdict=judgement.verdict,
        timings=judgement.timings,
    )


def _placed(kernel: Kernel, proposal: Proposal) -> Standing:
    path, original = kernel.session.workspace.variant(1), kernel.session.workspace.original.read_bytes()
    write_bytes(path, encoded(proposal.source, original))
    return Standing(name=TUNED, source=source_ref(path), text=proposal.source)


def _swept(tuning: Tuning) -> SweptPass:
    return SweptPass(
        mode=tuning.mode,
        jit_function=next((knob.jit_function for knob in (*tuning.knobs, *tuning.inert_knobs)), ""),
        knobs=tuple(knob.name for knob in tuning.knobs),
        inert=tuple(knob.name for knob in tuning.inert_knobs),
        planned_ms=tuning.device_time_ms,
        stopped=tuning.stopped,
        readings=tuple(
            KeptReading(
                case=each.case.name, settings=each.settings, time_ms=each.time_ms, final=each.final, note=each.note
            )
            for each in tuning.readings
        ),
    )
