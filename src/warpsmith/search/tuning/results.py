"""Owns what a search returns: every reading it took, and at each case the times of the settings that came last.

A knob that has no entry in settings keeps the source's own value. Must not know how the search got there.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import LaunchRecord


@dataclass(frozen=True)
class Reading:
    """What is known of one choice of settings at one case.

    `binary` is its machine code, shortened, None where it was not compiled or did not compile. `time_ms` is its latest
    time, and `rung` how long that was measured: 0 is the shortest plan, `final` the full comparison. Settings that are
    identical to others carry the time of those. Without a time, `note` says why.
    """

    case: Case
    mode: Mode
    settings: Settings
    binary: str | None
    time_ms: float | None
    final: bool
    rung: int = 0
    note: str = ""


@dataclass(frozen=True)
class CaseResult:
    """The full comparison at one case: the original, and each finalist's settings with its time in ms.

    They were measured together, in turn. `original_launches` are those of the original, with no settings.
    """

    case: Case
    original_launches: tuple[LaunchRecord, ...]
    original_ms: float
    times_ms: tuple[tuple[Settings, float], ...]

    @property
    def best(self) -> tuple[Settings, float]:
        """The fastest of the finalists and the original, whose settings are empty."""
        return min((({}, self.original_ms), *self.times_ms), key=lambda each: each[1])


@dataclass(frozen=True)
class Tuning:
    """A search over one pass.

    `inert_knobs` compile to the same machine code whatever their value. `device_time_ms` is the planned length of all
    blocks of all timings. `stopped` says why the search ended early, None where it came to its own end. `notes` tell
    what a person should know of it: cases that were left out, values that no case can run.
    """

    mode: Mode
    knobs: tuple[Knob, ...]
    inert_knobs: tuple[Knob, ...]
    cases: tuple[CaseResult, ...]
    readings: tuple[Reading, ...]
    device_time_ms: float
    stopped: str | None
    notes: tuple[str, ...]
