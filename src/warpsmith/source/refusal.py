"""How a change of a source is declined. Apart from what changes it, so that whoever only reads needs none of that."""

from __future__ import annotations


class NotApplicable(Exception):
    """There is nothing to change, or no place where the change could stand. The message says which."""
