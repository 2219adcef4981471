"""The form of what a call returns: how many results, of which type, shape, dtype, device and strides.

Owns no numbers: values are compared elsewhere. Forms hold no tensor, so that they keep no memory and no graph alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith.measure.correctness.trial import as_tuple, named


@dataclass(frozen=True)
class PartForm:
    """One result. `strides` are those that matter: not of dimensions of size 1, none of an empty tensor."""

    kind: type
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    strides: tuple[int, ...] = ()
    requires_grad: bool = False

    @classmethod
    def of(cls, part: Any) -> PartForm:
        if not isinstance(part, Tensor):
            return cls(type(part))
        strides = zip(part.shape, part.stride(), strict=True) if part.numel() else ()
        return cls(
            kind=type(part),
            shape=tuple(part.shape),
            dtype=part.dtype,
            device=part.device,
            strides=tuple(stride for size, stride in strides if size > 1),
            requires_grad=part.requires_grad,
        )


@dataclass(frozen=True)
class Form:
    """Results by name, and the type that held them."""

    container: str
    parts: dict[str, PartForm]


def output_form(outputs: Any) -> Form:
    """The form of what a call returned, as it returned it."""
    several = isinstance(outputs, tuple | list)
    parts = {name: PartForm.of(part) for name, part in named(as_tuple(outputs), outputs)}
    return Form("several outputs" if several else "one output", parts)


def gradient_form(results: Mapping[str, Any]) -> Form:
    """The form of the gradients among the results."""
    parts = {name: PartForm.of(part) for name, part in results.items() if name.startswith("gradient of ")}
    return Form("gradients", parts)


def differences(found: Form, original: Form) -> list[tuple[str | None, str]]:
    """How one form differs from the original's: a result, or None for all of them, and a sentence."""
    if found.container != original.container:
        return [(None, f"returns {found.container}, the original {original.container}")]
    if len(found.parts) != len(original.parts):
        return [(None, f"returns {len(found.parts)} {_unit(found)}, the original {len(original.parts)}")]
    return [
        (name, told) for name, part in found.parts.items() for told in _part_differences(part, original.parts[name])
    ]


def _unit(form: Form) -> str:
    return form.container.rpartition(" ")[2]


def _part_differences(part: PartForm, other: PartForm) -> list[str]:
    if part.kind is not other.kind:
        if part.kind is type(None):
            return ["is missing (None), the original gives one"]
        if other.kind is type(None):
            return ["is given, the original has None there"]
        return [f"its type is {part.kind.__qualname__}, exactly {other.kind.__qualname__} is expected"]
    found = [
        f"{what} {ours}, the original's {theirs}"
        for what, ours, theirs in (
            ("shape", part.shape, other.shape),
            ("dtype", part.dtype, other.dtype),
            ("device", part.device, other.device),
            ("strides", part.strides, other.strides),
        )
        if ours != theirs and (what != "strides" or part.shape == other.shape)
    ]
    if other.requires_grad and not part.requires_grad:
        found.append("carries no gradient (requires_grad is False), the original's does")
    return found
