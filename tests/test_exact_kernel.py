"""exact: correctly rounded in every mode and build, and the constants of its proof."""

from __future__ import annotations

import csv
import importlib.util
import random
import re
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest

from lsbench import _kernels, accuracy, exact
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.providers.kernels import KernelProvider
from lsbench.records import Options
from lsbench.rounding import DETERMINISTIC, Rounding, round_fraction, sr_draw
from lsbench.verdicts import compute

ROOT = Path(__file__).parent.parent
ALL = list(FORMATS.values())
ISAS = [isa for isa, reason in _kernels.available().items() if reason is None]
SEED = 77


def load_script(path):
    """A script of the project as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(kernel, fmt, g, x, mode=Rounding.RNE, isa=None, ftz=False):
    """Bits of a kernel on bit patterns."""
    options = Options(rounding=str(mode), seed=SEED, ftz=ftz)
    g, x = (fmt.values(np.asarray(v, fmt.bits_dtype)) for v in (g, x))
    return fmt.pattern(compute(KernelProvider(kernel, isa), fmt, g, x, options)).tolist()


def same(fmt, a, b):
    return a == b or (fmt.is_nan(a) and fmt.is_nan(b))


def mixed_pairs(fmt, count, seed):
    """Patterns of every kind: uniform bits, arguments where results vary, and specials."""
    draw = random.Random(seed)
    one, sign = fmt.encode(0, 1, 0), fmt.sign_bit
    special = [0, 1, 3, one, fmt.max_bits, fmt.inf_bits, fmt.nan_bits]
    special += [bits | sign for bits in special] + [fmt.inf_bits + 1]
    for _ in range(count):
        g, x = draw.getrandbits(fmt.bits), draw.getrandbits(fmt.bits)
        if draw.random() < 0.6:
            x = round_fraction(fmt, Fraction(draw.gauss(0, draw.choice([1, 8, 40, 90]))), "rne")
        if draw.random() < 0.2:
            g = draw.choice(special)
        if draw.random() < 0.1:
            x = draw.choice(special)
        yield g, x


@pytest.mark.parametrize("mode", Rounding)
@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_random_and_special_pairs(fmt, mode):
    g, x = zip(*mixed_pairs(fmt, 1500, seed=3), strict=True)
    for i, (a, b, y) in enumerate(zip(g, x, results("exact", fmt, g, x, mode), strict=True)):
        right = exact.correct_bits(fmt, a, b, mode, sr_draw(SEED, i))
        assert same(fmt, right, y), (fmt.hex(a), fmt.hex(b), fmt.hex(y), fmt.hex(right))


def corpus():
    with (ROOT / "cases" / "hard.csv").open() as file:
        for row in csv.DictReader(file):
            fmt = FORMATS[row["format"]]
            yield fmt, row["boundary"], int(row["g"], 16), int(row["x"], 16), row


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_the_hardest_pairs_in_every_mode(fmt, isa):
    pairs = [(g | s, x) for f, _, g, x, _ in corpus() if f is fmt for s in (0, fmt.sign_bit)]
    g, x = zip(*pairs, strict=True)
    for mode in Rounding:
        for i, (a, b, y) in enumerate(
            zip(g, x, results("exact", fmt, g, x, mode, isa), strict=True)
        ):
            assert y == exact.correct_bits(fmt, a, b, mode, sr_draw(SEED, i))


def test_the_corpus_states_true_distances_and_is_hard():
    search = load_script(ROOT / "tests" / "search_hard_cases.py")
    counts = {}
    for fmt, kind, g, x, row in corpus():
        counts[fmt.name, kind] = counts.get((fmt.name, kind), 0) + 1
        stated = float(row["log2_distance_ulp"])
        assert np.log2(float(search.distance(fmt, g, x, kind))) == pytest.approx(stated, abs=1e-3)
        assert stated < {"fp32": -32, "fp16": -18, "bf16": -15}[fmt.name]
    assert set(counts.values()) == {search.KEPT}
    assert len(counts) == 6


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_x_of_a_16_bit_format_against_the_certified_reference(fmt, mode):
    x = fmt.values(np.arange(1 << 16, dtype=np.uint16))
    for g_bits in (1, 7, fmt.encode(0, 3, -1), fmt.max_bits | fmt.sign_bit):
        g = fmt.values(np.full(1 << 16, g_bits, np.uint16))
        options = Options(rounding=str(mode))
        y = compute(KernelProvider("exact"), fmt, g, x, options)
        found = accuracy.judge(fmt, mode, 0, g, x, y, reference="certified")
        assert (found.misrounded, found.nonfinite, found.reference.differed) == (0, 0, 0)


@pytest.mark.parametrize("kernel", ["exact", "fast"])
@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_the_bits_are_the_same_on_every_instruction_set(fmt, kernel):
    g, x = zip(*mixed_pairs(fmt, 20000, seed=4), strict=True)
    for mode in (Rounding.RNE, Rounding.RTZ, Rounding.SR):
        first = results(kernel, fmt, g, x, mode, ISAS[0])
        for isa in ISAS[1:]:
            other = results(kernel, fmt, g, x, mode, isa)
            assert all(same(fmt, a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_subnormal_results_become_zeros_of_their_sign_under_ftz(fmt):
    g, x = zip(*mixed_pairs(fmt, 3000, seed=5), strict=True)
    kept, flushed = (results("exact", fmt, g, x, ftz=ftz) for ftz in (False, True))
    lost = 0
    for a, b in zip(kept, flushed, strict=True):
        subnormal = 0 < a & ~fmt.sign_bit < 1 << (fmt.p - 1)
        assert b == (a & fmt.sign_bit if subnormal else a)
        lost += subnormal
    assert lost > 10


# The constants of the proof.

POLYNOMIALS = load_script(ROOT / "kernels" / "derivations" / "exp_polynomials.py")
HEADERS = {"EXACT": "exact.h", "LINE": "exact.h", "FAST_FP32": "fast.h", "FAST_16": "quotient.h"}
BOUNDS = {"EXACT": 45.7, "LINE": 39.6, "FAST_FP32": 27.9, "FAST_16": 23.1}
"""Relative errors that the headers state, as negative powers of two."""


@pytest.mark.parametrize("name", HEADERS)
def test_the_headers_hold_the_derived_coefficients(name):
    text = (ROOT / "kernels" / HEADERS[name]).read_text()
    held = {
        float.fromhex(c) for c in re.findall(r"-?0x1?\.[0-9a-f]+p[-+]\d+|-?0x[01]\.?p-\d+", text)
    }
    degree, bits = POLYNOMIALS.POLYNOMIALS[name]
    for c in POLYNOMIALS.coefficients(degree, bits):
        assert float(c) in held


@pytest.mark.parametrize("name", HEADERS)
def test_the_polynomials_keep_their_bounds_at_their_worst_points(name):
    degree, bits = POLYNOMIALS.POLYNOMIALS[name]
    q = POLYNOMIALS.coefficients(degree, bits)
    assert POLYNOMIALS.bound(q) < 2.0 ** -BOUNDS[name]


def worst_arguments():
    """Arguments whose reduced r lies at the ends and at the extrema of the polynomial's error."""
    log2 = POLYNOMIALS.CONTEXT.ln(2)
    for k in (-28, -3, -1, 0, 1, 2, 17, 120, 240, 359):
        for i in range(-16, 17):
            yield float(k * log2 + POLYNOMIALS.H * i / 16)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("tier", "low", "high", "width"),
    [(0, -20, 88, 2.0**-20.7), (1, -40, 250, 2.0**-39.5), (2, -40, 250, 2.0**-43)],
)
def test_the_quotient_is_within_the_width_that_its_tier_states(isa, tier, low, high, width):
    x = np.array([v for v in worst_arguments() if low <= v <= high])
    g = np.full_like(x, 1.7)
    if tier < 2:
        x, g = (v.astype(np.float32).astype(np.float64) for v in (x, g))
    result = np.empty_like(x)
    _kernels.load(isa).quotient(g, x, result, tier)
    flint.ctx.prec = 200
    worst = 0.0
    for a, b, y in zip(g.tolist(), x.tolist(), result.tolist(), strict=True):
        truth = flint.arb(a) / (1 + flint.arb(b).exp())
        if tier or float(truth) > 2.0**-120:
            worst = max(worst, abs(float(flint.arb(y) / truth - 1)))
    assert width / 16 < worst < width


@pytest.mark.parametrize("isa", ISAS)
def test_the_integers_decide_on_which_side_of_a_boundary_y_lies(isa):
    above, draw = _kernels.load(isa).above, random.Random(9)
    flint.ctx.prec = 1500
    for _ in range(300):
        g = float(np.float32(draw.uniform(1, 2) * 2.0 ** draw.randint(-120, 120)))
        x = float(np.float32(draw.choice([draw.gauss(0, 4), draw.uniform(-20, 250), 2.0**-28])))
        ball = flint.arb(g) / (1 + flint.arb(x).exp())
        near = float(ball.mid())
        for boundary in (near, near * (1 + 2.0**-45), near * (1 - 2.0**-30)):
            if 0 < boundary < g:
                assert above(g, boundary, x) == bool(ball > flint.arb(boundary))


@pytest.mark.parametrize(
    "bad", [(1.0, 0.0, 1.0), (1.0, 2.0, 1.0), (1.0, 0.5, 0.0), (1.0, 0.5, 1e9)]
)
def test_the_integers_refuse_what_they_cannot_decide(bad):
    with pytest.raises(ValueError, match="expected"):
        _kernels.load().above(*bad)


def test_fp32_pairs_far_beyond_a_double_are_decided():
    # Powers of two in g put y against the power itself, where the ulp changes.
    one = FP32.encode(0, 1, 0)
    for x in (-18.5, -25.0, -100.0, 2.0**-30, -(2.0**-30), 2.0**-149, 110.0):
        bits = round_fraction(FP32, Fraction(x), "rne")
        for mode in DETERMINISTIC:
            right = exact.correct_bits(FP32, one, bits, mode)
            assert results("exact", FP32, [one], [bits], mode) == [right]
