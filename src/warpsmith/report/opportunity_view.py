"""Opportunities arranged for reading: what each may bring, at which cases its kernel is launched.

Pure; owns their order on the page, must not know how a gain is predicted nor how the page is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import PricedOpportunity, Profile, TouchedOpportunity
from warpsmith.report import quantities

#: Chosen: so many opportunities stand on the first screen.
FIRST_SCREEN_OPPORTUNITIES = 3
#: What brings little by itself, or says nothing of how: last where no price gives an order.
MINOR = (
    OpportunityKind.STREAM_ONCE,
    OpportunityKind.STORED_ONCE,
    OpportunityKind.PERFORMANCE_TODO,
    OpportunityKind.CONTIGUOUS_COPY,
)


@dataclass(frozen=True)
class Launched:
    """At how many of the tuning cases whose launches are known a kernel is launched; of none known, nothing is told."""

    at: int
    of: int

    @property
    def never(self) -> bool:
        return self.of > 0 and self.at == 0

    @property
    def told(self) -> str:
        """What follows the words of an opportunity; nothing where it concerns every case."""
        if self.never:
            return "; not launched at the tuning cases"
        return f"; launched at {self.at} of {self.of} cases" if self.at < self.of else ""


UNKNOWN = Launched(0, 0)


@dataclass(frozen=True)
class OpportunityLine:
    """An opportunity: where, what, and at which of the cases its kernel is launched."""

    opportunity: Opportunity
    where: str
    what: str
    launched: Launched


@dataclass(frozen=True)
class PricedLine(OpportunityLine):
    """An opportunity with what it may bring, and by which rule."""

    mode: Mode
    speedup: str
    saved: str
    best_case: str | None
    basis: str


def priced_lines(profile: Profile) -> tuple[PricedLine, ...]:
    """In the profile's order, what is never launched last."""
    lines = (_priced_line(profile, priced) for priced in profile.opportunities)
    return tuple(sorted(lines, key=lambda line: line.launched.never))


def unpriced_lines(profile: Profile) -> tuple[OpportunityLine, ...]:
    """What the audit found and nothing tells the worth of: by the share of a call's least work that it concerns, where
    that is known, then as the recommendations name their lines.

    What is minor comes after all these, and what is never launched last.
    """
    priced = {each.opportunity for each in profile.opportunities}
    named = [recommendation.lines for recommendation in profile.recommendations]
    touched = {each.opportunity: each for each in profile.touched}

    def rank(line: OpportunityLine) -> tuple[bool, bool, float, int]:
        found = line.opportunity
        first = next((place for place, lines in enumerate(named) if found.line in lines), len(named))
        share = touched[found].share if found in touched else 0.0
        return line.launched.never, found.kind in MINOR, -share, first

    lines = [_line(profile, each, touched.get(each)) for each in profile.audit.opportunities if each not in priced]
    return tuple(sorted(lines, key=rank))


def _line(profile: Profile, found: Opportunity, touched: TouchedOpportunity | None = None) -> OpportunityLine:
    launched = launches_of(profile, found)
    of = f" (about {touched.share:.0%} of the least work: {touched.basis})" if touched and touched.share else ""
    return OpportunityLine(found, f"{profile.source}:{found.line}", f"{found.what}{launched.told}{of}", launched)


def _priced_line(profile: Profile, priced: PricedOpportunity) -> PricedLine:
    best_case = None
    if priced.case is not None and priced.case_predicted_high is not None:
        best_case = f"{quantities.case_label(priced.case)}: up to {priced.case_predicted_high:.2f}×"
    return PricedLine(
        **vars(_line(profile, priced.opportunity)),
        mode=priced.mode,
        speedup=quantities.predicted_range(priced.predicted_low, priced.predicted_high),
        saved=quantities.microseconds_range(priced.low_us, priced.high_us),
        best_case=best_case,
        basis=priced.basis,
    )


def launches_of(profile: Profile, found: Opportunity) -> Launched:
    """By the launches on the GPU, else by those compiled for one; UNKNOWN of a function that launches nothing."""
    kernels = _kernels_of(profile, found)
    cases = _known_cases(profile)
    if not kernels or not cases:
        return UNKNOWN
    return Launched(sum(any(each.jit_function in kernels for each in launches) for launches in cases), len(cases))


def _kernels_of(profile: Profile, found: Opportunity) -> set[str]:
    """The jit functions that it is about: itself, those whose knob stands in that line, or all that it launches."""
    sites = profile.audit.launches
    if any(site.jit_function == found.function for site in sites):
        return {found.function}
    knobs = {
        knob.jit_function
        for knob in profile.audit.knobs
        if (knob.host_function, knob.line) == (found.function, found.line)
    }
    return knobs or {site.jit_function for site in sites if site.host_function == found.function}


def _known_cases(profile: Profile) -> list[list[LaunchRecord]]:
    """The launches of each tuning case all of whose passes are known."""
    held_out = {each.case for each in profile.baselines if each.role is Role.HELD_OUT}
    passes = {each for mode in profile.modes for each in mode.mode.passes}
    by_case = profile.launches or (profile.offline.launches if profile.offline else {})
    return [
        [launch for launches in by_mode.values() for launch in launches]
        for case, by_mode in by_case.items()
        if case not in held_out and all(by_mode.get(each) for each in passes)
    ]
