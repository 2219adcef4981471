"""From searches to a source: tables of settings where host code sets them, configs where Triton's tuner does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.contracts.base import Settings
from warpsmith.contracts.device import DeviceFacts
from warpsmith.search.tuning.points import TOLERANCE, named
from warpsmith.search.tuning.results import CaseResult, Tuning
from warpsmith.search.tuning.space import Key, key_of, label
from warpsmith.search.tuning.tables import TunedCase, settings_tables
from warpsmith.source.autotune import add_configs
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import SettingsTable, write_table


@dataclass(frozen=True)
class Written:
    """A source with what the searches found. `base` is the source before its tables were written into it.

    `changes` is empty where nothing was found that is better; `reasons` say what could not be written.
    """

    source: str
    base: str
    changes: tuple[str, ...]
    tables: tuple[SettingsTable, ...]
    reasons: tuple[str, ...]


def write(source: str, tunings: Sequence[Tuning], width_axis: str, device: DeviceFacts) -> Written:
    """`source` is what was searched. A jit function that cannot be written is left as it was, with the reason."""
    reasons: list[str] = []
    changes: list[str] = []
    base = source
    for tuning in tunings:
        if not _is_set_by_tuner(tuning) or not (configs := best_configs(tuning)):
            continue
        jit_function = tuning.knobs[0].jit_function
        try:
            base = add_configs(base, jit_function, configs)
        except NotApplicable as reason:
            reasons.append(f"{jit_function}: {reason}")
            continue
        changes.append(f"{jit_function}: configs added: {'; '.join(label(config) for config in configs)}")
    tables: list[SettingsTable] = []
    written = base
    for tuning in tunings:
        if _is_set_by_tuner(tuning) or not tuning.knobs or not tuning.cases:
            continue
        cases = [TunedCase(each.case, each.original_launches, times(tuning.knobs, each)) for each in tuning.cases]
        found = settings_tables(source, tuning.knobs, cases, width_axis, device)
        reasons += found.reasons
        if not found.tables:
            continue
        try:
            written = write_table(base, scan(base), [*tables, *found.tables])
        except NotApplicable as reason:
            reasons.append(f"{tuning.knobs[0].jit_function}: {reason}")
            continue
        tables += found.tables
        changes += map(told, found.tables)
    return Written(written, base, tuple(changes), tuple(tables), tuple(reasons))


def _is_set_by_tuner(tuning: Tuning) -> bool:
    return any(knob.origin is KnobOrigin.AUTOTUNE for knob in tuning.knobs)


def times(knobs: Iterable[Knob], found: CaseResult) -> dict[Key, float]:
    """Times in ms by settings, the original's by (); values that change nothing are left out of the keys."""
    neutral = {knob.id: value for knob in knobs if (value := _neutral(knob)) is not None}
    result: dict[Key, float] = {(): found.original_ms}
    for settings, time_ms in found.times_ms:
        key = key_of({i: v for i, v in settings.items() if neutral.get(i) != v})
        result.setdefault(key, time_ms)
    return result


def _neutral(knob: Knob) -> int | None:
    """The value that changes nothing wherever it is given, None where that depends on the shape or is not known."""
    if knob.kind is KnobKind.PROGRAMS_PER_SM:
        return 1
    return int(knob.expression) if knob.origin is KnobOrigin.ABSENT and knob.expression.isdecimal() else None


def best_configs(tuning: Tuning) -> list[Settings]:
    """The fewest choices, one after the other, that bring every case within the tolerance of its best; by knob name.

    The tuner times its configs itself, so that no choice is bound to a shape; each more costs tuning time.
    """
    open_cases = {each.case.name: _better(each) for each in tuning.cases}
    chosen: list[Settings] = []
    while candidates := {key for keys in open_cases.values() for key in keys}:
        helped = {key: [name for name, keys in open_cases.items() if key in keys] for key in candidates}
        best = max(sorted(candidates), key=lambda key: len(helped[key]))
        chosen.append(named(best))
        for name in helped[best]:
            del open_cases[name]
    return chosen


def _better(found: CaseResult) -> frozenset[Key]:
    """The choices within the tolerance of the best at a case; none where the original is among them."""
    most_ms = found.best[1] * (1 + TOLERANCE)
    if found.original_ms <= most_ms:
        return frozenset()
    return frozenset(key_of(settings) for settings, time_ms in found.times_ms if settings and time_ms <= most_ms)


def told(table: SettingsTable) -> str:
    """A table in a line."""
    bands = []
    for band in table.bands:
        ranges = [f"{axis} {low} to {high}" for axis, (low, high) in zip(table.axes, band.ranges, strict=True)]
        bands.append(f"{', '.join(ranges) or 'every size'}: {label(band.settings)}")
    return f"{table.host_function}: {'; '.join(bands)}"
