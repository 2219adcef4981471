"""GELU inside kernels: its accuracy on a dense grid, interpreted, and on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def errors(device: str) -> Any:
    script = Path(__file__).with_name("errors_of_gelu.py")
    interpreted = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    environment = {**os.environ, **interpreted, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(script), device], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_values_and_derivatives_are_right_to_fp32_and_keep_their_digits_in_the_tail(device: str) -> None:
    found = errors(device)
    for approximate in ("none", "tanh"):
        # Written so that a NaN is a failure.
        assert found[approximate]["value"] <= 1.5e-7, found
        assert found[approximate]["derivative"] <= 3e-7, found
        assert found[approximate]["tail"] <= 1e-5, found
        values, derivatives = found[approximate]["extremes"]
        assert [float(value) for value in values[:3]] == [0.0] * 3 and values[3:] == ["60000.0", *values[4:6], "nan"]
        assert [float(value) / 1e20 for value in values[4:6]] == pytest.approx([1.0, 3e18])
        assert [float(value) for value in derivatives[:6]] == [0.0] * 3 + [1.0] * 3 and derivatives[6] == "nan"
    assert found["none"]["torch's tail"] > 0.1
