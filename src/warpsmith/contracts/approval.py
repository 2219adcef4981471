"""Approvals: a person's yes, bound to what it was given for."""

from __future__ import annotations

from enum import Enum

from warpsmith.contracts.base import Contract, Document, Sha256


class Gate(str, Enum):
    """The two checkpoints of an interactive run."""

    OPTIMIZE = "optimize"
    FINALIZE = "finalize"


class Approval(Contract):
    """`evidence_sha256` is the hash of what was judged, profile.json or comparison.md, `winner_sha256` the winner's."""

    gate: Gate
    run_id: str
    evidence_sha256: Sha256
    winner_sha256: Sha256 | None = None
    from_terminal: bool
    approved_at: str


class Approvals(Document):
    """optimization/<kernel>/approvals.json."""

    approvals: tuple[Approval, ...] = ()
