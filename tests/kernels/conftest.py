"""Kernels interpreted on the CPU, each in a program of its own: Triton reads TRITON_INTERPRET when it is imported.

And rows on a GPU that lie further apart than 32 bits count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
from torch import Tensor

INTERPRETER = Path(__file__).with_name("interpret.py")


@pytest.fixture(scope="session")
def interpreter_loops() -> None:
    """Triton before 3.7 turns the bounds of a `range` into integers in a way that numpy from 2.4 on refuses."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    try:
        int(np.array([3]))
    except TypeError:
        if version < (3, 7):
            pytest.skip("this triton's interpreter cannot loop with this numpy")


@pytest.fixture(scope="module")
def interpreted_errors(request: pytest.FixtureRequest) -> Any:
    """What interpreted_<kernel>.py, beside test_<kernel>.py, prints as JSON."""
    script = request.path.with_name(request.path.name.replace("test_", "interpreted_", 1))
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(INTERPRETER), str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def far_rows() -> Tensor:
    """(3, 64) of bf16 on the GPU, with nothing written yet: the last row begins beyond 2^31 elements."""
    row_stride, columns = 2**30 + 8, 64
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free device memory")
    memory = torch.empty(2 * row_stride + columns, dtype=torch.bfloat16, device="cuda")
    return memory.as_strided((3, columns), (row_stride, 1))
