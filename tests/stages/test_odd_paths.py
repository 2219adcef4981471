"""A repository may lie anywhere: its path has spaces, quotes and letters of any script."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_run import SOURCE, Run, make_repository

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.result import FinalOutcome, RunState
from warpsmith.project.discover import find_root
from warpsmith.stages.checkpoints import next_step
from warpsmith.stages.handover import Asked, hand_over
from warpsmith.stages.taking_back import take_back

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.append(str(Path(__file__).resolve().parents[1] / "project"))

from small_repository import committed, git, without_configuration

NAME = "Käfer größe 模型 'it''s' \"q\" $HOME & (1); [*]"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / NAME
    root.mkdir()
    return make_repository(root)


def test_the_whole_pipeline_passes_in_a_folder_of_any_name(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_configuration(monkeypatch)
    committed(repository.parent)
    run = Run.begin(repository)
    original = run.production.read_bytes()
    run.configure("style_command: python -c 'import sys; print(sys.argv[1])' {file}")
    run.profile()
    run.optimize()
    result = run.finalize()

    assert result.outcome is FinalOutcome.APPLIED, result.reason
    assert result.tests is not None and result.tests.counts == {"passed": 1}
    assert result.style is not None and "did not change the file" in result.style
    assert next_step(run.workspace, "rms_norm").state is RunState.DONE

    given = hand_over(run.workspace, Asked())
    assert given is not None
    assert git(repository, "diff", "--name-only", "-z", "main", given.branch) == f"{NAME}/{SOURCE}\0"
    take_back(run.workspace)
    assert run.production.read_bytes() == original


@pytest.mark.parametrize("name", ["profile.json", "request.json", "measurements.jsonl"])
def test_a_told_command_can_be_pasted_into_a_shell_there(repository: Path, name: str) -> None:
    run = Run.begin(repository)
    run.profile()
    damaged = run.workspace.directory / name
    damaged.write_bytes(b"{\n" if name.endswith("json") else b"{\n" + damaged.read_bytes())

    with pytest.raises(UsageError) as caught:
        next_step(run.workspace, "rms_norm")
        run.optimize()

    command = caught.value.next_command or ""
    assert NAME in "".join(shlex.split(command))
    subprocess.run(command, shell=True, check=True)
    assert damaged.with_name(f"{name}.damaged").is_file()


def test_a_path_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    root = Path(str(tmp_path / "gr") + "\udcf6sse")
    try:
        root.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    (root / "warpsmith.yaml").write_text("")

    with pytest.raises(UsageError, match=r"must be UTF-8, found b'.*gr\\xf6sse'"):
        find_root(root)
    shutil.rmtree(root)
