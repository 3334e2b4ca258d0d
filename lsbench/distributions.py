"""Distributions that a case file names, one function each.

A distribution is told what to draw (:class:`Draw`) and returns float64 numbers, which the caller
rounds to the format once, or bit patterns in the format's unsigned integer type. Its keyword-only
parameters are the ones of the case file; the first may be given without its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lsbench.errors import TensorError
from lsbench.formats import Bits, Format

Reals = npt.NDArray[np.float64]
Sign = Literal["both", "positive", "negative"]


@dataclass(frozen=True)
class Draw:
    """What to draw: ``count`` elements from position ``start`` of ``total``."""

    fmt: Format
    rng: np.random.Generator
    start: int
    count: int
    total: int

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Row-major positions of the elements."""
        return np.arange(self.start, self.start + self.count, dtype=np.int64)


def normal(draw: Draw, *, mean: float = 0.0, std: float = 1.0) -> Reals:
    """Gaussian of that mean and standard deviation."""
    _need(std >= 0, f"std is {std}, expected 0 or more")
    return mean + std * draw.rng.standard_normal(draw.count)


def uniform(draw: Draw, *, low: float = 0.0, high: float = 1.0) -> Reals:
    """Uniform between low and high."""
    _need(low <= high, f"low {low} is above high {high}, expected low <= high")
    # low + (high - low) u would overflow for the whole range of fp32's square.
    u = draw.rng.random(draw.count)
    return low * (1 - u) + high * u


def loguniform(draw: Draw, *, low: float, high: float, sign: Sign = "both") -> Reals:
    """Magnitudes whose logarithm is uniform between those of low and high, of either sign."""
    _need(0 < low <= high, f"low {low} and high {high}, expected 0 < low <= high")
    magnitude = np.exp2(uniform(draw, low=np.log2(low), high=np.log2(high)))
    return _signed(draw, np.clip(magnitude, low, high), sign)


def student_t(draw: Draw, *, df: float = 2.0, scale: float = 1.0) -> Reals:
    """Student's t of ``df`` degrees of freedom, scaled: heavy tails; df 1 is Cauchy's."""
    _need(df > 0, f"df is {df}, expected more than 0")
    return scale * draw.rng.standard_t(df, draw.count)


def exponents(
    draw: Draw, *, low: int | None = None, high: int | None = None, sign: Sign = "both"
) -> Bits:
    """Finite values of all exponents alike, from 2^low to below 2^(high+1), random significands.

    By default over the whole format; the subnormal binades count as one (low = emin - 1).
    """
    fmt = draw.fmt
    first = fmt.emin - 1 if low is None else low
    last = fmt.emax if high is None else high
    span = f"{fmt.emin - 1} to {fmt.emax}"
    _need(
        fmt.emin - 1 <= first <= last <= fmt.emax,
        f"exponents {first} to {last} in {fmt.name}, expected low <= high within {span}",
    )
    field = draw.rng.integers(first - fmt.emin + 1, last - fmt.emin + 2, draw.count)
    fraction = draw.rng.integers(0, 1 << (fmt.p - 1), draw.count)
    magnitude = ((field << (fmt.p - 1)) | fraction).astype(fmt.bits_dtype)
    signed: Bits = magnitude | _sign_bits(draw, sign)
    return signed


def patterns(draw: Draw, *, finite: bool = False) -> Bits:
    """Uniform over all bit patterns, NaNs and infinities included unless ``finite``."""
    bits = draw.rng.integers(0, 1 << draw.fmt.bits, draw.count).astype(draw.fmt.bits_dtype)
    if not finite:
        return bits
    magnitude = draw.rng.integers(0, draw.fmt.inf_bits, draw.count).astype(draw.fmt.bits_dtype)
    signed: Bits = magnitude | (bits & draw.fmt.bits_dtype.type(draw.fmt.sign_bit))
    return signed


def every_value(draw: Draw) -> Bits:
    """All bit patterns in order, cycled; of a format wider than the tensor, evenly spaced ones."""
    space = 1 << draw.fmt.bits
    step = max(1, space // max(draw.total, 1))
    return ((draw.positions * step) % space).astype(draw.fmt.bits_dtype)


def linspace(draw: Draw, *, start: float, stop: float) -> Reals:
    """Evenly spaced from start to stop, both included, in row-major order."""
    share = draw.positions / max(draw.total - 1, 1)
    return start * (1 - share) + stop * share


def specials(draw: Draw) -> Bits:
    """The special values of the format in order, cycled (see :func:`special_patterns`)."""
    table = special_patterns(draw.fmt)
    return table[draw.positions % table.size]


def special_patterns(fmt: Format) -> Bits:
    """Zeros, infinities, NaNs, extremes, subnormals, ones and points where formulas break.

    24 patterns: 12 magnitudes, each with both signs.
    """
    one, least_normal = fmt.encode(0, 1, 0), fmt.encode(0, 1, fmt.emin)
    magnitudes = [
        0,
        fmt.inf_bits,
        fmt.nan_bits,
        fmt.inf_bits | 1,  # a signalling NaN
        fmt.max_bits,
        least_normal,
        least_normal - 1,  # the largest subnormal
        1,  # the smallest subnormal
        one,
        one + 1,  # its successor
        fmt.encode(0, 20, 0),
        fmt.encode(0, 104, 0),
    ]
    return np.array([m | s for m in magnitudes for s in (0, fmt.sign_bit)], fmt.bits_dtype)


def _signed(draw: Draw, magnitude: Reals, sign: Sign) -> Reals:
    if sign == "both":
        return np.where(draw.rng.integers(0, 2, draw.count) == 1, -magnitude, magnitude)
    return -magnitude if sign == "negative" else magnitude


def _sign_bits(draw: Draw, sign: Sign) -> Bits:
    bit = draw.fmt.bits_dtype.type(draw.fmt.sign_bit)
    if sign == "both":
        drawn: Bits = draw.rng.integers(0, 2, draw.count).astype(draw.fmt.bits_dtype) * bit
        return drawn
    return np.full(draw.count, bit if sign == "negative" else 0, draw.fmt.bits_dtype)


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise TensorError(message)


DISTRIBUTIONS: dict[str, Callable[..., npt.NDArray[Any]]] = {
    "normal": normal,
    "uniform": uniform,
    "loguniform": loguniform,
    "student_t": student_t,
    "exponents": exponents,
    "patterns": patterns,
    "every_value": every_value,
    "linspace": linspace,
    "specials": specials,
}
"""Name in a case file → function."""
