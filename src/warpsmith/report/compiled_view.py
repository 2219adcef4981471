"""Compiled code arranged for reading: equal launches told once, what limits occupancy, how wide each access is.

Pure; must not know how the page is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.case import Role
from warpsmith.contracts.launch import AccessKind, CompiledFacts, GlobalAccess, LaunchRecord, SettingsProbe
from warpsmith.contracts.profile import Profile
from warpsmith.diagnose.compiled_change import SPILL_BYTES
from warpsmith.diagnose.occupancy import occupancy
from warpsmith.report import quantities

NOT_RECORDED = "not recorded"
#: Whether a knob matters, where it does not.
CHANGES_NOTHING = "**no**"


@dataclass(frozen=True)
class Fit:
    """How a launch fits the GPU, in words: share of an SM's warps with what limits it, waves with their tail."""

    occupancy: str
    waves: str


@dataclass(frozen=True)
class LaunchLine:
    """Launches of one jit function that differ in nothing but the case."""

    launch: LaunchRecord
    grid: str
    spills: str
    fit: Fit
    cases: tuple[str, ...]


@dataclass(frozen=True)
class AccessLine:
    """What a jit function's machine code does in global memory: a cell a kind of access, in AccessKind's order."""

    jit_function: str
    cells: tuple[str, ...]
    matrix: str
    cases: tuple[str, ...]


@dataclass(frozen=True)
class ProbeLine:
    """What one knob changes of the machine code, with the cases and modes at which it is so."""

    knob: str
    matters: str
    alike: str
    failures: str
    places: tuple[str, ...]


def launch_lines(profile: Profile) -> tuple[LaunchLine, ...]:
    """Each different launch at the tuning cases, with the cases it is made at, by jit function."""
    held_out = {b.case for b in profile.baselines if b.role is Role.HELD_OUT}
    merged: dict[tuple[object, ...], tuple[LaunchRecord, dict[str, None]]] = {}
    functions: dict[str, None] = {}
    for case, by_mode in profile.launches.items():
        if case in held_out:
            continue
        for launches in by_mode.values():
            for launch in launches:
                functions.setdefault(launch.jit_function)
                key = (launch.jit_function, launch.line, launch.grid, launch.compiled.binary_sha256)
                merged.setdefault(key, (launch, {}))[1][case] = None
    order = list(functions)
    device = profile.device
    return tuple(
        LaunchLine(
            launch=launch,
            grid=quantities.grid(launch.grid),
            spills=spills_told(launch.compiled),
            fit=fit_of(launch, device.capability, device.sm_count),
            cases=tuple(cases),
        )
        for launch, cases in sorted(merged.values(), key=lambda found: order.index(found[0].jit_function))
    )


def spills_told(compiled: CompiledFacts) -> str:
    """Bytes a thread keeps in local memory."""
    return quantities.size(SPILL_BYTES * compiled.spills)


def fit_of(launch: LaunchRecord, capability: tuple[int, int], sm_count: int) -> Fit:
    found = occupancy(launch.compiled, launch.grid, capability, sm_count)
    if found.waves is None:
        return Fit(f"no block fits ({found.limiter})", "none")
    limit = f" ({found.limiter})" if found.share < 1 else ""
    return Fit(f"{quantities.percent(found.share)}{limit}", waves_told(found.waves))


def waves_told(waves: float) -> str:
    """As "5.17, the last 17% full". Of a grid that fits at once there is no tail to tell of."""
    digits = 2 if waves < 10 else 1 if waves < 100 else 0
    if waves <= 1:
        return f"{waves:.2f}"
    last_pct = max(1, round(100 * (waves % 1 or 1)))
    return f"{waves:.{digits}f}, the last {last_pct}% full"


def access_lines(launches: Iterable[LaunchLine]) -> tuple[AccessLine, ...]:
    """One line for each different code; empty where no launch's code was read."""
    merged: dict[tuple[str, tuple[str, ...], str], dict[str, None]] = {}
    recorded = False
    for line in launches:
        compiled = line.launch.compiled
        recorded = recorded or compiled.accesses is not None or compiled.matrix_instructions is not None
        cells = tuple(_accesses(compiled.accesses, kind) for kind in AccessKind)
        key = (line.launch.jit_function, cells, _matrix(compiled.matrix_instructions))
        merged.setdefault(key, {}).update(dict.fromkeys(line.cases))
    if not recorded:
        return ()
    return tuple(AccessLine(name, cells, matrix, tuple(cases)) for (name, cells, matrix), cases in merged.items())


def _accesses(accesses: Sequence[GlobalAccess] | None, kind: AccessKind) -> str:
    """As "line 57: 4 × 16 B, 1 × 4 B; line 61: 4 × 16 B"."""
    if accesses is None:
        return NOT_RECORDED
    by_line: dict[int | None, list[str]] = {}
    for access in accesses:
        if access.kind is kind:
            width = f"{access.bytes_a_thread} B" if access.bytes_a_thread is not None else "bulk"
            by_line.setdefault(access.line, []).append(f"{access.instructions} × {width}")
    lines = sorted(by_line, key=lambda line: (line is None, line or 0))
    where = {line: "elsewhere" if line is None else f"line {line}" for line in lines}
    return "; ".join(f"{where[line]}: {', '.join(by_line[line])}" for line in lines) or "none"


def _matrix(instructions: dict[str, int] | None) -> str:
    if instructions is None:
        return NOT_RECORDED
    return ", ".join(f"{count} × {name}" for name, count in sorted(instructions.items())) or "none"


def probe_lines(probes: Iterable[SettingsProbe]) -> tuple[ProbeLine, ...]:
    """Equal findings of one knob as one line, those that change nothing first."""
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for probe in probes:
        alike = "; ".join(" = ".join(map(str, values)) for values in probe.alike) or "none compiles"
        failures = "; ".join(f"{value}: {why}" for value, why in probe.failures.items()) or "none"
        place = f"{quantities.case_label(probe.case)} {probe.mode.value}"
        merged.setdefault((probe.knob, _matters(probe), alike, failures), []).append(place)
    lines = (ProbeLine(*key, tuple(places)) for key, places in merged.items())
    return tuple(sorted(lines, key=lambda line: line.matters != CHANGES_NOTHING))


def _matters(probe: SettingsProbe) -> str:
    """Of one value that compiles nothing can be said."""
    if sum(map(len, probe.alike)) < 2:
        return "not known"
    return CHANGES_NOTHING if probe.is_inert else "yes"
