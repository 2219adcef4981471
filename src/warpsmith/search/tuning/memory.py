"""Owns which numbers of programs need more memory than a guardrail allows, before any of them is timed.

Programs that keep partial sums need a row of them each, which nothing but a run tells. Only knobs of the host code are
weighed, each value beside the source's own of all else: warps, stages and registers allocate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from warpsmith.contracts.measurement import ORIGINAL, Contender, Memory
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure
from warpsmith.search.tuning.catalogue import Catalogue, Searched
from warpsmith.search.tuning.space import HOST_ONLY, Space, label

#: A knob's id and a value of it.
Turned = tuple[str, int]


def within_memory(
    searched: Searched, catalogues: Mapping[str, Catalogue], spaces: Mapping[str, Space]
) -> tuple[dict[str, Space], list[str]]:
    """The spaces with what they refuse for memory, by case name, and what there is to say of it.

    What a call may need is more than the original needs at its hungriest tuning case, by the guardrail. What cannot be
    weighed is not refused: the judgement weighs it. Raises WorkerError where the original cannot be weighed.
    """
    turned = {name: list(_turned(space)) for name, space in spaces.items()}
    if not any(turned.values()):
        return dict(spaces), []
    found, notes = _weighed(searched, catalogues, turned)
    largest = max(memory.needed(ORIGINAL) for memory in found.values())
    most = largest * (1 + searched.bench.thresholds.memory)
    allowed = f"of {_mb(largest)} that the original needs at most, and {searched.bench.thresholds.memory:.0%} more"
    limited: dict[str, Space] = {}
    for name, space in spaces.items():
        needed = {
            each: found[name].needed(label(dict([each]))) for each in turned[name] if _is_known(found[name], each)
        }
        over = {each: bytes_ for each, bytes_ in needed.items() if bytes_ > most}
        refused = {each: f"a call needs {_mb(bytes_)} {allowed}" for each, bytes_ in over.items()}
        limited[name] = replace(space, refused=refused)
        if over:
            told = ", ".join(f"{label(dict([each]))} ({_mb(bytes_)})" for each, bytes_ in over.items())
            notes.append(f"{name}: not tried, as a call would need too much memory, {allowed}: {told}")
    return limited, notes


def _turned(space: Space) -> Iterable[Turned]:
    for axis in space.axes:
        if axis.knob.kind in HOST_ONLY:
            for index, value in enumerate(axis.values):
                if value is not None and index != axis.original:
                    yield axis.knob.id, value


def _weighed(
    searched: Searched, catalogues: Mapping[str, Catalogue], turned: Mapping[str, list[Turned]]
) -> tuple[dict[str, Memory], list[str]]:
    """By case name, all that could be weighed there, and why the rest could not."""
    bench, mode, names = searched.bench, searched.mode, list(turned)
    bench.report(f"{mode.value}: memory by the number of programs at {len(names)} cases, each in a process of its own")
    original = Contender(name=ORIGINAL, source=searched.tunable)
    sides = [[original, *(_contender(searched, each) for each in turned[name])] for name in names]
    cases = [catalogues[name].case for name in names]
    found: dict[str, Memory] = {}
    notes: list[str] = []
    for name, case, answer in zip(
        names, cases, bench.weigh_all(list(zip(cases, sides, strict=True)), mode), strict=True
    ):
        if isinstance(answer, WorkerFailure):
            notes.append(f"{name}: the memory of more programs is not known: {answer.in_a_line}")
            (answer,) = bench.weigh_all([(case, [original])], mode)
        if isinstance(answer, WorkerFailure):
            raise WorkerError(answer)
        if (why := answer.failures.get(ORIGINAL)) is not None:
            raise WorkerError(WorkerFailure(status="runtime_failed", message=f"{name}: the original: {why}"))
        found[name] = answer
    return found, notes


def _contender(searched: Searched, turned: Turned) -> Contender:
    settings = dict([turned])
    return Contender(name=label(settings), source=searched.tunable, settings=settings)


def _is_known(memory: Memory, turned: Turned) -> bool:
    return label(dict([turned])) in memory.peak_bytes


def _mb(bytes_: float) -> str:
    return f"{bytes_ / 1e6:.1f} MB"
