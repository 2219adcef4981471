"""What the host code knows of a case where it launches: the variables, or expressions, that a table is keyed by.

A size of a case is known by the integer that equals it at every case, a product of sizes (a number of rows) likewise.
An integer that a launch's block or settings are made of never counts: it equals the width only where that is a power
of two.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from warpsmith.contracts.case import Case
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.search.tuning.axes import Axis
from warpsmith.source.launches import Launch

#: The most sizes that a table is keyed by.
MOST_AXES = 3
_NO_SIZE = re.compile(r"block|tile|warps|stages", re.IGNORECASE)
_BLOCK = re.compile("block", re.IGNORECASE)


class NoKey(Exception):
    """The host code has no variables that tell the cases apart; the message says which is missing."""


@dataclass(frozen=True)
class KeyAxis:
    """One size that a table is keyed by: its expression in the host code, and the axes of a case that it multiplies."""

    expression: str
    product: tuple[str, ...]
    rule: Axis

    def size(self, case: Case) -> int:
        return math.prod(case.axes[axis] for axis in self.product)


@dataclass(frozen=True)
class Launched:
    """The launches of one jit function by one host function, at every case where it launches."""

    host_function: str
    by_case: Sequence[tuple[Case, Sequence[LaunchRecord]]]
    settings: frozenset[str]
    written: Launch | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.by_case[0][0].axes)

    def product(self, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(math.prod(case.axes[axis] for axis in axes) for case, _ in self.by_case)

    @cached_property
    def known(self) -> dict[str, tuple[int, ...]]:
        """By variable or expression: its value at each case. What differs between launches of a case is left out."""
        found: dict[str, tuple[int, ...]] = {}
        for name in self._integers(0):
            values = [{of_a_launch.get(name) for of_a_launch in self._at(i)} for i in range(len(self.by_case))]
            if all(len(each) == 1 and None not in each for each in values):
                found[name] = tuple(value for each in values for value in each if value is not None)
        return found

    def _at(self, index: int) -> list[dict[str, int]]:
        return [{**each.host_integers, **_told(self.written, each)} for each in self.by_case[index][1]]

    def _integers(self, index: int) -> list[str]:
        return [n for n in self._at(index)[0] if not _NO_SIZE.search(n) and n not in self.settings]


def key_axes(launched: Launched, width_axis: str) -> tuple[KeyAxis, ...]:
    """What determines the cases: the width by itself if it can be, then as few variables as there are.

    A size that is the same at every case is left out only where no variable holds it. Raises NoKey.
    """
    if any(tuple(case.axes) != launched.axes for case, _ in launched.by_case):
        raise NoKey(f"the cases of {launched.host_function} have different axes, so a table has no key")
    constant = [axis for axis in launched.axes if len(set(launched.product([axis]))) == 1]
    best: tuple[tuple[bool, int, int], list[tuple[str, ...]]] | None = None
    for left_out in _subsets(constant):
        for groups in _partitions([axis for axis in launched.axes if axis not in left_out]):
            if len(groups) > MOST_AXES or not all(_holders(launched, group) for group in groups):
                continue
            rank = ((width_axis,) not in groups and width_axis not in left_out, len(left_out), len(groups))
            if best is None or rank < best[0]:
                best = rank, groups
    if best is None:
        raise NoKey(_missing(launched))
    groups = sorted(best[1], key=lambda group: launched.axes.index(group[0]))
    if len(groups) == 2:  # a width and a number of rows, in this order
        groups.sort(key=lambda group: group != (width_axis,))
    taken: dict[str, tuple[str, ...]] = {}
    for group in groups:
        free = [name for name in _holders(launched, group) if name not in taken]
        if free:
            taken[free[0]] = group
    return tuple(KeyAxis(name, group, _rule(launched, group)) for name, group in taken.items())


def _holders(launched: Launched, group: Sequence[str]) -> list[str]:
    """What holds a product of sizes at every case, a variable of the size's own name first."""
    wanted = launched.product(group)
    held = [name for name, values in launched.known.items() if values == wanted]
    return sorted(held, key=lambda name: not (len(group) == 1 and name.lower() == group[0].lower()))


def _missing(launched: Launched) -> str:
    held = {axis for groups in _partitions(list(launched.axes)) for g in groups if _holders(launched, g) for axis in g}
    lacking = [axis for axis in launched.axes if axis not in held and len(set(launched.product([axis]))) > 1]
    what = f"holds {' or '.join(lacking)}" if lacking else "tells the cases apart with two others at most"
    return f"{launched.host_function} has no integer variable that {what} at every case, so a table has no key"


def _rule(launched: Launched, group: Sequence[str]) -> Axis:
    """Whether a block covers this size as a whole, and up to which width one does."""
    sizes = launched.product(group)
    widest = 1
    for name in {name for _, launches in launched.by_case for name in launches[0].constexprs if _BLOCK.search(name)}:
        blocks = [launches[0].constexprs.get(name) for _, launches in launched.by_case]
        whole = [block for block in blocks if type(block) is int and block > 0]
        if len(whole) == len(sizes) and whole == [Axis(max(whole)).block(size) for size in sizes]:
            widest = max(widest, *whole)
    return Axis(widest)


def _told(written: Launch | None, launch: LaunchRecord) -> dict[str, int]:
    """What an expression in the launch comes to, where the launch record says: for constexprs, and in the grid."""
    if written is None:
        return {}
    given = [(written.argument(name), value) for name, value in launch.constexprs.items()]
    if isinstance(written.grid, ast.Tuple):
        given += zip(written.grid.elts, launch.grid, strict=False)
    return {
        ast.unparse(expression): value
        for expression, value in given
        if expression is not None and type(value) is int and _is_a_size(expression)
    }


def _is_a_size(expression: ast.expr) -> bool:
    """Whether an expression reads a size off an object: `x.shape[-1]`, `x.size(0)`, `x.numel()`, `self.n`."""
    inner = expression
    if isinstance(inner, ast.Call) and all(isinstance(argument, ast.Constant | ast.UnaryOp) for argument in inner.args):
        if not (isinstance(inner.func, ast.Attribute) and inner.func.attr in ("size", "numel") and not inner.keywords):
            return False
        inner = inner.func
    elif isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant | ast.UnaryOp):
        inner = inner.value
    return isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name)


def _subsets(axes: Sequence[str]) -> Iterator[frozenset[str]]:
    for bits in range(1 << len(axes)):
        yield frozenset(axis for index, axis in enumerate(axes) if bits >> index & 1)


def _partitions(axes: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
    """Every way to group axes."""
    if not axes:
        yield []
        return
    first, *rest = axes
    for groups in _partitions(rest):
        yield [(first,), *groups]
        for index, group in enumerate(groups):
            yield [*groups[:index], (first, *group), *groups[index + 1 :]]


def tensor_of(launched: Launched) -> str:
    """The first host tensor that has the case's dtype at every case. Raises NoKey."""
    dtypes: Sequence[tuple[str, Mapping[str, str]]] = [
        (case.dtype.value, each.host_tensors) for case, launches in launched.by_case for each in launches
    ]
    for name in dtypes[0][1]:
        if all(tensors.get(name) == dtype for dtype, tensors in dtypes):
            return name
    raise NoKey(f"{launched.host_function} has no tensor of the case's dtype, so a table has no device to ask")
