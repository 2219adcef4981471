"""Where an agent worked: the committed example in a repository of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "evals"), str(ROOT / "tests" / "stages")]

from simulated_run import KERNEL, KERNEL_TESTS, REPOSITORY, SOURCE, TARGET_FILE, make_repository  # noqa: E402

from warpsmith.contracts.guarded import GuardedFiles  # noqa: E402
from warpsmith.contracts.result import FinalResult  # noqa: E402
from warpsmith.project.guarded_files import guarded_files  # noqa: E402
from warpsmith.workspace.documents import read_document, write_document  # noqa: E402
from warpsmith.workspace.layout import Workspace  # noqa: E402

RESULT = read_document(REPOSITORY / "optimization" / KERNEL / "report.json", FinalResult)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A run of an agent that did everything right: autonomous, done, with its winner applied."""
    root = make_repository(tmp_path)
    example = REPOSITORY / "optimization" / KERNEL
    shutil.copytree(example, root / "optimization" / KERNEL, ignore=shutil.ignore_patterns("plots", "benchmarks"))
    shutil.copy(example / f"{KERNEL}_v{RESULT.winner}.py", root / SOURCE)
    workspace = Workspace(root, KERNEL)
    guarded = GuardedFiles(
        run_id=RESULT.run_id,
        source=SOURCE,
        target_file=TARGET_FILE,
        tests=(KERNEL_TESTS,),
        files=guarded_files(root, TARGET_FILE, (KERNEL_TESTS,), source=SOURCE),
        harness="0" * 64,
    )
    write_document(workspace.guarded, guarded)
    return workspace
