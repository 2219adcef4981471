"""Which comparisons the calibration makes, in which processes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import TimingMethod, TimingPlan

COLUMNS = 2048
#: Rows and mode; on an H200 about 10, 50, 200 and 1000 µs forward, 20, 85 and 160 µs backward.
TIMED = (
    *((rows, Mode.FORWARD) for rows in (4096, 24576, 98304, 491520)),
    *((rows, Mode.BACKWARD) for rows in (2560, 24576, 49152)),
)
#: Slow-downs that are planted, as shares.
PLANTED = (0.005, 0.015, 0.02, 0.05)
#: Rows of the forward passes whose time is read in every way there is.
READ = (1536, 4096, 9216, 24576, 49152, 98304)
#: The forward pass of this many rows takes about 50 µs: by it the cost of a comparison is told.
COST_ROWS = 24576
#: The twenty pairs: how much faster the candidate is than the original.
PAIRS = (0.0,) * 6 + (0.02,) * 5 + (0.05,) * 4 + (-0.02,) * 3 + (-0.05,) * 2

TRUTH_PROCESSES, IDENTICAL_PROCESSES, PAIR_PROCESSES = 20, 10, 5
#: Comparisons a process.
COPIES, PLANTED_EACH = 20, 10

#: As many rounds whatever a pilot would say.
FIXED = TimingPlan(rounds=12, most_rounds=12)

#: "rows mode" -> the spin that plants each share of PLANTED there.
Spins = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Comparison:
    """`spins` is how much each contender has to do, by its name; `planted` how much faster the candidate is."""

    name: str
    spins: Mapping[str, int]
    rows: int
    mode: Mode
    seed: int
    plan: TimingPlan = field(default_factory=TimingPlan)
    method: TimingMethod | None = None
    planted: float | None = None


def planned(piece: str, spins: Spins) -> dict[str, list[Comparison]]:
    """The comparisons of a piece, by the name of the process that makes them."""
    return {"truth": _truth, "identical": _identical, "pairs": _pairs, "methods": _methods}[piece](spins)


def _truth(spins: Spins) -> dict[str, list[Comparison]]:
    """Every planted slow-down, many rounds in many processes: their mean is the truth."""

    def sides(rows: int, mode: Mode) -> dict[str, int]:
        return {"base": 0, **{f"{share:g}": _spin(spins, rows, mode, share) for share in PLANTED}}

    return {
        f"truth/{process}": [
            Comparison(f"{rows} {mode.value}", sides(rows, mode), rows, mode, seed=1000 + process, plan=FIXED)
            for rows, mode in TIMED
        ]
        for process in range(TRUTH_PROCESSES)
    }


def _identical(spins: Spins) -> dict[str, list[Comparison]]:
    """A source against its copy, and against slow-downs of 1.5% and 0.5%, each way round."""
    processes: dict[str, list[Comparison]] = {}
    for process in range(IDENTICAL_PROCESSES):
        shares = [0.0] * COPIES + [-0.015, 0.015] * (PLANTED_EACH // 2) + [-0.005, 0.005] * (PLANTED_EACH // 2)
        processes[f"identical/{process}"] = [
            _pair(spins, number, process, share) for number, share in enumerate(shares)
        ]
    return processes


def _pairs(spins: Spins) -> dict[str, list[Comparison]]:
    return {
        f"pairs/{process}": [_pair(spins, number, 100 + process, share) for number, share in enumerate(PAIRS)]
        for process in range(PAIR_PROCESSES)
    }


def _methods(spins: Spins) -> dict[str, list[Comparison]]:
    return {
        "methods": [
            Comparison(f"{rows} {method.value}", {"base": 0}, rows, Mode.FORWARD, seed=1, plan=FIXED, method=method)
            for rows in READ
            for method in TimingMethod
        ]
    }


def _pair(spins: Spins, number: int, process: int, faster: float) -> Comparison:
    rows, mode = TIMED[(number + process) % len(TIMED)]
    slow = _spin(spins, rows, mode, abs(faster))
    original, candidate = (slow, 0) if faster > 0 else (0, slow)
    name = f"{number} {rows} {mode.value}"
    sides = {"original": original, "candidate": candidate}
    return Comparison(name, sides, rows, mode, seed=1000 * process + number, planted=faster)


def _spin(spins: Spins, rows: int, mode: Mode, share: float) -> int:
    return spins[f"{rows} {mode.value}"][PLANTED.index(share)] if share else 0
