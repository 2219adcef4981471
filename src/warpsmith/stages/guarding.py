"""Holds a run to the tests, target, settings and harness that it began with.

Owns when that is written down and what is said of a change. What has changed is never put back: it is somebody's.
"""

from __future__ import annotations

from pathlib import Path

import warpsmith
from warpsmith.contracts.base import Sha256
from warpsmith.contracts.errors import Rejected
from warpsmith.contracts.guarded import GuardedFiles
from warpsmith.contracts.target import TargetSpec
from warpsmith.project.guarded_files import differences, guarded_files, tree_sha256
from warpsmith.report.templates import templates_folder
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace

_HARNESS = "warpsmith itself"


def guard(session: Session, spec: TargetSpec) -> None:
    """Writes down what decides about this run's winner, as it is now."""
    write_document(
        session.workspace.guarded,
        GuardedFiles(
            run_id=session.request.run_id,
            source=spec.source,
            target_file=spec.target_file,
            tests=spec.tests,
            files=guarded_files(session.root, spec.target_file, spec.tests, source=spec.source),
            harness=harness_sha256(),
        ),
    )


def expect_guarded(session: Session, *, consequence: str) -> None:
    """Raises Rejected, naming each file, where something is not as it was when the kernel was profiled."""
    workspace, next_command = session.workspace, f"warpsmith run {session.request.kernel} --fresh"
    if not workspace.guarded.is_file():
        raise Rejected(
            f"{workspace.relative(workspace.guarded)} is not there: nothing tells whether tests, target and settings "
            f"are those that the kernel was profiled with; {consequence}",
            next_command=next_command,
        )
    if changes := changes_since(workspace, session.request.run_id):
        raise Rejected(
            f"{', '.join(changes)} since the kernel was profiled, and the winner would be judged by something else "
            f"than the original was; {consequence}",
            next_command=next_command,
        )


def changes_since(workspace: Workspace, run_id: str) -> list[str]:
    """What became of each thing that decides about the run, such as "tests/test_k.py was changed", since its profile.

    Raises UsageError where what was written down is not there or damaged.
    """
    then = read_document(workspace.guarded, GuardedFiles)
    if then.run_id != run_id:
        return [f"{workspace.relative(workspace.guarded)} is of another run, {then.run_id}"]
    now = guarded_files(workspace.root, then.target_file, then.tests, source=then.source)
    return differences({**then.files, _HARNESS: then.harness}, {**now, _HARNESS: harness_sha256()})


def harness_sha256() -> Sha256:
    """Of warpsmith's own modules and page templates. The kernel library is left out: its kernels are what changes."""
    package = Path(warpsmith.__file__).resolve().parent
    folders = (package, templates_folder(package))
    return tree_sha256(folders, endings=(".py", ".j2"), left_out=package / "kernels")
