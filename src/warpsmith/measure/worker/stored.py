"""The worker with a memory: answers that are stored are not measured again.

Resuming a run, recording one and replaying one are this one mechanism. With a live worker behind it, an
answer counts only if it was measured, and in today's environment. With a recording behind it, the recording's own
environment holds, and a question that it has no answer to is a miss that says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
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
    WorkerError,
    WorkerFailure,
)

#: Questions that need no GPU. What they depend on is the compiler alone.
OFFLINE_KINDS = frozenset({"compile_offline"})


#: Questions whose answers depend on the target file alone.
UNBOUND_KINDS = frozenset({"describe"})

#: The one key of the answer to a question that failed.
FAILURE = "failure"


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

    def take_over(self, record: Mapping[str, Any]) -> None: ...


class Answers(Protocol):
    """A recording: answers by identity."""

    def get(self, identity: str) -> Mapping[str, Any] | None: ...


@dataclass
class StoredWorker:
    """Asks the store first; after it the recording, where a run replays one, or the live worker.

    `offline` answers what depends on no GPU, in either case.
    """

    store: Store
    live: Worker | None
    identify: Identify
    recording: Answers | None = None
    offline: Worker | None = None
    _environment: Environment | None = field(default=None, repr=False)

    def ask(self, question: AnyQuestion) -> Contract:
        (answer,) = self.ask_all([question])
        if isinstance(answer, WorkerFailure):
            raise WorkerError(answer)
        return answer

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers = [self._stored(question) for question in questions]
        missing = [index for index, answer in enumerate(answers) if answer is None]
        if missing:
            fresh = self._answering(questions[missing[0]]).ask_all([questions[index] for index in missing])
            for index, answer in zip(missing, fresh, strict=True):
                answers[index] = answer
                self._keep(questions[index], answer)
        return [answer for answer in answers if answer is not None]

    def close(self) -> None:
        for worker in (self.live, self.offline):
            if worker is not None:
                worker.close()

    def environment(self) -> Environment:
        """Today's environment, asked of the live worker once."""
        if self._environment is None:
            if self.live is None:
                raise Unavailable("no GPU here, and a recording carries its own environment")
            answer = self.live.ask(self.identify)
            assert isinstance(answer, Environment)
            self._environment = answer
        return self._environment

    def remember(self, question: AnyQuestion, answer: Contract) -> None:
        """Keeps an answer that was got past the store, where the store has none: for the sake of a recording."""
        if self.store.get(question.identity) is None:
            self._keep(question, answer)

    def _answering(self, question: AnyQuestion) -> Worker:
        worker = self.offline if question.kind in OFFLINE_KINDS else self.live
        if worker is None:
            raise Unavailable(_miss(question), next_command="warpsmith doctor")
        return worker

    def _stored(self, question: AnyQuestion) -> Contract | WorkerFailure | None:
        record = self.store.get(question.identity)
        if self.recording is not None and question.kind not in OFFLINE_KINDS:
            kept, record = record, self.recording.get(question.identity)
            if record is not None and kept is None:
                self.store.take_over(record)
        if record is None or not self._counts(question, record):
            return None
        try:
            if FAILURE in record["answer"]:
                return WorkerFailure.model_validate(record["answer"][FAILURE])
            return ANSWER_TYPES[question.kind].model_validate(record["answer"])
        except ValidationError:
            return None  # written by another version of the contracts, or damaged: no answer to rely on

    def _counts(self, question: AnyQuestion, record: Mapping[str, Any]) -> bool:
        """Whether a stored answer counts in this run. A failure is replayed, or tried again where it can be."""
        if question.kind in OFFLINE_KINDS:
            return bool(record["environment"] == self._today(question))
        if self.live is None:
            return True
        if record.get("replayed") or FAILURE in record["answer"]:
            return False
        today = None if question.kind in UNBOUND_KINDS else self.environment()
        return same_environment(record["environment"], today)

    def _keep(self, question: AnyQuestion, answer: Contract | WorkerFailure) -> None:
        """A failure is kept for replay alone, and only where it is known what it was met on."""
        failed = isinstance(answer, WorkerFailure)
        if failed and (self._environment is None or question.kind in OFFLINE_KINDS):
            return
        told = answer.model_dump(mode="json")
        self.store.append(
            identity=question.identity,
            kind=question.kind,
            environment=self._today(question),
            question=question.portable(),
            answer={FAILURE: told} if failed else told,
        )

    def _today(self, question: AnyQuestion) -> dict[str, Any] | None:
        """What the answer depends on. A description of the target depends on no GPU, nor does compiling offline."""
        if question.kind in UNBOUND_KINDS:
            return None
        if question.kind in OFFLINE_KINDS:
            return {"triton": metadata.version("triton")}
        return self.environment().model_dump(mode="json")


def same_environment(recorded: Mapping[str, Any] | None, today: Environment | None) -> bool:
    """Equal but for the GPU's UUID: an answer is a whole comparison on one GPU, so another of its model may go on.

    None is the environment of what depends on none.
    """
    if recorded is None or today is None:
        return recorded is None and today is None
    return today.is_that_of(recorded)


def _miss(question: AnyQuestion) -> str:
    what = ", ".join(f"{key}={value}" for key, value in _told(question).items())
    return (
        f"the recording has no answer to {question.kind!r} ({what}): it holds what its run asked, so a run with "
        "another goal, another target or another source needs a GPU"
    )


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
