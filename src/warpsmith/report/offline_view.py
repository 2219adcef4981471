"""What was compiled with no GPU, arranged beside what was launched on one: equal launches told once.

Pure; owns the comparison of the two, must not know how the page is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import Profile
from warpsmith.report import quantities
from warpsmith.report.compiled_view import Fit, fit_of, spills_told


@dataclass(frozen=True)
class OfflineLine:
    """Launches that differ in nothing but the case. `against` is how they differ from those made on the GPU."""

    launch: LaunchRecord
    grid: str
    spills: str
    fit: Fit
    cases: tuple[str, ...]
    against: str


def offline_lines(profile: Profile) -> tuple[OfflineLine, ...]:
    """Each different launch of `profile.offline`, in order; none where there is no such compilation.

    Of a profile that is itself predicted there are none either: its launches are these.
    """
    offline = profile.offline
    if offline is None or (profile.is_predicted and profile.launches):
        return ()
    merged: dict[tuple[object, ...], tuple[LaunchRecord, str, dict[str, None]]] = {}
    for case, mode, index, launch in _each(offline.launches):
        seen = profile.launches.get(case, {}).get(mode, ())
        against = _against(launch, seen[index] if index < len(seen) else None, profile.origin.kind.value)
        key = (launch.jit_function, launch.line, launch.grid, launch.compiled.binary_sha256, against)
        merged.setdefault(key, (launch, against, {}))[2][case] = None
    return tuple(
        OfflineLine(
            launch=launch,
            grid=quantities.grid(launch.grid),
            spills=spills_told(launch.compiled),
            fit=fit_of(launch, offline.gpu.capability, offline.gpu.sm_count),
            cases=tuple(cases),
            against=against,
        )
        for launch, against, cases in merged.values()
    )


def _each(
    launches: dict[str, dict[Mode, tuple[LaunchRecord, ...]]],
) -> Iterator[tuple[str, Mode, int, LaunchRecord]]:
    for case, by_mode in launches.items():
        for mode, found in by_mode.items():
            for index, launch in enumerate(found):
                yield case, mode, index, launch


def _against(launch: LaunchRecord, seen: LaunchRecord | None, how: str) -> str:
    if seen is None:
        return f"not {how}"
    ours, theirs = _told(launch), _told(seen)
    differing = [n for n in ours if ours[n] != theirs.get(n)]
    return "; ".join(f"{n} {ours[n]}, {how} {theirs.get(n, 'without it')}" for n in differing) or "same"


def _told(launch: LaunchRecord) -> dict[str, str]:
    """What two compilations of one launch are compared by. Machine code is not: another compiler's differs anyway."""
    compiled = launch.compiled
    return {
        "kernel": launch.jit_function,
        "line": str(launch.line),
        "grid": quantities.grid(launch.grid),
        **{name: str(value) for name, value in sorted(launch.constexprs.items())},
        "registers": str(compiled.registers),
        "spills": spills_told(compiled),
        "shared": quantities.size(compiled.shared_bytes),
        "warps": str(compiled.num_warps),
        "stages": str(compiled.num_stages),
    }
