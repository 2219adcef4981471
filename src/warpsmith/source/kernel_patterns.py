"""How a jit function accesses memory: masks, strides, cache policies, casts, atomics, what it reads and overwrites."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from warpsmith.contracts.audit import Pattern, PatternKind
from warpsmith.source.access import LANGUAGE, Access
from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import assignments, dotted, lines_told, walk_scope
from warpsmith.source.terms import in_order

#: Chosen: a mask that is longer is cut.
_LONGEST_MASK = 60


def kernel_patterns(reading: Reading, jit: Jit) -> Iterator[Pattern]:
    """At most one pattern of each kind."""
    accesses = reading.addresses(jit).accesses()
    plain = [access for access in accesses if not access.through_descriptor]
    yield from _masks(jit, plain)
    yield from _strides(reading, jit, plain)
    yield from _policies(jit, accesses)
    yield from _casts(jit)
    yield from _in_place(jit, accesses)
    yield from _atomics(jit, accesses)


def _pattern(kind: PatternKind, jit: Jit, lines: Iterable[int], what: str) -> Iterator[Pattern]:
    found = tuple(sorted(set(lines)))
    if found and what:
        yield Pattern(kind=kind, function=jit.name, lines=found, what=what)


def _grouped(accesses: Iterable[Access], key: Callable[[Access], str]) -> dict[str, list[str]]:
    """Pointers by what `key` says of their accesses, in source order and once each."""
    groups: dict[str, list[str]] = {}
    for access in accesses:
        told = key(access)
        pointer = _pointer_told(access)
        if told and pointer not in groups.setdefault(told, []):
            groups[told].append(pointer)
    return groups


def _masks(jit: Jit, accesses: list[Access]) -> Iterator[Pattern]:
    masked = [access for access in accesses if access.mask is not None]
    groups = _grouped(masked, lambda access: _mask_told(jit, access))
    told = [f"{', '.join(pointers)} masked by {mask}" for mask, pointers in groups.items()]
    bare: dict[str, list[int]] = {}
    for access in accesses:
        if access.mask is None:
            bare.setdefault(_pointer_told(access), []).append(access.call.lineno)
    named = [f"{pointer} ({lines_told(lines)})" for pointer, lines in bare.items()]
    told += [f"not masked: {', '.join(named)}"] if named else []
    yield from _pattern(PatternKind.MASK, jit, (a.call.lineno for a in masked or accesses), "; ".join(told))


def _pointer_told(access: Access) -> str:
    return access.pointer or ast.unparse(access.address)


def _mask_told(jit: Jit, access: Access) -> str:
    """A mask as the kernel computes it, where it has a name that is set once."""
    mask = access.mask
    assert mask is not None
    if isinstance(mask, ast.Name):
        values = {ast.unparse(f.value): f.value for f in assignments(jit.node) if f.name == mask.id and f.value}
        if len(values) == 1:
            mask = next(iter(values.values()))
    told = ast.unparse(mask)
    return told if len(told) <= _LONGEST_MASK else f"{told[: _LONGEST_MASK - 3]}..."


def _strides(reading: Reading, jit: Jit, accesses: list[Access]) -> Iterator[Pattern]:
    """Which strides are arguments, which are computed from a size, and where the inner one is taken to be 1."""
    terms = reading.terms(jit)
    passed: dict[str, list[str]] = {}
    computed: dict[str, list[str]] = {}
    inner: list[str] = []
    pointers = {a.pointer for a in accesses if a.pointer is not None}
    for access in (a for a in accesses if a.pointer is not None):
        assert access.pointer is not None
        for term in in_order(terms.of(access.address)):
            factors = sorted(term.factors - pointers - jit.constexprs)
            if (term.program or term.vectors) and term.known:
                for factor in factors:
                    groups = passed if _is_a_stride(reading, jit, factor) else computed
                    named = groups.setdefault(access.pointer, [])
                    named += [factor] if factor not in named else []
                if term.vectors and not term.factors and access.pointer not in inner:
                    inner.append(access.pointer)
    told = [
        f"{label}: " + ", ".join(f"{pointer} ({', '.join(named)})" for pointer, named in groups.items())
        for label, groups in (("strides are arguments", passed), ("computed from sizes, so contiguous", computed))
        if groups
    ]
    told += [f"inner stride taken to be 1: {', '.join(inner)}"] if inner else []
    yield from _pattern(PatternKind.STRIDE, jit, (a.call.lineno for a in accesses), "; ".join(told))


def _is_a_stride(reading: Reading, jit: Jit, parameter: str) -> bool:
    """By its name, or because a launch passes a tensor's stride for it."""
    if "stride" in parameter.lower():
        return True
    values = [each.argument(parameter) for each in reading.launches if each.jit is jit]
    return any(value is not None and ".stride(" in ast.unparse(value) for value in values)


def _policies(jit: Jit, accesses: Iterable[Access]) -> Iterator[Pattern]:
    def policy(access: Access) -> str:
        named = (k for k in access.call.keywords if k.arg in ("eviction_policy", "cache_modifier"))
        return " and ".join(
            str(k.value.value) if isinstance(k.value, ast.Constant) else ast.unparse(k.value) for k in named
        )

    hinted = [access for access in accesses if policy(access)]
    told = [f"{name}: {', '.join(pointers)}" for name, pointers in _grouped(hinted, policy).items()]
    yield from _pattern(PatternKind.EVICTION_POLICY, jit, (a.call.lineno for a in hinted), "; ".join(told))


def _casts(jit: Jit) -> Iterator[Pattern]:
    lines: dict[str, list[int]] = {}
    for node in walk_scope(jit.node):
        if isinstance(node, ast.Call) and operation(node) in ("to", "cast") and isinstance(node.func, ast.Attribute):
            given = node.args[1:] if dotted(node.func.value) in LANGUAGE else node.args
            given = given or [k.value for k in node.keywords if k.arg == "dtype"]
            if given:
                lines.setdefault(ast.unparse(given[0]).removeprefix("tl."), []).append(node.lineno)
    told = [f"to {dtype} in {lines_told(found)}" for dtype, found in lines.items()]
    yield from _pattern(PatternKind.CAST, jit, (line for found in lines.values() for line in found), "; ".join(told))


def _in_place(jit: Jit, accesses: Iterable[Access]) -> Iterator[Pattern]:
    loaded = {a.pointer for a in accesses if a.is_load}
    both = [a for a in accesses if a.is_store and a.pointer is not None and a.pointer in loaded]
    named = ", ".join(dict.fromkeys(a.pointer for a in both if a.pointer))
    yield from _pattern(
        PatternKind.IN_PLACE, jit, (a.call.lineno for a in both), f"loads and overwrites {named}" if named else ""
    )


def _atomics(jit: Jit, accesses: Iterable[Access]) -> Iterator[Pattern]:
    atomic = [a for a in accesses if a.kind.startswith("atomic_")]
    told = [f"{kind} on {', '.join(pointers)}" for kind, pointers in _grouped(atomic, lambda a: a.kind).items()]
    yield from _pattern(PatternKind.ATOMIC, jit, (a.call.lineno for a in atomic), "; ".join(told))
