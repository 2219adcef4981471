"""What a value of a row kernel varies along, and the places that change where a program takes several rows."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from warpsmith.source.refusal import NotApplicable

_POLICIES = frozenset({"cache_modifier", "eviction_policy", "volatile"})


@dataclass(frozen=True)
class Varies:
    """Along which axes of the tile a value varies. Not `sure` where two branches leave it different shapes."""

    rows: bool = False
    cols: bool = False
    sure: bool = True

    def __or__(self, other: Varies) -> Varies:
        return Varies(self.rows or other.rows, self.cols or other.cols, self.sure and other.sure)

    def either(self, other: Varies) -> Varies:
        """What is left by one branch or by the other."""
        found = self | other
        same = (self.rows, self.cols) == (other.rows, other.cols)
        return found if same else Varies(found.rows, found.cols, sure=False)


@dataclass
class RowKernel:
    """The places that change where a program holds several rows. `accesses` of rows, each with its mask or None."""

    block: str = ""
    row: ast.Assign | None = None
    program_ids: list[ast.Call] = field(default_factory=list)
    ranges: list[ast.Call] = field(default_factory=list)
    reductions: list[ast.Call] = field(default_factory=list)
    accesses: list[tuple[ast.Call, ast.expr | None]] = field(default_factory=list)
    stores: int = 0
    #: whether something is compared along the columns alone: the block holds a row
    masks_columns: bool = False


def unknown(node: ast.expr | ast.stmt, why: str = "is not known to the rewrite") -> NotApplicable:
    return NotApplicable(f"line {node.lineno}: {ast.unparse(node).splitlines()[0]} {why}")


def fits(value: Varies, at: Varies) -> bool:
    return value.rows <= at.rows and value.cols <= at.cols


def bound(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    """The arguments of a load or store by name. Raises NotApplicable at those that are not known."""
    given = dict(zip(names, call.args, strict=False))
    if len(call.args) > len(names):
        raise unknown(call)
    for keyword in call.keywords:
        if keyword.arg in names:
            given[keyword.arg] = keyword.value
        elif keyword.arg not in _POLICIES:
            raise unknown(call)
    return given
