"""Puts a winner into the production file behind the kernel's own tests, and takes it back where they fail on it.

The file is replaced in one step, and the only way forward from there is passing tests or the original's bytes again.
A test is flaky where the original fails it too. One that fails on the winner alone may have found a race, which passes
now and then: it keeps the winner out. At most four runs tell: winner, original, original, winner.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from warpsmith.contracts.errors import PreflightError, Rejected, WarpsmithError
from warpsmith.contracts.result import FailedTest, TestRun
from warpsmith.project.apply import apply, revert
from warpsmith.project.commands import import_path
from warpsmith.project.snapshot import expect_sha256, file_sha256, sha256_of
from warpsmith.project.style import run_style
from warpsmith.project.tests_gate import run_tests
from warpsmith.source.encoding import decoded
from warpsmith.source.syntax import equal_syntax_tree
from warpsmith.stages.guarding import expect_guarded
from warpsmith.stages.in_place import APPLYING, REVERTED
from warpsmith.stages.session import Session

#: Told of a winner that the style command gave another layout.
LAID_OUT_ANEW = "the syntax tree is the one that was measured"

#: Chosen: as many failing tests as one reads through.
_SHOWN_TESTS = 5


@dataclass(frozen=True)
class Change:
    """What is done to the production file, from bytes that were read once and are what was measured.

    `accepted` is the sha256 of the production file as it was found: the original, or a winner that a killed run left.
    Whatever is done to the file is done to exactly that.
    """

    production: Path
    original: bytes
    winner: bytes
    accepted: str

    @property
    def applied(self) -> str:
        """The sha256 of the production file with the winner in it."""
        return self.accepted if self.is_applied else sha256_of(self.winner)

    @property
    def is_applied(self) -> bool:
        return self.accepted != sha256_of(self.original)

    @property
    def begun_anew(self) -> Change:
        """The same, from the original on."""
        return replace(self, accepted=sha256_of(self.original))


@dataclass(frozen=True)
class Applied:
    """How it went. `tests` are the run on the winner that decided; `original` is the run on the original, if any.

    `applied_sha256` and `style` are None where the original is back.
    """

    tests: TestRun
    original: TestRun | None = None
    failed: tuple[FailedTest, ...] = ()
    style: str | None = None
    applied_sha256: str | None = None

    @property
    def why_reverted(self) -> str:
        assert self.original is not None
        before = {test.node_id for test in self.failed if test.original_failures}
        fail_too = f"fail too, {'so they were failing before' if before.issuperset(self.tests.failed) else 'elsewhere'}"
        return (
            f"the kernel's tests failed on the winner ({self.tests.reason}); the original is back and its tests "
            f"{'pass' if self.original.passed else fail_too}" + _listed(self.failed)
        )


def flaky_told(failed: Sequence[FailedTest]) -> str:
    """What is told of a winner that was applied though tests had failed once; empty where none had."""
    return f"; flaky tests, which passed on it in another run{_listed(failed)}" if failed else ""


def apply_behind_tests(session: Session, change: Change, winner: int) -> Applied:
    """The winner in place and its tests passed, or the original back in place and its tests run again.

    Raises Rejected where the file, or what decides about the winner, was changed by somebody meanwhile.
    """
    session.progress.note("the kernel's own tests on the winner")
    first = _on_the_winner(session, change, winner)
    if first.passed:
        return _kept(session, change, Applied(first))
    session.progress.note("they failed; the original is back, and its tests run")
    originals = [_run_tests(session, change.production, sha256_of(change.original))]
    if not first.failed:  # nothing of which another run could tell whether it is flaky
        return Applied(first, originals[-1])
    if not _fail_too(first, originals):
        session.progress.note("they run on the original once more, to tell what is flaky")
        originals.append(_run_tests(session, change.production, sha256_of(change.original)))
    if not _fail_too(first, originals):
        return Applied(first, originals[-1], _failures([first], originals))
    session.progress.note("what failed is flaky or was failing before: the tests on the winner once more")
    second = _on_the_winner(session, change.begun_anew, winner)
    failed = _failures([first, second], originals)
    if not second.passed:
        return Applied(first, originals[-1], failed)
    return _kept(session, change.begun_anew, Applied(second, originals[-1], failed))


def _fail_too(on_winner: TestRun, originals: Sequence[TestRun]) -> bool:
    """Whether the original failed each of these tests in some run."""
    return {*on_winner.failed} <= {name for run in originals for name in run.failed}


def _on_the_winner(session: Session, change: Change, winner: int) -> TestRun:
    """The tests with the winner in place, where it stays only if they pass."""
    workspace, production = session.workspace, change.production
    expect_sha256(production, change.accepted)
    try:
        expect_guarded(session, consequence="nothing is applied")
        if not change.is_applied:
            workspace.log(APPLYING, winner=winner)
            apply(production, change.winner, expected_sha256=change.accepted)
        tests = _run_tests(session, production, change.applied)
        expect_guarded(session, consequence="the original is back")
        if not tests.passed:
            revert(production, change.original, expected_sha256=change.applied)
    except BaseException:
        if _is(production, change.applied):
            revert(production, change.original, expected_sha256=change.applied)
            with suppress(WarpsmithError):  # what is being raised matters more than that this could not be logged
                workspace.log(REVERTED, winner=winner)
        raise
    if not tests.passed:
        workspace.log(REVERTED, winner=winner)
    return tests


def _run_tests(session: Session, production: Path, sha256: str) -> TestRun:
    """Raises Rejected where the file is not what was tested any more."""
    workspace = session.workspace
    tests = run_tests(
        session.root,
        session.config.test_command,
        session.describe().tests,
        log_path=workspace.tests_log,
        env={**os.environ, "PYTHONPATH": import_path(session.root)},
    )
    if not _is(production, sha256):
        raise Rejected(
            f"{production.name} was changed or deleted while its tests ran; it is left as it is now",
            next_command=shlex.join(["cp", workspace.relative(workspace.original), workspace.relative(production)]),
        )
    return tests


def _is(production: Path, sha256: str) -> bool:
    return production.is_file() and file_sha256(production) == sha256


def _failures(on_winner: Sequence[TestRun], on_original: Sequence[TestRun]) -> tuple[FailedTest, ...]:
    """Every test that failed in any of the runs, in the order in which they did."""
    runs = (*on_winner, *on_original)
    return tuple(
        FailedTest(
            node_id=name,
            winner_failures=sum(name in run.failed for run in on_winner),
            winner_runs=len(on_winner),
            original_failures=sum(name in run.failed for run in on_original),
            original_runs=len(on_original),
        )
        for name in dict.fromkeys(name for run in runs for name in run.failed)
    )


def _listed(failed: Sequence[FailedTest]) -> str:
    if not failed:
        return ""
    more = [f"and {len(failed) - _SHOWN_TESTS} more"] if len(failed) > _SHOWN_TESTS else []
    return ": " + "; ".join([*(test.told for test in failed[:_SHOWN_TESTS]), *more])


def _kept(session: Session, change: Change, proven: Applied) -> Applied:
    """What the style command makes of the file, applied only if the syntax tree is what was measured."""
    production, applied = change.production, change.applied
    styled = run_style(session.root, session.config.style_command, production)
    expect_sha256(production, applied)
    styled_sha256 = sha256_of(styled.content)
    if styled_sha256 == applied:
        return replace(proven, style=styled.told, applied_sha256=applied)
    if not same_code(change.winner, styled.content):
        told = f"{styled.told}; it changed more than layout, so the measured bytes stay"
        return replace(proven, style=told, applied_sha256=applied)
    apply(production, styled.content, expected_sha256=applied)
    return replace(proven, style=f"{styled.told}; {LAID_OUT_ANEW}", applied_sha256=styled_sha256)


def same_code(measured: bytes, other: bytes) -> bool:
    """Whether only the layout differs. False for what is no Python source."""
    try:
        return equal_syntax_tree(decoded(measured, ""), decoded(other, ""))
    except PreflightError:
        return False
