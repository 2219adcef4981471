"""A recording lies beside its target, and its source is the one that was recorded or an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.recordings import RecordedRun

COMMITTED = RecordedRun(Path(__file__).resolve().parents[2] / "benchmark" / "data" / "rms_norm", "rms_norm")


@pytest.fixture
def copied(tmp_path: Path) -> RecordedRun:
    shutil.copytree(COMMITTED.directory, tmp_path / "rms_norm")
    return RecordedRun(tmp_path / "rms_norm", "rms_norm")


def test_a_source_that_is_not_the_recorded_one_is_refused(copied: RecordedRun) -> None:
    recording = copied.read()
    assert recording is not None
    assert copied.original_bytes(recording) == COMMITTED.original.read_bytes()
    copied.original.write_bytes(b"# another\n")
    with pytest.raises(UsageError, match="is not the source that was recorded"):
        copied.original_bytes(recording)


def test_where_nothing_was_recorded_there_is_nothing(tmp_path: Path) -> None:
    assert RecordedRun.of(tmp_path / "benchmark_scale.py", "scale").read() is None
    assert RecordedRun.of(tmp_path / "benchmark_scale.py", "scale").directory == tmp_path / "data" / "scale"
