"""Rounding: each mode against its definition, on neighbours found without the code under test."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.rounding import DETERMINISTIC, Rounding, round_fraction, sr_draw, sr_threshold


def neighbours(fmt, value):
    """The largest value <= |value| and the next one, by bisection over bit patterns."""
    low, high = 0, fmt.max_bits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fmt.to_fraction(middle) <= value else (low, middle - 1)
    return low, low + 1


def by_definition(fmt, value, mode, draw):
    """Pick a neighbour by the words of the definition."""
    negative, value = value < 0, abs(value)
    below, above = neighbours(fmt, value)
    gap_low = value - fmt.to_fraction(below)
    gap_high = fmt.to_fraction(above) - value
    if gap_low == 0:
        chosen = below
    else:
        nearest = below if gap_low < gap_high else above
        tie = gap_low == gap_high
        chosen = {
            Rounding.RNE: (below if below % 2 == 0 else above) if tie else nearest,
            Rounding.RNA: above if tie else nearest,
            Rounding.RTZ: below,
            Rounding.RUP: below if negative else above,
            Rounding.RDN: above if negative else below,
            Rounding.RTO: below if below % 2 else above,
            Rounding.SR: above if gap_low / (gap_low + gap_high) > sr_threshold(draw) else below,
        }[mode]
    return chosen | (fmt.sign_bit if negative else 0)


@pytest.mark.parametrize("mode", Rounding)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
@given(data=st.data())
def test_each_mode_follows_its_definition(fmt, mode, data):
    pattern = data.draw(st.integers(0, fmt.max_bits - 1))
    part = data.draw(st.fractions(0, 1, max_denominator=1 << 40).filter(lambda f: f < 1))
    low = fmt.to_fraction(pattern)
    value = low + part * (fmt.to_fraction(pattern + 1) - low)
    value *= data.draw(st.sampled_from([1, -1]))
    draw = data.draw(st.integers(0, (1 << 24) - 1))
    if value != 0:
        assert round_fraction(fmt, value, mode, draw=draw) == by_definition(fmt, value, mode, draw)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_to_nearest_even_agrees_with_other_implementations(value):
    as32 = np.float32(value)
    with np.errstate(over="ignore"):
        half = int(as32.astype(np.float16).view(np.uint16))
    brain = int(np.array(as32).astype(ml_dtypes.bfloat16).view(np.uint16))
    exact, negative = Fraction(float(as32)), bool(np.signbit(as32))
    assert round_fraction(FP16, exact, Rounding.RNE, negative=negative) == half
    assert round_fraction(BF16, exact, Rounding.RNE, negative=negative) == brain


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_overflow(fmt):
    half_ulp = fmt.ulp(fmt.max_finite) / 2
    at_border = fmt.max_finite + half_ulp
    inf, top, sign = fmt.inf_bits, fmt.max_bits, fmt.sign_bit
    expected = {"rne": inf, "rna": inf, "rtz": top, "rup": inf, "rdn": top, "rto": top}
    for mode in DETERMINISTIC:
        assert round_fraction(fmt, at_border, mode) == expected[mode]
    assert round_fraction(fmt, -at_border, Rounding.RUP) == top | sign
    assert round_fraction(fmt, -at_border, Rounding.RDN) == inf | sign
    assert round_fraction(fmt, at_border - half_ulp / 2, Rounding.RNE) == top
    assert round_fraction(fmt, 4 * fmt.max_finite, Rounding.RTO) == top


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_zero_keeps_the_sign_that_is_asked_for(fmt):
    for mode in Rounding:
        assert round_fraction(fmt, Fraction(0), mode, negative=True) == fmt.sign_bit
        assert round_fraction(fmt, Fraction(0), mode) == 0


def test_splitmix64_by_its_published_outputs():
    # Outputs of SplitMix64 from seed 1234567, as its reference implementation prints them.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [sr_draw(1234567, i) for i in range(3)] == [z >> 40 for z in published]


def test_stochastic_rounding_goes_up_as_often_as_the_discarded_fraction():
    ulp = FP32.ulp(Fraction(1))
    for fraction in (Fraction(1, 8), Fraction(1, 2), Fraction(7, 8)):
        ups = sum(
            round_fraction(FP32, 1 + fraction * ulp, Rounding.SR, draw=sr_draw(3, i)) == 0x3F800001
            for i in range(4000)
        )
        spread = (4000 * fraction * (1 - fraction)) ** 0.5
        assert abs(ups - 4000 * fraction) < 4 * spread


def test_stochastic_thresholds_are_spread_evenly_and_never_0_or_1():
    assert sr_threshold(0) == Fraction(1, 1 << 25)
    assert sr_threshold((1 << 24) - 1) == 1 - Fraction(1, 1 << 25)
