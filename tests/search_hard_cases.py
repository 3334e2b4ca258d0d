"""Find pairs (g, x) whose exact result lies closest to a rounding boundary; write cases/hard.csv.

    python tests/search_hard_cases.py            # about five minutes on one core

A boundary is a midpoint of two neighbours (rne, rna) or a value of the format (the directed modes).

fp16 and bf16: exhaustive. y = g sigma(-x) for every x and every significand of g; an exponent of g
only shifts the grid, and that matters where the result is subnormal, so that the grid is tried at
every spacing from one ulp to 2^(p-1) ulp.

fp32: 2^55 pairs are too many. For one x the best g is found without trying all: g sigma 2^j near an
integer (a half) is a Diophantine approximation, solved by the convergents of the continued fraction
of sigma 2^j (of 2^(j+1) sigma, with an odd numerator). That is done for a seeded sample of x.

Every pair that is kept is measured again by mpmath, and its distance is stated in ulp.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from lsbench.exact import magnitude, sigma_of_fraction, ulp_exponent
from lsbench.formats import BF16, FP16, FP32, Format, floor_log2
from lsbench.rounding import Rounding, round_fraction

KINDS = ("midpoint", "value")
KEPT = 60
"""Pairs kept for each format and kind."""
SAMPLE = 60_000
"""Arguments x that are searched for fp32."""
TARGET = Path(__file__).parent.parent / "cases" / "hard.csv"


def distance(fmt: Format, g: int, x: int, kind: str) -> Fraction:
    """Distance of the exact |y| from the nearest boundary of that kind, in ulp."""
    precision = 0
    while True:
        value = magnitude(fmt, g, x, precision)
        exponent = ulp_exponent(fmt, value)
        if exponent is not None:
            scaled = value.middle() / Fraction(2) ** exponent
            part = scaled - scaled.numerator // scaled.denominator
            part = abs(part - Fraction(1, 2)) if kind == "midpoint" else min(part, 1 - part)
            if part > Fraction(1, 1 << 100) or precision > 1000:
                return part
        precision = max(2 * precision, 320)


def exhaustive(fmt: Format, kind: str) -> Iterator[tuple[int, int]]:
    """The candidates of a 16-bit format: the closest of every x, at every spacing of the grid."""
    p = fmt.p
    significands = np.arange(1 << (p - 1), 1 << p, dtype=np.float64)
    found: list[tuple[float, int, int]] = []
    for x in range(1 << 16):
        if not fmt.is_finite(x) or x & ~fmt.sign_bit == 0:
            continue
        value = fmt.to_fraction(x)
        # Beyond these y is as near to g, to g/2 or to 0 as one likes: nothing there is hard.
        if value < -(p + 1) or value > 3 * p + 150 or abs(value) < Fraction(1, 1 << (p + 1)):
            continue
        sigma = sigma_of_fraction(value).middle()
        scale = Fraction(2) ** -floor_log2(sigma)
        y = significands * float(sigma * scale) / (1 << (p - 1))
        unit = np.exp2(np.floor(np.log2(y)) - p + 1)
        for shift in range(p - 1):
            part = np.modf(y / (unit * 2.0**shift))[0]
            part = abs(part - 0.5) if kind == "midpoint" else np.minimum(part, 1 - part)
            i = int(part.argmin())
            found.append((float(part[i]), x, (i << 5) | shift))
    found.sort()
    for _, x, packed in found[: 6 * KEPT]:
        g = _placed(fmt, x, (1 << (p - 1)) + (packed >> 5), packed & 31)
        if g is not None:
            yield g, x


def _placed(fmt: Format, x: int, significand: int, shift: int) -> int | None:
    """The g of that significand whose result has an ulp of 2^shift times the normal one."""
    sigma = sigma_of_fraction(fmt.to_fraction(x)).middle()
    if shift == 0:
        exponent = 0
    else:
        top = floor_log2(significand * sigma)
        exponent = fmt.emin - shift - top
    for candidate in range(exponent, exponent + 40 if shift == 0 else exponent + 1):
        try:
            g = fmt.encode(0, significand, candidate)
        except ValueError:
            continue
        if shift or ulp_is_normal(fmt, g, x):
            return g
    return None


def ulp_is_normal(fmt: Format, g: int, x: int) -> bool:
    """Whether the result is a normal number."""
    exponent = ulp_exponent(fmt, magnitude(fmt, g, x))
    return exponent is not None and exponent > fmt.emin - fmt.p + 1


def convergents(value: Fraction, limit: int) -> Iterator[tuple[int, int]]:
    """Numerators and denominators of the convergents of a rational, up to a denominator."""
    p0, q0, p1, q1 = 0, 1, 1, 0
    while True:
        whole = value.numerator // value.denominator
        p0, q0, p1, q1 = p1, q1, whole * p1 + p0, whole * q1 + q0
        if q1 > limit:
            return
        yield p1, q1
        rest = value - whole
        if rest == 0:
            return
        value = 1 / rest


def diophantine(fmt: Format, kind: str, seed: int) -> Iterator[tuple[int, int]]:
    """The best g of sampled x: significands from convergents, then multiples that reach p bits."""
    draw = random.Random(seed)
    p, found = fmt.p, []
    for _ in range(SAMPLE):
        spread = draw.choice([1.0, 4.0, 16.0, 60.0])
        x = round_fraction(fmt, Fraction(draw.gauss(0, spread)), Rounding.RNE)
        value = fmt.to_fraction(x)
        if not -p < value < 150 or abs(value) < Fraction(1, 1 << p):
            continue
        sigma = sigma_of_fraction(value).middle()
        for extra in (0, 1):
            # g sigma 2^j is y in ulp for j = -floor(log2 sigma), or one more where g sigma wraps.
            alpha = sigma * Fraction(2) ** (extra - floor_log2(sigma))
            step = 2 * alpha if kind == "midpoint" else alpha
            for top, q in convergents(step, 1 << p):
                if kind == "midpoint" and top % 2 == 0:
                    continue
                k = -(-(1 << (p - 1)) // q)
                k += kind == "midpoint" and k % 2 == 0
                if (1 << (p - 1)) <= k * q < 1 << p:
                    found.append((float(abs(k * q * step - k * top)), x, k * q))
    found.sort()
    for _, x, significand in found[: 6 * KEPT]:
        g = _placed(fmt, x, significand, 0)
        if g is not None:
            yield g, x


def hardest(fmt: Format, kind: str) -> list[tuple[Fraction, int, int]]:
    """The closest pairs of one format and kind, measured by mpmath, each x once."""
    candidates = diophantine(fmt, kind, seed=7) if fmt is FP32 else exhaustive(fmt, kind)
    measured = {(g, x): distance(fmt, g, x, kind) for g, x in candidates}
    return sorted((d, g, x) for (g, x), d in measured.items())[:KEPT]


def main() -> None:
    """Search every format and kind and write the corpus."""
    lines = ["format,boundary,g,x,log2_distance_ulp"]
    for fmt in (FP32, FP16, BF16):
        for kind in KINDS:
            for d, g, x in hardest(fmt, kind):
                log2 = float(np.log2(float(d)))
                lines.append(f"{fmt.name},{kind},{fmt.hex(g)},{fmt.hex(x)},{log2:.3f}")
            print(fmt.name, kind, lines[-KEPT], file=sys.stderr)
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
