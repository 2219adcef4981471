"""What became of null mutants: results of the original, spoiled, that the gate must refuse."""

from __future__ import annotations

from warpsmith.contracts.base import Contract

#: Two null mutants that a result of random values never equals.
ZEROS, MEAN = "zeros", "its mean"


class MutantCheck(Contract):
    """One result of the original, spoiled, and whether the check of values refuses it, as it must.

    `mutant` says how: zeros, a copy of an input, its mean ... `skipped` says why nothing can be concluded, as where
    the spoiled result is right at that case; such a one is not `refused`.
    """

    case: str
    part: str
    mutant: str
    refused: bool
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """A hole in the target's cases or in its reference."""
        return not self.refused and self.skipped is None
