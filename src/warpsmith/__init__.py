"""warpsmith: make an existing Triton kernel faster, and prove it."""

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Target

__version__ = "0.1.0"

__all__ = ["Case", "Cost", "DType", "Mode", "Role", "Target", "__version__"]
