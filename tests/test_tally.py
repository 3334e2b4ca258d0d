"""The tally: exact sums, order that leaves no trace, percentiles within one bin of the truth."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.errors import ResultsError
from lsbench.tally import Entry, Tally, bin_of, in_units, upper_edge

errors = st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**277), max_value=2.0**277)
small = st.floats(min_value=-4, max_value=4)


def tally_of(values, start=0):
    tally = Tally()
    for i, value in enumerate(values, start):
        tally.counts.elements += 1
        tally.add_error(value)
        tally.note(Entry(i, 1, 2, 3, value), excused=i % 3 == 0)
        if i % 5 == 4:
            tally.note_nonfinite(Entry(i, 1, 2, 3, value))
    return tally


@given(errors)
def test_units_are_the_nearest_integer_of_any_size(value):
    exact = Fraction(value) * (1 << 30)
    assert abs(in_units(value) - exact) <= Fraction(1, 2)
    assert in_units(value) == round(exact)


@given(errors)
def test_a_bin_holds_its_error_and_is_narrow(value):
    size = abs(value)
    edge = upper_edge(bin_of(size))
    # bin_of adds 1 in double: an error within 2^-53 of an edge may land beyond it.
    assert size <= edge * (1 + 2.0**-52) + 2.0**-52
    assert edge - size <= 2.0**-12 * max(1.0, 2 * (size + 1))


def test_first_bins():
    assert [bin_of(v) for v in (0.0, 2.0**-13, 2.0**-12, 0.5, 1.0)] == [0, 0, 1, 2048, 4096]
    assert upper_edge(0) == 2.0**-12


@given(st.lists(errors, max_size=40), st.integers(0, 40), st.randoms())
def test_cuts_and_order_leave_no_trace(values, cut, shuffler):
    whole = tally_of(values)
    parts = [tally_of(values[:cut]), tally_of(values[cut:], start=min(cut, len(values)))]
    shuffler.shuffle(parts)
    merged = Tally()
    for part in parts:
        merged.merge(part)
    assert merged == whole
    assert merged.to_plain() == whole.to_plain()


@given(st.lists(errors, max_size=30))
def test_plain_form_is_lossless_through_json(values):
    tally = tally_of(values)
    assert Tally.from_plain(json.loads(json.dumps(tally.to_plain()))) == tally


@pytest.mark.parametrize("damage", [{}, {"sums": ["1", "x", "2"]}, {"sums": ["1"]}])
def test_damage_is_one_clear_error(damage):
    with pytest.raises(ResultsError, match="damaged tally"):
        Tally.from_plain(damage and {**Tally().to_plain(), **damage})


@given(st.lists(small, min_size=1, max_size=200), st.sampled_from([500, 990, 999]))
def test_percentiles_are_never_understated_and_within_a_bin(values, per_mille):
    ordered = sorted(abs(v) for v in values)
    truth = ordered[math.ceil(Fraction(len(ordered) * per_mille, 1000)) - 1]
    found = tally_of(values).percentile(per_mille)
    assert truth - 2.0**-51 <= found <= truth + 2.0**-12 * (truth + 1)


@given(st.lists(small, min_size=1, max_size=50))
def test_moments_against_rationals(values):
    tally, n = tally_of(values), len(values)
    exact = [Fraction(v) for v in values]
    assert tally.bias() == pytest.approx(float(sum(exact) / n), abs=2.0**-31)
    assert tally.mean() == pytest.approx(float(sum(map(abs, exact)) / n), abs=2.0**-31)
    square = float(sum(v * v for v in exact) / n)
    assert tally.rms() ** 2 == pytest.approx(square, abs=2.0**-30)


def test_nothing_judged_gives_zeros():
    tally = Tally()
    assert (tally.mean(), tally.bias(), tally.rms(), tally.percentile(999)) == (0, 0, 0, 0)
