"""The certified reference: held against mpmath, element by element and count by count."""

from __future__ import annotations

import ctypes
import itertools
import math
import shutil
import subprocess
import sysconfig
import tracemalloc
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lsbench import _kernels, accuracy, certified
from lsbench.binades import Binades, describe
from lsbench.certified import CertifiedJudge
from lsbench.formats import FORMATS, FP16, FP32
from lsbench.reference import Audit, Declared, MpmathOracle, OracleJudge
from lsbench.rounding import Rounding, round_fraction
from lsbench.tally import Tally

KERNELS = Path(__file__).parents[1] / "kernels"
ALL = list(FORMATS.values())
EVERY = pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
ISAS = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
BOUND = 2.0**-20


def patterns(fmt, values):
    return np.array([round_fraction(fmt, Fraction(v), Rounding.RNE) for v in values])


def inputs(fmt, n, seed):
    """All exponents, moderate x, zeros, powers of two and subnormals among g."""
    draw = np.random.default_rng(seed)
    g, x = (draw.integers(0, 1 << fmt.bits, n).astype(fmt.bits_dtype) for _ in range(2))
    x[: n // 2] = fmt.pattern(draw.normal(0, 20, n // 2).astype(np.float32).astype(fmt.dtype))
    x[n // 4 : n // 3] = 0
    g[::3] &= fmt.bits_dtype.type((1 << fmt.bits) - (1 << (fmt.p - 1)))
    g[1::7] &= fmt.bits_dtype.type((1 << fmt.p) - 1 | fmt.sign_bit)
    return g, x


def faulty(fmt, g, x):
    """Results in double rounded twice, and every kind of fault among them."""
    with np.errstate(all="ignore"):
        y = fmt.values(g).astype(np.float64) / (1 + np.exp(fmt.values(x).astype(np.float64)))
        y = fmt.pattern(y.astype(np.float32).astype(fmt.dtype)).copy()
    y[::50], y[5::97], y[9::101] = 0, fmt.inf_bits, fmt.nan_bits
    y[2::50], y[20::45] = fmt.sign_bit, y[20::45] ^ 1
    y[1::60] = y[1::60] + fmt.bits_dtype.type(1 << (fmt.p - 1))
    return y


@EVERY
@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("ftz", [False, True])
def test_every_count_is_that_of_mpmath(fmt, mode, ftz):
    g, x = inputs(fmt, 900, seed=1)
    y, declared = faulty(fmt, g, x), Declared(fmt, mode, 3, ftz)
    slow = OracleJudge("mpmath", declared, MpmathOracle(declared))
    slow.tally.binades = Binades()
    fast = CertifiedJudge(declared, binades=True)
    for judge in (slow, fast):
        judge.add(17, g, x, y)
    mine, other = fast.finish(), slow.finish()
    assert {**asdict(mine.counts), "undecided": 0} == asdict(other.counts)
    assert mine.counts.undecided <= 2
    for a, b in zip(mine.to_plain()["sums"], other.to_plain()["sums"], strict=True):
        assert abs(int(a) - int(b)) <= 900 * 2**11 + abs(int(b)) * 2.0**-47
    for name in ("worst", "worst_kept", "nonfinite"):
        a, b = getattr(mine, name), getattr(other, name)
        assert a[:4] == b[:4]
        assert a.ulp == b.ulp or math.isclose(a.ulp, b.ulp, rel_tol=2.0**-48, abs_tol=BOUND)
    for rows, wanted in zip(
        asdict(mine.binades).values(), asdict(other.binades).values(), strict=True
    ):
        assert rows.keys() == wanted.keys()
        for row, found in rows.items():
            assert found[:2] == wanted[row][:2]
            assert math.isclose(found[2], wanted[row][2], rel_tol=2.0**-48, abs_tol=BOUND)


@EVERY
@pytest.mark.parametrize("mode", ["rne", "rto"])
def test_sums_and_histogram_are_exact_over_its_own_errors(fmt, mode):
    """Vectors, scalars and wide integers add up to what Python's integers do."""
    g, x = inputs(fmt, 3000, seed=2)
    y = faulty(fmt, g, x)
    judge = CertifiedJudge(Declared(fmt, Rounding(mode)))
    judge.add(0, g, x, y)
    expected = Tally()
    for error in judge.judge(0, g, x, y)[1].tolist():
        if not math.isnan(error):
            expected.add_error(error)
    tally = judge.finish()
    assert tally.counts.undecided == 0
    assert tally.to_plain()["sums"] == expected.to_plain()["sums"]
    assert tally.histogram == expected.histogram


def borders(fmt):
    """x at and beside the borders of the proof, g at and beside powers of two and the limits."""
    some = ["0", "31.5", "250", "88.7228", "0.002707", "11.09"]
    magnitudes = [
        b + step
        for b in patterns(fmt, [*some, *(Fraction(2) ** -k for k in (44, 45, 24, 9))]).tolist()
        for step in (-1, 0, 1)
        if b + step >= 0
    ]
    x = [s | b for b in magnitudes for s in (0, fmt.sign_bit)]
    half = [fmt.encode(0, 1, k) for k in (fmt.emin, fmt.emin + 1, -1, 0)]
    g = [b + step for b in half for step in (-1, 0, 1)] + [1, 2, 3, fmt.max_bits]
    g = [s | b for b in g for s in (0, fmt.sign_bit)]
    pairs = np.array(list(itertools.product(g, x)), fmt.bits_dtype)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@EVERY
@pytest.mark.parametrize("mode", list(Rounding))
def test_truths_at_the_borders_of_the_proof(fmt, mode):
    g, x = borders(fmt)
    declared = Declared(fmt, mode, seed=11)
    judge, oracle = CertifiedJudge(declared), MpmathOracle(declared)
    y = judge.correct(0, g, x)
    correct, error, decided = judge.judge(0, g, x, y)
    # x = 2^-24 puts g/2 - g x/4 on a midpoint, and g x^3/48 is all that decides.
    assert np.count_nonzero(~decided) <= 5
    columns = zip(*(a.tolist() for a in (g, x, y, correct, error)), strict=True)
    for i, (g_bits, x_bits, y_bits, bits, found) in enumerate(columns):
        truth = oracle.truth(g_bits, x_bits, y_bits, declared.draw(i))
        assert y_bits == truth.correct
        assert bits == truth.correct or not decided[i]
        assert found == pytest.approx(truth.error, abs=BOUND)


@pytest.mark.parametrize("mode", [Rounding.RNE, Rounding.RUP, Rounding.RTO])
def test_pairs_nearest_to_a_midpoint_or_value(mode):
    """Elements that double arithmetic cannot decide are passed on, not guessed."""
    found = 0
    draw = np.random.default_rng(5)
    g = draw.integers(0x3F800000, 0x40000000, 1 << 20).astype(np.uint32)
    x = FP32.pattern(draw.uniform(-20, 20, 1 << 20).astype(np.float32))
    judge = CertifiedJudge(Declared(FP32, mode))
    _, error, _ = judge.judge(0, g, x, np.zeros_like(g))
    fraction = np.abs(error) % 1.0
    target = 0.5 if mode is Rounding.RNE else 0.0
    nearest = np.argsort(np.abs(fraction - target))[:60]
    y = judge.correct(0, g[nearest], x[nearest])
    oracle = MpmathOracle(judge.declared)
    for i, k in enumerate(nearest.tolist()):
        found += oracle.truth(int(g[k]), int(x[k]), 0, 0).correct == y[i]
    assert found == 60


def test_undecided_elements_go_to_mpmath():
    """A double of doubt: forced by an account that decides nothing."""

    class Doubting(certified.module().Account):
        def add(self, g, x, computed, position, index, undecided):
            undecided[: g.size] = np.arange(g.size)
            return g.size

    compiled = SimpleNamespace(
        Account=Doubting,
        FORMATS=certified.module().FORMATS,
        ROUNDINGS=certified.module().ROUNDINGS,
    )
    g, x = inputs(FP16, 200, seed=3)
    y = faulty(FP16, g, x)
    declared = Declared(FP16)
    doubting = CertifiedJudge(declared, compiled=compiled)
    slow = OracleJudge("mpmath", declared, MpmathOracle(declared))
    for judge in (doubting, slow):
        judge.add(0, g, x, y)
    tally = doubting.finish()
    assert tally.counts.undecided == 200
    tally.counts.undecided = 0
    assert tally == slow.finish()


@EVERY
def test_instruction_sets_and_cuts_leave_no_trace(fmt):
    g, x = inputs(fmt, 2000, seed=4)
    y = faulty(fmt, g, x)
    declared = Declared(fmt, Rounding.SR, seed=9)
    found = []
    for isa, cut in itertools.product(ISAS, (2000, 77)):
        judge = CertifiedJudge(declared, binades=True, compiled=certified.module(isa))
        for at in reversed(range(0, 2000, cut)):
            judge.add(at, *(a[at : at + cut] for a in (g, x, y)))
        found.append(judge.finish().to_plain())
    assert all(plain == found[0] for plain in found)


def test_memory_stays_small_whatever_the_strides():
    big = np.zeros((2048, 2048), np.float16)
    expanded = np.broadcast_to(np.float16(1), big.shape)
    tracemalloc.start()
    record = accuracy.judge(FP16, "rne", 0, expanded, big.T, big[::-1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record.spurious_zero == record.elements == 1 << 22
    assert peak < 32 << 20


def test_a_bit_error_in_its_input_is_caught_by_the_audit():
    real = certified.module()

    class Hit(real.Account):
        def add(self, g, x, *rest):
            return super().add(g, x ^ 1, *rest)

        def judge(self, g, x, *rest):
            super().judge(g, x ^ 1, *rest)

    compiled = SimpleNamespace(Account=Hit, FORMATS=real.FORMATS, ROUNDINGS=real.ROUNDINGS)
    judge = CertifiedJudge(Declared(FP32), compiled=compiled)
    assert audited(judge).differed > 50
    assert audited(CertifiedJudge(Declared(FP32))).differed == 0


def audited(judge):
    g, x = inputs(FP32, 5000, seed=6)
    y = faulty(FP32, g, x)
    audit = Audit(judge, 5000, seed=0)
    judge.add(0, g, x, y)
    audit.check(0, g, x, y)
    accuracy.conclude(judge, audit)
    return audit


@pytest.mark.parametrize(
    ("constant", "flipped"),
    [
        ("LS_REF_STEP_HIGH 0x1.62e42fefa0000p-8", "LS_REF_STEP_HIGH 0x1.62e42feea0000p-8"),
        ("0x1.6a09e667f3bcdp+0", "0x1.6a09e665f3bcdp+0"),  # 2^(64/128)
    ],
)
def test_a_flipped_bit_in_its_constants_is_caught_by_the_audit(constant, flipped, tmp_path):
    """The very headers, compiled with one bit of one constant flipped."""
    for name in ("block.h", "reference.h"):
        shutil.copy(KERNELS / name, tmp_path)
    table = (KERNELS / "reference_table.h").read_text()
    assert table.count(constant) == 1
    (tmp_path / "reference_table.h").write_text(table.replace(constant, flipped))
    real = certified.module()
    library = compiled_judge(tmp_path)

    class Planted(real.Account):
        def judge(self, g, x, computed, index, correct, error, decided):
            super().judge(g, x, computed, index, correct, error, decided)
            usual = (g & 0x7FFFFFFF) - 1 < 0x7F7FFFFF
            usual &= (x & 0x7FFFFFFF) < 0x7F800000
            usual &= (computed & 0x7FFFFFFF) < 0x7F800000
            for k in np.flatnonzero(usual).tolist():
                words = (ctypes.c_uint32(int(a[k])) for a in (g, x, computed))
                wrong = ctypes.c_double()
                correct[k] = library.truth(*words, ctypes.byref(wrong))
                error[k] = wrong.value

    compiled = SimpleNamespace(Account=Planted, FORMATS=real.FORMATS, ROUNDINGS=real.ROUNDINGS)
    judge = CertifiedJudge(Declared(FP32), compiled=compiled)
    g, x = inputs(FP32, 20000, seed=6)
    x = FP32.pattern(np.linspace(-20, 60, 20000).astype(np.float32))
    audit = Audit(judge, 20000, seed=0, sample=1000)
    audit.check(0, g, x, faulty(FP32, g, x))
    assert audit.audited == 1000
    assert audit.differed > 0


def compiled_judge(folder):
    (folder / "judge.c").write_text(
        """
        #include "reference.h"
        uint32_t truth(uint32_t g, uint32_t x, uint32_t computed, double *error) {
            ls_ref_block b;
            ls_ref_claim claim = {LS_FP32, LS_RNE, 0, 0};
            ls_ref_fill(&b, &g, &x, &computed, 0, 1, 0, &claim);
            *error = b.error[0];
            return (uint32_t)b.correct[0];
        }
        """
    )
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    compiler = compiler if shutil.which(compiler) else "cc"
    command = [compiler, "-O1", "-ffp-contract=off", "-fPIC", "-shared", "judge.c", "-o", "j.so"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "j.so"))
    library.truth.restype = ctypes.c_uint32
    return library


def test_binades_are_named():
    assert describe(FP32, 127) == "+[2^0, 2^1)"
    assert describe(FP32, 256 + 254) == "-[2^127, 2^128)"
    assert describe(FP16, 0) == "+[0, 2^-14)"
