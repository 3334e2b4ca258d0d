"""The binary floating-point formats as rows: everything else about a format follows from a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lsbench.errors import UsageError

Bits = npt.NDArray[Any]
"""Bit patterns: uint32 or uint16."""


@dataclass(frozen=True)
class Format:
    """An IEEE 754 style binary format.

    >>> FP16.ulp(Fraction(3, 2)) == Fraction(1, 1024)
    True
    >>> FP16.to_fraction(0x3C00)
    Fraction(1, 1)
    """

    name: str
    """Name in lsbench: fp32, fp16, bf16."""
    acl: str
    """Name of the operator's data type: FLOAT, FLOAT16, BFLOAT16."""
    bits: int
    p: int
    """Precision in bits, the hidden bit counted."""
    emin: int
    emax: int
    dtype: np.dtype[np.generic]
    """NumPy type of the values."""
    bits_dtype: np.dtype[Any]
    """NumPy type of the bit patterns."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @cached_property
    def sign_bit(self) -> int:
        """The bit pattern of -0."""
        return 1 << (self.bits - 1)

    @cached_property
    def inf_bits(self) -> int:
        """The bit pattern of +inf; larger magnitudes are NaNs."""
        return (2 * self.emax + 1) << (self.p - 1)

    @cached_property
    def nan_bits(self) -> int:
        """The bit pattern of the default quiet NaN."""
        return self.inf_bits | 1 << (self.p - 2)

    @cached_property
    def max_bits(self) -> int:
        """The bit pattern of the largest finite value."""
        return self.inf_bits - 1

    @cached_property
    def max_finite(self) -> Fraction:
        """The largest finite value."""
        return self.to_fraction(self.max_bits)

    @cached_property
    def min_normal(self) -> Fraction:
        """The smallest normal value, 2^emin."""
        return Fraction(2) ** self.emin

    @cached_property
    def min_subnormal(self) -> Fraction:
        """The smallest positive value, 2^(emin - p + 1)."""
        return Fraction(2) ** (self.emin - self.p + 1)

    def is_nan(self, bits: int) -> bool:
        """Whether the pattern is a NaN."""
        return bits & ~self.sign_bit > self.inf_bits

    def is_inf(self, bits: int) -> bool:
        """Whether the pattern is an infinity."""
        return bits & ~self.sign_bit == self.inf_bits

    def is_finite(self, bits: int) -> bool:
        """Whether the pattern is a number."""
        return bits & ~self.sign_bit < self.inf_bits

    def is_negative(self, bits: int) -> bool:
        """Whether the sign bit is set."""
        return bits & self.sign_bit != 0

    def decode(self, bits: int) -> tuple[int, int, int]:
        """A finite pattern as (s, significand, exponent): (-1)^s * significand * 2^exponent."""
        magnitude = bits & ~self.sign_bit
        field = magnitude >> (self.p - 1)
        fraction = magnitude & ((1 << (self.p - 1)) - 1)
        sign = int(self.is_negative(bits))
        if field == 0:
            return sign, fraction, self.emin - self.p + 1
        return sign, fraction | 1 << (self.p - 1), field - self.emax - self.p + 1

    def encode(self, sign: int, significand: int, exponent: int) -> int:
        """The pattern of (-1)^sign * significand * 2^exponent, which must be a value of the format.

        Raises ValueError for a value that the format does not hold.
        """
        head = sign << (self.bits - 1)
        if significand == 0:
            return head
        shift = max(significand.bit_length() - self.p, self.emin - self.p + 1 - exponent)
        if shift > 0 and significand & ((1 << shift) - 1):
            raise ValueError(f"{significand} * 2^{exponent} is not a value of {self.name}")
        significand = significand >> shift if shift > 0 else significand << -shift
        exponent += shift
        while exponent > self.emin - self.p + 1 and significand < 1 << (self.p - 1):
            significand <<= 1
            exponent -= 1
        if exponent + self.p - 1 > self.emax:
            raise ValueError(f"{significand} * 2^{exponent} exceeds the largest {self.name}")
        field = exponent + self.p - 1 + self.emax if significand >> (self.p - 1) else 0
        return head | field << (self.p - 1) | significand & ((1 << (self.p - 1)) - 1)

    def to_fraction(self, bits: int) -> Fraction:
        """The exact value of a finite pattern; both zeros give 0."""
        sign, significand, exponent = self.decode(bits)
        return Fraction((-1) ** sign * significand) * Fraction(2) ** exponent

    def ulp_exponent(self, floor_log2: int) -> int:
        """The exponent of ulp(y) for a y with floor(log2 |y|) = floor_log2."""
        return max(floor_log2, self.emin) - self.p + 1

    def ulp(self, y: Fraction) -> Fraction:
        """The spacing at the real number y: 2^(max(floor(log2 |y|), emin) - p + 1)."""
        if y == 0:
            return self.min_subnormal
        return Fraction(2) ** self.ulp_exponent(floor_log2(abs(y)))

    def ordinal(self, bits: int) -> int:
        """The position of a pattern that is no NaN on the number line; neighbours differ by 1."""
        magnitude = bits & ~self.sign_bit
        return -magnitude if self.is_negative(bits) else magnitude

    def hex(self, bits: int) -> str:
        """The pattern as text, all digits: 0x3c00."""
        return f"0x{bits:0{self.bits // 4}x}"

    def to_float(self, bits: int) -> float:
        """The value as a Python float (exact for all three formats)."""
        if self.is_nan(bits):
            return math.nan
        return float(self.values(np.array([bits], self.bits_dtype)).astype(np.float64)[0])

    def values(self, bits: Bits) -> npt.NDArray[np.generic]:
        """An array of bit patterns seen as values, without a copy."""
        return bits.view(self.dtype)

    def pattern(self, values: npt.NDArray[np.generic]) -> Bits:
        """An array of values seen as bit patterns, without a copy; strides are kept."""
        return values.view(self.bits_dtype)


def floor_log2(y: Fraction) -> int:
    """floor(log2 y) of a positive rational, exactly."""
    e = y.numerator.bit_length() - y.denominator.bit_length()
    return e if y >= Fraction(2) ** e else e - 1


_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)
FP32 = Format("fp32", "FLOAT", 32, 24, -126, 127, np.dtype(np.float32), _U32)
FP16 = Format("fp16", "FLOAT16", 16, 11, -14, 15, np.dtype(np.float16), _U16)
BF16 = Format("bf16", "BFLOAT16", 16, 8, -126, 127, np.dtype(ml_dtypes.bfloat16), _U16)

FORMATS: dict[str, Format] = {f.name: f for f in (FP32, FP16, BF16)}


def by_name(name: str) -> Format:
    """The format of that lsbench name; raises UsageError for another one."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UsageError(f"unknown dtype {name!r}: expected one of {', '.join(FORMATS)}") from None


def by_dtype(dtype: npt.DTypeLike) -> Format:
    """The format of a NumPy dtype in native byte order; raises UsageError for another one."""
    wanted = np.dtype(dtype)
    for row in FORMATS.values():
        if row.dtype == wanted:
            return row
    names = ", ".join(str(f.dtype) for f in FORMATS.values())
    raise UsageError(f"unsupported dtype {wanted}: expected one of {names} in native byte order")
