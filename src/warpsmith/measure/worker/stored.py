"""The worker with a memory: answers that are stored are not measured again.

Resuming a run, recording one and replaying one are this one mechanism. With a live worker behind it, an
answer counts only if it was measured, and in today's environment. With a recording behind it, the recording's own
environment holds, and a question that it has no answer to is a miss that says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

from pydantic import ValidationError

from warpsmith.contracts.base import Contract
from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import Unavailable
from warpsmith.measure.worker.identity import PROTOCOL_VERSION
from warpsmith.measure.worker.misses import protocol_of, why_missing
from warpsmith.measure.worker.protocol import ANSWER_TYPES, AnyQuestion, Identify, Worker, WorkerError, WorkerFailure

#: Questions that need no GPU. What they depend on is the compiler alone.
OFFLINE_KINDS = frozenset({"compile_offline"})


#: Questions whose answers depend on the target file alone.
UNBOUND_KINDS = frozenset({"describe"})

#: The one key of the answer to a question that failed.
FAILURE = "failure"


class NotRecorded(Unavailable):
    """A question that the recording has no answer to."""


class Store(Protocol):
    """Where answers are kept: append-only, by identity."""

    def get(self, identity: str) -> Mapping[str, Any] | None: ...

    def append(
        self,
        *,
        identity: str,
        kind: str,
        protocol: int,
        environment: Mapping[str, Any] | None,
        question: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None: ...

    def take_over(self, record: Mapping[str, Any]) -> None: ...

    def records(self) -> Iterable[Mapping[str, Any]]: ...


class Answers(Protocol):
    """A recording: answers by identity."""

    def get(self, identity: str) -> Mapping[str, Any] | None: ...

    def records(self) -> Iterable[Mapping[str, Any]]: ...


@dataclass
class StoredWorker:
    """Asks the store first; after it the recording, where a run replays one, or the live worker.

    `offline` answers what depends on no GPU, in either case, as `compiler`, a version of triton, compiles it: None is
    the installed one. `told` hears, once for each reason, why stored answers do not count.
    """

    store: Store
    live: Worker | None
    identify: Identify
    recording: Answers | None = None
    offline: Worker | None = None
    compiler: str | None = None
    told: Callable[[str], None] | None = None
    _environment: Environment | None = field(default=None, repr=False)
    _reasons_told: set[str] = field(default_factory=set, repr=False)
    _looked_for_other_protocols: bool = field(default=False, repr=False)

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

    def triton(self) -> str:
        """The version of triton that answers which need no GPU depend on."""
        return self.compiler or metadata.version("triton")

    def remember(self, question: AnyQuestion, answer: Contract) -> None:
        """Keeps an answer that was got past the store, where the store has none: for the sake of a recording."""
        if self.store.get(question.identity) is None:
            self._keep(question, answer)

    def has_answer_to(self, question: AnyQuestion) -> bool:
        """Whether a stored answer counts, so that asking measures nothing."""
        return self._looked_up(question)[0] is not None

    def supply(self, question: AnyQuestion, answer: Contract) -> None:
        """Keeps an answer that holds in today's environment and was got elsewhere, in the place of one that does not
        count."""
        self._keep(question, answer)

    def _answering(self, question: AnyQuestion) -> Worker:
        worker = self.offline if question.kind in OFFLINE_KINDS else self.live
        if worker is None:
            told, next_command = why_missing(question, self._replayable(question).records())
            raise NotRecorded(told, next_command=next_command)
        return worker

    def _stored(self, question: AnyQuestion) -> Contract | WorkerFailure | None:
        answer, reason = self._looked_up(question)
        if reason is not None:
            self._tell(reason)
        return answer

    def _looked_up(self, question: AnyQuestion) -> tuple[Contract | WorkerFailure | None, str | None]:
        """The stored answer that counts, or None and, where one is stored, why it does not."""
        kept, recorded = self.store.get(question.identity), self._recorded(question)
        if recorded is not None and kept is None:
            self.store.take_over(recorded)
        alone = self.recording is not None and question.kind not in OFFLINE_KINDS
        record = recorded if recorded is not None or alone else kept
        reason = self._unknown() if record is None else self._refusal(question.kind, record)
        if record is None or reason is not None:
            return None, reason
        return _answer_in(question.kind, record), None

    def _recorded(self, question: AnyQuestion) -> Mapping[str, Any] | None:
        return None if self.recording is None else self.recording.get(question.identity)

    def _replayable(self, question: AnyQuestion) -> Answers:
        return self.store if self.recording is None or question.kind in OFFLINE_KINDS else self.recording

    def _unknown(self) -> str | None:
        """Why a question that is stored under no identity may once have been: another protocol asked otherwise."""
        if self.live is None or self.told is None or self._looked_for_other_protocols:
            return None
        self._looked_for_other_protocols = True
        found = {protocol_of(record) for record in self.store.records()}
        others = [version for version in found if version not in (None, PROTOCOL_VERSION)]
        return _of_another_protocol(others[0]) if others else None

    def _refusal(self, kind: str, record: Mapping[str, Any]) -> str | None:
        """Why a stored answer does not count in this run; None where it does.

        A failure is replayed, or tried again where it can be.
        """
        if kind in OFFLINE_KINDS:
            return self._refusal_of_compiled(record)
        if self.live is not None:
            if record.get("replayed"):
                return "measured again: replayed from a recording, not measured here"
            if (failed := _failed_before(record)) is not None:
                return failed
            if kind not in UNBOUND_KINDS:
                if record["environment"] is None:
                    return "measured again: stored without what it was measured on"
                if changes := self.environment().changes_since(record["environment"]):
                    return f"measured again: {', '.join(changes)}"
        if _answer_in(kind, record) is None:  # written by another version of the contracts, or damaged
            return "measured again: stored in a form that this version does not read"
        return None

    def _refusal_of_compiled(self, record: Mapping[str, Any]) -> str | None:
        """What a recording has was compiled by what its run was compiled by, and holds for it."""
        if self.recording is not None and self.recording.get(record["identity"]) is not None:
            return None
        then, now = (record["environment"] or {}).get("triton"), self.triton()
        if then != now:
            return f"compiled again: triton {then}, now {now}"
        return None if self.offline is None else _failed_before(record)

    def _tell(self, reason: str) -> None:
        """Says it once, with the number of stored answers that it holds for."""
        if self.told is None or reason in self._reasons_told:
            return
        self._reasons_told.add(reason)
        count = sum(self._why_useless(record) == reason for record in self.store.records())
        self.told(f"{reason} ({count} {'answer' if count == 1 else 'answers'})")

    def _why_useless(self, record: Mapping[str, Any]) -> str | None:
        if (protocol := protocol_of(record)) not in (PROTOCOL_VERSION, None):
            return _of_another_protocol(protocol)
        return self._refusal(record["kind"], record)

    def _keep(self, question: AnyQuestion, answer: Contract | WorkerFailure) -> None:
        """A failure is kept for replay alone, and only where it is known what it was met on."""
        failed = isinstance(answer, WorkerFailure)
        if failed and self._environment is None and question.kind not in OFFLINE_KINDS:
            return
        told = answer.model_dump(mode="json")
        self.store.append(
            identity=question.identity,
            kind=question.kind,
            protocol=PROTOCOL_VERSION,
            environment=self._today(question),
            question=question.portable(),
            answer={FAILURE: told} if failed else told,
        )

    def _today(self, question: AnyQuestion) -> dict[str, Any] | None:
        """What the answer depends on. A description of the target depends on no GPU, nor does compiling offline."""
        if question.kind in UNBOUND_KINDS:
            return None
        if question.kind in OFFLINE_KINDS:
            return {"triton": self.triton()}
        return self.environment().model_dump(mode="json")


def same_environment(recorded: Mapping[str, Any] | None, today: Environment | None) -> bool:
    """Equal but for the GPU's UUID: an answer is a whole comparison on one GPU, so another of its model may go on.

    None is the environment of what depends on none.
    """
    if recorded is None or today is None:
        return recorded is None and today is None
    return today.is_that_of(recorded)


def _of_another_protocol(protocol: int | None) -> str:
    return f"measured again: asked by protocol {protocol} of the worker, now {PROTOCOL_VERSION}"


def _failed_before(record: Mapping[str, Any]) -> str | None:
    failure = _answer_in(record["kind"], record)
    return f"tried again: it had ended {failure.status}" if isinstance(failure, WorkerFailure) else None


def _answer_in(kind: str, record: Mapping[str, Any]) -> Contract | WorkerFailure | None:
    """The answer or the failure that a record has; None where it fits no contract."""
    answer = record["answer"]
    try:
        if FAILURE in answer:
            return WorkerFailure.model_validate(answer[FAILURE])
        return ANSWER_TYPES[kind].model_validate(answer)
    except (ValidationError, KeyError):
        return None
