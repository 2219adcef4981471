"""The drop-in check: may a candidate stand in the original's place, as far as its syntax tree tells.

A first gate, cheap and static: an allow-list of what a variant may name, and rules for what it may do. What the
original does already, the candidate may do. What a tree cannot show (work by operators of tensors, wrong results) is
for the gates that run the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from warpsmith.contracts.errors import PreflightError
from warpsmith.source import escapes, retained, roundabout
from warpsmith.source.interface import Finding, changed_interface
from warpsmith.source.launches import read
from warpsmith.source.syntax import too_deep
from warpsmith.source.uses import Code, imports_in_classes, loose_modules, new_imports, new_names

#: Rules that compare the two sources themselves.
_COMPARING: tuple[Callable[[Code, Code], Iterator[Finding]], ...] = (new_imports, new_names, loose_modules)
#: Rules that say what they see in one source; what is seen in the original too is left out.
_SEEING: tuple[Callable[[Code], Iterator[Finding]], ...] = (
    imports_in_classes,
    escapes.attributes,
    escapes.library_work,
    escapes.strings,
    escapes.reading_by_name,
    escapes.patches,
    escapes.hooks,
    escapes.guarded_launches,
    escapes.allocators,
    retained.declared_state,
    retained.cached_functions,
    retained.made_at_import,
    retained.stores,
    roundabout.changing_methods,
    roundabout.iterators,
    roundabout.calls_anew,
)


def admit(original: str, candidate: str) -> tuple[str, ...]:
    """The reasons to refuse a candidate, each with its line; none if it is admitted. Raises PreflightError where the
    original is no Python."""
    return tuple(dict.fromkeys(f"line {line}: {what}" for line, what in refusals(original, candidate)))


def refusals(original: str, candidate: str) -> tuple[Finding, ...]:
    """The same in order of lines, which are those of the original where what is said ends with LINE_OF_ORIGINAL."""
    before = _code(original)
    try:
        after = _code(candidate)
        findings = [*changed_interface(before.reading, after.reading)]
        for compare in _COMPARING:
            findings += compare(before, after)
        for see, known in zip(_SEEING, _seen_in(original), strict=True):
            findings += [finding for finding in see(after) if finding[1] not in known]
    except RecursionError:
        error = too_deep()
    except PreflightError as found:
        error = found
    else:
        return tuple(dict.fromkeys(sorted(findings)))
    line, _, what = error.message.removeprefix("line ").partition(": ")
    return ((int(line), what),)


@lru_cache(maxsize=1)
def _seen_in(original: str) -> tuple[frozenset[str], ...]:
    """What each rule says of the original, to which one candidate after another is compared."""
    code = _code(original)
    return tuple(frozenset(what for _, what in see(code)) for see in _SEEING)


@lru_cache(maxsize=2)
def _code(text: str) -> Code:
    """Raises PreflightError."""
    try:
        return Code.of(read(text))
    except RecursionError as error:
        raise too_deep() from error
