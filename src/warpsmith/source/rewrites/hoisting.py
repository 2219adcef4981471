"""Takes a load out of a loop in which it never changes, with what only sets its address and mask."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.editing import Edits
from warpsmith.source.hoisting import Hoist, Unsure, hoist
from warpsmith.source.launches import read
from warpsmith.source.redundant_loads import invariant_loads
from warpsmith.source.refusal import NotApplicable


def hoist_invariant_load(source: str, opportunity: Opportunity) -> str:
    """The load before its loop, its statement with its comments where all of it is the same in every pass.

    The load is found by the opportunity's function and pointer, so earlier rewrites may have moved its line. Raises
    NotApplicable where none is left there, or it is not sure that moving it changes nothing.
    """
    if opportunity.kind is not OpportunityKind.LOOP_INVARIANT_LOAD:
        raise NotApplicable(f"{opportunity.kind.value} is no load that never changes in a loop")
    reading = read(source)
    pointer = opportunity.what.split(" ", 1)[0]
    jit = reading.jits.get(opportunity.function)
    found = [each for each in invariant_loads(reading, jit) if each[0].pointer == pointer] if jit is not None else []
    found.sort(key=lambda each: abs(each[0].call.lineno - opportunity.line))
    why: Unsure | None = None
    for access, loop in found:
        assert jit is not None
        try:
            return _moved(source, hoist(reading, jit, access, loop))
        except Unsure as reason:
            why = why or reason
    if why is not None:
        raise NotApplicable(str(why)) from why
    raise NotApplicable(f"{opportunity.function} loads nothing through {pointer} that never changes in a loop")


def _moved(source: str, what: Hoist) -> str:
    edits = Edits(source)
    for statement in what.statements:
        edits.add_before(what.loop, _with_comments(source, statement))
        edits.remove(statement)
    if what.named is not None:
        call = what.access.call
        lines = edits.text(call).split("\n")
        shift = len(_line(source, call.lineno)) - len(_line(source, call.lineno).lstrip())
        edits.add_before(what.loop, f"{what.named} = " + "\n".join([lines[0], *_dedented(lines[1:], shift)]))
        edits.replace(call, what.named)
    return edits.apply()


def _with_comments(source: str, statement: ast.stmt) -> str:
    """The lines of a statement and of the comments above it, without their indentation."""
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    above = first
    while (text := _line(source, above - 1)).strip() == "" or _is_comment(text, statement.col_offset):
        above -= 1
        first = above if text.strip() else first
    lines = [_line(source, line) for line in range(first, last + 1)]
    return "\n".join(_dedented(lines, statement.col_offset))


def _is_comment(text: str, indentation: int) -> bool:
    return text.lstrip().startswith("#") and len(text) - len(text.lstrip()) == indentation


def _line(source: str, number: int) -> str:
    return source.split("\n")[number - 1] if number > 0 else ""


def _dedented(lines: list[str], by: int) -> list[str]:
    return [line[min(by, len(line) - len(line.lstrip())) :] for line in lines]
