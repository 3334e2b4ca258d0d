"""The formulas against an emulation in rationals, and every kernel against its stated bound."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import lsbench
from lsbench import _kernels
from lsbench.exact import correct_bits, ulp_error
from lsbench.formats import FORMATS, FP16
from lsbench.providers.base import Call
from lsbench.providers.kernels import KERNELS, KernelProvider
from lsbench.records import Options
from lsbench.rounding import Rounding, round_fraction, sr_draw

USABLE = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
ROWS = [(k.name, a, s) for k in KERNELS.values() for a in k.storages for s in k.storages[a]]

each_isa = pytest.mark.parametrize("isa", USABLE)
each_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)


def compute(isa, kernel, g, x, fmt, *, out=None, **options):
    """One provider call with the kernels of one instruction set."""
    y = np.full(x.shape, 7, fmt.dtype) if out is None else out
    call = Call(fmt, g, x, None, y, Options(**{"threads": 1, **options}))
    provider = KernelProvider(kernel, isa)
    assert provider.refuse(call) is None
    provider.prepare(call).run()
    return y


def bits_of(fmt, array):
    return fmt.pattern(np.ascontiguousarray(array)).ravel()


def pairs(fmt, n, seed, low=-20.0, high=20.0):
    rng = np.random.default_rng(seed)
    g = (rng.standard_normal(n) * rng.choice([1e-3, 1.0, 1e3], n)).astype(fmt.dtype)
    x = rng.uniform(low, high, n).astype(fmt.dtype)
    return g, x


CONTEXT = mpmath.MPContext()
CONTEXT.prec = 200


class Emulated:
    """A format's value, or an infinity or NaN as float: operations in rationals, rounded once."""

    def __init__(self, fmt):
        self.fmt = fmt

    def round(self, value, sign=0):
        if isinstance(value, float):
            return value
        if value == 0:
            return -0.0 if sign else 0.0
        return self.fmt.to_float(round_fraction(self.fmt, value, Rounding.RNE))

    def exp(self, x):
        if math.isnan(x) or x == math.inf:
            return x
        if x < -300:
            return 0.0
        if x > 300:
            return math.inf
        _, man, exponent, _ = CONTEXT.exp(x)._mpf_
        return self.round(Fraction(int(man)) * Fraction(2) ** exponent)

    def add(self, a, b):
        if not (math.isfinite(a) and math.isfinite(b)):
            return a + b
        return self.round(Fraction(a) + Fraction(b))

    def divide(self, a, b):
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.nan if math.isinf(a) and math.isinf(b) else a * b if math.isnan(b) else 0.0
        return self.round(Fraction(a) / Fraction(b))

    def multiply(self, a, b):
        sign = math.copysign(1, a) * math.copysign(1, b) < 0
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.nan if 0.0 in (a, b) else a * b
        return self.round(Fraction(a) * Fraction(b), sign)


def emulate(kernel, ops, storage, g, x):
    stored = Emulated(storage)
    g, x = (ops.round(v if not math.isfinite(v) or v == 0 else Fraction(v)) for v in (g, x))
    if kernel == "textbook":
        return ops.multiply(g, ops.divide(1.0, ops.add(1.0, ops.exp(x))))
    e = ops.exp(-abs(x))
    if kernel == "ascend":
        return ops.multiply(ops.divide(1.0 if x < 0 else e, ops.add(1.0, e)), g)
    z = e if math.isnan(e) or e == 0 else stored.round(Fraction(e))
    z = z if math.isnan(z) or z == 0 else ops.round(Fraction(z))
    share = ops.divide(z, ops.add(1.0, z))
    derivative = ops.add(1.0, -share) if x < 0 else share
    return ops.multiply(g, derivative)


def store(fmt, mode, value, draw):
    if math.isnan(value):
        return fmt.nan_bits
    sign = fmt.sign_bit if math.copysign(1, value) < 0 else 0
    if math.isinf(value):
        return fmt.inf_bits | sign
    return round_fraction(fmt, Fraction(value), mode, negative=bool(sign), draw=draw)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 12.0, -12.0, 88.5, -88.5, 104.0, 1e-7]


@pytest.mark.parametrize("mode", Rounding)
@pytest.mark.parametrize(
    ("kernel", "arithmetic", "storage"), [row for row in ROWS if row[0] not in ("fast", "exact")]
)
def test_a_formula_rounds_every_operation(kernel, arithmetic, storage, mode):
    fmt, ops = FORMATS[storage], Emulated(FORMATS[arithmetic])
    g, x = pairs(fmt, 120, 11)
    large = np.array([60000, -1e-3, 5e-5]).astype(fmt.dtype)
    more = [np.array(SPECIAL).astype(fmt.dtype)] * 2
    cross = np.meshgrid(np.concatenate([more[0][:6], large]), more[1])
    g, x = (np.concatenate([a, b.ravel()]) for a, b in ((g, cross[0]), (x, cross[1])))
    expected = [
        store(fmt, mode, emulate(kernel, ops, fmt, a, b), sr_draw(3, i))
        for i, (a, b) in enumerate(
            zip(g.astype(float).tolist(), x.astype(float).tolist(), strict=True)
        )
    ]
    for isa in USABLE:
        got = compute(isa, kernel, g, x, fmt, arithmetic=arithmetic, rounding=mode.value, seed=3)
        assert np.array_equal(bits_of(fmt, got), expected), isa


def test_the_stored_buffer_loses_a_large_g():
    g, x = np.float16([6e4]), np.float16([20.015625])
    assert lsbench.log_sigmoid_backward(g, x, kernel="buffered")[0] == 0
    right = FP16.values(np.array([correct_bits(FP16, 0x7B53, 0x4D01)], np.uint16))
    assert lsbench.log_sigmoid_backward(g, x, kernel="exact") == right


# --- guarantees, from the kernel table -----------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "arithmetic", "storage"), [r for r in ROWS if r[1:] in KERNELS[r[0]].max_ulp]
)
def test_a_kernel_keeps_its_bound(kernel, arithmetic, storage):
    row, fmt = KERNELS[kernel], FORMATS[storage]
    bound, x_max = row.max_ulp[arithmetic, storage], min(row.x_max[arithmetic], 200.0)
    g, x = pairs(fmt, 700, 5, -x_max, x_max)
    close = np.linspace(-2, 2, 300).astype(fmt.dtype)
    g, x = np.concatenate([g, np.full(300, 0.9, fmt.dtype)]), np.concatenate([x, close])
    for isa in USABLE:
        y = compute(isa, kernel, g, x, fmt, arithmetic=arithmetic)
        worst = 0.0
        for a, b, c in zip(*(bits_of(fmt, v).tolist() for v in (g, x, y)), strict=True):
            error = ulp_error(fmt, a, b, c)
            if error is not None and error.exponent > fmt.emin - fmt.p + 1:
                worst = max(worst, abs(error.ulp))
        assert 0 < worst <= bound, isa


def test_the_table_describes_every_kernel():
    assert list(KERNELS) == ["fast", "exact", "textbook", "ascend", "buffered"]
    for kernel in KERNELS.values():
        assert kernel.formula
        assert kernel.guarantee
        assert "\n" not in kernel.summary
        for arithmetic, storages in kernel.storages.items():
            assert storages == tuple(FORMATS), arithmetic
    assert KERNELS["textbook"].storages.keys() == FORMATS.keys()
