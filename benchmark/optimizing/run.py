"""Takes a kernel of a scratch project through profile and search, as the commands do, and measures the winner afresh.

Owns what is gone through and what is kept of it. A run that is stopped goes on from its workspace, in another scratch
project and on another GPU of that model too: its stages ask again, and what was answered is not measured again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from jobs import Telling

from optimizing.kept import Optimized, Tried
from warpsmith import __version__
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Verdict
from warpsmith.measure.worker.protocol import Time
from warpsmith.project.config import load_config
from warpsmith.report.diff import unified_diff
from warpsmith.stages.confirmation import confirm
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.runs import Options, begin
from warpsmith.stages.session import Session, open_session, text_of
from warpsmith.verdict.statistics import pooled
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock
from warpsmith.workspace.store import MeasurementStore

#: Opens a session of a run as it stands: every stage has one of its own, with processes that have just started.
Opened = Callable[[], AbstractContextManager[Session]]


def optimized_in(root: Path, kernel: str, of: str, source_sha256: str, tell: Callable[[str], None]) -> Optimized:
    """A kernel of a scratch project, from where its workspace stands to the end.

    Raises Unavailable where there is no GPU, or another than the run began with; PreflightError, WorkerError; and
    whatever `tell` raises, after which the workspace is as whole as before.
    """
    config, workspace = load_config(root), Workspace(root, kernel)
    with run_lock(workspace):
        begin(workspace, kernel, Options(autonomous=True))

        @contextmanager
        def opened() -> Iterator[Session]:
            request = read_document(workspace.request, Request)
            with open_session(root, config, workspace, request, Telling(tell)) as session:
                yield session

        return gone_through(workspace, opened, of, source_sha256)


def gone_through(workspace: Workspace, opened: Opened, of: str, source_sha256: str) -> Optimized:
    """Every stage that the run has not ended yet. `source_sha256` is what the cases were fixed for."""
    if not workspace.profile.is_file():
        with opened() as session:
            profile(session)
    found = read_document(workspace.profile, Profile)
    if found.is_predicted:
        raise PreflightError("nothing was measured; expected a GPU")
    if found.source_sha256 != source_sha256:
        raise PreflightError(
            f"{found.source} has sha256 {found.source_sha256[:12]}; expected {source_sha256[:12]}, for which the cases "
            "that count were fixed"
        )
    if not workspace.search_result.is_file():
        with opened() as session:
            optimize(session)
    search = read_document(workspace.search_result, SearchResult)
    if search.winner is None:
        return _kept(workspace, found, search, of)
    with opened() as session:
        session.expect_environment_of(found.device)
        confirmed = confirm(session, found, search).verdict
    return _won(_kept(workspace, found, search, of), workspace, confirmed)


def _kept(workspace: Workspace, found: Profile, search: SearchResult, of: str) -> Optimized:
    return Optimized(
        kernel=workspace.kernel,
        of=of,
        warpsmith=__version__,
        run_id=search.run_id,
        sittings_s=(),
        device=found.device,
        goal=found.goal,
        source_sha256=found.source_sha256,
        noise_floor=search.noise_floor,
        stop_reason=search.stop_reason,
        tried=tuple(Tried.of(_variant(workspace, number)) for number in search.variants),
        winner=search.winner,
        winner_sha256=search.winner_sha256,
    )


def _won(kept: Optimized, workspace: Workspace, confirmed: Verdict) -> Optimized:
    """With what there is to keep of its winner."""
    assert kept.winner is not None and kept.winner_sha256 is not None
    winner, path = _variant(workspace, kept.winner), workspace.variant(kept.winner)
    diff = unified_diff(text_of(workspace.original), text_of(path), workspace.original.name, path.name)
    timings = final_timings(MeasurementStore(workspace.measurements), kept.winner_sha256)
    return kept.model_copy(
        update={
            "changes": winner.changes,
            "diff": diff,
            "searched": winner.verdict,
            "confirmed": confirmed,
            "timings": timings,
        }
    )


def final_timings(store: MeasurementStore, winner_sha256: str) -> tuple[Timing, ...]:
    """What a confirmation asked for, by its answers: the processes of one comparison together, in their order.

    The winner goes by that name in a confirmation alone.
    """
    seeded: dict[str, list[tuple[int, Timing]]] = {}
    for record in store.records():
        if record["kind"] != Time.model_fields["kind"].default or "failure" in record["answer"]:
            continue
        question = record["question"]
        sides = [(each["name"], (each["source"] or {}).get("sha256")) for each in question["contenders"]]
        if len(sides) == 2 and sides[0][0] == ORIGINAL and sides[1] == (OPTIMIZED, winner_sha256):
            timing = Timing.model_validate(record["answer"])
            place = f"{timing.mode.value} {timing.case.name}"
            seeded.setdefault(place, []).append((question["seed"], timing))
    in_order = [[timing for _, timing in sorted(each, key=lambda at: at[0])] for each in seeded.values()]
    return tuple(timing for each in in_order for timing in _together(each))


def _together(timings: list[Timing]) -> list[Timing]:
    """One timing; all of them where a process timed by another method than the one before, which no winner survives."""
    try:
        return [functools.reduce(pooled, timings)]
    except ValueError:
        return timings


def _variant(workspace: Workspace, number: int) -> Variant:
    return read_document(workspace.variant_record(number), Variant)
