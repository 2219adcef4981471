"""Fits the polynomial by which warpsmith.kernels.gelu computes the normal distribution, and prints its coefficients:

    python benchmark/fit_gelu.py

p in Φ(-z) = 2^(-1 - z · p(z)), for z from 0 to 6. Least squares whose weights move to where the error is largest
(Lawson 1961) end at the polynomial whose largest error is the smallest, here in parts of what is allowed: 2e-8 of Φ,
and no more than 3e-7 of what Φ is.
"""

from __future__ import annotations

import mpmath
import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

DEGREE = 9
END = 6.0
ABSOLUTE, RELATIVE = 2e-8, 3e-7
POINTS, ROUNDS = 1200, 400


def main() -> None:
    z = END * (1 - np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)) / 2
    tail = np.array([float(mpmath.ncdf(-each)) for each in z])
    # In double precision already: tail is at least 1e-9, and so its logarithm exact enough.
    wanted = (-np.log2(tail) - 1) / z
    # A change of p by one changes Φ by its relative amount z · ln 2.
    in_parts = z * np.log(2) / np.minimum(RELATIVE, ABSOLUTE / tail)

    basis = np.polynomial.chebyshev.chebvander(2 * z / END - 1, DEGREE)
    weights = np.full(POINTS, 1 / POINTS)
    best, least = np.zeros(DEGREE + 1), np.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) * in_parts
        fitted = np.linalg.lstsq(basis * scale[:, None], wanted * scale, rcond=None)[0]
        error = np.abs(basis @ fitted - wanted) * in_parts
        if error.max() < least:
            best, least = fitted, error.max()
        weights *= error
        weights /= weights.sum()

    print(f"# {least:.2f} times what is allowed, before coefficients are rounded to fp32")
    for power, coefficient in enumerate(Chebyshev(best, domain=[0, END]).convert(kind=Polynomial).coef):
        print(f"{power}: {np.float32(coefficient)}")


if __name__ == "__main__":
    main()
