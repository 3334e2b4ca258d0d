"""The exact value: against Arb balls, a numerical derivative, and the table of special values."""

from __future__ import annotations

import random
from fractions import Fraction

import flint
import mpmath
import pytest

from lsbench import exact
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.rounding import Rounding, round_fraction, sr_draw

ALL = list(FORMATS.values())


def arb(fmt, g_bits, x_bits, precision=2000):
    """A ball around y, computed by another library."""
    flint.ctx.prec = precision
    g, x = (flint.arb(flint.fmpq(*fmt.to_fraction(b).as_integer_ratio())) for b in (g_bits, x_bits))
    return g / (1 + x.exp())


def fraction_of(ball):
    man, exp = ball.mid().man_exp()
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def pairs(fmt, count, seed):
    """Random bit patterns: finite g other than 0, finite x below the point where Arb needs help."""
    draw = random.Random(seed)
    while count:
        g, x = draw.getrandbits(fmt.bits), draw.getrandbits(fmt.bits)
        if draw.random() < 0.5:  # half of them where sigma is neither 0 nor 1
            x = round_fraction(fmt, Fraction(draw.gauss(0, 20)), Rounding.RNE)
        if not (fmt.is_finite(g) and fmt.is_finite(x)) or g & ~fmt.sign_bit == 0:
            continue
        if Fraction(1, 1 << 200) < abs(fmt.to_fraction(x)) < 1000:
            count -= 1
            yield g, x


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_results_and_errors_agree_with_arb(fmt):
    for i, (g, x) in enumerate(pairs(fmt, 400, seed=11)):
        ball = fraction_of(arb(fmt, g, x))
        for mode in Rounding:
            draw = sr_draw(5, i)
            bits = exact.correct_bits(fmt, g, x, mode, draw)
            assert bits == round_fraction(fmt, ball, mode, draw=draw)
        error = exact.ulp_error(fmt, g, x, bits)
        expected = (fmt.to_fraction(bits) - ball) / fmt.ulp(ball)
        assert error is not None
        assert abs(Fraction(error.ulp) - expected) <= Fraction(1, 1 << 50) * max(1, abs(expected))


def test_the_derivative_of_log_sigmoid_taken_numerically():
    with mpmath.workdps(50):
        for x in ("-30.5", "-1", "-0.25", "0", "0.25", "1", "17.5", "40"):
            slope = mpmath.diff(lambda t: mpmath.log(1 / (1 + mpmath.exp(-t))), mpmath.mpf(x))
            middle = exact.sigma_of_fraction(Fraction(x)).middle()
            value = mpmath.mpf(middle.numerator) / middle.denominator
            assert mpmath.almosteq(slope, value, rel_eps=mpmath.mpf(10) ** -20)


@pytest.mark.parametrize(
    "x", [-1024, -1e30, -3e38, 1e-13, -1e-13, 2.0**-149, -(2.0**-149), 2e4, 3e38]
)
def test_the_bounded_ranges_enclose_the_value(x):
    x = Fraction(x)
    value = exact.sigma_of_fraction(x)
    lo, hi = (Fraction(v) * Fraction(2) ** value.exponent for v in (value.lo, value.hi))
    if abs(x) < 2000:
        flint.ctx.prec = 4000
        truth = fraction_of(1 / (1 + flint.arb(flint.fmpq(*x.as_integer_ratio())).exp()))
        assert lo < truth < hi
    else:
        assert (lo, hi)[x < 0] == (0, 1)[x < 0]
        assert hi - lo <= Fraction(1, 1 << 1000)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("exponent", [-149, -100, -40, -39, -30, -14, -8])
def test_small_x_rounds_to_the_true_side_of_half_g(fmt, exponent):
    if exponent < fmt.emin - fmt.p + 1:
        pytest.skip("not a value of this format")
    for sign in (1, -1):
        x = round_fraction(fmt, sign * Fraction(2) ** exponent, Rounding.RNE)
        for g in (fmt.max_bits, 1, 3, fmt.encode(0, 1, 0), fmt.encode(0, 3, -1)):
            ball = fraction_of(arb(fmt, g, x))
            for mode in Rounding:
                assert exact.correct_bits(fmt, g, x, mode) == round_fraction(fmt, ball, mode)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_x_zero_is_exactly_half_of_g_ties_included(fmt):
    for g in (1, 2, 3, 5, fmt.max_bits, fmt.sign_bit | 3):
        for mode in Rounding:
            half = fmt.to_fraction(g) / 2
            for zero in (0, fmt.sign_bit):
                assert exact.correct_bits(fmt, g, zero, mode) == round_fraction(fmt, half, mode)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_special_values(fmt):
    inf, nan, sign, one = fmt.inf_bits, fmt.nan_bits, fmt.sign_bit, fmt.encode(0, 1, 0)
    finite = [one, sign | one, 1, fmt.max_bits]
    for v in [0, sign, *finite, inf, sign | inf]:
        assert exact.correct_bits(fmt, nan, v) == exact.correct_bits(fmt, v, nan) == nan
        assert exact.correct_bits(fmt, v, sign | inf) == v
    for g in finite:
        assert exact.correct_bits(fmt, g, inf) == g & sign
    for g in (inf, sign | inf):
        assert exact.correct_bits(fmt, g, inf) == nan
        for x in [0, *finite]:
            assert exact.correct_bits(fmt, g, x) == g
    for g in (0, sign):
        for x in [0, *finite]:
            assert exact.correct_bits(fmt, g, x) == g


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_errors_where_zero_nan_or_infinity_is_involved(fmt):
    one, inf, nan = fmt.encode(0, 1, 0), fmt.inf_bits, fmt.nan_bits
    assert exact.ulp_error(fmt, nan, one, one) is None
    assert exact.ulp_error(fmt, one, one, nan) is None
    assert exact.ulp_error(fmt, inf, one, one) is None
    assert exact.ulp_error(fmt, 0, one, 0).ulp == 0
    assert exact.ulp_error(fmt, 0, one, 3).ulp == 3
    overflow = exact.ulp_error(fmt, one, fmt.sign_bit | inf, inf)
    expected = (Fraction(2) ** (fmt.emax + 1) - 1) / fmt.ulp(Fraction(1))
    assert 0 <= expected - Fraction(overflow.ulp) < expected / 2**52


def test_what_is_known_of_a_public_backward():
    # PyTorch 2.13 on a CPU returns 0 on both; the figures stand in its measurement.
    g, x = FP16.encode(0, 60000, 0), round_fraction(FP16, Fraction(20015625, 10**6), Rounding.RNE)
    assert exact.ulp_error(FP16, g, x, 0).ulp == pytest.approx(-2042.66, abs=0.01)
    assert exact.decimal(FP16, g, x, 5) == "0.00012175"
    assert exact.decimal(BF16, BF16.nan_bits, 0) == "nan"
    assert exact.decimal(FP32, FP32.encode(0, 1, 0), 0) == "0.5"


def test_an_error_below_one_is_never_reported_as_one():
    """The smallest subnormal for a y of 1e-130 and of 2^-16384: right when rounding up."""
    for x in (300, 1 << 20):
        bits = round_fraction(FP32, Fraction(x), Rounding.RNE)
        assert exact.correct_bits(FP32, 0x3F800000, bits, Rounding.RUP) == 1
        assert exact.ulp_error(FP32, 0x3F800000, bits, 1).ulp == 1 - 2.0**-53
    # y = g (1 - 2^-191) truncated to the value below g.
    assert exact.ulp_error(FP16, 0x2861, 0xD827, 0x2860).ulp == -(1 - 2.0**-53)
