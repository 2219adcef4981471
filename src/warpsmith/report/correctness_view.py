"""How right the winner is: its errors against float64 beside the original's, and what was not checked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.measurement import Correctness, OutputError
from warpsmith.report import quantities


@dataclass(frozen=True)
class OutputLine:
    """One output or gradient at the case where the winner is worst beside the original.

    Errors are root mean squares over that of the reference. `ratio` is None where the original has no error there.
    """

    output: str
    case: str
    original: str
    optimized: str
    ratio: str | None


def output_lines(correctness: Correctness | None) -> tuple[OutputLine, ...]:
    if correctness is None:
        return ()
    worst: dict[str, tuple[float, str, OutputError]] = {}
    for check in correctness.checks:
        for error in check.errors:
            beside = error.rms / max(error.original_rms, error.floor, 1e-300)
            if error.output not in worst or beside > worst[error.output][0]:
                worst[error.output] = (beside, check.case.name, error)
    return tuple(_line(case, error) for _, case, error in worst.values())


def _line(case: str, error: OutputError) -> OutputLine:
    return OutputLine(
        output=error.output,
        case=case,
        original=_relative(error.original_rms, error.scale),
        optimized=_relative(error.rms, error.scale),
        ratio=f"{error.rms / error.original_rms:.3g}×" if error.original_rms else None,
    )


def _relative(rms: float, scale: float) -> str:
    return f"{rms / scale:.2e}" if scale else f"{rms:.2e} (of zeros)"


def skipped_lines(correctness: Correctness | None) -> tuple[str, ...]:
    """A line a check that could not be made at every case: at how many not, and why, by the first of them."""
    reasons: dict[str, list[str]] = {}
    checks = correctness.checks if correctness else ()
    for check in checks:
        for name, reason in check.skipped.items():
            reasons.setdefault(name, []).append(reason)
    return tuple(
        f"Not checked at {len(found)} of {len(checks)} cases: {name} ({_first(found)})."
        for name, found in reasons.items()
    )


def _first(reasons: Sequence[str]) -> str:
    others, told = len(set(reasons)) - 1, " ".join(reasons[0].split()).rstrip(".")
    return f"{told}; at some for {quantities.count(others, 'other reason')}" if others else told
