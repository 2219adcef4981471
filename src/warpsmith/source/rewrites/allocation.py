"""Allocates empty what a kernel wholly overwrites. That it does is for the correctness gate to show."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.editing import Edits
from warpsmith.source.initialisation import needless_initialisations
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable

_EMPTY = {"zeros": "empty", "zeros_like": "empty_like", "new_zeros": "new_empty"}
WHY = "# Not zeroed: every element is stored before it is read."


def allocate_empty(source: str, opportunity: Opportunity) -> str:
    """`torch.zeros` as `torch.empty`, `zeros_like` as `empty_like`, with the same arguments, and a comment why.

    The allocation is found by the opportunity's function and variable, so earlier rewrites may have moved its line.
    Raises NotApplicable where no needless initialisation is left there.
    """
    if opportunity.kind is not OpportunityKind.NEEDLESS_INITIALISATION:
        raise NotApplicable(f"{opportunity.kind.value} is no needless initialisation")
    variable = opportunity.what.split(" ", 1)[0]
    reading = read(source)
    for found in needless_initialisations(reading):
        if found.host_function == opportunity.function and found.variable == variable:
            func = found.allocation.func
            assert isinstance(func, ast.Attribute)
            edits = Edits(source)
            edits.replace(func, f"{edits.text(func.value)}.{_EMPTY[func.attr]}")
            edits.comment(reading.source.statement_of(found.allocation), WHY)
            return edits.apply()
    raise NotApplicable(f"{opportunity.function} has no tensor {variable} that is zeroed and then only stored to")
