"""What was really won from Liger's RMSNorm backward pass by one change, and what its profile predicted of that change.

Owns the comparison of the two. The measured side is `measured_gains.json`: a grid of program counts and warps, with the
gradient of x allocated zeroed or empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiling.anew import prices_of
from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import PricedOpportunity, Profile

MEASURED = Path(__file__).resolve().parents[1] / "data" / "profiles" / "measured_gains.json"
ZEROED, PROGRAMS = OpportunityKind.NEEDLESS_INITIALISATION, OpportunityKind.ONE_PROGRAM_PER_SM
#: What a profile must find in Liger's backward pass, by path. In place, nothing is allocated.
WANTED = (
    ("liger_rms_norm", ZEROED),
    ("liger_rms_norm", PROGRAMS),
    ("liger_rms_norm_in_place", PROGRAMS),
)
#: A prediction of the right order is within this factor of what was measured, either way.
FACTOR = 2.0


@dataclass(frozen=True)
class Grid:
    """Microseconds by rows, columns, programs over the number of SMs, num_warps, and whether the output is zeroed."""

    us: dict[tuple[int, int, int, int, bool], float]
    told: str

    def gain(self, kind: OpportunityKind, kernel: str, case: str) -> tuple[float, float] | None:
        """Before and after that one change at a case, in microseconds; None where it was not measured.

        All else stays as Liger has it. The path in place was not measured itself: an output that is allocated empty
        moves the same bytes, and stands in for it.
        """
        shape = _shape(case)
        if shape is None:
            return None
        zeroed, warps = kernel != "liger_rms_norm_in_place", _warps(shape[1])
        before = self.us.get((*shape, 1, warps, zeroed))
        if before is None:
            return None
        if kind is ZEROED:
            return before, self.us[(*shape, 1, warps, False)]
        more = [us for key, us in self.us.items() if key[:2] == shape and key[3:] == (warps, zeroed)]
        return before, min(more)  # no more programs than there are, where they bring nothing

    def gains(self, kind: OpportunityKind, kernel: str, shape: tuple[int, int]) -> tuple[tuple[float, float], ...]:
        """What that one change saves at a shape, by the number of programs an SM; a loss is below 0. Of the zeroed
        output it is one figure, at one program an SM.
        """
        zeroed, warps = kernel != "liger_rms_norm_in_place", _warps(shape[1])
        before = self.us[(*shape, 1, warps, zeroed)]
        if kind is ZEROED:
            return ((1, before - self.us[(*shape, 1, warps, False)]),)
        tried = sorted(key[2] for key in self.us if key[:2] == shape and key[3:] == (warps, zeroed) and key[2] > 1)
        return tuple((programs, before - self.us[(*shape, programs, warps, zeroed)]) for programs in tried)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """In the order in which they were measured."""
        return tuple(dict.fromkeys((key[0], key[1]) for key in self.us))


def _shape(case: str) -> tuple[int, int] | None:
    sizes, _, dtype = case.partition("-")
    rows, _, columns = sizes.partition("x")
    return (int(rows), int(columns)) if dtype == "bf16" else None


def _warps(columns: int) -> int:
    """Liger-Kernel 0.8.5, ops/utils.py, calculate_settings, for blocks of 2048 to 16384."""
    return 16 if columns >= 8192 else 8


def read_grid(path: Path = MEASURED) -> Grid:
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    us = {(*setting,): 1e3 * ms for *setting, ms in kept["rows"]}
    software = f"torch {kept['torch']}, Triton {kept['triton']}, Liger-Kernel {kept['liger_kernel']}"
    return Grid(us, f"{kept['gpu']}, {kept['date']}, {software}")


@dataclass(frozen=True)
class Prediction:
    """Of one opportunity, at the case at which its profile expects most. `why` says what cannot be compared."""

    kernel: str
    kind: OpportunityKind
    case: str | None = None
    predicted_us: float | None = None
    before_us: float | None = None
    after_us: float | None = None
    why: str | None = None

    @property
    def over_measured(self) -> float | None:
        """The predicted gain over the measured one."""
        if self.predicted_us is None or self.before_us is None or self.after_us is None:
            return None
        gain_us = self.before_us - self.after_us
        return self.predicted_us / gain_us if gain_us > 0 else None

    @property
    def holds(self) -> bool:
        ratio = self.over_measured
        return ratio is not None and 1 / FACTOR <= ratio <= FACTOR


def predictions(profiles: dict[str, Profile], grid: Grid) -> Iterator[Prediction]:
    """One for each of WANTED, also where the profile, or the opportunity in it, is missing."""
    for kernel, kind in WANTED:
        profile = profiles.get(kernel)
        if profile is None:
            yield Prediction(kernel, kind, why="it was not profiled")
            continue
        found = [each for each in profile.opportunities if (each.opportunity.kind, each.mode) == (kind, Mode.BACKWARD)]
        if not found:
            yield Prediction(kernel, kind, why="it is not among the opportunities of the backward pass")
            continue
        yield _compared(kernel, profile, max(found, key=lambda each: each.high_us), grid)


@dataclass(frozen=True)
class Compared:
    """One opportunity at one measured shape: microseconds saved, as predicted at least and at most, and as measured by
    the number of programs an SM.
    """

    kernel: str
    kind: OpportunityKind
    shape: tuple[int, int]
    predicted_us: tuple[float, float]
    measured_us: tuple[tuple[float, float], ...]

    @property
    def wrong_way(self) -> bool:
        """Whether a gain is predicted where every setting that was tried lost, or none where each of them won."""
        saved = [us for _, us in self.measured_us]
        return max(saved) <= 0 < self.predicted_us[1] or (self.predicted_us[1] <= 0 < min(saved))


def at_every_shape(profiles: dict[str, Profile], grid: Grid) -> Iterator[Compared]:
    """Of WANTED, all shapes of the grid that were profiled, those at which it loses included."""
    for kernel, kind in WANTED:
        profile = profiles.get(kernel)
        for price in prices_of(profile) if profile is not None else ():
            if (price.opportunity.kind, price.mode) != (kind, Mode.BACKWARD):
                continue
            for shape in grid.shapes:
                found = next((price.at_case(p.case.name) for p in price.at if _shape(p.case.name) == shape), None)
                if found is not None:
                    yield Compared(kernel, kind, shape, (found.low_us, found.high_us), grid.gains(kind, kernel, shape))


def _compared(kernel: str, profile: Profile, priced: PricedOpportunity, grid: Grid) -> Prediction:
    kind, case = priced.opportunity.kind, priced.case
    if case is None or priced.case_predicted_high is None:
        return Prediction(kernel, kind, why="no gain at one case is told")
    times_us = [
        1e3 * row.time_ms.value
        for row in profile.baselines
        if (row.provider, row.case, row.mode) == (ORIGINAL, case, Mode.BACKWARD) and row.time_ms is not None
    ]
    measured = grid.gain(kind, kernel, case)
    if not times_us or measured is None:
        return Prediction(kernel, kind, case, why="nothing was measured at that case")
    predicted_us = times_us[0] * (1 - 1 / priced.case_predicted_high)
    before_us, after_us = measured
    why = None if before_us > after_us else "it brought nothing there"
    return Prediction(kernel, kind, case, predicted_us, before_us, after_us, why)
