"""Runs kernels before and after a rewrite, PATH/<style>_before.py and _after.py, under TRITON_INTERPRET=1, and prints
by style, shape and dtype the largest difference between their results as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import torch

#: Rows that no power of two divides, columns that are none.
SHAPES = ((1, 1), (5, 37), (33, 100), (3, 1030))


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def largest_difference(before: Any, after: Any, shape: tuple[int, int], dtype: torch.dtype) -> float:
    """Over all results, relative to the largest of each."""
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(shape, generator=generator).to(dtype), torch.randn(shape[1:], generator=generator).to(dtype)
    differences = []
    for one, two in zip(before.run(x.clone(), w), after.run(x.clone(), w), strict=True):
        assert one.shape == two.shape and one.dtype == two.dtype and bool(one.isfinite().all())
        differences.append(float((one.double() - two.double()).abs().max() / one.double().abs().max().clamp(min=1e-6)))
    return max(differences)


def difference_elsewhere(before: Any, after: Any) -> float:
    """Of launches by other code, which gives no rows a program and something else than its rows for M."""
    x = torch.randn((5, 37), generator=torch.Generator().manual_seed(0))
    one, two = torch.empty_like(x), torch.full_like(x, float("nan"))
    before.softmax_kernel[(5,)](one, x, 1, 37, 64)
    after.softmax_kernel[(5,)](two, x, 1, 37, 64)
    return float((one - two).abs().max())


def main() -> None:
    found = {}
    for path in sorted(Path(sys.argv[1]).glob("*_before.py")):
        style = path.stem.removesuffix("_before")
        before, after = module(path), module(path.with_name(f"{style}_after.py"))
        for shape, dtype in itertools.product(SHAPES, (torch.float32, torch.bfloat16)):
            name = f"{style}-{shape[0]}x{shape[1]}-{str(dtype).removeprefix('torch.')}"
            found[name] = largest_difference(before, after, shape, dtype)
        if style == "named_pointers":
            found["elsewhere-float32"] = difference_elsewhere(before, after)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
