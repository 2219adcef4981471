"""Lets test modules here find the landscapes that they share."""

from __future__ import annotations

import sys
from pathlib import Path

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))
