"""What a strategy is: a named technique that turns one source into another, or says why it does not apply.

A technique that needs thought has a card with a brief in place of a rewrite: it is told to whoever writes variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from warpsmith.contracts.audit import OpportunityKind, SourceAudit
from warpsmith.contracts.base import Settings
from warpsmith.contracts.profile import Profile
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.results import Tuning
from warpsmith.source.scan import scan
from warpsmith.source.table import SettingsTable, write_table


class Layer(str, Enum):
    """When a technique is tried: those of one architecture last, on the best of the general ones."""

    GENERAL = "general"
    ARCHITECTURE = "architecture"


@dataclass(frozen=True)
class Card:
    """What a person reads of a technique before it is tried; docs/strategies.md and the skill's page tell the same.

    `name` is what profiles and notes call it. `applies` says what profile and audit must show, `hypothesis` why it
    should then be faster, `expected` what it should bring and where that figure comes from, `risk` what can go wrong
    and what would show it. `takes_up` are the opportunities that it is an answer to. `brief` is for whoever writes it,
    None where it is automatic; `signs` tell then what else of a profile speaks for it, a line each.
    """

    name: str
    title: str
    applies: str
    hypothesis: str
    expected: str
    risk: str
    takes_up: tuple[OpportunityKind, ...] = ()
    #: whether it searches the launch settings too, which may win where an earlier search of them did not
    searches_settings: bool = False
    layer: Layer = Layer.GENERAL
    brief: str | None = None
    signs: Callable[[Profile], tuple[str, ...]] | None = None


class Inapplicable(Exception):
    """The strategy has nothing to do here. The message says why; the variant is recorded with it."""


@dataclass(frozen=True)
class Proposal:
    """A source to be judged.

    `tables`, and `table_base`, the source before they were written into it, let a variant that is mixed be
    narrowed to where it helps.
    """

    source: str
    changes: tuple[str, ...]
    chosen_settings: dict[str, Settings] = field(default_factory=dict)
    sweeps: tuple[Tuning, ...] = ()
    tables: tuple[SettingsTable, ...] = ()
    table_base: str = ""
    learnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ground:
    """What a strategy builds on: the best source so far and its audit, the profile, and the bench to measure on.

    `inert` are the ids of knobs that an earlier sweep found to compile to the same machine code whatever their value.
    """

    source: str
    audit: SourceAudit
    profile: Profile
    bench: Bench
    inert: frozenset[str] = frozenset()


class Strategy(Protocol):
    """One automatic technique of the catalogue."""

    @property
    def card(self) -> Card: ...

    def propose(self, ground: Ground) -> Proposal:
        """Raises Inapplicable, or WorkerError where a measurement it needs failed."""
        ...


def narrow(proposal: Proposal, tables: Sequence[SettingsTable]) -> Proposal:
    """The proposal with these tables in place of its own."""
    base = proposal.table_base
    return replace(
        proposal,
        source=write_table(base, scan(base), tables),
        changes=(*proposal.changes, "bands removed where a case was slower"),
        tables=tuple(tables),
    )
