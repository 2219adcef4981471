"""Asks all that a bench shows, and goes on where a question has no answer: what is missing is told in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import L2, ORIGINAL, Contender, Correctness, HostTime, Memories, SourceRef, Timing
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Answer, AnyQuestion, Check, MeasureMemory, WorkerError, WorkerFailure
from warpsmith.measure.worker.stored import NotRecorded
from warpsmith.report.bench_rows import NOT_RECORDED, Observations, Place
from warpsmith.search.bench import Bench
from warpsmith.stages.timings import (
    COMPILED_PROVIDERS,
    contenders,
    everyone_at,
    fits_l2,
    host_time_question,
    memory_question,
    pairs,
    providers_at,
    with_providers,
)

#: Failures after which no other question would be answered either.
HOPELESS = frozenset({"no_device", "bad_target"})


@dataclass
class Measuring:
    """`chosen` is what is shown. `bench.spec` is what is asked: the same, or on replay all that the recorded run asked.

    A question that a recording answers holds all contenders and modes that its run had, so that those are asked for
    whole and left out afterwards.
    """

    bench: Bench
    chosen: TargetSpec
    l2: L2 | None
    device_time_only: bool = False
    seen: Observations = field(default_factory=Observations)
    places: list[Place] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    def check(self, sources: Mapping[str, SourceRef]) -> dict[str, SourceRef]:
        """The sources that are right at the cases chosen; `excluded` says of the others what is wrong with them."""
        bench, right = self.bench, {}
        for index, (name, source) in enumerate(sources.items()):
            bench.report(f"{name}: {len(self.chosen.cases)} cases", index, len(sources))
            question = Check(
                target=bench.target,
                seed=bench.seed,
                original=bench.original,
                candidate=source,
                cases=self.chosen.cases,
            )
            found = self._answer(question, Correctness)
            if isinstance(found, str):
                self.excluded[name] = found
            elif not found.passed:
                self.excluded[name] = f"wrong_result: {found.failures_told}"
            else:
                right[name] = source
        return right

    def measure(self, sources: Mapping[str, SourceRef]) -> None:
        """Device time, and unless that is all, host time and peak memory of the original, the sources and the
        providers."""
        bench, chosen = self.bench, self.chosen
        sides = contenders(**{ORIGINAL: bench.original}, **sources)
        for index, (case, mode) in enumerate(todo := pairs(chosen.cases, chosen.modes)):
            bench.report(f"{case.name} {mode.value}", index, len(todo))
            timings = self._time(sides, case, mode)
            everyone = everyone_at(bench.spec, sides, case)
            if timings and not self.device_time_only:
                hosted = self._answer(host_time_question(bench, timings, everyone), HostTime)
                if isinstance(hosted, str):
                    self.lacking["host time"] = f"at {case.name} {mode.value}: {hosted}"
                else:
                    self.seen.host_times.append(hosted)
        if self.device_time_only:
            return
        self._weigh([memory_question(bench, everyone_at(bench.spec, sides, case), case) for case in chosen.cases])

    def _time(self, sides: Sequence[Contender], case: Case, mode: Mode) -> tuple[Timing, ...]:
        """The comparisons at a case and mode, in each state of L2; returned are those of the first that there are."""
        names = (*(side.name for side in sides), *providers_at(self.chosen, case))
        first: tuple[Timing, ...] = ()
        for l2 in self._states(case, mode):
            self.places.append(Place(case, mode, l2, names))
            try:
                timings = with_providers(replace(self.bench, l2=l2), sides, case, mode)
            except (NotRecorded, WorkerError) as error:
                self.seen.refused[case.name, mode, l2] = _told(error)
                continue
            self.seen.timings.extend(timings)
            first = first or timings
        return first

    def _states(self, case: Case, mode: Mode) -> tuple[L2, ...]:
        if self.l2 is not None:
            return (self.l2,)
        fits = fits_l2(self.chosen, self.bench.device, case, mode)
        return (L2.COLD, L2.WARM) if fits else (L2.COLD,)

    def _weigh(self, questions: Sequence[MeasureMemory]) -> None:
        """Peak memory, all asked at once: each question has a process of its own. Not so where some are recorded."""
        self.bench.report("peak memory")
        try:
            answers: Sequence[object] = self.bench.worker.ask_all(questions)
        except NotRecorded:
            answers = [self._answer(question, Memories) for question in questions]
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, Memories):
                self.seen.memories.extend(memory for memory in answer.memories if memory.mode in self.chosen.modes)
            else:
                why = answer.in_short if isinstance(answer, WorkerFailure) else answer
                self.lacking["peak memory"] = f"at {question.case.name}: {why}"

    def _answer(self, question: AnyQuestion, answer_type: type[Answer]) -> Answer | str:
        """The answer, or why there is none."""
        try:
            return self.bench.ask(question, answer_type)
        except (NotRecorded, WorkerError) as error:
            return _told(error)

    def notes(self) -> tuple[str, ...]:
        """What a person should know of what is not there."""
        told = []
        unanswered = sum(why == NOT_RECORDED for why in self.seen.refused.values())
        if unanswered:
            told.append(
                f"{unanswered} of {len(self.places)} comparisons are not in the recording, which holds what its run "
                "asked, and are left out; on a machine with a GPU the same command measures them"
            )
        told += [f"{what} is not known everywhere, the last one {why}" for what, why in self.lacking.items()]
        held_out = len(self.chosen.cases) > len(self.chosen.tuning_cases)
        if held_out and (compiled := COMPILED_PROVIDERS & set(self.chosen.providers)):
            told.append(f"{', '.join(sorted(compiled))} is timed at tuning cases only, as it compiles every shape anew")
        return tuple(told)


def _told(error: NotRecorded | WorkerError) -> str:
    """Why a question has no answer. Raises what no other question would survive either."""
    if isinstance(error, NotRecorded):
        return NOT_RECORDED
    if error.failure.status in HOPELESS:
        raise error
    return error.failure.in_short
