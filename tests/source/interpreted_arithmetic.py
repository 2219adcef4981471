"""Runs kernels and what rewrites make of them on CPU tensors under TRITON_INTERPRET=1, and prints as JSON how far apart
their results are, as a share of the largest.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import arithmetic_kernels as kernels
import torch

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.rewrites import multiply_as_loaded, use_cheap_functions
from warpsmith.source.scan import scan

REWRITES: dict[OpportunityKind, Callable[[str, Opportunity], str]] = {
    OpportunityKind.COSTLY_FUNCTION: use_cheap_functions,
    OpportunityKind.WIDENED_DOT: multiply_as_loaded,
}


def rewritten(source: str) -> str:
    """With every rewrite of arithmetic."""
    for opportunity in scan(source).opportunities:
        if opportunity.kind in REWRITES:
            source = REWRITES[opportunity.kind](source, opportunity)
    return source


def run(source: str, folder: Path, name: str, x: torch.Tensor) -> torch.Tensor:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.run(x)
    assert isinstance(result, torch.Tensor)
    return result.double()


def main() -> None:
    apart: dict[str, float] = {}
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("NORM", "SCALED_SOFTMAX", "MEAN", "DIRECT_DOT", "NAMED_DOT"):
            source = getattr(kernels, name)
            changed = rewritten(source)
            assert changed != source
            for dtype in (torch.float32, torch.float16):
                x = torch.randn((16, 64), generator=generator).to(dtype)
                before = run(source, Path(folder), f"{name}_before", x)
                after = run(changed, Path(folder), f"{name}_after", x)
                far = (before - after).abs().amax() / before.abs().amax()
                apart[f"{name}-{str(dtype).removeprefix('torch.')}"] = float(far)
    json.dump(apart, sys.stdout)


if __name__ == "__main__":
    main()
