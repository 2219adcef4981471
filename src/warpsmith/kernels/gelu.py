"""GELU, Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415, inside kernels: both forms and their derivatives.

With Φ the standard normal distribution and φ its density,

    exact:  gelu(x)  = x · Φ(x)
            gelu'(x) = Φ(x) + x · φ(x),     φ(x) = exp(-x² / 2) / √(2π)

    tanh:   gelu(x)  = x · (1 + t) / 2,     t = tanh(u),  u = √(2/π) · (x + 0.044715 · x³)
            gelu'(x) = (1 + t) / 2 + x · (1 - t²) · u' / 2,  u' = √(2/π) · (1 + 3 · 0.044715 · x²)

gelu(x) / x, here the gate, is computed from its tail, the gate at -|x|; at |x| it is 1 - tail. Values are fp32, in and
out. erf, tanh and division take so many instructions that a GPU waits for them instead of for memory, so it is without
them, by its fast powers of 2 and reciprocal roots:

    exact:  Φ(-z) = 2^(-1 - z · p(z)) with a polynomial p
    tanh:   (1 - t) / 2 = e / (1 + e),  e = 2^(-2u · log2(e)),  at u >= 0

Neither overflows, and neither cancels as 1 + erf and 1 + tanh do: at -5.4 torch's exact GELU has no right digit left,
this one has five.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl

#: As torch.nn.functional.gelu calls them: none is exact.
APPROXIMATIONS = ("none", "tanh")

# p by benchmark/fit_gelu.py. Φ is right to 1e-7, and from -6 on to 4e-6 of itself.
_P0 = tl.constexpr(1.1511077)
_P1 = tl.constexpr(0.45918515)
_P2 = tl.constexpr(0.052561074)
_P3 = tl.constexpr(-0.0071330997)
_P4 = tl.constexpr(0.00015560824)
_P5 = tl.constexpr(0.0002042892)
_P6 = tl.constexpr(-5.467851e-05)
_P7 = tl.constexpr(7.2703388e-06)
_P8 = tl.constexpr(-5.1894864e-07)
_P9 = tl.constexpr(1.5784249e-08)

#: -log2(e) / 2 and log2(2π) / 2, for φ(x) = 2^(-x² · log2(e) / 2 - log2(2π) / 2).
_MINUS_HALF_LOG2_E = tl.constexpr(-0.7213475204444817)
_HALF_LOG2_2_PI = tl.constexpr(1.3257480647361595)

#: 2u · log2(e) = x · (_LINEAR + _CUBIC · x²).
_LINEAR = tl.constexpr(2.302208198144325)
_CUBIC = tl.constexpr(0.1029432395800235)
_LN_2 = tl.constexpr(0.6931471805599453)
#: x² from which on the tail is 0 to the last bit: bounded, it does not overflow, and 0 · inf does not come up.
_SATURATED = tl.constexpr(256.0)


@triton.jit
def gelu(x, TANH: tl.constexpr):
    """gelu(x), elementwise."""
    return x * _gate(x, _tail(x, TANH))


@triton.jit
def gelu_derivative(x, TANH: tl.constexpr):
    """gelu'(x), elementwise."""
    tail = _tail(x, TANH)
    if TANH:
        slope = (tl.minimum(x * x, _SATURATED) * (3.0 * _CUBIC) + _LINEAR) * _LN_2
        # (1 - t²) / 2 is 2 · tail · (1 - tail), and the slope 2u'.
        density = tail * (1.0 - tail) * slope
    else:
        density = tl.exp2(x * x * _MINUS_HALF_LOG2_E - _HALF_LOG2_2_PI)
    return _gate(x, tail) + x * density


@triton.jit
def _gate(x, tail):
    return tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def _tail(x, TANH: tl.constexpr):
    z = tl.abs(x)
    if TANH:
        e = tl.exp2(-z * (x * x * _CUBIC + _LINEAR))
        root = tl.rsqrt(1.0 + e)
        tail = e * root * root
    else:
        p = z * _P9 + _P8
        p = p * z + _P7
        p = p * z + _P6
        p = p * z + _P5
        p = p * z + _P4
        p = p * z + _P3
        p = p * z + _P2
        p = p * z + _P1
        p = p * z + _P0
        tail = tl.exp2(-1.0 - p * z)
    return tail
