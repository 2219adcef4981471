"""A GPU's ceilings are measured once, and then come from the user's cache; a run's own store has them in any case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated_gpu import DEVICE, ENVIRONMENT
from simulated_run import Run, make_repository

from warpsmith.contracts.device import DeviceFacts
from warpsmith.device.kept import kept_file, read_kept
from warpsmith.measure.worker.identity import PROTOCOL_VERSION
from warpsmith.measure.worker.protocol import Identify, Inspect
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.stages import inspecting
from warpsmith.stages.inspecting import inspect
from warpsmith.stages.session import GPU_SHARED, Session
from warpsmith.workspace.store import MeasurementStore

NOW = "2026-12-01T00:00:00+00:00"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "_now", lambda: NOW)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Run]:
    """Runs that begin one after the other, each in a repository of its own."""

    def begin() -> Iterator[Run]:
        number = 0
        while True:
            number += 1
            (folder := tmp_path / f"repository{number}").mkdir()
            yield Run.begin(make_repository(folder))

    return begin()


def cache() -> Path:
    path = kept_file(ENVIRONMENT.gpu_uuid)
    assert path is not None
    return path


def measured(run: Run) -> int:
    """How many times ceilings were measured."""
    return sum(isinstance(question, Inspect) for question in run.gpu.asked)


def stored(run: Run) -> DeviceFacts:
    """What a replay of the run's own answers has, which is what `verify` goes by."""
    session = run.session()
    replaying = StoredWorker(MeasurementStore(run.workspace.measurements), None, Identify(target=session.target))
    answer = replaying.ask(Inspect(target=session.target))
    assert isinstance(answer, DeviceFacts)
    return answer


def edit(change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what is kept."""
    document = json.loads(cache().read_text())
    change(document["facts"])
    cache().write_text(json.dumps(document))


FROM_CACHE = DEVICE.model_copy(update={"measured_at": NOW, "ceilings_measured_at": DEVICE.measured_at})


def test_the_first_run_measures_and_the_next_takes_what_it_kept(runs: Iterator[Run]) -> None:
    first, second = next(runs), next(runs)

    assert inspect(first.session()) == DEVICE
    assert inspect(second.session()) == FROM_CACHE
    assert (measured(first), measured(second)) == (1, 0)
    assert second.told.lines == [f"ceilings as measured at {DEVICE.measured_at} on this GPU, from {cache()}"]


def test_ceilings_from_the_cache_are_an_answer_of_the_run(runs: Iterator[Run]) -> None:
    inspect(next(runs).session())
    second = next(runs)
    inspect(second.session())

    assert stored(second) == FROM_CACHE


def test_a_run_that_has_its_answer_asks_nothing_and_looks_nowhere(runs: Iterator[Run]) -> None:
    run = next(runs)
    first = inspect(run.session())
    cache().write_text("damaged")

    assert inspect(run.session()) == first
    assert measured(run) == 1
    assert cache().read_text() == "damaged"


def test_a_run_that_took_ceilings_over_does_not_keep_them_as_measured_today(runs: Iterator[Run]) -> None:
    inspect(next(runs).session())
    inspect(next(runs).session())

    assert read_kept(cache()).facts == DEVICE


def test_another_driver_measures_anew_and_says_why(runs: Iterator[Run]) -> None:
    inspect(next(runs).session())
    edit(lambda facts: facts["environment"].update(driver="570"))
    run = next(runs)

    assert inspect(run.session()) == DEVICE
    assert measured(run) == 1
    assert run.told.lines == [
        f"ceilings are measured anew: {cache()} has ceilings of another set-up: driver 570, now 580"
    ]
    assert read_kept(cache()).facts == DEVICE


def test_a_damaged_cache_is_a_note_and_is_put_right(runs: Iterator[Run]) -> None:
    cache().parent.mkdir(parents=True)
    cache().write_text("{")
    run = next(runs)

    assert inspect(run.session()) == DEVICE
    assert len(run.told.lines) == 1 and run.told.lines[0].startswith(
        f"ceilings are measured anew: {cache()} is damaged"
    )
    assert read_kept(cache()).facts == DEVICE


def test_a_cache_that_cannot_be_written_is_a_note(
    runs: Iterator[Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "file"))
    run = next(runs)

    assert inspect(run.session()) == DEVICE
    assert len(run.told.lines) == 1
    assert run.told.lines[0].startswith(f"the ceilings are not kept for other runs: cannot write {cache()}")


def test_no_place_to_keep_anything_is_nothing_to_tell(runs: Iterator[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "kept_file", lambda uuid: None)
    run = next(runs)

    assert inspect(run.session()) == DEVICE
    assert run.told.lines == []


def test_ceilings_that_were_measured_beside_others_are_not_kept(runs: Iterator[Run]) -> None:
    run = next(runs)
    run.workspace.log(GPU_SHARED, pids=[12])

    assert inspect(run.session()) == DEVICE
    assert not cache().exists()


def test_a_demonstration_copy_measures_for_itself(runs: Iterator[Run]) -> None:
    inspect(next(runs).session())
    run = next(runs)
    mark = {"copy_of": "elsewhere", "copy_at": str(run.root.resolve())}
    (run.root / ".warpsmith-demonstration").write_text(json.dumps(mark))

    assert inspect(run.session()) == DEVICE
    assert measured(run) == 1


def test_a_replay_has_what_was_recorded_whatever_is_kept(runs: Iterator[Run]) -> None:
    recorded, replayed = next(runs), next(runs)
    inspect(recorded.session())
    edit(lambda facts: facts.update(sm_count=1))
    session = replayed.session()
    session.worker = StoredWorker(
        MeasurementStore(replayed.workspace.measurements),
        None,
        Identify(target=session.target),
        recording=MeasurementStore(recorded.workspace.measurements),
    )

    assert inspect(session) == DEVICE
    assert replayed.told.lines == []


def test_a_stale_answer_in_the_run_gives_way_to_the_kept_one(runs: Iterator[Run]) -> None:
    inspect(next(runs).session())
    run = next(runs)
    session: Session = run.session()
    old = DEVICE.model_copy(update={"environment": ENVIRONMENT.model_copy(update={"driver": "570"})})
    session.worker.store.append(
        identity=Inspect(target=session.target).identity,
        kind="inspect",
        protocol=PROTOCOL_VERSION,
        environment=old.environment.model_dump(mode="json"),
        question=Inspect(target=session.target).portable(),
        answer=old.model_dump(mode="json"),
    )

    assert inspect(session) == FROM_CACHE
    assert stored(run) == FROM_CACHE
