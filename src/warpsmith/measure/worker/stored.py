"""The worker with a memory: answers that are stored are not measured again.

Resuming a run, recording one and replaying one are this one mechanism. With a live worker behind it, an
answer counts only if the environment it was measured in is today's; with none, the recording's own
environment holds and a question that was never answered is a miss that says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from warpsmith.contracts.base import Contract
from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import Unavailable
from warpsmith.measure.worker.protocol import (
    ANSWER_TYPES,
    AnyQuestion,
    Identify,
    Worker,
    WorkerFailure,
)


class Store(Protocol):
    """Where answers are kept: append-only, by identity."""

    def get(self, identity: str) -> Mapping[str, Any] | None: ...

    def append(
        self,
        *,
        identity: str,
        kind: str,
        environment: Mapping[str, Any] | None,
        question: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None: ...


@dataclass
class StoredWorker:
    """Asks the store first, the live worker after it. `live` None is replay."""

    store: Store
    live: Worker | None
    identify: Identify
    _environment: Environment | None = field(default=None, repr=False)

    def ask(self, question: AnyQuestion) -> Contract:
        answer = self._stored(question)
        if answer is not None:
            return answer
        if self.live is None:
            raise Unavailable(_miss(question), next_command="warpsmith doctor")
        answer = self.live.ask(question)
        self._keep(question, answer)
        return answer

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers: list[Contract | WorkerFailure | None] = [self._stored(question) for question in questions]
        missing = [index for index, answer in enumerate(answers) if answer is None]
        if missing:
            if self.live is None:
                raise Unavailable(_miss(questions[missing[0]]), next_command="warpsmith doctor")
            fresh = self.live.ask_all([questions[index] for index in missing])
            for index, answer in zip(missing, fresh, strict=True):
                answers[index] = answer
                if not isinstance(answer, WorkerFailure):
                    self._keep(questions[index], answer)
        return [answer for answer in answers if answer is not None]

    def close(self) -> None:
        if self.live is not None:
            self.live.close()

    def environment(self) -> Environment:
        """Today's environment, asked of the live worker once."""
        if self._environment is None:
            if self.live is None:
                raise Unavailable("no GPU here, and a recording carries its own environment")
            answer = self.live.ask(self.identify)
            assert isinstance(answer, Environment)
            self._environment = answer
        return self._environment

    def _stored(self, question: AnyQuestion) -> Contract | None:
        record = self.store.get(question.identity)
        if record is None or (self.live is not None and not _same(record["environment"], self._today(question))):
            return None
        try:
            return ANSWER_TYPES[question.kind].model_validate(record["answer"])
        except ValidationError:
            return None  # written by another version of the contracts, or damaged: no answer to rely on

    def _keep(self, question: AnyQuestion, answer: Contract) -> None:
        self.store.append(
            identity=question.identity,
            kind=question.kind,
            environment=self._today(question),
            question=question.portable(),
            answer=answer.model_dump(mode="json"),
        )

    def _today(self, question: AnyQuestion) -> dict[str, Any] | None:
        """What the answer depends on. A description of the target depends on no GPU."""
        if question.kind == "describe":
            return None
        return self.environment().model_dump(mode="json")


def _same(recorded: dict[str, Any] | None, today: dict[str, Any] | None) -> bool:
    """Equal but for the GPU's UUID: an answer is a whole comparison on one GPU, so another of its model may go on."""
    if not isinstance(recorded, dict) or today is None:
        return recorded is today
    return {**recorded, "gpu_uuid": None} == {**today, "gpu_uuid": None}


def _miss(question: AnyQuestion) -> str:
    what = ", ".join(f"{key}={value}" for key, value in _told(question).items())
    return f"no GPU here, and the recording has no answer to {question.kind!r} ({what})"


def _told(question: AnyQuestion) -> dict[str, str]:
    told: dict[str, str] = {}
    for name in ("case", "mode", "source", "candidate", "contenders"):
        value = getattr(question, name, None)
        if value is None:
            continue
        if name == "case":
            told[name] = value.name
        elif name == "mode":
            told[name] = value.value
        elif name == "contenders":
            told[name] = "+".join(contender.name for contender in value)
        else:
            told[name] = value.sha256[:12]
    return told
