"""Standards: against the rules written out in rationals, and torch where it is installed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lsbench import exact, standards
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.records import Accuracy, Reference
from lsbench.rounding import Rounding, round_fraction

ALL = list(FORMATS.values())
CLEAN = Accuracy(*([1, 1] + [0.5] * 8 + [0] * 7 + [0.0, None]), reference=Reference("mpmath", 1))


def inputs(fmt, n=300, seed=1, x_scale=4.0, g_scale=1.0):
    draw = np.random.default_rng(seed)
    g, x = draw.normal(0, g_scale, n), draw.normal(0, x_scale, n)
    with np.errstate(over="ignore"):
        return g.astype(fmt.dtype), x.astype(fmt.dtype)


def right(fmt, g, x):
    bits = [
        exact.correct_bits(fmt, a, b)
        for a, b in zip(fmt.pattern(g).tolist(), fmt.pattern(x).tolist(), strict=True)
    ]
    return fmt.values(np.array(bits, fmt.bits_dtype))


def by_name(found):
    return {standard.name: standard for standard in found}


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_the_expected_values_are_the_correctly_rounded_ones(fmt):
    g, x = inputs(fmt, x_scale=30.0, g_scale=1000.0)
    found = standards.expected(fmt, g.astype(np.float64), x.astype(np.float64))
    assert (found == right(fmt, g, x).astype(np.float64)).all()


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_rounding_and_spacing_of_doubles(fmt):
    draw = np.random.default_rng(2)
    values = draw.normal(0, 1, 500) * 2.0 ** draw.integers(fmt.emin - fmt.p - 2, fmt.emax, 500)
    rounded, spacing = standards.nearest(fmt, values), standards.ulps(fmt, values)
    for value, near, unit in zip(values.tolist(), rounded.tolist(), spacing.tolist(), strict=True):
        assert Fraction(unit) == fmt.ulp(Fraction(value))
        bits = round_fraction(fmt, Fraction(value), Rounding.RNE)
        if fmt.is_finite(bits):
            assert Fraction(near) == fmt.to_fraction(bits)
        else:
            assert np.isinf(near)


def test_special_values_are_expected_as_the_table_says():
    inf, nan = np.inf, np.nan
    g = np.array([inf, -inf, inf, 1.0, -1.0, nan, 1.0, 2.0, inf])
    x = np.array([3e38, 3e38, inf, inf, inf, 0.0, nan, -inf, -inf])
    found = standards.expected(FP32, g, x)
    wanted = np.array([inf, -inf, nan, 0.0, -0.0, nan, nan, 2.0, inf])
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (np.signbit(found[3:5]) == [False, True]).all()


def spoilt(fmt, y, ulps, at=7):
    """The values with one element moved by so many units in the last place."""
    bits = fmt.pattern(y.copy())
    bits[at] += ulps
    return fmt.values(bits)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("ulps", [0, 1, 9, 300])
def test_each_rule_written_out_in_rationals(fmt, ulps):
    g, x = inputs(fmt)
    e = right(fmt, g, x)
    a = spoilt(fmt, e, ulps)
    found = by_name(standards.evaluate(fmt, CLEAN, g, x, a))
    pairs = [
        (fmt.to_fraction(p), fmt.to_fraction(q))
        for p, q in zip(fmt.pattern(a).tolist(), fmt.pattern(e).tolist(), strict=True)
    ]
    rtol, atol = {"fp32": (1.3e-6, 1e-5), "fp16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}[fmt.name]
    close = all(abs(p - q) <= Fraction(atol) + Fraction(rtol) * abs(q) for p, q in pairs)
    assert found["torch"].passed == close
    relative = [abs(p - q) / (abs(q) + Fraction(1e-7)) for p, q in pairs]
    t = {"fp32": Fraction(1, 2**13), "fp16": Fraction(1, 2**10), "bf16": Fraction(1, 2**7)}[
        fmt.name
    ]
    mere = sum(relative) / len(relative)
    assert found["cann-mere-mare"].passed == (mere < t and max(relative) < 10 * t)
    assert found["cann-mere-mare"].figures["mere"] == pytest.approx(float(mere), abs=1e-15)
    rtol, atol, limit = {
        "fp32": (2.0**-10, 2.0**-16, 1e-2),
        "fp16": (2.0**-9, 2.0**-14, 1e-1),
        "bf16": (2.0**-6, 2.0**-10, 1.0),
    }[fmt.name]
    within = sum(abs(p - q) <= Fraction(atol) + Fraction(rtol) * abs(q) for p, q in pairs)
    worst, at = max((abs(p - q), fmt.ulp(q)) for p, q in pairs)
    mixed = within >= Fraction(99, 100) * len(pairs) and worst <= max(Fraction(limit), 32 * at)
    assert found["cann-mixed"].passed == mixed


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_torch_agrees(fmt):
    torch = pytest.importorskip("torch", reason="torch is an extra")
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[fmt.name]
    g, x = inputs(fmt)
    e = right(fmt, g, x)
    for ulps in (0, 1, 2, 8, 40, 1000):
        a = spoilt(fmt, e, ulps)
        tensors = (torch.tensor(v.astype(np.float32)).to(dtype) for v in (a, e))
        try:
            torch.testing.assert_close(*tensors)
            passed = True
        except AssertionError:
            passed = False
        assert by_name(standards.evaluate(fmt, CLEAN, g, x, a))["torch"].passed == passed


def test_all_zeros_that_pass_are_said_to():
    x = np.linspace(12, 20, 50, dtype=np.float32)
    g = np.ones_like(x)
    found = by_name(standards.evaluate(FP32, CLEAN, g, x, np.zeros_like(x)))
    assert found["torch"].passed
    assert "all zeros would pass" in found["torch"].note
    x = np.linspace(-2, 2, 50, dtype=np.float32)
    found = by_name(standards.evaluate(FP32, CLEAN, g, x, np.zeros_like(x)))
    assert not found["torch"].passed
    assert found["torch"].note == ""


def test_a_tolerance_below_half_an_ulp_is_said_to_be_so(monkeypatch):
    monkeypatch.setitem(standards.TORCH.parameters, "bf16", (1e-4, 0.0))
    g, x = inputs(BF16)
    found = by_name(standards.evaluate(BF16, CLEAN, g, x, right(BF16, g, x)))
    assert "below half an ulp" in found["torch"].note


def test_nan_and_infinity():
    g, x = np.float32([np.inf, 1, 1]), np.float32([np.inf, 0, 0])
    fine = np.float32([np.nan, 0.5, 0.5])
    found = by_name(standards.evaluate(FP32, CLEAN, g, x, fine))
    assert not found["torch"].passed  # equal_nan is False by default
    assert found["cann-mere-mare"].passed
    assert found["cann-mixed"].passed
    lost = by_name(standards.evaluate(FP32, CLEAN, g, x, np.float32([0, 0.5, 0.5])))
    assert not lost["cann-mere-mare"].passed
    infinite = by_name(standards.evaluate(FP32, CLEAN, g, x, np.float32([np.nan, np.inf, 0.5])))
    assert not infinite["torch"].passed
    assert not infinite["cann-mere-mare"].passed


def test_faithful_and_exact_come_from_the_judge():
    g, x = inputs(FP16, 10)
    y = right(FP16, g, x)

    def passed(**changes):
        found = by_name(standards.evaluate(FP16, replace(CLEAN, **changes), g, x, y))
        return found["faithful"].passed, found["exact"].passed

    assert passed() == (True, True)
    assert passed(max_ulp=0.99, misrounded=1) == (True, False)
    assert passed(max_ulp=1.0, misrounded=1) == (False, False)
    assert passed(nonfinite=1, misrounded=1) == (False, False)


def test_the_ratio_to_a_second_implementation():
    g, x = inputs(FP32, 200)
    e = right(FP32, g, x)
    one = spoilt(FP32, e, 4)

    def ratio(a, b):
        return by_name(standards.evaluate(FP32, CLEAN, g, x, a, second=b)).get("cann-ratio")

    assert ratio(e, None) is None
    assert ratio(one, one).note == "meets L2"
    thrice = ratio(spoilt(FP32, e, 12), one)
    assert thrice.figures["mare_ratio"] == pytest.approx(3)
    assert thrice.figures["rmse_ratio"] == pytest.approx(3)
    assert not thrice.passed
    assert ratio(e, one).passed
    assert ratio(one, e).figures["mare_ratio"] == np.inf


def test_chunks_and_strides_change_nothing(monkeypatch):
    g, x = (a.reshape(20, 15) for a in inputs(FP32))
    y = spoilt(FP32, right(FP32, g.ravel(), x.ravel()), 30).reshape(20, 15)
    whole = standards.evaluate(FP32, CLEAN, g, x, y)
    monkeypatch.setattr(standards, "CHUNK", 7)
    laid = standards.evaluate(FP32, CLEAN, np.asfortranarray(g), np.repeat(x, 2, 1)[:, ::2], y)
    for a, b in zip(whole, laid, strict=True):
        assert (a.name, a.passed) == (b.name, b.passed)
        assert a.figures == pytest.approx(b.figures)


def test_an_empty_tensor_passes():
    empty = np.empty((0, 3), np.float16)
    assert all(s.passed for s in standards.evaluate(FP16, CLEAN, empty, empty, empty))
