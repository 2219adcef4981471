"""What a run is after beyond its mode: the objective, the cases that count and by how much, a figure to reach.

Every part is one line of text that a person writes, `parse` reads and `str` gives back; a file holds that text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from pydantic import Field, model_serializer, model_validator

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, DType, Mode, Role

REGIME_EXAMPLE = "N<=4096 and dtype=bf16"
WEIGHT_EXAMPLE = "N=4096: 3"
TARGET_EXAMPLE = "forward < 0.3 ms at N=4096"
DTYPE = "dtype"

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|>=|!=|==|<|>|=)\s*([\w.]+)\s*", re.ASCII)
_AND = re.compile(r"\s+and\s+|\s*[,&]+\s*", re.IGNORECASE)

Line = TypeVar("Line", bound="TextContract")


class Objective(str, Enum):
    """What is to get better: time, peak memory, or either of the two where the other is not worse."""

    SPEED = "speed"
    MEMORY = "memory"
    BALANCED = "balanced"


class TextContract(Contract):
    """A contract that a file has as one line of text."""

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Raises ValueError, with an example, for text that means nothing."""
        raise NotImplementedError

    @classmethod
    def parse(cls: type[Line], text: str) -> Line:
        return cls.model_validate(cls.fields_of(text))

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return cls.fields_of(value) if isinstance(value, str) else value

    @model_serializer(mode="plain")
    def _as_text(self) -> str:
        return str(self)


class Condition(TextContract):
    """A comparison of an axis of a case, or of its dtype, with a value."""

    axis: str
    compared: str
    value: int | DType

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ValueError(f"expected a comparison such as N<=4096 or dtype=bf16, found {text!r}")
        axis, compared, value = found[1], found[2].replace("==", "="), found[3]
        if axis == DTYPE:
            return {"axis": axis, "compared": compared, "value": _dtype(value, compared)}
        if not value.isdecimal():
            raise ValueError(f"expected a whole number to compare {axis} with, such as {axis}<=4096, found {value!r}")
        return {"axis": axis, "compared": compared, "value": int(value)}

    def __str__(self) -> str:
        return f"{self.axis}{self.compared}{self.value.short if isinstance(self.value, DType) else self.value}"

    def holds(self, case: Case) -> bool:
        """False where the case has no such axis."""
        found = case.dtype if self.axis == DTYPE else case.axes.get(self.axis)
        return found is not None and _COMPARE[self.compared](found, self.value)


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """A conjunction: "N<=4096 and dtype=bf16". Raises ValueError."""
    return tuple(Condition.parse(part) for part in _AND.split(text.strip()))


def told_conditions(conditions: Sequence[Condition]) -> str:
    return " and ".join(map(str, conditions))


def hold(conditions: Sequence[Condition], case: Case) -> bool:
    return all(condition.holds(case) for condition in conditions)


class CaseWeight(TextContract):
    """How much the cases of that name, or those that meet the conditions, count in the goal metric."""

    case: str | None = None
    where: tuple[Condition, ...] = ()
    weight: float = Field(gt=0)

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        by_condition = ":" in text
        where, _, number = text.rpartition(":" if by_condition else "=")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        is_a_case = "-" in where  # "8192x4096-bf16", and no condition
        if not where.strip() or not (by_condition or is_a_case) or not 0 < weight < float("inf"):
            raise ValueError(
                f"expected CASE=WEIGHT or a condition, a colon and a weight above 0, such as {WEIGHT_EXAMPLE!r}, "
                f"found {text!r}"
            )
        chosen = {"where": parse_conditions(where)} if by_condition else {"case": where.strip()}
        return {**chosen, "weight": weight}

    def __str__(self) -> str:
        if self.case is not None:
            return f"{self.case}={self.weight:.12g}"
        return f"{told_conditions(self.where)}: {self.weight:.12g}"

    def is_of(self, case: Case) -> bool:
        return hold(self.where, case) if self.case is None else case.name == self.case


class Quantity(str, Enum):
    TIME = "time"
    SPEEDUP = "speedup"
    PEAK_MEMORY = "peak memory"


#: What one of each unit is in ms, in bytes, or in times the original.
_UNITS: dict[Quantity, dict[str, float]] = {
    Quantity.TIME: {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3},
    Quantity.PEAK_MEMORY: {
        **{"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9},
        **{"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
    },
    Quantity.SPEEDUP: {"": 1.0, "x": 1.0, "×": 1.0},
}
_TARGET = re.compile(
    r"\s*(?:(forward|backward|full)\b)?\s*(time|speed-?up|peak\s+memory|memory)?\s*(<=|>=|<|>)\s*"
    r"(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)\s*([A-Za-zµ×]*?)\s*(?:\bat\s+(.+))?",
    re.IGNORECASE,
)


class TargetMetric(TextContract):
    """A figure that ends the search once the best variant has it.

    `mode` None is that of the goal. `value` is in `unit`, as it was written; with `where`, of the cases that meet it.
    """

    mode: Mode | None = None
    quantity: Quantity
    compared: str
    value: float = Field(gt=0)
    unit: str = ""
    where: tuple[Condition, ...] = ()

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        found = _TARGET.fullmatch(text.replace("μ", "µ"))  # the Greek letter for the micro sign
        if found is None or not (found[1] or found[2]) or not 0 < float(found[4]) < float("inf"):
            raise _no_target(text, "")
        mode, named, compared, value, unit, where = found.groups()
        quantity = _quantity(named or "time")
        units = {each.lower(): each for each in _UNITS[quantity]}
        if unit.lower() not in units:
            raise _no_target(text, f"; the units of {quantity.value} are {', '.join(filter(None, units.values()))}")
        if ("<" in compared) == (quantity is Quantity.SPEEDUP):
            raise _no_target(text, f"; a {quantity.value} is compared by {'>' if '<' in compared else '<'}")
        return {
            "mode": mode and Mode(mode.lower()),
            "quantity": quantity,
            "compared": compared,
            "value": float(value),
            "unit": "" if quantity is Quantity.SPEEDUP else units[unit.lower()],
            "where": parse_conditions(where) if where else (),
        }

    def __str__(self) -> str:
        what = "" if self.quantity is Quantity.TIME and self.mode else self.quantity.value
        words = (self.mode.value if self.mode else "", what, self.compared, f"{self.value:.12g}", self.unit)
        where = f"at {told_conditions(self.where)}" if self.where else ""
        return " ".join(word for word in (*words, where) if word)

    def is_met_by(self, measured: float) -> bool:
        """`measured` in ms, in bytes, or as a ratio."""
        return _COMPARE[self.compared](measured, self.value * _UNITS[self.quantity][self.unit])

    def told(self, measured: float) -> str:
        """A measured figure in the unit of the target."""
        return f"{measured / _UNITS[self.quantity][self.unit]:.4g} {self.unit or '×'}"


class Aim(Contract):
    """The default is to be faster over all tuning cases, by the target's own weights.

    A case counts for the goal metric if it is a tuning case that meets the whole `regime`; of several weights that are
    of a case the last counts. What does not count is still guarded against regressions.
    """

    objective: Objective = Objective.SPEED
    regime: tuple[Condition, ...] = ()
    weights: tuple[CaseWeight, ...] = ()
    target: TargetMetric | None = None

    def in_regime(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """The cases with those that do not count held out."""
        return tuple(
            case if case.role is Role.HELD_OUT or hold(self.regime, case) else _held_out(case) for case in cases
        )

    def applied(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """`in_regime`, with the weights that were asked for."""
        return tuple(
            case.model_copy(update={"weight": [w.weight for w in self.weights if w.is_of(case)][-1]})
            if any(w.is_of(case) for w in self.weights)
            else case
            for case in self.in_regime(cases)
        )

    def goal_weights(self, cases: Sequence[Case]) -> dict[str, float]:
        """Case name -> weight, of those that count."""
        return {case.name: case.weight for case in self.applied(cases) if case.role is Role.TUNING}


def _held_out(case: Case) -> Case:
    return case.model_copy(update={"role": Role.HELD_OUT})


def _dtype(text: str, compared: str) -> DType:
    for dtype in DType:
        if text.lower() in (dtype.value, dtype.short):
            if compared not in ("=", "!="):
                raise ValueError(f"a dtype is compared by = or !=, found dtype{compared}{text}")
            return dtype
    raise ValueError(f"expected one of the dtypes {', '.join(d.short for d in DType)}, found {text!r}")


def _quantity(named: str) -> Quantity:
    word = named.lower().replace("-", "")
    return Quantity.PEAK_MEMORY if "memory" in word else Quantity(word)


def _no_target(text: str, why: str) -> ValueError:
    return ValueError(
        f"expected a figure to reach, such as {TARGET_EXAMPLE!r}, 'speedup > 1.5' or 'peak memory < 1.2 GB', "
        f"found {text!r}{why}"
    )
