"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

from warpsmith.cli.app import app
from warpsmith.cli.edge import main

__all__ = ["app", "main"]
