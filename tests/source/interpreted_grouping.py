"""Runs every style of kernel under TRITON_INTERPRET=1, as it is and in groups, and prints as JSON where they differ.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported. Fresh memory is NaN, so that a tile
that no program works on differs too.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from tiled_kernels import STYLES

from warpsmith.source.rewrites import group_tiles

#: Rows and columns: an odd number of tiles each way, the last ones cut, more of the one and of the other, and one.
SHAPES = ((72, 40), (24, 104), (16, 16), (80, 9))
SIZES = (1, 2, 3, 8)
INNER = 40


def loaded(folder: Path, name: str, text: str) -> Callable[..., torch.Tensor]:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[..., torch.Tensor] = module.host
    return run


def main() -> None:
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(0)
    differing: list[str] = []
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for index, (style, (source, function)) in enumerate(STYLES.items()):
            original = loaded(Path(folder), f"original_{index}", source)
            grouped = {n: loaded(Path(folder), f"by_{n}_{index}", group_tiles(source, function, n)) for n in SIZES}
            for rows, columns in SHAPES:
                a = torch.randn((rows, INNER), generator=generator)
                b = torch.randn((INNER, columns), generator=generator)
                scale = torch.rand(rows, generator=generator)
                expected = original(a, b, scale)
                assert not expected.isnan().any()
                for size, run in grouped.items():
                    compared += 1
                    if not torch.equal(run(a, b, scale), expected):
                        differing.append(f"{style}, {rows}×{columns}, groups of {size}")
    json.dump({"compared": compared, "differing": differing}, sys.stdout)


if __name__ == "__main__":
    main()
