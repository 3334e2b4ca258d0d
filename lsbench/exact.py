"""The exact value of y(g, x) = g / (1 + e^x), enclosed by mpmath and decided by integers.

sigma(-x) = 1/(1 + e^x) is enclosed between two dyadic rationals; times the significand of g that
is an enclosure of |y|, in integers, with no further rounding. What the enclosure cannot decide
(the binade of y, the rounded result) is decided at twice the precision, and so on (Ziv 1991). That
ends: for a rational x other than 0, e^x is transcendental (Lindemann), so y is neither a value of a
format nor a midpoint, and a narrow enough enclosure holds none.

Three ranges of x would need an enormous precision to tell what is known anyway, and get their
enclosure from an inequality:

- x <= -2^10: 1 - e^x < sigma(-x) < 1, and e^x < 2^-1024;
- |x| <= 2^-100: sigma(-x) lies strictly between 1/2 and 1/2 - x/4, since
  0 < (1/2 - sigma(-x))/x < 1/4;
- x >= 2^14: 0 < sigma(-x) < e^-x < 2^-16384.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import mpmath

from lsbench.formats import Format
from lsbench.rounding import Rounding, round_fraction, sr_threshold

BASE_PRECISION = 160
"""Bits of the first enclosure: its width is below 2^-150 of the value."""

_GUARD = 16  # mpmath's exp, addition and division are each good to an ulp; 2^-16 covers all three
_SHIFT_FLOOR = 32
_TINY = Fraction(1, 1 << 100)


class _Local(threading.local):
    """A context per thread: its precision is state, and sweeps judge in several threads."""

    def __init__(self) -> None:
        self.context: Any = mpmath.MPContext()


_LOCAL = _Local()


class Enclosure(NamedTuple):
    """A positive real strictly between lo * 2^exponent and hi * 2^exponent, or equal to both."""

    lo: int
    hi: int
    exponent: int

    @property
    def is_point(self) -> bool:
        """Whether the value is known exactly."""
        return self.lo == self.hi

    def scaled(self, factor: int, exponent: int) -> Enclosure:
        """The enclosure of this value times factor * 2^exponent (factor > 0)."""
        return Enclosure(self.lo * factor, self.hi * factor, self.exponent + exponent)

    def middle(self) -> Fraction:
        """The middle of the enclosure."""
        return Fraction(self.lo + self.hi, 2) * Fraction(2) ** self.exponent


def sigma_of_fraction(x: Fraction, precision: int = BASE_PRECISION) -> Enclosure:
    """Enclose sigma(-x) = 1/(1 + e^x) for a dyadic rational x, to about 2^-precision relative."""
    if x == 0:
        return Enclosure(1, 1, -1)
    if x <= -1024:
        return Enclosure((1 << 1024) - 1, 1 << 1024, -1024)
    if x >= 1 << 14:
        return Enclosure(0, 1, -(1 << 14))
    if abs(x) <= _TINY and precision <= BASE_PRECISION:
        k = max(abs(x).denominator.bit_length() + 2, 160)
        half, quarter = 1 << (k - 1), int(abs(x) * (1 << k)) // 4 + 1
        return Enclosure(half - quarter, half, -k) if x > 0 else Enclosure(half, half + quarter, -k)
    return _sigma_by_mpmath(x, precision)


def _sigma_by_mpmath(x: Fraction, precision: int) -> Enclosure:
    # 1 + e^x loses nothing that matters: for x < 0 the sum keeps `precision` bits of a value near
    # 1, for tiny |x| near 2; the callers' loop raises the precision where that is not enough.
    context = _LOCAL.context
    with context.workprec(precision + _GUARD):
        argument = context.mpf(x.numerator) / x.denominator
        value = 1 / (1 + context.exp(argument))
    _, man, exponent, bits = value._mpf_
    man, exponent, slack = int(man), int(exponent), precision + 8
    if bits < slack:
        man, exponent = man << (slack - bits), exponent - (slack - bits)
        bits = slack
    width = 1 << (bits - precision)
    return Enclosure(man - width, man + width, exponent)


@lru_cache(maxsize=1 << 17)
def _sigma_of_bits(fmt: Format, x_bits: int) -> Enclosure:
    return sigma_of_fraction(fmt.to_fraction(x_bits))


def special_bits(fmt: Format, g_bits: int, x_bits: int) -> int | None:
    """The result where it needs no arithmetic: NaN, an infinity, a zero, or x = -inf; else None.

    The rows of the operator's special-value table, over the extended reals.
    """
    if fmt.is_nan(g_bits) or fmt.is_nan(x_bits):
        return fmt.nan_bits
    sign = g_bits & fmt.sign_bit
    if fmt.is_inf(x_bits):
        if fmt.is_negative(x_bits):
            return g_bits
        return fmt.nan_bits if fmt.is_inf(g_bits) else sign
    if fmt.is_inf(g_bits) or g_bits == sign:
        return g_bits
    return None


def magnitude(fmt: Format, g_bits: int, x_bits: int, precision: int = 0) -> Enclosure:
    """Enclose |y| for finite g other than 0 and finite x; precision 0 takes the first one."""
    if precision <= BASE_PRECISION:
        sigma = _sigma_of_bits(fmt, x_bits)
    else:
        sigma = sigma_of_fraction(fmt.to_fraction(x_bits), precision)
    _, significand, exponent = fmt.decode(g_bits)
    return sigma.scaled(significand, exponent)


def ulp_exponent(fmt: Format, value: Enclosure) -> int | None:
    """The exponent of ulp(y), or None where the enclosure leaves the binade open."""
    top = value.hi if value.is_point else value.hi - 1
    low = fmt.emin - value.exponent
    floor_hi = max(top.bit_length() - 1, low)
    floor_lo = max(value.lo.bit_length() - 1, low)
    return fmt.ulp_exponent(floor_hi + value.exponent) if floor_lo == floor_hi else None


def round_enclosed(
    fmt: Format, value: Enclosure, negative: bool, mode: Rounding, draw: int = 0
) -> int | None:
    """Round an enclosed magnitude to the format, or None where the enclosure leaves it open."""
    if value.is_point:
        return round_fraction(fmt, (-1) ** negative * value.middle(), mode, draw=draw)
    exponent = ulp_exponent(fmt, value)
    if exponent is None:
        return None
    lo, hi, shift = value.lo, value.hi, exponent - value.exponent
    if shift <= _SHIFT_FLOOR:  # keep room for the threshold's 25 bits below an ulp
        lo, hi, shift = lo << (_SHIFT_FLOOR - shift), hi << (_SHIFT_FLOOR - shift), _SHIFT_FLOOR
    significand = lo >> shift
    base = significand << shift
    if hi > base + (1 << shift):
        return None
    threshold = _threshold(mode, negative, significand & 1 == 1, draw)
    if threshold is not None:
        border = base + (threshold << (shift - 25))
        if lo < border < hi:
            return None
        significand += lo >= border
    # |y| < |g|, so that no rounding can exceed the largest finite value.
    return fmt.encode(int(negative), significand, exponent)


def _threshold(mode: Rounding, negative: bool, odd: bool, draw: int) -> int | None:
    """The border above which a magnitude rounds up, in 2^-25 ulp; None for never.

    y is strictly inside an open interval, so that a tie cannot occur here.
    """
    match mode:
        case Rounding.RNE | Rounding.RNA:
            return 1 << 24
        case Rounding.SR:
            return int(sr_threshold(draw) * (1 << 25))
        case Rounding.RTZ:
            return None
        case Rounding.RUP:
            return None if negative else 0
        case Rounding.RDN:
            return 0 if negative else None
        case Rounding.RTO:
            return None if odd else 0


def correct_bits(
    fmt: Format, g_bits: int, x_bits: int, mode: Rounding = Rounding.RNE, draw: int = 0
) -> int:
    """The correctly rounded result of the operator, as a bit pattern.

    >>> from lsbench.formats import FP16
    >>> hex(correct_bits(FP16, 0x7B53, 0x4D01))  # g = 60000, x = 20.015625
    '0x7fb'
    """
    special = special_bits(fmt, g_bits, x_bits)
    if special is not None:
        return special
    precision = BASE_PRECISION
    while True:
        value = magnitude(fmt, g_bits, x_bits, precision)
        bits = round_enclosed(fmt, value, fmt.is_negative(g_bits), mode, draw)
        if bits is not None:
            return bits
        precision *= 2


class ExactError(NamedTuple):
    """The signed error of a computed result in ulp of the exact value, and that ulp's exponent."""

    ulp: float
    exponent: int


def ulp_error(fmt: Format, g_bits: int, x_bits: int, computed_bits: int) -> ExactError | None:
    """The signed error (computed - y) / ulp(y), good to 2^-52 of itself or 2^-70 ulp.

    Rounded toward zero: a right result under a directed mode is off by less than 1 ulp, however
    little less, and is never reported as off by 1.

    None where no error is defined, because a NaN or an infinity is computed or right; an infinity
    of the right sign for a finite y counts as 2^(emax+1), one of the wrong sign as -2^(emax+1).
    """
    special = special_bits(fmt, g_bits, x_bits)
    if fmt.is_nan(computed_bits) or (special is not None and not fmt.is_finite(special)):
        return None
    if special is not None:
        negative, significand, exponent = fmt.decode(special)
        value = Enclosure(significand, significand, exponent)
    else:
        negative, value = int(fmt.is_negative(g_bits)), magnitude(fmt, g_bits, x_bits)
    precision = BASE_PRECISION
    while (unit := ulp_exponent(fmt, value)) is None:
        precision *= 2
        value = magnitude(fmt, g_bits, x_bits, precision)
    return ExactError(_difference(fmt, computed_bits, negative, value, unit), unit)


def _difference(
    fmt: Format, computed_bits: int, negative: int, value: Enclosure, unit: int
) -> float:
    # computed - y in integers over one power of two, y at the end of its enclosure that is nearer:
    # together with rounding toward zero, no error is overstated.
    if fmt.is_inf(computed_bits):
        sign, significand, exponent = int(fmt.is_negative(computed_bits)), 1, fmt.emax + 1
    else:
        sign, significand, exponent = fmt.decode(computed_bits)
    common = min(exponent, value.exponent)
    computed = (-1) ** (sign + negative) * (significand << (exponent - common))
    least, most = (computed - (end << (value.exponent - common)) for end in (value.hi, value.lo))
    nearer = min(least, most, key=abs) if least * most > 0 or value.is_point else 0
    return _to_float((-1) ** negative * nearer, common - unit)


def _to_float(integer: int, exponent: int) -> float:
    # integer * 2^exponent toward zero: an error below 1/2 or 1 ulp is never reported as that much.
    drop = max(abs(integer).bit_length() - 53, 0)
    value = math.ldexp(abs(integer) >> drop, exponent + drop)
    return -value if integer < 0 else value


def decimal(fmt: Format, g_bits: int, x_bits: int, digits: int = 20) -> str:
    """The exact value as decimal text with that many significant digits (NaN and inf as words)."""
    special = special_bits(fmt, g_bits, x_bits)
    if special is not None and not fmt.is_finite(special):
        return str(fmt.to_float(special))
    context = _LOCAL.context
    with context.workprec(int(digits * 3.33) + 40):
        if special is not None:
            return str(context.nstr(context.mpf(fmt.to_float(special)), digits))
        g, x = (context.mpf(fmt.to_float(b)) for b in (g_bits, x_bits))
        return str(context.nstr(g / (1 + context.exp(x)), digits))
