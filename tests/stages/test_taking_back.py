"""One command brings the original back, and whatever else lies in the production file is left to whose it is."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import subprocess

import pytest
from simulated_run import SOURCE, Run

from warpsmith.contracts.errors import ExitCode, Rejected, Unavailable, UsageError, WarpsmithError
from warpsmith.contracts.result import FinalOutcome, FinalResult, RunState, TakenBack
from warpsmith.stages.checkpoints import next_step
from warpsmith.stages.history import current_run
from warpsmith.stages.runs import Options, begin
from warpsmith.stages.taking_back import take_back
from warpsmith.workspace.documents import read_document, write_document


def original_of(run: Run) -> bytes:
    return run.workspace.original.read_bytes()


def result_of(run: Run) -> FinalResult:
    return read_document(run.workspace.final_result, FinalResult)


def events_of(run: Run) -> list[str]:
    return [event["event"] for event in run.workspace.events()]


def test_the_originals_bytes_come_back_with_the_files_mode_and_all_that_tells_of_the_run_knows(finalized: Run) -> None:
    finalized.production.chmod(0o755)
    told = take_back(finalized.workspace)

    assert finalized.production.read_bytes() == original_of(finalized)
    assert stat.S_IMODE(finalized.production.stat().st_mode) == 0o755
    result = result_of(finalized)
    assert told == TakenBack(
        kernel="rms_norm",
        run_id=result.run_id,
        source=SOURCE,
        winner=3,
        original_sha256=result.original_sha256,
        was_back=False,
    )
    assert result.taken_back_at is not None
    last = finalized.workspace.last_event()
    assert last is not None and (last["event"], last["by"]) == ("reverted", "warpsmith revert")
    day = result.taken_back_at[:10]
    step = next_step(finalized.workspace, "rms_norm")
    assert step.state is RunState.DONE
    assert step.why == f"the run is finished; its winner was taken back by `warpsmith revert` on {day}"
    assert step.known_so_far[-1] == f"taken back by `warpsmith revert` on {day}"
    run = current_run(finalized.workspace)
    assert run is not None and (run.outcome, run.taken_back_at) == (FinalOutcome.APPLIED, result.taken_back_at)


def test_what_is_back_already_is_only_written_down_and_that_once(finalized: Run) -> None:
    finalized.production.write_bytes(original_of(finalized))
    before = finalized.production.stat()
    assert take_back(finalized.workspace).was_back
    first, logged = result_of(finalized), events_of(finalized)
    assert take_back(finalized.workspace).was_back

    assert first.taken_back_at is not None and result_of(finalized) == first
    assert events_of(finalized) == logged
    assert finalized.production.stat().st_mtime_ns == before.st_mtime_ns


def test_an_edit_since_is_left_and_told(finalized: Run) -> None:
    edited = finalized.production.read_bytes() + b"# by hand\n"
    finalized.production.write_bytes(edited)
    with pytest.raises(
        Rejected, match=f"{SOURCE} is not what run .* it was edited since, and is left as it is"
    ) as caught:
        take_back(finalized.workspace)

    assert finalized.production.read_bytes() == edited
    assert caught.value.next_command == f"diff -u optimization/rms_norm/original_rms_norm.py {SOURCE}"
    assert result_of(finalized).taken_back_at is None and events_of(finalized)[-1] == "finished"


def test_an_edit_after_it_was_taken_back_is_told_by_the_next_step(finalized: Run) -> None:
    take_back(finalized.workspace)
    finalized.production.write_bytes(original_of(finalized) + b"# by hand\n")
    assert next_step(finalized.workspace, "rms_norm").why.endswith(f"; {SOURCE} was changed since then")


def test_a_snapshot_that_was_edited_is_not_put_in_place(finalized: Run) -> None:
    winner = finalized.production.read_bytes()
    finalized.workspace.original.write_bytes(b"EDITED = 1\n")
    with pytest.raises(Rejected, match=r"original_rms_norm\.py is not the file that was profiled any more"):
        take_back(finalized.workspace)
    assert finalized.production.read_bytes() == winner


def test_a_file_that_is_gone_is_not_written_anew_and_the_way_is_named(finalized: Run) -> None:
    finalized.production.unlink()
    with pytest.raises(Rejected, match="is not there any more") as caught:
        take_back(finalized.workspace)
    assert not finalized.production.exists()
    subprocess.run(shlex.split(caught.value.next_command or ""), cwd=finalized.root, check=True)
    assert finalized.production.read_bytes() == original_of(finalized)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_on_a_bad_disk_the_winner_stays_or_the_original_is_back_and_the_command_goes_on(
    finalized: Run, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner, original, flush = finalized.production.read_bytes(), original_of(finalized), os.fsync

    for writes in range(8):
        left = [None] * writes

        def flushed(descriptor: int, left: list[None] = left) -> None:
            if not left:
                raise OSError(code, os.strerror(code))
            left.pop()
            flush(descriptor)

        monkeypatch.setattr(os, "fsync", flushed)
        try:
            take_back(finalized.workspace)
        except Unavailable as error:
            assert error.exit_code is ExitCode.UNAVAILABLE
        else:
            break
        assert finalized.production.read_bytes() == (winner if writes == 0 else original)
    assert writes > 1 and result_of(finalized).taken_back_at is not None
    assert [path.name for path in finalized.production.parent.iterdir()] == ["rms_norm.py"]


def test_a_run_that_applied_nothing_is_told_as_that(finalized: Run) -> None:
    none = result_of(finalized).model_copy(update={"outcome": FinalOutcome.NOT_CONFIRMED, "applied_sha256": None})
    write_document(finalized.workspace.final_result, none)
    with pytest.raises(UsageError, match=r"applied nothing \(not_confirmed\)") as caught:
        take_back(finalized.workspace)
    assert caught.value.next_command == "warpsmith status rms_norm"


def test_what_an_earlier_run_applied_is_taken_back_by_the_command_that_is_named(finalized: Run) -> None:
    original = original_of(finalized)
    begin(finalized.workspace, "rms_norm", Options(fresh=True))
    with pytest.raises(UsageError, match="has applied nothing yet") as caught:
        take_back(finalized.workspace)

    command, _, what = (caught.value.next_command or "").partition("   ")
    assert what.startswith("(takes back what run 20260131T000000Z-000000 applied")
    subprocess.run(shlex.split(command), cwd=finalized.root, check=True)
    assert finalized.production.read_bytes() == original


@pytest.mark.parametrize("style", [b"", b"# end\n"])
def test_a_winner_that_a_killed_finalize_left_is_taken_back_and_the_run_goes_on(optimized: Run, style: bytes) -> None:
    original, winner = original_of(optimized), optimized.workspace.variant(3).read_bytes()
    optimized.left_by_a_kill(winner + style)
    assert not take_back(optimized.workspace).was_back

    assert optimized.production.read_bytes() == original
    assert (events_of(optimized)[-1], next_step(optimized.workspace, "rms_norm").command) == (
        "reverted",
        "warpsmith finalize rms_norm",
    )


@pytest.mark.parametrize("content", [b"x = 1\n", b"def f(:\n"])
def test_what_somebody_made_of_a_killed_finalize_is_left(optimized: Run, content: bytes) -> None:
    optimized.left_by_a_kill(content)
    with pytest.raises(Rejected, match="is not the winner of run"):
        take_back(optimized.workspace)
    assert optimized.production.read_bytes() == content


def test_before_a_winner_was_applied_there_is_nothing_to_take_back(optimized: Run, run: Run) -> None:
    with pytest.raises(UsageError, match="has applied nothing yet"):
        take_back(optimized.workspace)
    run.workspace.request.unlink()
    with pytest.raises(WarpsmithError, match="no run of rms_norm has begun: nothing to take back"):
        take_back(run.workspace)
