"""Spaces: complete, in order, the same from any start, evenly spread."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.errors import UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.spaces import Hard, Pairs, Random, Unary, parse_value, read_pairs


def taken(space, start, n):
    g, x = (np.empty(n, space.fmt.bits_dtype) for _ in range(2))
    space.fill(start, g, x)
    return g, x


SPACES = [Pairs(FP16), Unary(FP32, 0x3F800000), Unary(BF16, 1), Random(FP32, 1 << 30, 7)]


@pytest.mark.parametrize("space", SPACES, ids=lambda s: f"{s.fmt.name} {s.label}")
@given(st.data())
def test_any_start_gives_the_same_elements(space, data):
    start = data.draw(st.integers(0, space.size - 200))
    g, x = taken(space, start, 200)
    k = data.draw(st.integers(0, 199))
    assert [a[0] for a in taken(space, start + k, 1)] == [g[k], x[k]]


def test_pairs_number_g_above_x():
    start = 0xABCD0000
    for at, n in ((start, 1 << 16), (start + 5, 1000)):
        g, x = taken(Pairs(BF16), at, n)
        numbers = np.arange(at, at + n)
        assert np.array_equal(g, numbers >> 16)
        assert np.array_equal(x, numbers & 0xFFFF)
    assert Pairs(FP16).size == 1 << 32


def test_unary_is_every_x():
    g, x = taken(Unary(FP16, 0x3C00), 0, 1 << 16)
    assert np.array_equal(x, np.arange(1 << 16))
    assert set(g.tolist()) == {0x3C00}


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_random_visits_every_pair_of_exponents_equally(fmt):
    head = fmt.bits - fmt.p + 1
    strata = 1 << 2 * head
    g, x = taken(Random(fmt, 1 << 20, 1), 12345, 1 << 18)
    seen = Counter(zip((g >> (fmt.p - 1)).tolist(), (x >> (fmt.p - 1)).tolist(), strict=True))
    assert set(seen.values()) == {(1 << 18) // strata}
    assert len(seen) == strata
    for bits in (g, x):
        fractions = bits & ((1 << (fmt.p - 1)) - 1)
        assert abs(np.mean(fractions) / 2.0 ** (fmt.p - 1) - 0.5) < 0.01


def test_random_depends_on_its_seed():
    assert not np.array_equal(*(taken(Random(FP32, 1000, s), 0, 1000)[0] for s in (1, 2)))


def test_pairs_of_32_bits_are_refused():
    with pytest.raises(UsageError, match=r"2\^64 elements: expected --dtype fp16 or bf16"):
        Pairs(FP32)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1", 0x3F800000),
        ("1.5", 0x3FC00000),
        ("pi", 0x40490FDB),
        ("max", 0x7F7FFFFF),
        ("-max", 0xFF7FFFFF),
        ("min", 1),
        ("-0", 0x80000000),
        ("-0x1.8p-3", 0xBE400000),
        ("1e-45", 1),
        ("bits:0x7fc00001", 0x7FC00001),
        (str(float(Fraction(1, 3))), 0x3EAAAAAB),
    ],
)
def test_values_as_people_write_them(text, bits):
    assert parse_value(FP32, text) == bits


@pytest.mark.parametrize("text", ["", "one", "1e99", "bits:0x100000000", "bits:x", "0x1p", "1/0"])
def test_what_is_no_value_is_named(text):
    with pytest.raises(UsageError, match="fp32"):
        parse_value(FP32, text)


def hard_file(folder, text):
    file = folder / "hard.csv"
    file.write_text("format,boundary,g,x,log2_distance_ulp\n" + text)
    return file


def test_stored_pairs_come_with_both_signs_of_g(tmp_path):
    lines = "fp16,midpoint,0x3c01,0x4248,-9\nfp32,value,0x3f800000,0x0,-3\n" * 2
    pairs = read_pairs(hard_file(tmp_path, lines), FP16)
    assert pairs == ((0x3C01, 0x4248),)
    g, x = taken(Hard(FP16, pairs), 0, 2)
    assert g.tolist() == [0x3C01, 0xBC01]
    assert x.tolist() == [0x4248] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no pair of fp16"),
        ("fp16,value,0x3c01,four,-9\n", r"hard.csv:2: found '0x3c01', 'four': expected hex bits"),
        ("fp16,value,0x3c01\n", r"hard.csv:2: found '0x3c01', None"),
        ("fp16,value,0x13c01,0x1,-9\n", r"hard.csv:2: more than the 16 bits"),
    ],
)
def test_what_is_no_file_of_pairs_is_told(text, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        read_pairs(hard_file(tmp_path, text), FP16)


def test_a_missing_file_or_column_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read hard cases .*missing.csv"):
        read_pairs(tmp_path / "missing.csv", FP16)
    (tmp_path / "other.csv").write_text("format,g\nfp16,0x1\n")
    with pytest.raises(UsageError, match="no column 'x'"):
        read_pairs(tmp_path / "other.csv", FP16)
