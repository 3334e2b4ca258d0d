"""What a sweep covers: spaces of (g, x) pairs, numbered, so that any part can be made anywhere.

==========  ==================================================================================
pairs       every pair of bit patterns of a 16-bit format: 2^32, g in the upper half of the number
unary       every x of a format, for one g
random      ``count`` pairs stratified over signs and exponents of g and x, from a seed
hard        stored pairs, those whose exact results lie closest to a border of rounding
==========  ==================================================================================
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lsbench.errors import UsageError
from lsbench.formats import Bits, Format
from lsbench.rounding import Rounding, round_fraction, shortest_decimal

NAMES = ("pairs", "unary", "random", "hard")
_PIECE = 1 << 13
"""Elements made at a time: what lies between two steps stays in the cache."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Space(ABC):
    """``size`` elements, each a pair of bit patterns of ``fmt``, in a fixed order."""

    def __init__(self, fmt: Format, size: int, label: str) -> None:
        self.fmt = fmt
        self.size = size
        self.label = label
        """Name of the space in reports and results."""

    @abstractmethod
    def fill(self, start: int, g: Bits, x: Bits) -> None:
        """Write elements start, start + 1, ... into two contiguous arrays of one length."""


class Pairs(Space):
    """Every pair of a 16-bit format: NaNs, infinities and subnormals included."""

    def __init__(self, fmt: Format) -> None:
        if fmt.bits != 16:
            raise UsageError(
                f"space pairs of {fmt.name} has 2^{2 * fmt.bits} elements: "
                "expected --dtype fp16 or bf16; try --space unary or random"
            )
        super().__init__(fmt, 1 << 32, "pairs")
        self._x = np.arange(1 << 16, dtype=np.uint16)

    def fill(self, start: int, g: Bits, x: Bits) -> None:
        """See :class:`Space`."""
        if start % (1 << 16) == 0 and x.size == 1 << 16:
            g.fill(start >> 16)
            x[:] = self._x
            return
        numbers = np.arange(start, start + x.size, dtype=np.uint64)
        g[:] = numbers >> np.uint64(16)
        x[:] = numbers & np.uint64(0xFFFF)


class Unary(Space):
    """Every x of a format, for one g."""

    def __init__(self, fmt: Format, g: int) -> None:
        super().__init__(fmt, 1 << fmt.bits, f"unary g={shortest_decimal(fmt, g)}")
        self._g = g

    def fill(self, start: int, g: Bits, x: Bits) -> None:
        """See :class:`Space`."""
        g.fill(self._g)
        x[:] = np.arange(start, start + x.size, dtype=x.dtype)


class Random(Space):
    """Pairs from a counter: each stratum (signs and exponents of g and x) as often as any other.

    Element i belongs to stratum i times an odd number, modulo the number of strata, a power of two:
    so that any number of elements is spread evenly. Its fractions are SplitMix64 of (seed, i)
    (Steele, Lea, Flood 2014).
    """

    def __init__(self, fmt: Format, count: int, seed: int) -> None:
        super().__init__(fmt, count, f"random n={count} seed={seed}")
        self._seed = np.uint64(seed & (1 << 64) - 1)
        self._fraction = fmt.p - 1
        self._head = fmt.bits - self._fraction  # sign and exponent field

    def fill(self, start: int, g: Bits, x: Bits) -> None:
        """See :class:`Space`."""
        for at in range(0, x.size, _PIECE):
            self._fill(start + at, g[at : at + _PIECE], x[at : at + _PIECE])

    def _fill(self, start: int, g: Bits, x: Bits) -> None:
        numbers = np.arange(start, start + x.size, dtype=np.uint64)
        strata = numbers * _GOLDEN
        strata &= np.uint64((1 << 2 * self._head) - 1)
        fractions = _mix(self._seed, numbers)
        low = np.uint64((1 << self._fraction) - 1)
        shift = np.uint64(self._fraction)
        x[:] = (strata >> np.uint64(self._head)) << shift | (fractions & low)
        head = strata & np.uint64((1 << self._head) - 1)
        g[:] = head << shift | (fractions >> np.uint64(32) & low)


def _mix(seed: np.uint64, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (numbers + np.uint64(1)) * _GOLDEN + seed
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


class Hard(Space):
    """Stored pairs of bit patterns, each with both signs of g."""

    def __init__(self, fmt: Format, pairs: Sequence[tuple[int, int]]) -> None:
        super().__init__(fmt, 2 * len(pairs), f"hard n={len(pairs)}")
        g = np.array([g for g, _ in pairs], fmt.bits_dtype)
        self._g = np.concatenate([g, g ^ fmt.bits_dtype.type(fmt.sign_bit)])
        self._x = np.array([x for _, x in pairs] * 2, fmt.bits_dtype)

    def fill(self, start: int, g: Bits, x: Bits) -> None:
        """See :class:`Space`."""
        g[:] = self._g[start : start + g.size]
        x[:] = self._x[start : start + x.size]


def read_pairs(path: str | Path, fmt: Format) -> tuple[tuple[int, int], ...]:
    """The pairs of a format in a CSV file with the columns format, g and x (bit patterns in hex).

    Raises UsageError, with the place, for a file that is not of that kind or has none.
    """
    found: dict[tuple[int, int], None] = {}
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            for row in rows:
                if row["format"] == fmt.name:
                    found[_pair(row, fmt, f"{path}:{rows.line_num}")] = None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read hard cases {path}: {error}") from None
    except KeyError as error:
        raise UsageError(f"{path}: no column {error}: expected format, g and x") from None
    if not found:
        raise UsageError(f"{path}: no pair of {fmt.name}: expected at least one")
    return tuple(found)


def _pair(row: Mapping[str, str], fmt: Format, where: str) -> tuple[int, int]:
    try:
        g, x = (int(row[name], 16) for name in ("g", "x"))
    except (TypeError, ValueError):
        raise UsageError(f"{where}: found {row['g']!r}, {row['x']!r}: expected hex bits") from None
    if not (0 <= g < 1 << fmt.bits and 0 <= x < 1 << fmt.bits):
        raise UsageError(f"{where}: more than the {fmt.bits} bits of {fmt.name}")
    return g, x


def parse_value(fmt: Format, text: str) -> int:
    """A value as people write it: decimal, hex float, ``pi``, ``max``, ``min``, or ``bits:0x...``.

    ``min`` is the smallest subnormal. Returns the pattern of the nearest value of the format.
    Raises UsageError for anything else.
    """
    word = text.strip().lower()
    named = {"max": fmt.max_bits, "min": 1, "-max": fmt.max_bits | fmt.sign_bit}
    try:
        if word in named:
            return named[word]
        if word.startswith("bits:"):
            bits = int(word.removeprefix("bits:"), 0)
            if not 0 <= bits < 1 << fmt.bits:
                raise UsageError(f"{text!r} has more than the {fmt.bits} bits of {fmt.name}")
            return bits
        if word == "pi":
            value = Fraction("3.14159265358979323846264338327950288")
        elif "0x" in word:
            value = Fraction(float.fromhex(word))
        else:
            value = Fraction(word)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageError(
            f"cannot read {text!r} as a value of {fmt.name}: expected a decimal, a hex float, "
            "pi, max, min or bits:0x..."
        ) from None
    bits = round_fraction(fmt, value, Rounding.RNE, negative=word.startswith("-"))
    if not fmt.is_finite(bits):
        raise UsageError(f"{text!r} is beyond the largest {fmt.name}: expected less, or bits:0x...")
    return bits
