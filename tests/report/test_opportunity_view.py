"""Opportunities on the page: their order, and at which cases their kernel is launched."""

from __future__ import annotations

import profile_fixtures as profiles
import pytest
from audit_fixtures import audit
from compiled_fixtures import launches
from measured_fixtures import TUNING

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin, LaunchSite, Opportunity, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Profile, TouchedOpportunity
from warpsmith.report.opportunity_view import UNKNOWN, Launched, launches_of, priced_lines, unpriced_lines
from warpsmith.report.pages import render_profile

#: Launched by `rms_norm_forward` for rows that are too long for one block: at none of the cases.
LONG = "_rms_norm_long_kernel"
SHORT = "_rms_norm_forward_kernel"


def found(kind: OpportunityKind, line: int, function: str = SHORT) -> Opportunity:
    return Opportunity(kind=kind, function=function, line=line, what=f"what of line {line}", why="why")


def knob(jit_function: str, line: int) -> Knob:
    return Knob(
        id=f"{jit_function}.num_warps",
        kind=KnobKind.NUM_WARPS,
        jit_function=jit_function,
        host_function="rms_norm_forward",
        name="num_warps",
        origin=KnobOrigin.HELPER,
        variable="num_warps",
        line=line,
        anchor_line=line,
        expression="warps(n)",
        tunable=True,
    )


def with_audit(profile: Profile, *opportunities: Opportunity) -> Profile:
    """The sites and knobs of two forward kernels, of which the one for long rows is launched at no case."""
    sites = tuple(
        LaunchSite(jit_function=name, host_function="rms_norm_forward", line=line, grid="(rows,)")
        for name, line in ((SHORT, 120), (LONG, 130))
    )
    changed = audit().model_copy(
        update={"launches": sites, "knobs": (knob(SHORT, 118), knob(LONG, 128)), "opportunities": opportunities}
    )
    return profile.model_copy(update={"audit": changed})


def test_the_fixture_launches_the_short_kernel_at_every_tuning_case() -> None:
    assert {case.name for case in TUNING} <= set(launches())


@pytest.mark.parametrize(
    ("opportunity", "told"),
    [
        (found(OpportunityKind.STREAM_ONCE, 60), ""),
        (found(OpportunityKind.STREAM_ONCE, 70, LONG), "; not launched at the tuning cases"),
        # of one host function that launches both, a knob's line tells which
        (found(OpportunityKind.STEPPED_WARPS, 118, "rms_norm_forward"), ""),
        (found(OpportunityKind.STEPPED_WARPS, 128, "rms_norm_forward"), "; not launched at the tuning cases"),
        (found(OpportunityKind.CONTIGUOUS_COPY, 100, "rms_norm_forward"), ""),
        # what launches nothing itself, by what the audit knows: nothing is claimed
        (found(OpportunityKind.CONTIGUOUS_COPY, 300, "forward"), ""),
        (found(OpportunityKind.STREAM_ONCE, 20, "_device_function"), ""),
    ],
)
def test_what_is_never_launched_is_marked(opportunity: Opportunity, told: str) -> None:
    profile = with_audit(profiles.profile(), opportunity)

    assert launches_of(profile, opportunity).told == told


def test_some_of_the_cases_are_counted() -> None:
    opportunity = found(OpportunityKind.STREAM_ONCE, 60)
    profile = with_audit(profiles.profile(), opportunity)
    at_the_first_alone = {
        case.name: {
            mode: tuple(each.model_copy(update={"jit_function": LONG}) for each in made) if index else made
            for mode, made in profile.launches[case.name].items()
        }
        for index, case in enumerate(TUNING)
    }

    assert launches_of(profile.model_copy(update={"launches": at_the_first_alone}), opportunity) == Launched(1, 5)
    assert Launched(1, 5).told == "; launched at 1 of 5 cases"


def test_nothing_is_said_where_a_pass_did_not_compile_or_nothing_did() -> None:
    opportunity = found(OpportunityKind.STREAM_ONCE, 70, LONG)
    profile = with_audit(profiles.predicted_profile(), opportunity)
    forward = {case: {Mode.FORWARD: made[Mode.FORWARD]} for case, made in profile.launches.items()}

    assert launches_of(profile, opportunity).never
    for known in ({}, forward):
        assert launches_of(profile.model_copy(update={"launches": known}), opportunity) == UNKNOWN


def test_without_prices_recommended_lines_come_first_and_what_is_minor_or_not_launched_last() -> None:
    stream, copy = found(OpportunityKind.STREAM_ONCE, 10), found(OpportunityKind.CONTIGUOUS_COPY, 168)
    wide, dead = found(OpportunityKind.WIDE_ARITHMETIC, 30), found(OpportunityKind.UNPIPELINED_LOOP, 40, LONG)
    zeroed, programs = found(OpportunityKind.NEEDLESS_INITIALISATION, 168), found(OpportunityKind.STEPPED_WARPS, 170)
    profile = with_audit(profiles.predicted_profile(), stream, wide, dead, copy, zeroed, programs)

    ordered = [line.opportunity for line in unpriced_lines(profile)]
    # settings name lines 164 and 170, needless_initialisation line 168
    assert ordered == [programs, zeroed, wide, copy, stream, dead]
    first = render_profile(profile).split("\n## ")[0]
    assert [line in first for line in ("`: what of line 170.", "line 168.", "line 30.", "line 10.")] == [
        *(True, True, True, False)
    ]


def test_without_prices_what_concerns_most_of_the_work_comes_first_and_is_told_to() -> None:
    zeroed, programs = found(OpportunityKind.NEEDLESS_INITIALISATION, 168), found(OpportunityKind.STEPPED_WARPS, 170)
    touched = (TouchedOpportunity(opportunity=zeroed, share=0.476, basis="an output written once more"),)
    profile = with_audit(profiles.predicted_profile(touched=touched), programs, zeroed)

    first, second = unpriced_lines(profile)

    assert (first.opportunity, second.opportunity) == (zeroed, programs)
    assert first.what == "what of line 168 (about 48% of the least work: an output written once more)"
    assert second.what == "what of line 170"


def test_what_is_not_launched_is_not_among_the_first_even_where_there_is_little_else() -> None:
    alive, dead = found(OpportunityKind.STREAM_ONCE, 10), found(OpportunityKind.UNPIPELINED_LOOP, 164, LONG)
    page = render_profile(with_audit(profiles.predicted_profile(), dead, alive))

    assert "1. `src/warpsmith/kernels/rms_norm.py:10`" in page and "kernels/rms_norm.py:164`" not in page
    assert "- line 164: what of line 164; not launched at the tuning cases (unpipelined loop)" in page


def test_priced_ones_keep_their_order_but_for_what_is_not_launched() -> None:
    (first, second, third) = profiles.opportunities()
    dead = first.model_copy(update={"opportunity": found(OpportunityKind.UNPIPELINED_LOOP, 70, LONG)})
    profile = with_audit(profiles.profile(opportunities=(dead, third, second)))

    assert [line.opportunity for line in priced_lines(profile)] == [
        *(third.opportunity, second.opportunity, dead.opportunity)
    ]
