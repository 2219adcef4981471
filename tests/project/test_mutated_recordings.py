"""However a recording is damaged, it is the recording, no recording, or one error of ours; half is never replayed."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import EXAMPLES, damaged_bytes, damaged_document

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.contracts.recording import Recording
from warpsmith.project.recordings import RecordedRun

OURS = Path(__file__).resolve().parents[2] / "benchmark" / "data" / "rms_norm"
ANSWERS = b'{"identity": "a", "kind": "time", "environment": null, "recorded_at": "", "question": {}, "answer": {}}\n'
WHOLE = {
    "recording.json": (OURS / "recording.json").read_bytes(),
    "measurements.jsonl.gz": gzip.compress(ANSWERS, mtime=0),
    "original_rms_norm.py": (OURS / "original_rms_norm.py").read_bytes(),
}


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_recording_is_whole_or_one_error_of_ours(data: st.DataObject, tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, "rms_norm")
    files = dict(WHOLE)
    name = data.draw(st.sampled_from(sorted(files)))
    files[name] = data.draw((damaged_document if name.endswith(".json") else damaged_bytes)(files[name]))
    for each, content in files.items():
        (tmp_path / each).write_bytes(content)

    try:
        recording = recorded.read()
        assert isinstance(recording, Recording)
        digest = hashlib.sha256(ANSWERS).hexdigest()
        recording = recording.model_copy(update={"answers_sha256": digest})
        assert [record["identity"] for record in recorded.store(recording).records()] == ["a"]
        assert recorded.original_bytes(recording) == WHOLE["original_rms_norm.py"]
    except WarpsmithError as error:
        assert error.message
    assert {each: (tmp_path / each).read_bytes() for each in files} == files
