"""An exhaustive search beside the product's own, over one space at one case: what each finds, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuning.alone import Kernel, launched
from tuning.claims import CHOSEN, EXHAUSTIVE
from tuning.kept import Exhausted
from tuning.tally import Tally
from warpsmith.contracts.audit import Knob
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL, Contender, SourceRef, Timing, TimingPlan
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.budget import Budget
from warpsmith.search.tuning.catalogue import Catalogue, Searched, compile_into, originals
from warpsmith.search.tuning.choices import knobs_to_search
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.space import Space, label
from warpsmith.search.tuning.values import space_at
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable
from warpsmith.verdict.statistics import median_ms

#: The interval of every setting is brought to ±0.25%, as the usual comparison's is, at fewer placements: capturing
#: hundreds of graphs anew takes far longer than running them.
EVERY = TimingPlan(rounds_a_placement=4)
#: The best few of both, side by side.
LAST = TimingPlan(rounds=32, most_rounds=64)
#: Chosen: a comparison holds a graph of each contender.
AT_ONCE = 48
#: Chosen: so many of the exhaustive search's best go into the last comparison, since the best of many is lucky.
BEST = 3


@dataclass(frozen=True)
class Place:
    """Where both search: a tunable source and its knobs in one pass at one case."""

    kernel: str
    of: str
    tunable: SourceRef
    knobs: Sequence[Knob]
    mode: Mode
    case: Case


def place_of(kernel: Kernel, mode: Mode, case: str) -> Place:
    """The jit function that the pass spends its launches on, with all its knobs. Raises PreflightError, WorkerError."""
    bench = kernel.bench
    functions = [jit_function for each, jit_function in launched(kernel) if each is mode]
    if len(functions) != 1:
        found = ", ".join(functions) or "none"
        raise PreflightError(f"{kernel.name} {mode.value}: expected one jit function that is launched, found {found}")
    knobs, _ = knobs_to_search(scan(kernel.text).knobs, functions[0], frozenset())
    tunable = bench.keep(f"tunable_{functions[0]}", make_tunable(kernel.text, knobs))
    return Place(kernel.name, kernel.of, tunable, knobs, mode, bench.spec.case(case))


def compare_searches(bench: Bench, place: Place, tell: Callable[[str], None]) -> Exhausted:
    """Raises WorkerError, PreflightError where nothing can be searched at that case."""
    spec = bench.spec.model_copy(update={"cases": (place.case,)})
    mine, theirs = Tally(bench.worker), Tally(bench.worker)
    found = tune(replace(bench, worker=mine, spec=spec), place.tunable, place.knobs, place.mode, Budget())
    if not found.cases:
        raise PreflightError(f"{place.kernel} cannot be searched at {place.case.name}: {'; '.join(found.notes)}")
    chosen = found.cases[0].best[0]
    tell(f"the search chose {label(chosen)}; timing all settings")
    searched = Searched(replace(bench, worker=theirs, spec=spec), place.tunable, place.mode)
    catalogue, space = _compiled(searched, place)
    runnable = [dict(key) for key, compiled in catalogue.compiled.items() if key and compiled.failure is None]
    timings = _timed(searched, place, runnable, tell)
    spent_ms = theirs.device_time_ms
    last = _last(searched, place, chosen, _best(timings, runnable))
    return Exhausted(
        kernel=place.kernel,
        of=place.of,
        case=place.case,
        mode=place.mode,
        jit_function=place.knobs[0].jit_function,
        device=bench.device,
        n_settings=space.size,
        n_runnable=len(runnable) + 1,
        n_distinct=len(catalogue.distinct) + 1,
        exhaustive_device_time_ms=spent_ms,
        search_device_time_ms=mine.device_time_ms,
        chosen=chosen,
        timings=tuple(timings),
        last=last,
    )


def _compiled(searched: Searched, place: Place) -> tuple[Catalogue, Space]:
    """Everything that the space holds and that is not known beforehand to be unable to run, compiled."""
    catalogues, failures = originals(searched)
    if place.case.name not in catalogues:
        raise PreflightError(f"{place.kernel} does not compile at {place.case.name}: {failures[place.case.name]}")
    catalogue = catalogues[place.case.name]
    space = space_at(place.knobs, catalogue.launches, searched.bench.device)
    every = [space.settings(point) for point in space.points() if point != space.origin]
    possible = [each for each in every if why_not(space, each, place.case, searched.bench.device) is None]
    compile_into(searched, [(catalogue, possible)], f"{place.case.name}: compiling all settings")
    return catalogue, space


def _timed(searched: Searched, place: Place, runnable: Sequence[Settings], tell: Callable[[str], None]) -> list[Timing]:
    timings: list[Timing] = []
    for start in range(0, len(runnable), AT_ONCE):
        tell(f"{start} of {len(runnable)} settings timed")
        some = {label(each): each for each in runnable[start : start + AT_ONCE]}
        timings.append(_time(searched, place, some, EVERY))
    return timings


def _best(timings: Sequence[Timing], runnable: Sequence[Settings]) -> list[Settings]:
    """The settings whose share of the original's time, in their own comparison, was least."""
    by_name = {label(each): each for each in runnable}
    shares = {
        name: median_ms(timing, name).value / median_ms(timing, ORIGINAL).value
        for timing in timings
        for name in {block.contender for block in timing.blocks} - {ORIGINAL}
    }
    return [by_name[name] for name in sorted(shares, key=lambda name: (shares[name], name))[:BEST]]


def _last(searched: Searched, place: Place, chosen: Settings, best: Sequence[Settings]) -> Timing:
    named = {EXHAUSTIVE if number == 0 else f"{EXHAUSTIVE} {number + 1}": each for number, each in enumerate(best)}
    return _time(searched, place, {**named, CHOSEN: chosen}, LAST)


def _time(searched: Searched, place: Place, settings: dict[str, Settings], plan: TimingPlan) -> Timing:
    contenders = [Contender(name=ORIGINAL, source=place.tunable)]
    contenders += [Contender(name=name, source=place.tunable, settings=each) for name, each in settings.items()]
    return searched.bench.time(contenders, place.case, place.mode, plan)
