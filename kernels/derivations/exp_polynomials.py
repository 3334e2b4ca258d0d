"""Coefficients and error bounds of the polynomials in exact.h and fast.h.

e^r = 1 + r + r^2 q(r) on |r| <= H = ln2/2 + 2^-30, with q the interpolant of (e^r - 1 - r)/r^2 in
the Chebyshev nodes of [-H, H], its coefficients rounded to the kernel's arithmetic. The bound is
the largest relative error of the rounded polynomial, evaluated without further rounding.

    python kernels/derivations/exp_polynomials.py

prints the arrays as they stand in the headers.
"""

from __future__ import annotations

import mpmath

CONTEXT = mpmath.MPContext()
CONTEXT.prec = 200
H = CONTEXT.ln(2) / 2 + CONTEXT.mpf(2) ** -30
POLYNOMIALS = {"EXACT": (9, 53), "FAST_FP32": (6, 53), "FAST_16": (5, 24)}
"""Name → (degree of the whole polynomial, significand bits of its coefficients)."""


def quotient(r: mpmath.mpf) -> mpmath.mpf:
    """(e^r - 1 - r) / r^2, by its series where r is small."""
    if abs(r) > CONTEXT.mpf(2) ** -20:
        return (CONTEXT.exp(r) - 1 - r) / r**2
    return CONTEXT.fsum(r**k / CONTEXT.factorial(k + 2) for k in range(8))


def coefficients(degree: int, bits: int) -> list[mpmath.mpf]:
    """Coefficients of q, lowest first, rounded to so many bits."""
    n = degree - 1
    nodes = [H * CONTEXT.cos(CONTEXT.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    matrix = CONTEXT.matrix([[x**k for k in range(n)] for x in nodes])
    solved = CONTEXT.lu_solve(matrix, CONTEXT.matrix([quotient(x) for x in nodes]))
    rounding = mpmath.MPContext()
    rounding.prec = bits
    return [CONTEXT.mpf(rounding.mpf(c)) for c in solved]


def relative_error(q: list[mpmath.mpf], r: mpmath.mpf) -> mpmath.mpf:
    """(1 + r + r^2 q(r)) / e^r - 1, unrounded."""
    value = CONTEXT.mpf(0)
    for c in (*reversed(q), 1, 1):
        value = value * r + c
    return value / CONTEXT.exp(r) - 1


def bound(q: list[mpmath.mpf], points: int = 4000) -> mpmath.mpf:
    """The largest relative error over a grid that is fine against the polynomial's wiggles."""
    return max(abs(relative_error(q, H * (2 * i - points) / points)) for i in range(points + 1))


def main() -> None:
    """Print every polynomial as C text with its bound."""
    for name, (degree, bits) in POLYNOMIALS.items():
        q = coefficients(degree, bits)
        print(
            f"{name}: degree {degree}, relative error below 2^{float(CONTEXT.log(bound(q), 2)):.2f}"
        )
        for k, c in enumerate(q):
            print(f"    r^{k + 2}: {float(c).hex()}{'f' if bits == 24 else ''}")


if __name__ == "__main__":
    main()
