"""Multiplies operands as they were loaded, in place of what was made float32 of them only to be multiplied."""

from __future__ import annotations

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.dot_precision import other_types, widened_dots
from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.values import converted


def multiply_as_loaded(source: str, opportunity: Opportunity) -> str:
    """Leaves out the conversions before a kernel's products; what a product says of its precision stays.

    Raises NotApplicable where no product is of converted operands alone, or 8-bit types are named, whose products
    are not exact in float32.
    """
    if opportunity.kind is not OpportunityKind.WIDENED_DOT:
        raise NotApplicable(f"{opportunity.kind.value} is no matrix product")
    reading = read(source)
    jit = reading.jits.get(opportunity.function)
    if jit is None:
        raise NotApplicable(f"{opportunity.function} is no jit function of this source")
    if (named := other_types(reading, jit)) is not None:
        raise NotApplicable(f"{jit.name} or its launch names {named}: such products are summed in another precision")
    found = widened_dots(reading, jit)
    if not found.dots:
        raise NotApplicable(f"{jit.name} has no matrix product of operands that are loaded, converted and used once")
    edits = Edits(source)
    for statement in found.statements:
        edits.remove(statement)
    renewed = {statement.value for statement in found.statements}
    for cast in found.casts:
        inner = converted(cast)
        if cast not in renewed and inner is not None:
            edits.replace(cast, edits.text(inner))
    return edits.apply()
