from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import pytest

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import Unavailable
from warpsmith.contracts.measurement import Contender, Memories, Memory, SourceRef
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.worker.identity import PROTOCOL_VERSION, identity_of
from warpsmith.measure.worker.protocol import (
    AnyQuestion,
    CompiledAnswer,
    CompileOffline,
    Describe,
    Identify,
    MeasureMemory,
    TargetRef,
    WorkerError,
    WorkerFailure,
)
from warpsmith.measure.worker.stored import NotRecorded, StoredWorker

TARGET = TargetRef(path="/here/target.py", root="/here", sha256="1" * 64)
CASE = Case(axes={"M": 4, "N": 8}, dtype=DType.BFLOAT16)


@dataclass
class DictStore:
    kept: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def get(self, identity: str) -> Mapping[str, Any] | None:
        return self.kept.get(identity)

    def append(self, *, identity: str, **record: Any) -> None:
        self.kept[identity] = {"identity": identity, **record}

    def take_over(self, record: Mapping[str, Any]) -> None:
        self.kept[record["identity"]] = {**record, "replayed": True}

    def records(self) -> Iterable[Mapping[str, Any]]:
        return self.kept.values()


@dataclass
class CountingWorker:
    """Answers memory questions with the number of times it was asked."""

    driver: str = "580"
    asked: int = 0

    def ask(self, question: AnyQuestion) -> Contract:
        if isinstance(question, Identify):
            return environment(self.driver)
        self.asked += 1
        if isinstance(question, CompileOffline) and question.seed != 13:
            return CompiledAnswer(compiled=())
        if question.seed == 13:
            raise WorkerError(WorkerFailure(status="out_of_memory", message="too large"))
        return peak(self.asked)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers: list[Contract | WorkerFailure] = []
        for question in questions:
            try:
                answers.append(self.ask(question))
            except WorkerError as error:
                answers.append(error.failure)
        return answers

    def close(self) -> None: ...


def environment(driver: str) -> Environment:
    return Environment(
        gpu_name="H200",
        gpu_uuid="u",
        driver=driver,
        cuda="13",
        torch="2",
        triton="3",
        ptxas=None,
        fp_fusion=True,
        harness="0",
    )


def peak(size_bytes: int) -> Memories:
    memory = Memory(case=CASE, mode=Mode.FORWARD, peak_bytes={"original": size_bytes})
    return Memories(memories=(memory,))


def question(seed: int = 0, path: str = "/here/kernel.py") -> MeasureMemory:
    source = SourceRef(path=path, sha256="2" * 64)
    original = Contender(name="original", source=source)
    return MeasureMemory(target=TARGET, seed=seed, contenders=(original,), case=CASE, modes=(Mode.FORWARD,))


def offline_question(seed: int = 0) -> CompileOffline:
    source = SourceRef(path="/here/kernel.py", sha256="2" * 64)
    return CompileOffline(target=TARGET, seed=seed, source=source, case=CASE, mode=Mode.FORWARD, gpu=known_gpu("H200"))


def stored(store: DictStore, live: CountingWorker | None) -> StoredWorker:
    return StoredWorker(store, live, Identify(target=TARGET))


def test_an_answer_is_measured_once_and_then_remembered() -> None:
    live = CountingWorker()
    store = DictStore()
    first = stored(store, live).ask(question())
    assert stored(store, live).ask(question()) == first
    assert live.asked == 1


def test_the_same_source_at_another_path_is_the_same_question() -> None:
    assert question(path="/here/kernel.py").identity == question(path="/elsewhere/kernel.py").identity
    assert "/here" not in str(question().portable())


def test_another_driver_is_another_environment_and_measured_again() -> None:
    store = DictStore()
    stored(store, CountingWorker(driver="580")).ask(question())
    later = CountingWorker(driver="590")
    stored(store, later).ask(question())
    assert later.asked == 1


def test_with_no_live_worker_the_recording_answers_whatever_its_environment() -> None:
    store = DictStore()
    recorded = stored(store, CountingWorker()).ask(question())
    assert stored(store, None).ask(question()) == recorded


def test_a_miss_on_replay_says_what_was_never_recorded() -> None:
    with pytest.raises(
        Unavailable, match=r"no answer to 'memory' \(case=4x8-bf16, modes=forward, contenders=original\)"
    ):
        stored(DictStore(), None).ask(question())


def test_only_what_is_missing_is_asked_of_many() -> None:
    live = CountingWorker()
    store = DictStore()
    worker = stored(store, live)
    known = worker.ask(question(seed=1))
    answers = worker.ask_all([question(seed=1), question(seed=2)])
    assert answers == [known, peak(2)]


def replaying(recording: DictStore, store: DictStore) -> StoredWorker:
    return StoredWorker(store, None, Identify(target=TARGET), recording=recording)


def test_a_replay_takes_its_answers_over_and_marks_them() -> None:
    recording, store = DictStore(), DictStore()
    recorded = stored(recording, CountingWorker()).ask(question())
    assert replaying(recording, store).ask(question()) == recorded
    identity = question().identity
    assert store.kept == {identity: {**recording.kept[identity], "replayed": True}}


def test_a_replayed_answer_never_counts_as_measured() -> None:
    recording, store = DictStore(), DictStore()
    stored(recording, CountingWorker()).ask(question())
    replaying(recording, store).ask(question())
    live = CountingWorker()
    stored(store, live).ask(question())
    assert live.asked == 1


def test_a_recorded_failure_fails_on_replay_as_it_did() -> None:
    recording = DictStore()
    live = stored(recording, CountingWorker())
    live.ask(question())
    with pytest.raises(WorkerError) as met:
        live.ask(question(seed=13))
    with pytest.raises(WorkerError) as again:
        replaying(recording, DictStore()).ask(question(seed=13))
    assert again.value.failure == met.value.failure


def test_a_description_is_remembered_for_a_recording_and_only_once() -> None:
    store = DictStore()
    worker = stored(store, CountingWorker())
    described = Describe(target=TARGET)
    first = peak(1)
    worker.remember(described, first)
    worker.remember(described, peak(2))
    assert store.kept[described.identity]["answer"] == first.model_dump(mode="json")


def test_what_needs_no_gpu_is_asked_of_the_worker_that_has_none_even_on_replay() -> None:
    offline, store = CountingWorker(), DictStore()
    worker = StoredWorker(store, None, Identify(target=TARGET), recording=DictStore(), offline=offline)
    asked = offline_question()
    first = worker.ask(asked)
    assert worker.ask(asked) == first
    assert offline.asked == 1


def test_another_compiler_is_asked_again_what_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    offline, store = CountingWorker(), DictStore()
    worker = StoredWorker(store, None, Identify(target=TARGET), offline=offline)
    worker.ask(offline_question())
    monkeypatch.setattr(metadata, "version", lambda package: "99.0")
    worker.ask(offline_question())
    assert offline.asked == 2


def test_a_failure_is_tried_again_where_it_can_be() -> None:
    live = CountingWorker()
    worker = stored(DictStore(), live)
    for _ in range(2):
        with pytest.raises(WorkerError):
            worker.ask(question(seed=13))
    assert live.asked == 2


def test_an_answer_that_no_longer_fits_its_contract_is_measured_again() -> None:
    live = CountingWorker()
    store = DictStore()
    asked = question()
    stored(store, live).ask(asked)
    store.kept[asked.identity] = {**store.kept[asked.identity], "answer": {"of": "another version"}}

    assert stored(store, live).ask(asked) == peak(2)


def test_what_an_answer_was_asked_by_is_kept_with_it() -> None:
    store = DictStore()
    stored(store, CountingWorker()).ask(question())
    assert store.kept[question().identity]["protocol"] == PROTOCOL_VERSION


def test_a_failure_of_what_needs_no_gpu_is_on_record_and_tried_again_where_it_can_be() -> None:
    store, offline = DictStore(), CountingWorker()
    worker = StoredWorker(store, None, Identify(target=TARGET), recording=DictStore(), offline=offline)
    for _ in range(2):
        with pytest.raises(WorkerError, match="too large"):
            worker.ask(offline_question(seed=13))
    assert offline.asked == 2
    with pytest.raises(WorkerError, match="too large"):
        StoredWorker(store, None, Identify(target=TARGET), recording=DictStore()).ask(offline_question(seed=13))


def test_answers_of_another_compiler_count_for_a_worker_that_is_told_it_is_the_compiler() -> None:
    store = DictStore()
    StoredWorker(store, None, Identify(target=TARGET), offline=CountingWorker(), compiler="1.2").ask(offline_question())
    again = StoredWorker(store, None, Identify(target=TARGET), compiler="1.2")
    assert again.ask(offline_question()) == CompiledAnswer(compiled=())
    with pytest.raises(NotRecorded):
        StoredWorker(store, None, Identify(target=TARGET), compiler="1.3").ask(offline_question())


class TestWhatIsTold:
    """On a live run: why stored answers do not count, once for each reason."""

    def heard(self, store: DictStore, live: CountingWorker, *asked: AnyQuestion) -> list[str]:
        heard: list[str] = []
        worker = StoredWorker(store, live, Identify(target=TARGET), told=heard.append)
        worker.ask_all(asked)
        return heard

    def test_answers_that_count_are_not_worth_a_word(self) -> None:
        store = DictStore()
        assert self.heard(store, CountingWorker(), question()) == []
        assert self.heard(store, CountingWorker(), question()) == []

    def test_another_environment_is_told_once_with_what_changed_and_how_many_answers_it_costs(self) -> None:
        store = DictStore()
        self.heard(store, CountingWorker(driver="580.1"), *map(question, range(3)))
        heard = self.heard(store, CountingWorker(driver="590.2"), question(0), question(1))
        assert heard == ["measured again: driver 580.1, now 590.2 (3 answers)"]

    def test_a_failure_of_no_form_is_asked_anew(self) -> None:
        store = DictStore()
        self.heard(store, CountingWorker(), question())
        store.kept[question().identity] = {**store.kept[question().identity], "answer": {"failure": 3}}
        assert self.heard(store, CountingWorker(), question()) == [
            "measured again: stored in a form that this version does not read (1 answer)"
        ]

    def test_each_reason_is_told(self) -> None:
        store, older, now = DictStore(), question(3), PROTOCOL_VERSION
        replaying(recorded(question(1)), store).ask(question(1))
        self.heard(store, CountingWorker(), question(2), question(13))
        unreadable = store.kept[question(2).identity]
        store.kept[question(2).identity] = {**unreadable, "answer": {}}
        old = {key: value for key, value in unreadable.items() if key != "protocol"}
        identity = identity_of(older.portable(), now - 1)
        store.kept[identity] = {**old, "identity": identity, "question": older.portable()}

        assert self.heard(store, CountingWorker(), *map(question, (13, 1, 2, 3))) == [
            "tried again: it had ended out_of_memory (1 answer)",
            "measured again: replayed from a recording, not measured here (1 answer)",
            "measured again: stored in a form that this version does not read (1 answer)",
            f"measured again: asked by protocol {now - 1} of the worker, now {now} (1 answer)",
        ]


def recorded(*asked: AnyQuestion) -> DictStore:
    recording = DictStore()
    stored(recording, CountingWorker()).ask_all(asked)
    return recording


def test_an_answer_counts_as_had_only_where_asking_would_measure_nothing() -> None:
    store = DictStore()
    assert not stored(store, CountingWorker()).has_answer_to(question())
    stored(store, CountingWorker(driver="580")).ask(question())

    assert stored(store, CountingWorker(driver="580")).has_answer_to(question())
    assert not stored(store, CountingWorker(driver="590")).has_answer_to(question())


def test_an_answer_from_elsewhere_takes_the_place_of_one_that_does_not_count() -> None:
    store = DictStore()
    stored(store, CountingWorker(driver="580")).ask(question())
    today = CountingWorker(driver="590")
    stored(store, today).supply(question(), peak(7))

    assert stored(store, today).ask(question()) == peak(7)
    assert today.asked == 0
    assert store.kept[question().identity]["environment"] == environment("590").model_dump(mode="json")


def test_what_a_recording_has_compiled_is_replayed_whatever_compiler_is_here() -> None:
    recording, offline, store = DictStore(), CountingWorker(), DictStore()
    StoredWorker(recording, None, Identify(target=TARGET), offline=CountingWorker(), compiler="1.2").ask(
        offline_question()
    )
    here = StoredWorker(store, None, Identify(target=TARGET), recording=recording, offline=offline, compiler="1.3")

    assert here.ask(offline_question()) == CompiledAnswer(compiled=())
    assert (offline.asked, [record["replayed"] for record in store.records()]) == (0, [True])
    here.ask(offline_question(seed=1))
    assert offline.asked == 1
