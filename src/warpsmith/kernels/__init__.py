"""The kernel library: Triton ops with autograd, and their nn modules. Imports nothing else of warpsmith.

`warpsmith.kernels.rms_norm` is the function; its module is reached by `from warpsmith.kernels.rms_norm import ...`.
"""

from __future__ import annotations

from warpsmith.kernels.modules import RMSNorm
from warpsmith.kernels.rms_norm import rms_norm

__all__ = ["RMSNorm", "rms_norm"]
