"""The kernel library: Triton ops with autograd, and their nn modules. Imports nothing else of warpsmith.

On a GPU, a row has at most 65536 values (softmax: 2^30), a tensor at most 2^31 - 1 rows, and all are on the current
device. Gradients are of the first order there, and a gradient of one is refused; by rms_norm, which stays as its run
recorded it, only where the gradient of its output requires one.

`warpsmith.kernels.rms_norm` is the function; its module is reached by `from warpsmith.kernels.rms_norm import ...`.
"""

from __future__ import annotations

from warpsmith.kernels.cross_entropy import cross_entropy
from warpsmith.kernels.fused_add_rms_norm import fused_add_rms_norm
from warpsmith.kernels.fused_linear_cross_entropy import fused_linear_cross_entropy
from warpsmith.kernels.geglu import geglu
from warpsmith.kernels.layer_norm import layer_norm
from warpsmith.kernels.layer_norm_gelu import layer_norm_gelu
from warpsmith.kernels.matmul import matmul
from warpsmith.kernels.modules import CrossEntropyLoss, LayerNorm, RMSNorm, Softmax
from warpsmith.kernels.patching import patch, unpatch
from warpsmith.kernels.quantize_rows import quantize_rows
from warpsmith.kernels.quantized_matmul import quantized_matmul
from warpsmith.kernels.rms_norm import rms_norm
from warpsmith.kernels.rope import rope
from warpsmith.kernels.softmax import softmax
from warpsmith.kernels.swiglu import swiglu
from warpsmith.kernels.vector_add import vector_add

__all__ = [
    "CrossEntropyLoss",
    "LayerNorm",
    "RMSNorm",
    "Softmax",
    "cross_entropy",
    "fused_add_rms_norm",
    "fused_linear_cross_entropy",
    "geglu",
    "layer_norm",
    "layer_norm_gelu",
    "matmul",
    "patch",
    "quantize_rows",
    "quantized_matmul",
    "rms_norm",
    "rope",
    "softmax",
    "swiglu",
    "unpatch",
    "vector_add",
]
