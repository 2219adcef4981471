"""A target as it is, but beside nobody: under a kernel's name, this file is its target in a scratch project."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[1]
if str(BENCHMARK) not in sys.path:
    sys.path.append(str(BENCHMARK))

from profiling.narrowed import whole_target  # noqa: E402

target = replace(whole_target(BENCHMARK, Path(__file__).stem), providers={})
