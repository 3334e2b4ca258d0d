"""Verdicts: each kind of fault is named from the measures that show it, or by a probe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lsbench import verdicts
from lsbench.exact import correct_bits
from lsbench.formats import FORMATS, FP32
from lsbench.providers.base import Prepared, Provider
from lsbench.records import Accuracy, Axis, Determinism, Gate, Options, Reference

CLEAN = Accuracy(
    elements=100,
    measured=100,
    max_ulp=0.5,
    mean_ulp=0.25,
    rms_ulp=0.3,
    p50_ulp=0.25,
    p99_ulp=0.5,
    p999_ulp=0.5,
    bias_ulp=0.0,
    max_ulp_ftz=0.5,
    misrounded=0,
    nonfinite=0,
    nan_lost=0,
    zero_sign=0,
    flushed=0,
    spurious_zero=0,
    daz=0,
    misrounded_share=0.0,
    worst=None,
    reference=Reference("mpmath", 100),
)


def name(gates=(), flushes=False, reads_zero=False, **changes):
    errors = replace(CLEAN, **changes)
    return verdicts.of_accuracy(errors, gates, flushes=flushes, reads_zero=reads_zero)


def gate(figure, passed, rule="<= 1.0"):
    return Gate(figure, rule, "?", passed, "cases.yaml:1")


def test_a_clean_row_has_no_fault():
    assert name() == set()
    assert verdicts.order(name()) == ("pass",)


def test_kinds_of_lost_values():
    assert name(nonfinite=2) == {"nonfinite"}
    assert name(nonfinite=2, nan_lost=2) == {"nan_lost"}
    assert name(nonfinite=3, nan_lost=2) == {"nan_lost", "nonfinite"}
    assert name(flushed=1, spurious_zero=1, max_ulp=1.6e7, max_ulp_ftz=1.6e7) == {"spurious_zero"}


def test_subnormal_losses_are_told_apart_by_the_probe():
    lost = {"flushed": 5, "max_ulp": 900.0}
    assert name(**lost, flushes=True) == {"ftz"}
    assert name(**lost, reads_zero=True) == {"daz"}
    assert name(**lost, max_ulp_ftz=50.0, flushes=True) == {"ftz", "accuracy"}


def test_accuracy_is_by_the_gates_or_by_the_limit():
    assert name(max_ulp=3.9, max_ulp_ftz=3.9) == set()
    assert name(max_ulp=4.1, max_ulp_ftz=4.1) == {"accuracy"}
    allowed = [gate("max_ulp", True, "<= 600.0")]
    assert name(allowed, max_ulp=500.0, max_ulp_ftz=500.0) == set()
    assert name([gate("misrounded", False, "<= 0")], misrounded=1) == {"accuracy"}
    assert name([gate("deterministic", False, "is true")]) == set()


def test_zeros_of_the_wrong_sign_are_an_accuracy_fault():
    assert name(zero_sign=1) == {"accuracy"}


def test_order_is_worst_first():
    assert verdicts.order({"tail", "accuracy", "nonfinite"}) == ("nonfinite", "accuracy", "tail")


def test_determinism_names_tail_apart():
    def axes(**moved):
        return Determinism(tuple(Axis(n, ("twice",), stable) for n, stable in moved.items()))

    assert verdicts.of_determinism(None) == set()
    assert verdicts.of_determinism(axes(repeats=True, position=None)) == set()
    assert verdicts.of_determinism(axes(repeats=True, position=False)) == {"tail"}
    assert verdicts.of_determinism(axes(threads=False)) == {"nondeterministic"}


class Planted(Provider):
    """Right in every bit, then spoiled by a function of the bit patterns (g, x, y)."""

    def __init__(self, spoil):
        super().__init__("planted")
        self._spoil = spoil

    def unavailable(self):
        return None

    def version(self):
        return "1"

    def refuse(self, call):
        return None

    def prepare(self, call):
        return PlantedRun(call, self._spoil)


class PlantedRun(Prepared):
    def __init__(self, call, spoil):
        self.call, self.spoil = call, spoil

    def run(self):
        fmt = self.call.fmt
        g, x = (fmt.pattern(a).tolist() for a in (self.call.grad_output, self.call.self))
        y = [self.spoil(fmt, a, b, correct_bits(fmt, a, b)) for a, b in zip(g, x, strict=True)]
        self.call.grad_input[...] = fmt.values(np.array(y, fmt.bits_dtype))


def is_subnormal(fmt, bits):
    return 0 < bits & ~fmt.sign_bit < 1 << (fmt.p - 1)


def flush_results(fmt, g, x, y):
    return y & fmt.sign_bit if is_subnormal(fmt, y) else y


def zero_inputs(fmt, g, x, y):
    return g & fmt.sign_bit if is_subnormal(fmt, g) else y


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_probes_tell_flushing_from_reading_zero(fmt):
    def probe(spoil):
        return verdicts.probe_subnormals(Planted(spoil), fmt, Options())

    assert probe(lambda fmt, g, x, y: y) == (False, False)
    assert probe(flush_results) == (True, False)
    assert probe(zero_inputs) == (False, True)


def test_compute_lays_values_out_afresh():
    g = np.ones(6, np.float32)[::2]
    y = verdicts.compute(Planted(lambda f, g, x, y: y), FP32, g, np.zeros(3, "f4"), Options())
    assert y.tolist() == [0.5, 0.5, 0.5]
