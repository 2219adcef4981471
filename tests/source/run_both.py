"""Runs `host(x, w)` of two sources, named by path, on the CPU under TRITON_INTERPRET=1 and prints the names of the
results that differ in any bit. A program of its own, because Triton reads TRITON_INTERPRET when it is imported."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import torch


def results(path: str, x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [each for each in module.host(x.clone(), w.clone()) if each is not None]


def main(pairs: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn((7, 100), generator=generator), torch.randn((100,), generator=generator)
    differing = []
    for before, after in zip(pairs[::2], pairs[1::2], strict=True):
        here, there = results(before, x, w), results(after, x, w)
        assert here and len(here) == len(there)
        if not all(
            torch.equal(a, b) and bool(a.isfinite().all()) and bool(a.any()) for a, b in zip(here, there, strict=True)
        ):
            differing.append(after)
    json.dump(differing, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
