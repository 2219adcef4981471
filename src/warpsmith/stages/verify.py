"""Recomputes a run from its raw answers and names every place where what is on disk says otherwise.

Needs no GPU and touches nothing of the run. Guardrails are those of warpsmith.yaml as it is now.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from warpsmith.contracts.base import Document
from warpsmith.contracts.errors import PreflightError, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verification import Difference, Verification
from warpsmith.project.config import ProjectConfig
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import file_sha256
from warpsmith.stages.differences import Compared, compare_documents, compare_tables, compare_texts
from warpsmith.stages.recomputation import FINALIZE, OPTIMIZE, PROFILE, Recomputed, recompute
from warpsmith.stages.samples import Samples, damage_of, elsewhere, otherwise_copied, otherwise_recorded, samples_of
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Fields of report.json that no sample says anything of.
_NOT_RECOMPUTED = frozenset({"tests", "failed_tests", "style", "taken_back_at"})


def verify(run: Workspace, config: ProjectConfig, target_path: Path, tell: Callable[[str], None]) -> Verification:
    """The current run or, with a PastRun, an earlier one. `tell` hears what is being recomputed.

    Raises UsageError where there is no run, or where its answers are gone or cannot be read; PreflightError where it
    has no profile yet; Unavailable where another protocol than this version's measured it.
    """
    kernel = run.kernel
    if not run.request.is_file():
        raise UsageError(f"no run of {kernel} has begun: nothing to verify", next_command=f"warpsmith run {kernel}")
    request = read_document(run.request, Request)
    if not run.profile.is_file():
        raise PreflightError(
            f"nothing to verify yet: run {request.run_id} of {kernel} has no profile",
            next_command=f"warpsmith profile {kernel}",
        )
    recorded = RecordedRun.of(target_path, kernel)
    samples = samples_of(run, request, recorded)
    answers = len(samples.store.written())
    tell(f"checking {answers} raw answers of {samples.name}")
    differences = [*damage_of(samples), *_changed_snapshot(run)]
    with tempfile.TemporaryDirectory(prefix="warpsmith-verify-") as folder:
        again = recompute(run, config, samples, Path(folder).resolve(), tell)
        differences += [*again.differences, *_of_the_answers(run, samples, again, recorded, request)]
        compared = tuple(_compared(run, again))
        differences += [difference for each in compared for difference in each.differences]
        differences += _of_no_variant(run, again)
    return Verification(
        kernel=kernel,
        run_id=request.run_id,
        stages=tuple(again.stages),
        samples=samples.name,
        answers=answers,
        asked=len(again.asked),
        documents=len(compared),
        numbers=sum(each.numbers for each in compared),
        lines=sum(each.lines for each in compared),
        differences=tuple(differences),
        left_out=(*samples.notes, *again.left_out, *_never_compared(samples, again, request)),
    )


def _never_compared(samples: Samples, again: Recomputed, request: Request) -> Iterator[str]:
    if PROFILE in again.stages:
        yield "plots: every version of matplotlib draws them a little otherwise"
    replayed = request.recording is not None
    if samples.recording is None or replayed:
        yield "created_at, device and time_budget_s of request.json: no answer says anything of them"
    if samples.recording is not None:
        more = "request, result, " if replayed else ""
        yield f"{more}elapsed_s and warpsmith of recording.json: no answer says anything of them"
    yield (
        "the ledger, the approvals and the logs: no answer says anything of them; that others computed on the GPU is "
        "as the ledger has it"
    )


def _changed_snapshot(run: Workspace) -> Iterator[Difference]:
    """The snapshot is no result, so nothing that is recomputed would name it."""
    expected, found = read_document(run.profile, Profile).source_sha256, file_sha256(run.original)
    if found != expected:
        place = "its sha256"
        yield Difference(document=run.original.name, place=place, found=found[:12], expected=expected[:12])


def _of_the_answers(
    run: Workspace, samples: Samples, again: Recomputed, recorded: RecordedRun, request: Request
) -> Iterator[Difference]:
    """What is wrong with an answer, or with the recording that it is in, only because this run follows from it."""
    if PROFILE in again.stages:
        made = read_document(again.workspace.profile, Profile)
        yield from elsewhere(again.asked.values(), samples.name, made.device.environment)
        if samples.recording is not None:
            yield from otherwise_recorded(run, recorded, samples.recording, request, made)
    yield from otherwise_copied(run, samples, again.asked)


def _compared(run: Workspace, again: Recomputed) -> Iterator[Compared]:
    for path, document_type in _documents(run, again).items():
        name = path.relative_to(again.workspace.directory).as_posix()
        if name in again.not_compared:
            continue
        here, given = run.directory / name, path
        if not given.is_file():
            found = "is there, and the samples give no such file"
            yield Compared(0, 0, (Difference(document=name, found=found),))
        elif not here.is_file():
            yield Compared(0, 0, (Difference(document=name, found="is not there, and the samples give it"),))
        elif document_type is not None:
            left_out = _NOT_RECOMPUTED if document_type is FinalResult else frozenset()
            yield compare_documents(name, here.read_bytes(), given.read_bytes(), document_type, left_out)
        else:
            compare = compare_tables if path.suffix == ".csv" else compare_texts
            yield compare(name, here.read_bytes(), given.read_bytes())


def _of_no_variant(run: Workspace, again: Recomputed) -> Iterator[Difference]:
    """Files among those of the variants that are no variant's."""
    if OPTIMIZE not in again.stages:
        return
    made = {path.relative_to(again.workspace.directory) for path in _documents(run, again)}
    for path in sorted((*run.directory.glob(f"{run.kernel}_v[0-9]*"), *run.baseline_csv.parent.glob("[!.]*"))):
        name = path.relative_to(run.directory)
        if name not in made and path.suffix != ".damaged":  # set aside, as it was told to be
            yield Difference(document=name.as_posix(), found="is there, and the samples give no such file")


def _documents(run: Workspace, again: Recomputed) -> Mapping[Path, type[Document] | None]:
    """What the stages wrote again, or would have if the run were right, with the contract where it is JSON."""
    made = again.workspace
    found: dict[Path, type[Document] | None] = {}
    if PROFILE in again.stages:
        found |= {made.profile: Profile, made.profile_page: None}
        found |= dict.fromkeys(_there(run, made, made.baseline_csv, made.samples_csv(0)))
    if OPTIMIZE in again.stages:
        numbers = {*_variants(run), *_variants(made)}
        found |= {path: kind for number in sorted(numbers) for path, kind in _of_variant(run, made, number)}
        found |= {made.search_result: SearchResult, made.comparison: None}
        found |= dict.fromkeys(_there(run, made, made.sweep_csv))
    elif again.broken_off == OPTIMIZE:
        finished = [number for number in _variants(made) if _is_finished(made, number)]
        found |= {path: kind for number in finished for path, kind in _of_variant(run, made, number)}
    if FINALIZE in again.stages:
        found |= {made.final_result: FinalResult, made.report_page: None, made.report_html: None}
        found |= dict.fromkeys(_there(run, made, made.confirmation_csv))
    return found


def _variants(workspace: Workspace) -> list[int]:
    return [int(path.stem.rpartition("_v")[2]) for path in workspace.variant_records()]


def _is_finished(workspace: Workspace, number: int) -> bool:
    return read_document(workspace.variant_record(number), Variant).status is not VariantStatus.PROPOSED


def _of_variant(run: Workspace, made: Workspace, number: int) -> Iterator[tuple[Path, type[Document] | None]]:
    yield made.variant_record(number), Variant
    yield made.variant_notes(number), None
    for path in _there(run, made, made.variant(number), made.results_csv(number), made.samples_csv(number)):
        yield path, None


def _there(run: Workspace, made: Workspace, *paths: Path) -> Iterator[Path]:
    """Those of the paths that were made again or that the run has: not every variant has a source, or a CSV."""
    for path in paths:
        if path.is_file() or (run.directory / path.relative_to(made.directory)).is_file():
            yield path
