"""Accuracy: two judges that share no arithmetic agree, every planted kind of fault is counted."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from lsbench import accuracy, reference
from lsbench.errors import TensorError, UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.reference import Audit, Declared, MpmathOracle, OracleJudge, Truth
from lsbench.rounding import Rounding, round_fraction, shortest_decimal, sr_draw

ALL = list(FORMATS.values())
EVERY = pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
JUDGES = ("mpmath", "arb")


def inputs(fmt, n, seed):
    """Bit patterns of g and x: half of x moderate, half of all exponents, specials among them."""
    draw = np.random.default_rng(seed)
    g, x = (draw.integers(0, 1 << fmt.bits, n).astype(fmt.bits_dtype) for _ in range(2))
    x[::2] = fmt.pattern(draw.normal(0, 15, (n + 1) // 2).astype(np.float32).astype(fmt.dtype))
    specials = [0, 1, fmt.max_bits, fmt.inf_bits, fmt.inf_bits + 1]
    corner = np.array(specials + [b | fmt.sign_bit for b in specials], fmt.bits_dtype)
    k = min(n, corner.size**2)
    g[:k], x[:k] = (a.ravel()[:k] for a in np.meshgrid(corner, corner))
    return g, x


def computed_in_double(fmt, g, x):
    with np.errstate(all="ignore"):
        wide = fmt.values(g).astype(np.float64) / (1 + np.exp(fmt.values(x).astype(np.float64)))
        return fmt.pattern(wide.astype(np.float32).astype(fmt.dtype)).copy()


def judged(fmt, g, x, y, mode="rne", **options):
    values = (fmt.values(np.asarray(a, fmt.bits_dtype)) for a in (g, x, y))
    return accuracy.judge(fmt, mode, 3, *values, **{"reference": "mpmath", **options})


def correct(fmt, g, x, mode="rne"):
    """The correctly rounded results by Arb balls and rationals."""
    flint.ctx.prec = 1000
    out = []
    for i, (a, b) in enumerate(zip(g, x, strict=True)):
        ball = fmt.to_float(a) / (1 + flint.arb(fmt.to_float(b)).exp())
        man, exp = ball.mid().man_exp()
        y = Fraction(int(man)) * Fraction(2) ** int(exp)
        out.append(round_fraction(fmt, y, Rounding(mode), draw=sr_draw(3, i)))
    return out


@EVERY
@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("ftz", [False, True])
def test_both_judges_agree_on_everything(fmt, mode, ftz):
    g, x = inputs(fmt, 700, seed=5)
    y = computed_in_double(fmt, g, x)
    y[3::41], y[5::53], y[7::59] = fmt.sign_bit, fmt.inf_bits, fmt.nan_bits
    y[9::43] ^= 1
    records = [judged(fmt, g, x, y, mode, ftz=ftz, reference=name) for name in JUDGES]
    exactly, nearly = ({}, {}), ({}, {})
    for record, same, close in zip(records, exactly, nearly, strict=True):
        for name, value in vars(replace(record, reference=None)).items():
            (close if name.endswith(("_ulp", "_ftz")) else same)[name] = value
        same["worst"] = replace(same["worst"], ulp=None)
    assert exactly[0] == exactly[1]
    assert nearly[0] == pytest.approx(nearly[1], rel=2.0**-50)
    assert [r.reference.differed for r in records] == [0, 0]
    assert records[0].reference.audited >= 256


@EVERY
@pytest.mark.parametrize("mode", list(Rounding))
def test_correctly_rounded_results_pass(fmt, mode):
    g = [fmt.encode(0, random.Random(i).randrange(1, 1 << fmt.p), -8) for i in range(50)]
    x = fmt.pattern(np.random.default_rng(1).normal(0, 3, 50).astype(fmt.dtype)).tolist()
    record = judged(fmt, g, x, correct(fmt, g, x, mode), mode)
    assert record.misrounded == 0
    assert record.max_ulp <= (0.5 if mode in ("rne", "rna") else 1.0)
    assert record.max_ulp > 0.25


def one(fmt, value):
    return round_fraction(fmt, Fraction(value), Rounding.RNE)


# name: g, x, computed, the counts that it raises (misrounded is 1 in every case)
FAULTS = {
    "NaN where a number is right": (1, 0.5, "nan", {"nonfinite"}),
    "infinity where a number is right": (1, 0.5, "inf", {"nonfinite", "measured"}),
    "number where NaN is right": ("nan", 0.5, 1, {"nonfinite", "nan_lost"}),
    "infinity where NaN is right": ("inf", "inf", "inf", {"nonfinite", "nan_lost"}),
    "number where infinity is right": ("inf", 3, 1, {"nonfinite"}),
    "infinity of the wrong sign": ("inf", 3, "-inf", {"nonfinite"}),
    "zero of the wrong sign": ("-0", 3, 0, {"zero_sign", "measured"}),
    "zero where a normal number is right": (1, 3, 0, {"flushed", "spurious_zero", "measured"}),
    "zero where a subnormal is right": ("tiny", -3, 0, {"flushed", "daz", "measured"}),
    "half where a subnormal x matters": (1, "tiny", "above half", {"measured"}),
}


@pytest.mark.parametrize("name", FAULTS)
@EVERY
def test_a_planted_fault_is_counted_as_its_kind(fmt, name):
    words = {
        "nan": fmt.nan_bits,
        "inf": fmt.inf_bits,
        "-inf": fmt.inf_bits | fmt.sign_bit,
        "-0": fmt.sign_bit,
        "tiny": 5,
        "above half": one(fmt, 0.5) + 1,
    }
    g, x, y, raised = FAULTS[name]
    bits = [words[v] if isinstance(v, str) else one(fmt, v) for v in (g, x, y)]
    for judge in JUDGES:
        record = judged(fmt, *([b] for b in bits), reference=judge)
        kinds = ("nonfinite", "nan_lost", "zero_sign", "flushed", "spurious_zero", "daz")
        found = {k for k in (*kinds, "measured") if getattr(record, k)}
        assert (found, record.misrounded) == (raised, 1)
        assert record.worst is not None or name == "number where infinity is right"


def test_errors_of_known_faults():
    """Two faults measured in public: 2042 ulp and 16.7 million ulp where 0 was returned."""
    record = judged(FP16, [0x7B53], [0x4D01], [0])
    assert int(record.max_ulp) == 2042
    assert record.worst.correct.hex == "0x07fb"
    g, x = one(FP32, Fraction(10) ** 30), one(FP32, Fraction("104.43"))
    assert 16.6e6 < judged(FP32, [g], [x], [0]).max_ulp < 2**24


def test_flushed_subnormals_are_reported_twice():
    g, x = [one(FP32, 1)] * 2, [one(FP32, 88), one(FP32, 1)]
    y = [0, correct(FP32, g, x)[1] + 1]
    record = judged(FP32, g, x, y)
    assert record.max_ulp > 2**21
    assert 0.5 < record.max_ulp_ftz < 1.5
    assert (record.flushed, record.spurious_zero, record.misrounded) == (1, 0, 2)
    declared = judged(FP32, g, x, y, ftz=True)
    assert (declared.flushed, declared.misrounded) == (0, 1)
    assert declared.max_ulp == record.max_ulp


def test_an_infinity_counts_as_the_next_power_of_two():
    g, x = one(BF16, 2), one(BF16, 0)
    expected = (2**128 - 1) * 128
    for name in JUDGES:
        found = judged(BF16, [g], [x], [BF16.inf_bits], reference=name).max_ulp
        assert 0 <= expected - int(found) < expected / 2**52


@pytest.mark.parametrize("mode", ["rne", "sr"])
def test_strides_and_chunks_leave_no_trace(mode, monkeypatch):
    g, x = (a.reshape(24, 10) for a in inputs(FP16, 240, seed=2))
    y = computed_in_double(FP16, g, x)
    whole = judged(FP16, g, x, y, mode)
    monkeypatch.setattr(accuracy, "CHUNK", 7)
    spread = np.zeros((48, 30), np.uint16)
    spread[::2, ::3] = g
    flipped, turned = x[::-1, ::-1].copy()[::-1, ::-1], np.asfortranarray(y)
    assert judged(FP16, spread[::2, ::3], flipped, turned, mode) == whole


def test_expanded_zero_dimensional_and_empty_tensors():
    ones = np.broadcast_to(np.uint16(0x3C00), (4, 5))
    x, y = np.zeros((4, 5), np.uint16), np.full((4, 5), 0x3800, np.uint16)
    assert judged(FP16, ones, x, y).max_ulp == 0
    assert judged(FP16, np.uint16(0x3C00), np.uint16(0), np.uint16(0x3800)).elements == 1
    empty = judged(FP16, *[np.zeros((0, 3), np.uint16)] * 3)
    assert (empty.elements, empty.max_ulp, empty.p99_ulp, empty.worst) == (0, 0, 0, None)


def test_bad_arguments_are_named():
    a = np.zeros(3, np.float16)
    with pytest.raises(TensorError, match=r"shape of self is \(2,\): expected \(3,\)"):
        accuracy.judge(FP16, "rne", 0, a, a[:2], a)
    with pytest.raises(TensorError, match="dtype of grad_input is float32: expected float16"):
        accuracy.judge(FP16, "rne", 0, a, a, a.astype(np.float32))
    with pytest.raises(UsageError, match="unknown reference 'guess'"):
        accuracy.judge(FP16, "rne", 0, a, a, a, reference="guess")


class Liar(MpmathOracle):
    """An oracle with one fault."""

    def __init__(self, declared, fault):
        super().__init__(declared)
        self.fault = fault

    def truth(self, g, x, computed, draw):
        return self.fault(super().truth(g, x, computed, draw))


LIES = {
    "a flipped bit": lambda t: Truth(t.correct ^ 1, t.error),
    "an error off by 2^-19 ulp": lambda t: Truth(
        t.correct, None if t.error is None else t.error + 2.0**-19
    ),
    "an error withheld": lambda t: Truth(t.correct, None),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_catches_a_lying_reference(lie):
    g, x = inputs(FP32, 400, seed=4)
    y = computed_in_double(FP32, g, x)
    declared = Declared(FP32)
    judge = OracleJudge("liar", declared, Liar(declared, LIES[lie]))
    audit = Audit(judge, 400, seed=1, sample=50)
    judge.add(0, g, x, y)
    audit.check(0, g, x, y)
    assert audit.audited == 50
    assert audit.differed > 25
    assert accuracy.conclude(judge, audit).reference.differed == audit.differed


def test_the_audit_catches_a_wrong_worst_element():
    """A reference that misreports only the element it names: outside the sample, but audited."""
    judge = OracleJudge("mpmath", Declared(FP32), MpmathOracle(Declared(FP32)))
    audit = Audit(judge, 0, seed=1)
    g, x = inputs(FP32, 200, seed=4)
    judge.add(0, g, x, computed_in_double(FP32, g, x))
    judge.tally.worst = judge.tally.worst._replace(ulp=judge.tally.worst.ulp + 2.0**-18)
    record = accuracy.conclude(judge, audit)
    assert (record.reference.audited > 0, record.reference.differed) == (True, 1)


@EVERY
def test_decimals_read_back_and_are_shortest(fmt):
    for bits in [*random.Random(2).choices(range(1 << fmt.bits), k=300), 0, fmt.sign_bit, 1]:
        text = shortest_decimal(fmt, bits)
        if fmt.is_finite(bits):
            assert one(fmt, Fraction(text)) == bits & ~fmt.sign_bit if text == "0" else True
            assert np.float64(text).astype(np.float32).astype(fmt.dtype) == fmt.values(
                np.array([bits], fmt.bits_dtype)
            )
    assert shortest_decimal(FP32, 0x3DCCCCCD) == "0.1"


def test_reference_names_are_all_made_or_named():
    for name in JUDGES:
        assert reference.make(name, Declared(FP16)).name == name
