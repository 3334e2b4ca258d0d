"""Scalars as YAML 1.2 and people write them, not as YAML 1.1 readers misread them."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.cases.scalars import MAX_DIGITS, Pattern, Real, resolve

WORDS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "False": False,
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "y": "y",
    "12:30:00": "12:30:00",
    "2024-02-29": "2024-02-29",
    "1_000": "1_000",
    "0x": "0x",
    "1e": "1e",
    "e5": "e5",
    ".": ".",
    "-": "-",
    "+": "+",
    "infinite": "infinite",
    "nano": "nano",
    "0b2": "0b2",
    "0o8": "0o8",
    "1.2.3": "1.2.3",
    "fp32": "fp32",
}
NUMBERS = {
    "0": 0,
    "012": 12,
    "-7": -7,
    "+7": 7,
    "0o14": 12,
    "0x1F": 31,
    "1e30": 1e30,
    "6e4": 6e4,
    "1e-3": 1e-3,
    "1E+3": 1e3,
    "1.": 1.0,
    ".5": 0.5,
    "-.5e1": -5.0,
    "0x1.8p-3": 0.1875,
    "-0x1p4": -16.0,
    "0x.8": None,
    "0x1.8": 1.5,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    ".inf": math.inf,
    "-.INF": -math.inf,
    "Infinity": math.inf,
    "1e999": math.inf,
    "0x1p99999": math.inf,
    "-0x1p99999": -math.inf,
    "1e-999": 0.0,
}


@pytest.mark.parametrize("text", WORDS)
def test_words_stay_words(text):
    assert resolve(text) == WORDS[text]
    assert type(resolve(text)) is type(WORDS[text])


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_numbers(text):
    expected = text if NUMBERS[text] is None else NUMBERS[text]
    found = resolve(text)
    assert found == expected
    assert isinstance(found, Real) == isinstance(expected, float)


@pytest.mark.parametrize("text", ["nan", "NaN", ".nan", ".NAN"])
def test_nan_is_a_number_of_its_own(text):
    found = resolve(text)
    assert isinstance(found, Real)
    assert math.isnan(found)


def test_minus_zero_keeps_its_sign():
    for text in ("-0", "-0.0", "-0x0p0", "-0e5"):
        found = resolve(text)
        assert isinstance(found, Real)
        assert math.copysign(1, found) == -1


def test_patterns_are_told_from_numbers():
    found = resolve("0b0111110000000001")
    assert isinstance(found, Pattern)
    assert found == 0x7C01
    assert not isinstance(resolve("0x7c01"), Pattern)


def test_a_number_of_absurd_length_is_refused():
    assert resolve("1" * MAX_DIGITS) == int("1" * MAX_DIGITS)
    with pytest.raises(ValueError, match=f"at most {MAX_DIGITS}"):
        resolve("1" * (MAX_DIGITS + 1))
    assert resolve("a" * 5000) == "a" * 5000


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_read_back_exactly_in_decimal_and_hex(value):
    for text, exact in ((repr(value), Fraction(repr(value))), (value.hex(), Fraction(value))):
        found = resolve(text)
        assert isinstance(found, Real)
        assert found == value
        assert found.exact == exact


@given(st.integers(-(10**20), 10**20), st.integers(-40, 40))
def test_the_exact_value_is_that_of_the_text(significand, exponent):
    found = resolve(f"{significand}e{exponent}")
    assert isinstance(found, Real)
    assert found.exact == significand * Fraction(10) ** exponent


def test_absurd_exponents_cost_nothing():
    for text in ("1e999999999", "1e-999999999", "0x1p999999999", "0x1p-999999999"):
        found = resolve(text)
        assert isinstance(found, Real)
        assert found.exact == 0


def test_a_number_survives_copies():
    number = resolve("0x1.8p-3")
    assert isinstance(number, Real)
    for other in (copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert (other, other.text) == (number, "0x1.8p-3")
