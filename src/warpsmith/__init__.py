"""warpsmith: make an existing Triton kernel faster, and prove it."""

from __future__ import annotations

#: As typing has it, which takes longer to load than the command line needs to hear of a signal.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
    from warpsmith.contracts.target import Target

__version__ = "0.1.0"

__all__ = ["Case", "Cost", "DType", "Mode", "Role", "Target", "__version__"]


def __getattr__(name: str) -> Any:
    """What a target needs, loaded when it is asked for: the command line has to be up before anything slow is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.contracts.{'target' if name == 'Target' else 'case'}"), name)
