"""When two modules are so alike that what is proven of one holds for the other. Must not know what is proven."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from torch import nn


def likeness(module: nn.Module, replaced: Collection[str]) -> Hashable:
    """Equal for modules of one class with equal attributes, children and shapes of parameters, while both exist.

    Values of parameters do not count, nor anything of the children `replaced` but which of them are the same: for a
    trial both are replaced. What cannot be compared safely, as a list or an object, is equal to itself alone.
    """
    places = {id(each): place for place, each in enumerate(module.modules())}
    parts = [
        (places[id(each)], id(type(each)), _attributes(each, places))
        for path, each in module.named_modules()
        if path.partition(".")[0] not in replaced
    ]
    has_slots = any(vars(kind).get("__slots__") for each in module.modules() for kind in type(each).__mro__)
    return (*parts, id(module) if has_slots else None)


def _attributes(module: nn.Module, places: dict[int, int]) -> Hashable:
    return tuple((name, _comparable(name, value, places)) for name, value in sorted(vars(module).items()))


def _comparable(name: str, value: Any, places: dict[int, int]) -> Hashable:
    if name == "_modules":
        return tuple((child, places.get(id(each))) for child, each in value.items())
    if name == "_parameters":
        first = {id(each): place for place, each in reversed(list(enumerate(value.values())))}
        return tuple((each, None if p is None else (tuple(p.shape), first[id(p)])) for each, p in value.items())
    if isinstance(value, dict | list | set) and not value:
        return type(value).__name__
    if type(value) is tuple:
        return tuple(_comparable("", each, places) for each in value)
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        # Such that 1 is not 1.0 or True, and NaN is NaN.
        return type(value).__name__, repr(value)
    return id(value)
