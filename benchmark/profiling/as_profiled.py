"""A target as it is profiled: copied under a kernel's name, this file is that kernel's target in a scratch project."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[1]
if str(BENCHMARK) not in sys.path:
    sys.path.append(str(BENCHMARK))

from profiling.narrowed import narrowed  # noqa: E402

target = narrowed(BENCHMARK, Path(__file__).stem)
