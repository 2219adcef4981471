"""Null mutants: results of the original, spoiled in ways that the check of values must refuse.

One that it lets pass is a hole in the target: its inputs, its cases or its reference. Owns how results are spoiled,
and which mutants say nothing at a case. Must not know what becomes of one that passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import OutputError
from warpsmith.contracts.mutants import MEAN, ZEROS, MutantCheck
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.bout import Bout, Observed, observe
from warpsmith.measure.correctness.errors import RMS_MULTIPLE, TAIL_FLOOR
from warpsmith.measure.correctness.extremes import MOST_ELEMENTS
from warpsmith.measure.correctness.first_run import values
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker.implementation import Implementation

#: Mutants that are near the result: an original whose own error is as large cannot be told from them.
LOWER_PRECISION, ONE_PERCENT = "rounded to a lower precision", "off by 1%"
#: The columns and elements of the block that is left out. Chosen: a block as narrow as any kernel has.
_BLOCK = 16
#: Bits of the mantissa of the next dtype down: bfloat16's below fp32 and fp16, float8_e4m3's below bfloat16.
_LOWER_BITS = {torch.float64: 23, torch.float32: 7, torch.float16: 7, torch.bfloat16: 3}

_RIGHT = "it is the right result at this case, to within a rounding"


def mutants(
    target: Target, cases: Sequence[Case], original: Implementation, *, device: torch.device, seed: int
) -> tuple[MutantCheck, ...]:
    """Every mutant of every output and gradient, at the smallest case of each dtype and at all others that are small.

    Raises what the original and the target raise.
    """
    by_size = sorted(cases, key=lambda case: math.prod(case.axes.values()))
    smallest = {case.dtype: case for case in reversed(by_size)}
    checks: list[MutantCheck] = []
    for case in by_size:
        if case in smallest.values() or math.prod(case.axes.values()) <= MOST_ELEMENTS:
            trial = Trial.of(target, case, device=device, seed=seed)
            known = observe(original, trial)
            bout = Bout(original, original, trial, known, trial.reference(), known)
            for part, result in known.results.items():
                if result is not None and result.numel():
                    checks += _of_part(bout, part, result)
    return tuple(checks)


def _of_part(bout: Bout, part: str, result: Tensor) -> Iterator[MutantCheck]:
    for name, mutant in _spoiled(bout.trial, part, result):
        if isinstance(mutant, str):
            yield _check(bout, part, name, skipped=mutant)
            continue
        if torch.equal(mutant.to(result.dtype), result):
            yield _check(bout, part, name, skipped=_RIGHT)
            continue
        refused, error = _refused(bout, part, result, mutant.to(result.dtype))
        skipped = None if refused or error is None else _says_nothing(name, error, result.dtype)
        yield _check(bout, part, name, refused=refused, skipped=skipped)


def _check(bout: Bout, part: str, name: str, *, refused: bool = False, skipped: str | None = None) -> MutantCheck:
    return MutantCheck(case=bout.trial.case.name, part=part, mutant=name, refused=refused, skipped=skipped)


def _refused(bout: Bout, part: str, result: Tensor, mutant: Tensor) -> tuple[bool, OutputError | None]:
    """Whether the very check that a candidate meets refuses it, and the errors that it found."""

    def only(tensor: Tensor) -> Observed:
        return replace(bout.known, results={part: tensor})

    tried = Bout(bout.candidate, bout.original, bout.trial, only(result), bout.reference, only(mutant))
    refused = bool(list(values(tried)))
    return refused, tried.errors[0] if tried.errors else None


def _says_nothing(mutant: str, error: OutputError, dtype: torch.dtype) -> str | None:
    """Why a mutant that passed is no hole, or None."""
    epsilon = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    equal = error.floor + epsilon / 2 * error.scale
    if error.rms <= equal and error.max <= TAIL_FLOOR * equal:
        return _RIGHT
    if mutant in (LOWER_PRECISION, ONE_PERCENT) and error.rms <= RMS_MULTIPLE * error.original_rms + error.floor:
        sizes = f"{error.original_rms:.3g} (RMS), the mutant's {error.rms:.3g}"
        return f"the original's own error is nearly as large: {sizes}"
    return None


def _spoiled(trial: Trial, part: str, result: Tensor) -> Iterator[tuple[str, Tensor | str]]:
    """The name of each mutant, and what it is, or why there is none of this result."""
    yield ZEROS, torch.zeros_like(result)
    copied = dict(_of_that_shape(trial, result, gradients=part.startswith("gradient of ")))
    yield from copied.items()
    if not copied:
        yield "a copy of an input", "no input has its shape"
    if result.numel() > 1:
        yield MEAN, _filled(result, result.double().mean())
    if result.ndim > 1:
        yield "the mean of each row", _filled(result, result.double().mean(dim=-1, keepdim=True))
        yield "transposed", result.transpose(-1, -2).reshape(result.shape)
        yield "the last row left out", _without(result, lambda r: r[-1:])
    else:
        for name in ("the mean of each row", "transposed", "the last row left out"):
            yield name, "it has one axis" if result.ndim else "it is one number"
    yield "the last block left out", _without(result, lambda r: r[..., -min(_BLOCK, max(1, r.shape[-1] // 2)) :])
    if result.dtype.is_floating_point:
        yield LOWER_PRECISION, _rounded(result, _LOWER_BITS.get(result.dtype, 3))
        yield ONE_PERCENT, result * 1.01
    else:
        yield from ((name, f"it is of {result.dtype}") for name in (LOWER_PRECISION, ONE_PERCENT))


def _of_that_shape(trial: Trial, result: Tensor, *, gradients: bool) -> Iterator[tuple[str, Tensor]]:
    """Inputs, and of gradients also the output gradients, as a kernel that does nothing would pass them on."""
    trial.restore()
    others = {f"the gradient of output {i}": value for i, value in trial.output_gradients.items() if gradients}
    for name, value in {**trial.inputs, **others}.items():
        if isinstance(value, Tensor) and value.shape == result.shape:
            yield f"a copy of {name}", value.detach().clone()


def _filled(result: Tensor, mean: Tensor) -> Tensor:
    return mean.to(result.dtype).expand(result.shape).clone()


def _without(result: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
    changed = result.clone()
    block(changed.view(1) if changed.ndim == 0 else changed).zero_()
    return changed


def _rounded(result: Tensor, bits: int) -> Tensor:
    """To so many bits of the mantissa, to the nearest."""
    mantissa, exponent = torch.frexp(result.double())
    return torch.ldexp((mantissa * 2.0 ** (bits + 1)).round() / 2.0 ** (bits + 1), exponent).to(result.dtype)
