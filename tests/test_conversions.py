"""Conversions and rounding of the compiled side: every 16-bit value, every mode, exact truth."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsbench import _kernels
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.rounding import Rounding, goes_up, overflow_bits, round_fraction, sr_draw

USABLE = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
NARROW = (FP16, BF16)
SEED = 12345

each_isa = pytest.mark.parametrize("isa", USABLE)
each_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
each_mode = pytest.mark.parametrize("mode", Rounding)


def number(fmt):
    return list(FORMATS).index(fmt.name)


def convert(isa, values, fmt, mode, *, ftz=False, seed=SEED, first=0):
    values = np.ascontiguousarray(values, np.float64)
    bits = np.empty(values.size, np.uint32)
    mode_number = list(Rounding).index(mode)
    _kernels.load(isa).convert(values, bits, number(fmt), mode_number, ftz, seed, first)
    return bits


def widen(isa, bits, fmt):
    values = np.empty(len(bits), np.float64)
    _kernels.load(isa).widen(np.ascontiguousarray(bits, np.uint32), values, number(fmt))
    return values


def patterns(fmt):
    """Every pattern of a 16-bit format; of fp32 all exponents, with edges of the significand."""
    if fmt.bits == 16:
        return np.arange(1 << 16, dtype=np.uint32)
    heads = np.arange(1 << 9, dtype=np.uint32) << 23
    tails = np.uint32([0, 1, 2, 3, 0x2AAAAA, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF])
    rng = np.random.default_rng(1)
    return np.concatenate([(heads[:, None] | tails).ravel(), rng.integers(0, 1 << 32, 4000)])


def decoded(fmt, bits):
    """Finite patterns as signs, integer significands and exponents, by the format's definition."""
    field = (bits & ~np.uint32(fmt.sign_bit)) >> (fmt.p - 1)
    fraction = (bits & ((1 << (fmt.p - 1)) - 1)).astype(np.int64)
    significand = np.where(field > 0, fraction | 1 << (fmt.p - 1), fraction)
    exponent = np.maximum(field.astype(np.int64), 1) - fmt.emax - fmt.p + 1
    return (bits & fmt.sign_bit) != 0, significand, exponent


def exact_values(fmt, bits):
    """Finite patterns as doubles, which hold them exactly."""
    negative, significand, exponent = decoded(fmt, bits)
    values = np.ldexp(significand.astype(np.float64), exponent)
    return np.where(negative, -values, values)


def finite(fmt):
    bits = patterns(fmt)
    return bits[(bits & ~np.uint32(fmt.sign_bit)) < fmt.inf_bits]


@lru_cache
def draws(n):
    return np.array([sr_draw(SEED, i) for i in range(n)])


@each_format
def test_the_truth_of_these_tests_is_the_format(fmt):
    some = finite(fmt)[::97]
    assert [Fraction(v) for v in exact_values(fmt, some).tolist()] == [
        fmt.to_fraction(b) for b in some.tolist()
    ]


@each_isa
@each_format
@pytest.mark.parametrize("flags", [0, 3], ids=["subnormals", "ftz+daz"])
@pytest.mark.parametrize("direction", range(4))
def test_widening_is_exact_in_any_floating_point_state(isa, fmt, flags, direction):
    blocks = _kernels.load(isa)
    bits = patterns(fmt)
    before = blocks.floating_point_state()
    try:
        blocks.set_floating_point_state(flags, direction)
        values = widen(isa, bits, fmt)
    finally:
        blocks.set_floating_point_state(*before)
    magnitude = bits & ~np.uint32(fmt.sign_bit)
    number_like, infinite = magnitude < fmt.inf_bits, magnitude == fmt.inf_bits
    expected = exact_values(fmt, bits[number_like])
    assert np.array_equal(values[number_like].view(np.uint64), expected.view(np.uint64))
    signs = bits[infinite] & fmt.sign_bit
    assert np.array_equal(values[infinite], np.where(signs, -np.inf, np.inf))
    assert np.isnan(values[magnitude > fmt.inf_bits]).all()


FRACTIONS = (
    Fraction(0),
    Fraction(1, 1 << 20),
    Fraction(1, 4),
    Fraction(1, 2) - Fraction(1, 1 << 20),
    Fraction(1, 2),
    Fraction(1, 2) + Fraction(1, 1 << 20),
    Fraction(3, 4),
    1 - Fraction(1, 1 << 20),
)


def goes_up_everywhere(mode, negative, odd, fraction):
    """Which magnitudes with that discarded fraction round up."""
    if fraction == 0:
        return np.zeros(len(odd), bool)
    if mode is Rounding.SR:
        return 2 * draws(len(odd)) + 1 < int(fraction * (1 << 25))
    answer = np.array(
        [[goes_up(mode, n, o, fraction) for o in (False, True)] for n in (False, True)]
    )
    return answer[negative.astype(int), odd.astype(int)]


@each_isa
@each_format
@each_mode
def test_rounding_between_all_neighbours(isa, fmt, mode):
    bits = finite(fmt)
    negative, significand, exponent = decoded(fmt, bits)
    values, ulp = exact_values(fmt, bits), np.ldexp(1.0, exponent)
    for fraction in FRACTIONS:
        points = values + np.where(negative, -ulp, ulp) * float(fraction)
        points = np.copysign(points, np.where(negative, -1.0, 1.0))
        up = goes_up_everywhere(mode, negative, significand % 2 == 1, fraction)
        # The next pattern is the next magnitude; after the largest finite one it is infinity.
        assert np.array_equal(convert(isa, points, fmt, mode), bits + up), fraction


@each_isa
@each_format
@each_mode
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_doubles_next_to_values_and_midpoints(isa, fmt, mode, sign):
    bits = finite(fmt)
    bits = bits[(bits > 0) & (bits < fmt.max_bits)]
    low = exact_values(fmt, bits)
    middle = low + np.ldexp(0.5, decoded(fmt, bits)[2])
    for points in (low, middle):
        for towards in (0.0, np.inf):
            near = sign * np.nextafter(points, towards)
            some = slice(None, None, 1 + len(near) // 300)
            index = np.arange(len(near))[some]
            expected = [
                round_fraction(fmt, Fraction(v), mode, draw=sr_draw(SEED, i))
                for v, i in zip(near[some].tolist(), index.tolist(), strict=True)
            ]
            assert np.array_equal(convert(isa, near, fmt, mode)[some], expected)


@each_isa
@each_format
@each_mode
def test_overflow_infinities_zeros_and_nans(isa, fmt, mode):
    beyond = [2.0 ** (fmt.emax + 1), 1.5 * 2.0 ** (fmt.emax + 1), 1e300, 1.7976931348623157e308]
    for value in beyond:
        for negative in (False, True):
            got = convert(isa, [-value if negative else value], fmt, mode)[0]
            assert got == overflow_bits(fmt, mode, negative)
    got = convert(isa, [np.inf, -np.inf, 0.0, -0.0], fmt, mode)
    sign = fmt.sign_bit
    assert got.tolist() == [fmt.inf_bits, fmt.inf_bits | sign, 0, sign]
    nans = np.array([0x7FF0000000000001, 0xFFF8000000000000, 0x7FF4000000000000], np.uint64)
    assert set(convert(isa, nans.view(np.float64), fmt, mode).tolist()) == {fmt.nan_bits}


@each_format
@each_mode
@settings(max_examples=40, deadline=None)
@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    index=st.integers(0, (1 << 64) - 1),
    seed=st.integers(0, (1 << 64) - 1),
)
def test_any_double_is_rounded_as_rational_arithmetic_rounds_it(fmt, mode, value, index, seed):
    negative = math.copysign(1.0, value) < 0
    draw = sr_draw(seed, index)
    expected = round_fraction(fmt, Fraction(value), mode, negative=negative, draw=draw)
    for isa in USABLE:
        assert convert(isa, [value], fmt, mode, seed=seed, first=index)[0] == expected


@each_isa
@each_format
@each_mode
def test_ftz_loses_subnormal_results_alone(isa, fmt, mode):
    bits = finite(fmt)
    values = exact_values(fmt, bits) * (1 + 2.0**-30)
    kept = convert(isa, values, fmt, mode)
    magnitude = kept & ~np.uint32(fmt.sign_bit)
    expected = np.where(magnitude < 1 << (fmt.p - 1), kept & fmt.sign_bit, kept)
    assert np.array_equal(convert(isa, values, fmt, mode, ftz=True), expected)
    assert (expected != kept).any()


@each_isa
@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_the_short_way_from_float_rounds_to_nearest_even(isa, fmt):
    bits = finite(fmt)
    low, ulp = exact_values(fmt, bits), np.ldexp(1.0, decoded(fmt, bits)[2])
    with np.errstate(over="ignore"):
        middle = (low + np.copysign(ulp / 2, low)).astype(np.float32)
        floats = np.concatenate(
            [low, middle, np.nextafter(middle, 0), np.nextafter(middle, np.float32(np.inf))],
            dtype=np.float32,
            casting="same_kind",
        )
    floats = np.concatenate([floats, np.float32([np.inf, -np.inf, 1e38, -1e38, 1e-45])])
    got = np.empty(len(floats), np.uint16)
    _kernels.load(isa).narrow(floats, got, number(fmt))
    assert np.array_equal(got, convert(isa, floats.astype(np.float64), fmt, Rounding.RNE))
    nans = np.array([0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF], np.uint32).view(np.float32)
    got = np.empty(4, np.uint16)
    _kernels.load(isa).narrow(nans, got, number(fmt))
    assert set(got.tolist()) == {fmt.nan_bits}


@each_isa
@each_format
def test_a_signalling_nan_stays_a_nan(isa, fmt):
    signalling = [fmt.inf_bits + 1, fmt.sign_bit | (fmt.inf_bits + 1)]
    values = widen(isa, signalling, fmt)
    assert np.isnan(values).all()
    assert convert(isa, values, fmt, Rounding.RNE).tolist() == [fmt.nan_bits] * 2


@each_isa
@each_format
def test_emulated_operations_round_as_stores_do(isa, fmt):
    rng = np.random.default_rng(5)
    values = np.concatenate([
        exact_values(fmt, np.arange(200, dtype=np.uint32)) * 1.25,
        np.ldexp(rng.uniform(-2, 2, 20000), rng.integers(-170, 140, 20000)),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -65520.0, 65519.999],
    ])  # fmt: skip
    rounded = np.empty_like(values)
    _kernels.load(isa).quantise(values, rounded, number(fmt))
    expected = widen(isa, convert(isa, values, fmt, Rounding.RNE), fmt)
    same = rounded.view(np.uint64) == expected.view(np.uint64)
    assert (same | (np.isnan(rounded) & np.isnan(expected))).all()


@lru_cache
def rounded_exp(fmt):
    """(x, e^x correctly rounded) for every finite |x| <= 100 of a format, by mpmath."""
    x = exact_values(fmt, finite(fmt))
    x = x[np.abs(x) <= 100]
    context = mpmath.MPContext()
    context.prec = 120
    truth = []
    for value in x.tolist():
        _, man, exponent, _ = context.exp(value)._mpf_
        exact = Fraction(int(man)) * Fraction(2) ** exponent
        truth.append(round_fraction(fmt, exact, Rounding.RNE))
    return x, truth


@each_isa
@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_exp_is_correctly_rounded_for_every_16_bit_argument(isa, fmt):
    x, truth = rounded_exp(fmt)
    got = np.empty_like(x)
    _kernels.load(isa).exponential(x, got)
    assert np.array_equal(convert(isa, got, fmt, Rounding.RNE), truth)
    large = np.abs(exact_values(fmt, finite(fmt)))
    large = large[large > 100]
    got = np.empty_like(large)
    _kernels.load(isa).exponential(large, got)
    assert set(convert(isa, got, fmt, Rounding.RNE).tolist()) == {fmt.inf_bits}
    _kernels.load(isa).exponential(-large, got)
    assert set(convert(isa, got, fmt, Rounding.RNE).tolist()) == {0}


@each_isa
def test_exp_is_good_to_its_stated_bound(isa):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-110, 110, 3000), rng.uniform(-1, 1, 1000)])
    got = np.empty_like(x)
    _kernels.load(isa).exponential(x, got)
    context = mpmath.MPContext()
    context.prec = 120
    truth = [context.exp(v) for v in x.tolist()]
    worst = max(abs(g / t - 1) for g, t in zip(got.tolist(), truth, strict=True))
    assert worst < 2**-51
    ends = np.array([np.inf, -np.inf, np.nan, 1e300, -0.0])
    got = np.empty_like(ends)
    _kernels.load(isa).exponential(ends, got)
    assert got[0] == got[3] > float(FP32.max_finite)
    assert 0 < got[1] < float(FP32.min_subnormal) / 4
    assert np.isnan(got[2])
    assert got[4] == 1


@each_isa
@given(seed=st.integers(0, (1 << 64) - 1), index=st.integers(0, (1 << 64) - 1))
def test_draws_are_those_of_the_definition(isa, seed, index):
    assert _kernels.load(isa).draw(seed, index) == sr_draw(seed, index)
