"""The end of a search: what won apart is tried together, and what brings the winner nothing is taken out of it.

Neither is a strategy. The sources are put together and taken apart as a three-way merge does, so that it holds for any
variant, whoever wrote it; what comes of it is judged as every other variant is.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.measurement import Contender, Timing
from warpsmith.contracts.result import AblatedPart
from warpsmith.contracts.variant import ABLATION, COMBINATION, Variant
from warpsmith.contracts.verdict import Outcome, Verdict
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.search.ablation import Part, brings_something, parts_of, without
from warpsmith.search.combination import combination, lineage
from warpsmith.search.strategies.base import Inapplicable, Proposal
from warpsmith.source.merging import merged
from warpsmith.source.refusal import NotApplicable
from warpsmith.stages.judge import time_pairs
from warpsmith.stages.session import source_ref
from warpsmith.stages.trying import Search, try_variant
from warpsmith.verdict.statistics import goal_speedup

#: Chosen: how much slower than the best the smaller change may read, where noise reaches less far.
AS_GOOD = 0.003


def combine(search: Search) -> None:
    """Tries what won apart together on the best, as one variant; nothing where there is nothing new to try."""
    best = search.best
    found = combination(search.variants, best, search.rules.thresholds, search.rules.noise_floor or 0.0)
    if found is None:
        return
    base_gain = best.verdict.speedup.value if best and best.verdict and best.verdict.speedup else 1.0
    each = [f"v{part.number}, {part.title}: {gain:.3f}× what it was built on" for part, gain in found.parts]
    variant = Variant(
        number=len(search.variants) + 1,
        strategy=COMBINATION,
        title="What won apart, together",
        based_on=best.number if best else 0,
        hypothesis="Changes that each won a little, in different places, should win together what they won apart.",
        evidence=tuple(each),
        basis=("the product of what each part won, if they do not meet",),
        predicted_low=base_gain,
        predicted_high=base_gain * found.gain,
        origin=search.profile.origin,
    )

    def propose() -> Proposal:
        source, changes, learnings = search.best_text, list[str](), list[str]()
        for part, _ in found.parts:
            try:
                source = merged(search.text(part.based_on), source, search.text(part.number))
            except NotApplicable as reason:
                learnings.append(f"v{part.number} was left out: {reason}")
                continue
            changes += [f"v{part.number}: {change}" for change in part.changes or (part.title,)]
        if source in {search.best_text, *(search.text(part.number) for part, _ in found.parts)}:
            raise Inapplicable("; ".join([*learnings, "nothing new comes of putting them together"]))
        return Proposal(source=source, changes=tuple(changes), learnings=tuple(learnings))

    try_variant(search, variant, propose, search.takes_the_best)


def ablate(search: Search) -> tuple[AblatedPart, ...]:
    """Removes each part of the best once, and all that bring nothing for good if that is as fast; what each brings.

    Nothing is asked where the best has one part alone. Raises WorkerError where the best cannot be timed.
    """
    best = search.best
    if best is None or search.rules.objective is not Objective.SPEED:
        return ()
    chain = lineage(search.variants, best)
    sources = {0: search.text(0), **{each.number: search.text(each.number) for each in chain}}
    parts = parts_of(search.best_text, search.text(0), chain, sources)
    if len(parts) < 2:
        return ()
    search.session.progress.step(f"what each of the {len(parts)} parts of v{best.number} brings")
    found = _each_removed(search, best, parts)
    needless = [part for part, each in zip(parts, found, strict=True) if not each.needed]
    if needless:
        _try_without(search, best, needless, found)
    return found


def _each_removed(search: Search, best: Variant, parts: Sequence[Part]) -> tuple[AblatedPart, ...]:
    """What the best gains by each of its parts, from one comparison a case with all of them in it."""
    bench, name = search.bench, f"v{best.number}"
    sides = [Contender(name=name, source=source_ref(search.session.workspace.variant(best.number)))]
    whys: dict[str, str] = {}
    for number, part in enumerate(parts):
        try:
            text = part.remove(search.best_text)
        except NotApplicable as reason:
            whys[part.name] = f"it cannot be taken out by itself: {reason}"
            continue
        sides.append(Contender(name=part.name, source=bench.keep(f"{name}_without_{number}", text)))
    cases = search.rules.counted(bench.spec)
    timings = time_pairs(bench, sides, [(case, search.rules.goal) for case in cases]) if len(sides) > 1 else ()
    return tuple(_brought(search, name, part.name, timings, whys) for part in parts)


def _brought(search: Search, best: str, part: str, timings: Sequence[Timing], whys: dict[str, str]) -> AblatedPart:
    failed = next((timing.failures[part] for timing in timings if part in timing.failures), None)
    if part in whys or failed is not None:
        return AblatedPart(name=part, needed=True, detail=whys.get(part) or f"without it: {failed}")
    gain = goal_speedup(timings, part, best, weights=search.rules.weights)
    return AblatedPart(name=part, needed=brings_something(gain, search.rules.noise_floor or 0.0), gain=gain)


def _try_without(search: Search, best: Variant, parts: Sequence[Part], found: Sequence[AblatedPart]) -> None:
    assert best.verdict is not None and best.verdict.speedup is not None
    gain = best.verdict.speedup.value
    _, taken = without(search.best_text, parts)
    names = ", ".join(part.name for part in parts)
    variant = Variant(
        number=len(search.variants) + 1,
        strategy=ABLATION,
        title="The best without what brings it nothing",
        based_on=best.number,
        hypothesis=f"Without {names} it is as fast: what a maintainer need not read should not be there.",
        evidence=tuple(f"{each.name}: {each.gain}× in the goal" for each in found if each.gain is not None),
        basis=(f"times {gain:.3f}×, which v{best.number} was measured at",),
        predicted_low=gain * (1 - AS_GOOD),
        predicted_high=gain * (1 + AS_GOOD),
        origin=search.profile.origin,
        without=tuple(sorted(number for part in taken for number in part.variants)),
    )

    def propose() -> Proposal:
        source, taken = without(search.best_text, parts)
        if not taken:
            raise Inapplicable("none of them can be taken out after the other")
        return Proposal(source=source, changes=tuple(f"taken out again: {part.name}" for part in taken))

    def takes_the_best(verdict: Verdict | None) -> bool:
        if verdict is None or verdict.outcome is not Outcome.ACCEPTED or verdict.over_best is None:
            return False
        return verdict.over_best.value >= 1 - max(AS_GOOD, 2 * (search.rules.noise_floor or 0.0))

    try_variant(search, variant, propose, takes_the_best)


def refine(search: Search, *, combining: bool) -> tuple[AblatedPart, ...]:
    """Both, in turn; what the parts of the best bring. A comparison that breaks down is told, and the best stays."""
    if combining:
        combine(search)
    try:
        return ablate(search)
    except WorkerError as error:
        search.session.progress.note(f"what each part brings is not known: {error}")
        return ()
