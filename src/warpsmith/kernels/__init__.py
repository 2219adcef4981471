"""The kernel library: Triton ops with autograd, and their nn modules. Imports nothing else of warpsmith.

On a GPU, gradients are of the first order, a row has at most 65536 values (softmax: 2^30), a tensor at most 2^31 - 1
rows, and all are on the current device.

`warpsmith.kernels.rms_norm` is the function; its module is reached by `from warpsmith.kernels.rms_norm import ...`.
"""

from __future__ import annotations

from warpsmith.kernels.fused_add_rms_norm import fused_add_rms_norm
from warpsmith.kernels.geglu import geglu
from warpsmith.kernels.layer_norm import layer_norm
from warpsmith.kernels.layer_norm_gelu import layer_norm_gelu
from warpsmith.kernels.modules import LayerNorm, RMSNorm, Softmax
from warpsmith.kernels.rms_norm import rms_norm
from warpsmith.kernels.rope import rope
from warpsmith.kernels.softmax import softmax
from warpsmith.kernels.swiglu import swiglu
from warpsmith.kernels.vector_add import vector_add

__all__ = [
    "LayerNorm",
    "RMSNorm",
    "Softmax",
    "fused_add_rms_norm",
    "geglu",
    "layer_norm",
    "layer_norm_gelu",
    "rms_norm",
    "rope",
    "softmax",
    "swiglu",
    "vector_add",
]
