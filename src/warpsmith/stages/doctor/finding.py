"""One line of what the doctor tells."""

from __future__ import annotations

from warpsmith.contracts.base import Contract


class Finding(Contract):
    """One thing that was looked for. `consequence` says what does not work without it, `remedy` what would mend it."""

    name: str
    ok: bool
    found: str
    consequence: str | None = None
    remedy: str | None = None
