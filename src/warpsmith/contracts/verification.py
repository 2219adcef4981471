"""What became of recomputing a run from its raw samples."""

from __future__ import annotations

from warpsmith.contracts.base import Contract, Document


class Difference(Contract):
    """One place where what is on disk is not what the samples give.

    `document` is a path from the workspace, or for a recording from the repository's root. `place` is a field, a cell,
    a line or a record in it. `found` is what is there. `expected` is what the samples give; None where `found` is all.
    """

    document: str
    place: str | None = None
    found: str
    expected: str | None = None

    def __str__(self) -> str:
        told = self.document if self.place is None else f"{self.document}: {self.place}"
        if self.expected is None:
            return f"{told}: {self.found}"
        return f"{told} is {self.found}, the samples give {self.expected}"


class Verification(Document):
    """A run against its samples. It agrees exactly when there are no differences.

    `stages` are those that were gone through again. `samples` is the file of raw answers; `answers` counts those that
    were checked to be what was written, `asked` those of them that the figures follow from. `numbers` and `lines` count
    what was recomputed: numbers in JSON and CSV, lines of pages and sources, in `documents` files. `left_out` says what
    was not recomputed, and why.
    """

    kernel: str
    run_id: str
    stages: tuple[str, ...]
    samples: str
    answers: int
    asked: int
    documents: int
    numbers: int
    lines: int
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.differences
