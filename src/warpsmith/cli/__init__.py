"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

from warpsmith.cli.interruption import end_at_a_signal


def main() -> None:
    """Runs the command line and exits. Nothing is loaded before a signal has its meaning."""
    end_at_a_signal()
    from warpsmith.cli.edge import run

    run()
