"""The roofline plot of a profile."""

from __future__ import annotations

from pathlib import Path

from warpsmith.contracts.profile import Profile


def save_roofline(profile: Profile, directory: Path) -> Path | None:
    """None: nothing is drawn of any profile."""
    return None
