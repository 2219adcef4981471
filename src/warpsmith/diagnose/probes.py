"""Owns what a knob changes: settings grouped by what they launch. Pure; compiles nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import CompiledSettings, SettingsProbe

#: Of each launch, in order: the machine code and the grid.
_Launched = tuple[tuple[str, tuple[int, ...]], ...]


def settings_probe(
    knob: str, case: str, mode: Mode, values: Sequence[int], compiled: Sequence[CompiledSettings], jit_function: str
) -> SettingsProbe:
    """Groups a knob's values, each with what it compiled to, by the machine code of that jit function's launches.

    Values that give the same code and another grid are apart: they run differently. Values at which the jit function
    is not launched are alike. Raises ValueError where there is not one answer for each value.
    """
    groups: dict[_Launched, list[int]] = {}
    failures: dict[int, str] = {}
    for value, found in zip(values, compiled, strict=True):
        if found.failure is not None:
            failures[value] = found.failure
        else:
            groups.setdefault(_launched(found, jit_function), []).append(value)
    return SettingsProbe(knob=knob, case=case, mode=mode, alike=tuple(map(tuple, groups.values())), failures=failures)


def inert_knobs(probes: Sequence[SettingsProbe]) -> dict[str, tuple[int, ...]]:
    """Knobs that change no machine code wherever they were tried, with the values that were."""
    found: dict[str, tuple[int, ...]] = {}
    for knob in dict.fromkeys(probe.knob for probe in probes):
        tried = [probe for probe in probes if probe.knob == knob]
        if all(probe.is_inert for probe in tried):
            found[knob] = tuple(dict.fromkeys(value for probe in tried for value in probe.alike[0]))
    return found


def _launched(found: CompiledSettings, jit_function: str) -> _Launched:
    return tuple(
        (each.compiled.binary_sha256, each.grid) for each in found.launches if each.jit_function == jit_function
    )
