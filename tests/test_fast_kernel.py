"""fast: its stated limits, over every x of the 16-bit formats and over all exponents of fp32."""

from __future__ import annotations

import numpy as np
import pytest

from lsbench import accuracy
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.providers.kernels import KERNELS, KernelProvider
from lsbench.records import Options
from lsbench.verdicts import compute


def judged(fmt, g, x, mode="rne"):
    y = compute(KernelProvider("fast"), fmt, g, x, Options(rounding=mode))
    return accuracy.judge(fmt, mode, 0, g, x, y, reference="certified")


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
def test_16_bit_results_subnormal_ones_included(fmt):
    x = fmt.values(np.arange(1 << 16, dtype=np.uint16))
    for bits in (1, 5, 1 << (fmt.p - 1), fmt.encode(0, 1, 0), fmt.encode(0, 181, -7), fmt.max_bits):
        found = judged(fmt, fmt.values(np.full(1 << 16, bits, np.uint16)), x)
        assert found.max_ulp <= KERNELS["fast"].max_ulp["fp32", fmt.name] <= 0.51
        assert (found.nonfinite, found.zero_sign, found.spurious_zero) == (0, 0, 0)


def test_fp32_results_over_all_exponents():
    draw = np.random.default_rng(12)
    patterns = draw.integers(0, 1 << 32, (2, 1 << 20), dtype=np.uint64).astype(np.uint32)
    g, x = (FP32.values(row) for row in patterns)
    x[::2] = draw.uniform(-30, 180, x[::2].size).astype(np.float32)
    found = judged(FP32, g, x)
    assert found.max_ulp <= KERNELS["fast"].max_ulp["fp32", "fp32"] <= 1.0
    assert (found.nonfinite, found.zero_sign, found.spurious_zero) == (0, 0, 0)


def test_a_large_g_meets_a_sigma_below_every_number():
    g = np.full(1000, 1e38, np.float32)
    found = judged(FP32, g, np.linspace(100, 175, 1000, dtype=np.float32))
    assert found.max_ulp <= 0.95
    assert found.flushed == 0


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("mode", ["rna", "rtz", "rup", "rdn", "rto"])
def test_the_other_modes_stay_near_the_exact_value(fmt, mode):
    draw = np.random.default_rng(13)
    g, x = (draw.normal(0, s, 1 << 14).astype(np.float32).astype(fmt.dtype) for s in (1, 6))
    assert judged(fmt, g, x, mode).max_ulp <= (0.7 if mode == "rna" else 1.2)
