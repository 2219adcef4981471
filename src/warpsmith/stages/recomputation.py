"""Goes through a run's stages again, in a folder of its own, with nothing but the run's raw answers.

The stages are functions of request, snapshot and answers. What they cannot be asked for again (what the kernel's tests
and the style command said, what a clock said) is as the run has it. Reads the run, and writes below the folder alone.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsmith.contracts.errors import Unavailable, WarpsmithError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Outcome
from warpsmith.contracts.verification import Difference
from warpsmith.measure.worker.identity import PROTOCOL_VERSION
from warpsmith.measure.worker.misses import protocol_of
from warpsmith.measure.worker.protocol import Describe, Identify, TargetRef, WorkerError, answer_of
from warpsmith.measure.worker.stored import OFFLINE_KINDS, StoredWorker
from warpsmith.project.config import ProjectConfig
from warpsmith.project.snapshot import read_source, sha256_of
from warpsmith.stages import applying, finalizer
from warpsmith.stages.confirmation import confirm
from warpsmith.stages.machine import TOLD_BY_THE_MACHINE
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.samples import Samples
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_bytes
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

PROFILE, OPTIMIZE, FINALIZE = "profile", "optimize", "finalize"

#: What a stage may end in where an answer has the right form and says what cannot be.
_SENSELESS = (ValueError, ArithmeticError, TypeError, LookupError)

_OUT_OF_TIME = re.compile(r"time budget used: (\d+) s of")


@dataclass
class Asked:
    """The answers that the stages asked for, in memory. Answers that need no GPU are there from the start."""

    kept: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def get(self, identity: str) -> Mapping[str, Any] | None:
        return self.kept.get(identity)

    def append(self, *, identity: str, **record: Any) -> None:
        self.kept[identity] = {"identity": identity, **record}

    def take_over(self, record: Mapping[str, Any]) -> None:
        self.kept[record["identity"]] = record

    def records(self) -> Iterable[Mapping[str, Any]]:
        return self.kept.values()


@dataclass
class Recomputed:
    """What came of it. `workspace` has what the finished `stages` wrote; `broken_off` is the one that did not."""

    workspace: Workspace
    asked: Mapping[str, Mapping[str, Any]]
    stages: list[str] = field(default_factory=list)
    broken_off: str | None = None
    differences: list[Difference] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    not_compared: set[str] = field(default_factory=set)


class Steps:
    """A stage's progress, of which the steps alone are told."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def step(self, text: str, number: int | None = None, *, of: int | None = None, at_most: int | None = None) -> None:
        self._tell(text)

    def note(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Not told."""

    def best(self, text: str) -> None:
        """Not told."""


def recompute(
    run: Workspace, config: ProjectConfig, samples: Samples, root: Path, tell: Callable[[str], None]
) -> Recomputed:
    """The stages that the run has finished, gone through again below `root`, an empty folder.

    Raises UsageError where a document of the run cannot be read, Unavailable where its answers are of another protocol.
    """
    request = read_document(run.request, Request)
    read_document(run.profile, Profile)
    if run.final_result.is_file():
        read_document(run.final_result, FinalResult)
    session = _session(run, config, samples, root, tell)
    asked = session.worker.store
    assert isinstance(asked, Asked)
    again = Recomputed(session.workspace, asked.kept)
    for stage, go_through in _finished_stages(run, session, again):
        tell(f"{stage} of run {request.run_id}, from its answers")
        try:
            go_through()
        except (WarpsmithError, WorkerError, *_SENSELESS) as error:
            again.broken_off = stage
            told = f"{type(error).__name__}: {error}" if isinstance(error, _SENSELESS) else str(error)
            found = f"the answers do not lead to where the run says: {told}"
            again.differences.append(Difference(document=samples.name, place=f"stage {stage}", found=found))
            break
        again.stages.append(stage)
    return again


def _session(
    run: Workspace,
    config: ProjectConfig,
    samples: Samples,
    root: Path,
    tell: Callable[[str], None],
) -> Session:
    """A session below `root`: the kernel as it was, and answers in the place of a GPU."""
    target = _target(samples, run, root)
    workspace = Workspace(root, run.kernel)
    workspace.create()
    write_bytes(workspace.request, run.request.read_bytes())
    for event in run.events():
        if (name := event.get("event")) in TOLD_BY_THE_MACHINE:
            told = {key: value for key, value in event.items() if key not in ("event", "at")}
            workspace.log(name, **{**TOLD_BY_THE_MACHINE[name], **told})
    write_bytes(workspace.original, read_source(run.original))
    request = read_document(workspace.request, Request)
    offline = {r["identity"]: r for r in _offline_answers(run, samples, request) if r["kind"] in OFFLINE_KINDS}
    worker = StoredWorker(
        Asked(offline),
        None,
        Identify(target=target),
        recording=samples.store,
        compiler=_compiler_of(offline.values()),
    )
    return Session(root, config, workspace, request, worker, target, Steps(tell), _clock_of(run, workspace, request))


def _target(samples: Samples, run: Workspace, root: Path) -> TargetRef:
    """The target file that was asked about, by the latest description of it. Raises Unavailable where nothing was."""
    records = [record for record in samples.store.records() if protocol_of(record) == PROTOCOL_VERSION]
    describing = [record for record in records if record["kind"] == Describe.model_fields["kind"].default]
    for record in reversed((*records, *describing)):
        with contextlib.suppress(ValidationError, LookupError, TypeError):
            sha256 = record["question"]["target"]["sha256"]
            return TargetRef(path=str(root / "target.py"), root=str(root), sha256=sha256)
    renew = f"warpsmith record {run.kernel}" if samples.recording else f"warpsmith run {run.kernel} --fresh"
    raise Unavailable(
        f"{samples.name} has no answer to a question of protocol {PROTOCOL_VERSION}, which this warpsmith asks: only "
        "the version that measured the run can verify it",
        next_command=f"{renew}   (on a machine with a GPU)",
    )


def _offline_answers(run: Workspace, samples: Samples, request: Request) -> Iterable[Mapping[str, Any]]:
    """Where answers that need no GPU are: with the run's own, also when it replayed a recording."""
    return MeasurementStore(run.measurements).records() if request.recording else samples.store.records()


def _compiler_of(offline: Iterable[Mapping[str, Any]]) -> str | None:
    """The triton that compiled here last: but for what was replayed, what another compiled was compiled again."""
    versions = [(record["environment"] or {}).get("triton") for record in offline if not record.get("replayed")]
    return versions[-1] if versions else None


def _clock_of(run: Workspace, workspace: Workspace, request: Request) -> Callable[[], float]:
    """Stands still, but runs out after as many variants as the run tried before its time was used up."""
    if not run.search_result.is_file():
        return lambda: 0.0
    search = read_document(run.search_result, SearchResult)
    used = _OUT_OF_TIME.match(search.stop_reason)
    if used is None:
        return lambda: 0.0
    out_of_time_s, readings = max(float(used[1]), request.time_budget_s), itertools.count()

    def clock() -> float:
        begins = next(readings) == 0
        return 0.0 if begins or len(workspace.variant_records()) < len(search.variants) else out_of_time_s

    return clock


def _finished_stages(run: Workspace, session: Session, again: Recomputed) -> Iterable[tuple[str, Callable[[], object]]]:
    yield PROFILE, lambda: _profile(session)
    if not run.search_result.is_file():
        if run.variant_records():
            again.left_out.append("the variants so far: the search has not ended")
        return
    yield OPTIMIZE, lambda: optimize(session)
    if run.final_result.is_file():
        yield FINALIZE, lambda: _finalize(session, run, again)


def _profile(session: Session) -> None:
    spec = answer_of(session.worker, Describe(target=session.target), TargetSpec)
    write_bytes(session.root / spec.source, read_source(session.workspace.original))
    for argument in spec.tests:
        path = session.root / argument.partition("::")[0]
        if not argument.startswith("-") and path.resolve().is_relative_to(session.root.resolve()):
            with contextlib.suppress(OSError):  # they are not run: that they were there is all that is asked
                path.mkdir(parents=True, exist_ok=True)
    profile(session)


def _finalize(session: Session, run: Workspace, again: Recomputed) -> None:
    """The end of the run, with nothing applied: what only a machine can tell is as the run has it."""
    found = read_document(session.workspace.profile, Profile)
    search = read_document(session.workspace.search_result, SearchResult)
    confirmation = None if search.winner is None else confirm(session, found, search)
    if confirmation is None:
        result = finalizer.no_improvement(session, found, search)
    elif confirmation.verdict.outcome is not Outcome.ACCEPTED:
        result = finalizer.not_confirmed(session, found, search, confirmation)
    else:
        result = _behind_tests(session, run, found, search, again)
    finalizer.conclude(session, found, search, result, confirmation)


def _behind_tests(
    session: Session, run: Workspace, found: Profile, search: SearchResult, again: Recomputed
) -> FinalResult:
    """What became of a winner that was confirmed: what its tests and the style command said is not asked again."""
    stored = read_document(run.final_result, FinalResult)
    again.left_out.append("what the kernel's tests and the style command said: as the run has it")
    reverted = stored.outcome is FinalOutcome.REVERTED
    outcome = FinalOutcome.REVERTED if reverted else FinalOutcome.APPLIED
    reason = stored.reason if reverted else finalizer.why_applied(search.origin.kind, stored.failed_tests)
    told: dict[str, object] = {"tests": stored.tests, "failed_tests": stored.failed_tests, "style": stored.style}
    if not reverted:
        assert search.winner is not None
        winner = read_source(session.workspace.variant(search.winner))
        told["applied_sha256"] = _put_in_place(session, run.root / found.source, winner, stored, again)
    return finalizer.result_of(session, found, search, outcome, reason).model_copy(update=told)


def _put_in_place(session: Session, production: Path, winner: bytes, stored: FinalResult, again: Recomputed) -> str:
    """The applied file below the folder, for the report shows it. Returns the sha256 that it must have had."""
    content, applied = winner, sha256_of(winner)
    if applying.LAID_OUT_ANEW in (stored.style or "") and stored.applied_sha256 is not None:
        styled = production.read_bytes() if production.is_file() else b""
        applied = stored.applied_sha256
        if sha256_of(styled) == applied and applying.same_code(winner, styled):
            content = styled
        else:
            pages = session.workspace.report_page.name, session.workspace.report_html.name
            again.not_compared.update(pages)
            again.left_out.append(
                f"{' and '.join(pages)}: they show the winner in the layout that the style command gave it, and the "
                "file has changed since"
            )
    write_bytes(session.root / read_document(session.workspace.profile, Profile).source, content)
    return applied
