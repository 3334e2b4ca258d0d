"""Coefficients and error bounds of the polynomials in exact.h, fast.h and quotient.h.

e^r = 1 + r + r^2 q(r) on |r| <= H = ln2/2 + 2^-30, with q the polynomial whose largest relative error of
the whole is least: its error has one size and alternating signs in as many points as it has coefficients
and one more (Chebyshev). Remez' exchange finds them from the extrema of Chebyshev's polynomial. The
coefficients are then rounded to the kernel's arithmetic. The bound is the largest relative error of the
rounded polynomial, evaluated without further rounding.

    python kernels/derivations/exp_polynomials.py

prints the arrays as they stand in the headers.
"""

from __future__ import annotations

import functools

import mpmath

CONTEXT = mpmath.MPContext()
CONTEXT.prec = 200
H = CONTEXT.ln(2) / 2 + CONTEXT.mpf(2) ** -30
POLYNOMIALS = {"EXACT": (9, 53), "LINE": (8, 53), "FAST_FP32": (6, 24), "FAST_16": (5, 24)}
"""Name → (degree of the whole polynomial, significand bits of its coefficients)."""
GRID = 1200
"""Points in which an exchange looks for extrema."""


def quotient(r: mpmath.mpf) -> mpmath.mpf:
    """(e^r - 1 - r) / r^2, by its series where r is small."""
    if abs(r) > CONTEXT.mpf(2) ** -20:
        return (CONTEXT.exp(r) - 1 - r) / r**2
    return CONTEXT.fsum(r**k / CONTEXT.factorial(k + 2) for k in range(8))


def relative_error(q: list[mpmath.mpf], r: mpmath.mpf) -> mpmath.mpf:
    """(1 + r + r^2 q(r)) / e^r - 1, unrounded."""
    value = CONTEXT.mpf(0)
    for c in (*reversed(q), 1, 1):
        value = value * r + c
    return value / CONTEXT.exp(r) - 1


def levelled(points: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """The q whose relative errors in these points are of one size and alternate."""
    n = len(points) - 1
    matrix = CONTEXT.matrix(n + 1, n + 1)
    for i, r in enumerate(points):
        for k in range(n):
            matrix[i, k] = r**k
        matrix[i, n] = (-1) ** i * CONTEXT.exp(r) / r**2
    values = CONTEXT.matrix([quotient(r) for r in points])
    return list(CONTEXT.lu_solve(matrix, values))[:n]


def extrema(q: list[mpmath.mpf], count: int) -> list[mpmath.mpf]:
    """The largest error of every run of one sign; of too many, the outer ones lose."""
    grid = [H * (2 * i - GRID) / GRID for i in range(GRID + 1) if 2 * i != GRID]
    errors = [relative_error(q, r) for r in grid]
    found = [0]
    for i, error in enumerate(errors):
        if error * errors[found[-1]] < 0:
            found.append(i)
        elif abs(error) > abs(errors[found[-1]]):
            found[-1] = i
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return [grid[i] for i in found]


@functools.cache
def coefficients(degree: int, bits: int) -> tuple[mpmath.mpf, ...]:
    """Coefficients of q, lowest first, rounded to so many bits."""
    n = degree - 1
    points = [-H * CONTEXT.cos(CONTEXT.pi * (2 * i + 1) / (2 * n + 2)) for i in range(n + 1)]
    # The error has a double zero in r = 0, where no equation can stand.
    points = [r if abs(r) > H / 50 else H / 10 for r in points]
    for _ in range(8):
        q = levelled(points)
        points = extrema(q, n + 1)
        if len(points) < n + 1:
            raise ArithmeticError(f"degree {degree}: the error has {len(points)} extrema, expected {n + 1}")
    rounding = mpmath.MPContext()
    rounding.prec = bits
    return tuple(CONTEXT.mpf(rounding.mpf(c)) for c in q)


def bound(q: tuple[mpmath.mpf, ...], points: int = 4000) -> mpmath.mpf:
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
