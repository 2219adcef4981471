"""Owns what settings compile to at each case, and which of them are the same thing to the GPU.

Settings with identical machine code and grid for every launch are measured once. Must not know times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.worker.protocol import Compile, WorkerFailure
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.space import Key, key_of

#: Chosen: one question keeps a compile worker busy for some seconds, and all of them have something to do.
SETTINGS_PER_QUESTION = 4
#: Chosen: fewer settings than this are spread one a question.
FEW = 16


@dataclass(frozen=True)
class Searched:
    """A tunable source in one mode, and the bench to ask."""

    bench: Bench
    tunable: SourceRef
    mode: Mode


def binary(compiled: CompiledSettings) -> str | None:
    """The machine code of all launches, shortened; None where it did not compile."""
    if compiled.failure is not None:
        return None
    return "+".join(launch.compiled.binary_sha256[:12] for launch in compiled.launches)


def identity(compiled: CompiledSettings) -> str | None:
    """What the GPU runs: machine code and grid of each launch. None where it did not compile."""
    code = binary(compiled)
    return None if code is None else f"{code} {[launch.grid for launch in compiled.launches]}"


@dataclass
class Catalogue:
    """What was compiled at one case, by settings; `refused` are those that were not, and why.

    The first settings of each identity stand for the others; the original comes before all.
    """

    case: Case
    original: CompiledSettings
    compiled: dict[Key, CompiledSettings] = field(default_factory=dict)
    refused: dict[Key, str] = field(default_factory=dict)
    _first: dict[str, Key] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.add(self.original)

    @property
    def launches(self) -> tuple[LaunchRecord, ...]:
        return self.original.launches

    def add(self, compiled: CompiledSettings) -> None:
        key = key_of(compiled.settings)
        self.compiled[key] = compiled
        if (what := identity(compiled)) is not None:
            self._first.setdefault(what, key)

    def representative(self, key: Key) -> Key | None:
        """The settings that are measured for these; () is the original. None where they do not compile."""
        compiled = self.compiled.get(key)
        what = None if compiled is None else identity(compiled)
        return None if what is None else self._first[what]

    def failure(self, key: Key) -> str | None:
        """Why these settings cannot be measured, as far as that is known."""
        compiled = self.compiled.get(key)
        return self.refused.get(key) if compiled is None else compiled.failure

    @property
    def distinct(self) -> list[Key]:
        """What is to be measured beside the original, in the order compiled."""
        return [key for key in self._first.values() if key]


def originals(searched: Searched) -> tuple[dict[str, Catalogue], dict[str, str]]:
    """The original compiled at every tuning case, by case name; and for cases where it is not, why."""
    cases = searched.bench.spec.tuning_cases
    questions = [_question(searched, case, [{}]) for case in cases]
    found: dict[str, Catalogue] = {}
    failures: dict[str, str] = {}
    told = f"{searched.mode.value}: compiling the original"
    for case, answer in zip(cases, searched.bench.compile_all(questions, told), strict=True):
        if isinstance(answer, WorkerFailure):
            failures[case.name] = answer.in_a_line
        elif answer[0].failure is not None:
            failures[case.name] = answer[0].failure
        else:
            found[case.name] = Catalogue(case, answer[0])
    return found, failures


def compile_into(searched: Searched, wanted: Iterable[tuple[Catalogue, Sequence[Settings]]], told: str) -> None:
    """Compiles what the catalogues do not have yet, all side by side. A question that fails is noted, not raised."""
    asked: list[tuple[Catalogue, Compile]] = []
    for catalogue, choices in wanted:
        known = {*catalogue.compiled, *catalogue.refused}
        fresh = list({key: s for s in choices if (key := key_of(s)) not in known}.values())
        step = 1 if len(fresh) <= FEW else SETTINGS_PER_QUESTION
        parts = (fresh[start : start + step] for start in range(0, len(fresh), step))
        asked += [(catalogue, _question(searched, catalogue.case, part)) for part in parts]
    answers = searched.bench.compile_all([question for _, question in asked], told)
    for (catalogue, question), answer in zip(asked, answers, strict=True):
        if isinstance(answer, WorkerFailure):
            why = answer.in_a_line
            answer = tuple(CompiledSettings(settings=each, failure=why) for each in question.settings)
        for compiled in answer:
            catalogue.add(compiled)


def _question(searched: Searched, case: Case, settings: Sequence[Settings]) -> Compile:
    bench = searched.bench
    return Compile(
        target=bench.target,
        seed=bench.seed,
        source=searched.tunable,
        case=case,
        mode=searched.mode,
        settings=tuple(settings),
    )
