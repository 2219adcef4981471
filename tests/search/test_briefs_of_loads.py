"""Briefs of accesses: short, and each says when, what must stay, how it is proven and when to give up."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies import BRIEFS, CATALOGUE


@pytest.mark.parametrize("name", ["alignment_hints", "uncoalesced"])
def test_a_brief_says_when_what_must_stay_how_to_prove_it_and_when_to_give_up(name: str) -> None:
    brief = BRIEFS[name].brief or ""

    assert name not in CATALOGUE
    assert len(brief.splitlines()) <= 16
    assert [word for word in ("- When: ", "- Must stay: ", "- Prove: ", "- Give up: ") if word not in brief] == []


def test_uncoalesced_accesses_that_the_audit_finds_have_a_brief() -> None:
    assert [n for n, card in BRIEFS.items() if OpportunityKind.UNCOALESCED in card.takes_up] == ["uncoalesced"]
