"""A question that a recording has no answer to is explained by what the recording has."""

from __future__ import annotations

from typing import Any

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Contender, SourceRef, TimingPlan
from warpsmith.measure.worker.identity import PROTOCOL_VERSION, identity_of
from warpsmith.measure.worker.misses import protocol_of, why_missing
from warpsmith.measure.worker.protocol import AnyQuestion, Describe, Question, TargetRef, Time

WIDE = Case(axes={"M": 4, "N": 8192}, dtype=DType.BFLOAT16)
NARROW = Case(axes={"M": 4, "N": 8}, dtype=DType.BFLOAT16)
TARGET = TargetRef(path="/here/target.py", root="/here", sha256="1" * 64)


def timing(
    *, source: str = "2", target: str = "1", seed: int = 0, rounds: int = 16, case: Case = WIDE, others: str = ""
) -> Time:
    contenders = [Contender(name="original", source=SourceRef(path="/here/kernel.py", sha256=source * 64))]
    return Time(
        target=TARGET.model_copy(update={"sha256": target * 64}),
        seed=seed,
        contenders=(*contenders, *(Contender(name=name) for name in others.split())),
        case=case,
        mode=Mode.FORWARD,
        plan=TimingPlan(rounds=rounds),
    )


def record(
    question: Question, answer: dict[str, Any] | None = None, protocol: int = PROTOCOL_VERSION
) -> dict[str, Any]:
    portable = question.portable()
    return {
        "identity": identity_of(portable, protocol),
        "kind": portable["kind"],
        "question": portable,
        "answer": answer or {},
    }


def told(question: AnyQuestion, *recorded: dict[str, Any]) -> str:
    text, command = why_missing(question, recorded)
    assert command == "warpsmith doctor"
    return text.partition("differs in ")[2].partition(": it holds")[0]


def test_the_nearest_answer_is_told_by_what_it_has_otherwise() -> None:
    there = record(timing())
    assert (
        told(timing(source="3"), there) == "contenders.original.source.sha256 (222222222222 there, 333333333333 here)"
    )
    assert told(timing(seed=1000), there) == "seed (0 there, 1000 here)"
    assert told(timing(rounds=20), there) == "plan.rounds (16 there, 20 here)"
    assert told(timing(target="9"), there) == "target.sha256 (111111111111 there, 999999999999 here)"
    assert told(timing(others="liger"), there).startswith("contenders.liger.name (none there, liger here)")


def test_the_same_case_is_nearer_than_the_same_of_everything_else() -> None:
    found = told(timing(seed=5, rounds=20), record(timing(seed=5, rounds=20, case=NARROW)), record(timing()))
    assert found == "seed (0 there, 5 here), plan.rounds (16 there, 20 here)"


def test_a_kind_that_was_never_asked_is_told_as_that() -> None:
    text, _ = why_missing(timing(), [record(Describe(target=TARGET))])
    assert text.startswith(
        "the recording has no answer to 'time' (case=4x8192-bf16, mode=forward, contenders=original), nor to any other "
        "question of that kind: it holds what its run asked"
    )


def test_a_recording_of_another_protocol_has_to_be_made_anew_and_says_how() -> None:
    older = PROTOCOL_VERSION - 1
    answers = [record(Describe(target=TARGET), {"name": "rms_norm"}, older), record(timing(), None, older)]
    text, command = why_missing(timing(), answers)
    assert f"it was made by protocol {older} of the worker, this is protocol {PROTOCOL_VERSION}" in text
    assert command == "warpsmith record rms_norm"


def test_a_record_says_its_protocol_or_its_identity_does() -> None:
    unsaid = record(timing(), None, 1)
    assert protocol_of(unsaid) == 1
    assert protocol_of({**unsaid, "protocol": 7}) == 7
    assert protocol_of({**unsaid, "identity": "0" * 64}) is None
