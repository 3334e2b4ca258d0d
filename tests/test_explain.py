"""One pair explained: checked against mpmath of its own, Fractions, and the compiled kernels."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lsbench.cli import group
from lsbench.errors import UsageError
from lsbench.explain import explain, value_of
from lsbench.formats import BF16, FORMATS, FP16, FP32, Format
from lsbench.providers import registry
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.kernels import log_sigmoid_backward
from lsbench.providers.registry import resolve
from lsbench.rounding import DETERMINISTIC, Rounding, round_fraction
from lsbench.steps import FORMULAS, trace

FP16_PAIR = 0x7B53, 0x4D01
"""g = 60000, x = 20.015625."""


def finite(fmt: Format) -> st.SearchStrategy[int]:
    """Finite patterns, half of them of the size that results come from."""
    magnitude = st.integers(0, fmt.max_bits)
    near = st.floats(-110, 110, width=32).map(
        lambda v: round_fraction(fmt, Fraction(v), Rounding.RNE, negative=math.copysign(1, v) < 0)
    )
    return near | st.tuples(magnitude, st.sampled_from([0, fmt.sign_bit])).map(sum)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(list(FORMATS.values())), st.sampled_from(list(FORMATS.values())))
def test_a_trace_gives_the_bits_of_the_kernel_and_adds_up_to_its_error(data, storage, arithmetic):
    g, x = data.draw(finite(storage)), data.draw(finite(storage))
    if g & ~storage.sign_bit == 0:
        g |= 1
    kernel = data.draw(st.sampled_from(list(FORMULAS)))
    mode = data.draw(st.sampled_from(DETERMINISTIC))
    told = trace(kernel, arithmetic, storage, g, x, mode)
    arrays = (storage.values(np.array([b], storage.bits_dtype)) for b in (g, x))
    y = log_sigmoid_backward(
        *arrays, kernel=kernel, arithmetic=arithmetic.name, rounding=mode.value
    )
    bits = int(storage.pattern(y)[0])
    assert told.result.hex == storage.hex(bits)
    assert told.agrees
    brought = [step.brought for step in told.steps]
    if None not in brought and storage.is_finite(bits):
        context = mpmath.MPContext()
        context.prec = 400
        numbers = [storage.to_fraction(b) for b in (g, x)]
        gm, xm = (context.mpf(n.numerator) / n.denominator for n in numbers)
        exact = gm / (1 + context.exp(xm))
        floor = int(context.floor(context.log(abs(exact), 2)))
        ulp = context.mpf(2) ** (max(floor, storage.emin) - storage.p + 1)
        error = float((context.mpf(storage.to_float(bits)) - exact) / ulp)
        assert math.fsum(brought) == pytest.approx(error, rel=1e-9, abs=1e-9)


def test_the_error_of_a_rounded_buffer_enters_where_it_is_stored():
    told = trace("buffered", FP32, FP16, *FP16_PAIR)
    blamed = max(told.steps, key=lambda step: abs(step.brought))
    assert blamed.name == "buffer"
    assert blamed.fmt == "fp16"
    assert told.ulp == pytest.approx(-2042.657985, abs=1e-6)
    assert told.entered.startswith("buffer = z, as the forward stores it rounded to fp16 brought")


def test_the_error_of_an_overflowing_exp_enters_there():
    told = trace("textbook", FP32, FP32, value_of(FP32, "1e30"), value_of(FP32, "104.428"))
    assert told.steps[2].name == "e"
    assert told.steps[2].computed.decimal == "inf"
    assert told.steps[2].brought == pytest.approx(-8389091, abs=1)


def test_a_right_formula_has_no_step_to_blame():
    told = trace("ascend", FP32, BF16, value_of(BF16, "1"), value_of(BF16, "3"))
    assert told.entered == "no single step brought more than half an ulp"


def test_only_formulas_and_finite_values_are_traced():
    with pytest.raises(UsageError, match="no formula 'fast': expected one of textbook"):
        trace("fast", FP32, FP32, 0, 0)
    with pytest.raises(UsageError, match="expected finite values"):
        trace("ascend", FP32, FP32, FP32.inf_bits, 0)


@pytest.mark.parametrize("negative", [False, True])
def test_neighbours_enclose_the_exact_value(negative):
    g = FP16_PAIR[0] | (FP16.sign_bit if negative else 0)
    told = explain(FP16, g, FP16_PAIR[1])
    low, high = (FP16.to_fraction(int(v.hex, 16)) for v in (told.below, told.above))
    exact = Fraction(told.exact)
    assert low < exact < high
    assert told.between == pytest.approx(float((exact - low) / (high - low)), abs=1e-9)
    assert told.correct.hex == ("0x87fb" if negative else "0x07fb")


@pytest.mark.parametrize(
    ("g", "x", "rule", "correct"),
    [
        ("nan", "1", "NaN if either is NaN", "nan"),
        ("1", "inf", "zero with the sign of g", "0"),
        ("-1", "inf", "zero with the sign of g", "-0"),
        ("inf", "inf", "NaN for an infinite g", "nan"),
        ("2.5", "-inf", "g at x = -inf", "2.5"),
        ("-inf", "1000", "an infinite g stays", "-inf"),
        ("-0", "3", "a zero g stays", "-0"),
    ],
)
def test_special_values_name_their_rule(g, x, rule, correct):
    told = explain(FP32, value_of(FP32, g), value_of(FP32, x), [resolve("exact")])
    assert told.rule.startswith(rule)
    assert told.correct.decimal == correct
    assert told.answers[0].correct
    assert told.below is None
    assert told.traces == ()


class TailWrong(Provider):
    """Right but for a vector's body, one ulp off."""

    def unavailable(self):
        return None

    def version(self):
        return "1"

    def refuse(self, call: Call):
        return "no bf16" if call.fmt is BF16 else None

    def prepare(self, call: Call):
        class Run(Prepared):
            def run(self):
                log_sigmoid_backward(call.grad_output, call.self, out=call.grad_input)
                call.fmt.pattern(call.grad_input)[: call.self.size // 16 * 16] += 1

        return Run()


def test_answers_that_depend_on_the_length_are_told():
    told = explain(FP32, value_of(FP32, "1"), value_of(FP32, "0.3"), [TailWrong("t")])
    assert "in a tensor of 67 equal pairs it also gives 0x3ed9e" in told.answers[0].note
    refused = explain(BF16, value_of(BF16, "1"), value_of(BF16, "0.3"), [TailWrong("t")])
    assert refused.answers[0].computed is None
    assert refused.answers[0].note == "no bf16"


def test_stochastic_rounding_is_not_explained():
    with pytest.raises(UsageError, match="no one right result"):
        explain(FP32, 0, 0, mode=Rounding.SR)


def test_the_command_tells_and_its_json_reads_back():
    words = ["explain", "--dtype", "fp16", "--g", "60000", "--x", "20.015625"]
    told = CliRunner().invoke(group, [*words, "--provider", "buffered", "--provider", "exact"])
    assert told.exit_code == 0
    assert "exact    0.000121751903597634" in told.output
    assert "g = 60000.0 (0x7b53), x = 20.015625 (0x4d01) in fp16" in told.output
    lines = told.output.splitlines()
    assert any("buffered" in line and "-2042.66 ulp, WRONG" in line for line in lines)
    assert any("exact" in line and "+0.342015 ulp, correct" in line for line in lines)
    plain = json.loads(CliRunner().invoke(group, [*words, "--format", "json"]).output)
    assert plain["correct"] == {"hex": "0x07fb", "decimal": "0.0001218"}
    assert {trace["kernel"] for trace in plain["traces"]} == set(FORMULAS)


def test_a_number_that_cannot_be_read_is_one_line():
    told = CliRunner().invoke(group, ["explain", "--g", "x", "--x", "1"])
    assert isinstance(told.exception, UsageError)
    assert "cannot read 'x' as a value of fp32" in str(told.exception)


def test_a_provider_that_dies_or_raises_is_a_line_beside_the_others(monkeypatch):
    """In this process the first one would take the test with it."""

    class Raising(Provider):
        def unavailable(self):
            return None

        def version(self):
            raise ZeroDivisionError("by a third party")

        refuse = prepare = version

    monkeypatch.setitem(registry.BUILTIN, "raising", f"{__name__}:Raising")
    monkeypatch.setattr(sys.modules[__name__], "Raising", Raising, raising=False)
    users = Path(__file__).with_name("users.py")
    words = ["explain", "--g", "1", "--x", "1", "--provider", f"python:{users}:segfaults"]
    told = CliRunner().invoke(group, [*words, "--provider", "raising", "--provider", "exact"])
    assert told.exit_code == 0, told.output
    assert "segfaults  no answer: died of SIGSEGV (Segmentation fault)" in told.output
    assert "no answer: ZeroDivisionError: by a third party" in told.output
    assert "ulp, correct" in told.output
