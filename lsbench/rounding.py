"""The seven rounding modes, once, in integer arithmetic on (sign, significand, exponent)."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from lsbench.formats import Format, floor_log2

_MASK = (1 << 64) - 1
SR_BITS = 24
"""Random bits that stochastic rounding compares the discarded fraction with."""


class Rounding(StrEnum):
    """Rounding modes by their lsbench names; the AscendC cast mode stands beside each."""

    RNE = "rne"  # CAST_RINT
    RNA = "rna"  # CAST_ROUND
    RTZ = "rtz"  # CAST_TRUNC
    RUP = "rup"  # CAST_CEIL
    RDN = "rdn"  # CAST_FLOOR
    RTO = "rto"  # CAST_ODD
    SR = "sr"  # CAST_HYBRID is the nearest


DETERMINISTIC = tuple(mode for mode in Rounding if mode is not Rounding.SR)


def sr_draw(seed: int, index: int) -> int:
    """The 24-bit draw of stochastic rounding for the element at row-major position ``index``.

    SplitMix64's output function at counter ``index + 1`` (Steele, Lea, Flood: Fast splittable
    pseudorandom number generators, 2014), its upper 24 bits: a function of (seed, index) alone.
    """
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> (64 - SR_BITS)


def sr_threshold(draw: int) -> Fraction:
    """The fraction of an ulp above which the magnitude goes up: (2 draw + 1) / 2^25."""
    return Fraction(2 * draw + 1, 1 << (SR_BITS + 1))


def goes_up(mode: Rounding, negative: bool, odd: bool, fraction: Fraction, draw: int = 0) -> bool:
    """Whether a magnitude with the discarded ``fraction`` (0 < fraction < 1 ulp) rounds up.

    ``odd`` tells whether the truncated significand is odd, ``draw`` is :func:`sr_draw`'s.
    """
    half = Fraction(1, 2)
    match mode:
        case Rounding.RNE:
            return fraction > half or (fraction == half and odd)
        case Rounding.RNA:
            return fraction >= half
        case Rounding.RTZ:
            return False
        case Rounding.RUP:
            return not negative
        case Rounding.RDN:
            return negative
        case Rounding.RTO:
            return not odd
        case Rounding.SR:
            return fraction > sr_threshold(draw)


def overflow_bits(fmt: Format, mode: Rounding, negative: bool) -> int:
    """What a magnitude of at least 2^(emax+1) after rounding becomes: infinity or the largest."""
    to_infinity = {
        Rounding.RNE: True,
        Rounding.RNA: True,
        Rounding.RTZ: False,
        Rounding.RUP: not negative,
        Rounding.RDN: negative,
        Rounding.RTO: False,
        Rounding.SR: True,
    }[mode]
    return (fmt.sign_bit if negative else 0) | (fmt.inf_bits if to_infinity else fmt.max_bits)


def round_fraction(
    fmt: Format, value: Fraction, mode: Rounding, *, negative: bool | None = None, draw: int = 0
) -> int:
    """Round a rational once; the sign of a zero is ``negative`` (default: the sign of the value).

    >>> from lsbench.formats import FP16
    >>> hex(round_fraction(FP16, Fraction(1, 3), Rounding.RNE))
    '0x3555'
    """
    negative = value < 0 if negative is None else negative
    magnitude = abs(value)
    if magnitude == 0:
        return fmt.sign_bit if negative else 0
    exponent = fmt.ulp_exponent(floor_log2(magnitude))
    scaled = magnitude / Fraction(2) ** exponent
    significand = scaled.numerator // scaled.denominator
    fraction = scaled - significand
    if fraction and goes_up(mode, negative, significand & 1 == 1, fraction, draw):
        significand += 1
    if Fraction(significand) * Fraction(2) ** exponent > fmt.max_finite:
        return overflow_bits(fmt, mode, negative)
    return fmt.encode(int(negative), significand, exponent)


def shortest_decimal(fmt: Format, bits: int) -> str:
    """The shortest decimal that rounds to nearest even to that pattern; nan, inf, -inf as words.

    >>> from lsbench.formats import FP16
    >>> shortest_decimal(FP16, 0x2E66)
    '0.1'
    """
    number = fmt.to_float(bits)
    if not fmt.is_finite(bits):
        return "nan" if fmt.is_nan(bits) else str(number)
    for digits in range(1, 18):
        text = f"{number:.{digits}g}"
        rounded = round_fraction(fmt, Fraction(text), Rounding.RNE, negative=fmt.is_negative(bits))
        if rounded == bits:
            return repr(float(text)).removesuffix(".0")
    raise AssertionError(f"no 17 digits give {fmt.hex(bits)}")
