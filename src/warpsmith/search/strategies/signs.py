"""What of a profile speaks for a technique that needs thought: opportunities, and figures of its open passes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import Profile
from warpsmith.diagnose.grounds import open_passes
from warpsmith.search.strategies.base import Card


@dataclass(frozen=True)
class Speaking:
    """A technique, and what of a profile speaks for it, a line each; none, it is merely known."""

    card: Card
    reasons: tuple[str, ...]


def speaking(profile: Profile, cards: Iterable[Card]) -> tuple[Speaking, ...]:
    """Every one, in the order given: none speaks where every pass of the goal is near its peak."""
    return tuple(Speaking(card, _reasons(profile, card) if open_passes(profile) else ()) for card in cards)


def _reasons(profile: Profile, card: Card) -> tuple[str, ...]:
    signs = card.signs(profile) if card.signs else ()
    return tuple(dict.fromkeys((*opportunities_told(profile, card.takes_up), *signs)))


def opportunities_told(profile: Profile, kinds: tuple[OpportunityKind, ...]) -> Iterator[str]:
    """Those of the open passes; where none is priced by pass, all that the source has."""
    modes = {each.mode for each in open_passes(profile)}
    priced = [each.opportunity for each in profile.opportunities if each.mode in modes]
    for found in priced if profile.opportunities else profile.audit.opportunities:
        if found.kind in kinds:
            yield f"line {found.line}: {found.what}"


#: pass and case -> what is launched there, in order
Launches = dict[tuple[Mode, str], tuple[LaunchRecord, ...]]


def open_launches(profile: Profile) -> Launches:
    """What the original launches in its open passes."""
    modes = [each.mode for each in open_passes(profile)]
    return {
        (mode, case): by_mode[mode] for mode in modes for case, by_mode in profile.launches.items() if by_mode.get(mode)
    }


def by_function(launches: Launches) -> dict[tuple[Mode, str], list[tuple[str, LaunchRecord]]]:
    """Pass and jit function -> case and launch."""
    found: dict[tuple[Mode, str], list[tuple[str, LaunchRecord]]] = defaultdict(list)
    for (mode, case), records in launches.items():
        for record in records:
            found[mode, record.jit_function].append((case, record))
    return found


def feeds_products(launch: LaunchRecord) -> bool:
    """Whether it has matrix instructions."""
    return bool(launch.compiled.matrix_instructions)
