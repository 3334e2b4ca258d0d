"""Formats: bits, ulps and conversions against exact rationals, over all 16-bit values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.errors import UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32, by_dtype, by_name, floor_log2

SMALL = [FP16, BF16]


@pytest.mark.parametrize("fmt", SMALL, ids=lambda f: f.name)
def test_every_value_decodes_as_numpy_reads_it(fmt):
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        values = fmt.values(bits).astype(np.float64)
    for pattern, value in zip(bits.tolist(), values.tolist(), strict=True):
        if fmt.is_nan(pattern):
            assert value != value
        elif fmt.is_inf(pattern):
            assert value == (-np.inf if fmt.is_negative(pattern) else np.inf)
        else:
            assert fmt.to_fraction(pattern) == Fraction(value)


@pytest.mark.parametrize("fmt", SMALL, ids=lambda f: f.name)
def test_encode_inverts_decode_over_every_finite_value(fmt):
    for pattern in range(1 << 16):
        if fmt.is_finite(pattern):
            assert fmt.encode(*fmt.decode(pattern)) == pattern


@given(st.integers(0, (1 << 32) - 1))
def test_fp32_decodes_as_numpy_reads_it(pattern):
    value = float(np.array([pattern], np.uint32).view(np.float32).astype(np.float64)[0])
    if FP32.is_finite(pattern):
        assert FP32.to_fraction(pattern) == Fraction(value)
        assert FP32.encode(*FP32.decode(pattern)) == pattern
    else:
        assert not np.isfinite(value)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_the_limits_are_those_of_the_format_table(fmt):
    assert fmt.max_finite == (2 - Fraction(2) ** (1 - fmt.p)) * Fraction(2) ** fmt.emax
    assert fmt.min_normal == Fraction(2) ** fmt.emin
    assert fmt.min_subnormal == Fraction(2) ** (fmt.emin - fmt.p + 1)
    assert fmt.ulp(Fraction(0)) == fmt.min_subnormal
    assert fmt.to_fraction(1) == fmt.min_subnormal


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_encode_refuses_what_the_format_does_not_hold(fmt):
    with pytest.raises(ValueError, match="not a value"):
        fmt.encode(0, (1 << fmt.p) + 1, 0)
    with pytest.raises(ValueError, match="not a value"):
        fmt.encode(0, 1, fmt.emin - fmt.p)
    with pytest.raises(ValueError, match="exceeds"):
        fmt.encode(0, 1, fmt.emax + 1)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
@given(data=st.data())
def test_the_spacing_of_neighbours_is_an_ulp(fmt, data):
    pattern = data.draw(st.integers(1, fmt.max_bits - 1))
    low, high = fmt.to_fraction(pattern), fmt.to_fraction(pattern + 1)
    assert high - low == fmt.ulp(low) == fmt.ulp((low + high) / 2)
    assert fmt.ordinal(pattern + 1) - fmt.ordinal(pattern) == 1
    assert fmt.ordinal(pattern | fmt.sign_bit) == -pattern


@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40).filter(lambda y: y > 0))
def test_floor_log2_brackets(y):
    e = floor_log2(y)
    assert Fraction(2) ** e <= y < Fraction(2) ** (e + 1)


def test_lookups():
    assert by_name("bf16") is BF16
    assert by_dtype(np.float16) is FP16
    with pytest.raises(UsageError, match=r"fp8.*expected one of fp32, fp16, bf16"):
        by_name("fp8")
    with pytest.raises(UsageError, match="float64"):
        by_dtype(np.float64)
    with pytest.raises(UsageError, match="byte order"):
        by_dtype(">f4")
