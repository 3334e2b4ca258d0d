"""The search finds planted faults, judges them by mpmath, and writes cases that show them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from users import FATAL

from lsbench import accuracy, determinism
from lsbench.cases import load, tensors
from lsbench.cli import group
from lsbench.errors import ProviderError, UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32, by_name
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.kernels import log_sigmoid_backward
from lsbench.providers.registry import resolve
from lsbench.records import Options
from lsbench.worst import case_file, errors, estimate, search

USERS = Path(__file__).with_name("users.py")


class Faulty(Provider):
    """The fast kernel, with a fault planted by a function of (g, x, y) that changes y's bits."""

    def __init__(self, plant, name="faulty"):
        super().__init__(name)
        self._plant = plant

    def unavailable(self):
        return None

    def version(self):
        return "planted"

    def refuse(self, call: Call):
        return None

    def prepare(self, call: Call):
        plant = self._plant

        class Run(Prepared):
            def run(self):
                log_sigmoid_backward(call.grad_output, call.self, out=call.grad_input)
                bits = [call.fmt.pattern(a) for a in (call.grad_output, call.self, call.grad_input)]
                plant(*bits)

        return Run()


def test_one_wrong_x_in_sixteen_bits_is_found():
    def plant(g, x, y):
        y[(x == 0x3C01) & (g == 0x3C00)] = 0x7BFF

    found = search(Faulty(plant), FP16, rounds=30)
    assert found.worst.x.hex == "0x3c01"
    assert found.worst.g.hex == "0x3c00"
    assert found.worst.ulp > 1e6


def test_climbing_reaches_the_top_of_a_slope():
    # An error that grows toward one point of 2^62, far from every structured start.
    def plant(g, x, y):
        distance = np.abs(x.astype(np.int64) - 0x41234567) + np.abs(g.astype(np.int64) - 0x45678901)
        near = distance < 1 << 28
        off = (30 - np.log2(1 + distance[near])) * 100
        y[near] += off.astype(np.uint32)

    found = search(Faulty(plant), FP32, rounds=160)
    assert abs(found.worst.ulp) > 2500


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_the_estimate_ranks_as_mpmath_measures(fmt):
    rng = np.random.default_rng(2)
    g, x = (rng.standard_normal(300) * s for s in (2, 20))
    g, x = (fmt.pattern(a.astype(fmt.dtype)) for a in (g, x))
    y = fmt.pattern((estimate(fmt, g, x) * 1.01).astype(fmt.dtype))
    for i in range(0, 300, 7):
        one = [fmt.values(a[i : i + 1]) for a in (g, x, y)]
        judged = accuracy.judge(fmt, "rne", 0, *one, reference="mpmath")
        assert errors(fmt, g[i : i + 1], x[i : i + 1], y[i : i + 1])[0] == pytest.approx(
            judged.max_ulp, rel=1e-6, abs=1e-6
        )


def test_nonfinite_results_are_found():
    def plant(g, x, y):
        y[(x == FP32.inf_bits) & (g == FP32.inf_bits - 1)] = FP32.nan_bits

    found = search(Faulty(plant), FP32, rounds=2)
    assert (found.nonfinite.g.hex, found.nonfinite.x.hex) == ("0x7f7fffff", "0x7f800000")
    assert found.nonfinite.computed.decimal == "nan"


def test_bits_that_depend_on_the_position_are_found():
    def plant(g, x, y):
        y[-(y.size % 16) :] ^= 1 if y.size % 16 else 0

    found = search(Faulty(plant), BF16, rounds=1)
    assert found.moved.axis == "position"
    assert found.moved.difference.variants == ("first run", "the first alone")


def test_bits_that_depend_on_the_run_are_found():
    runs = iter(range(10**6))

    def plant(g, x, y):
        y[:1] = next(runs)

    assert search(Faulty(plant), FP32, rounds=1).moved.axis == "repeats"


def test_a_seed_and_a_number_of_rounds_repeat_a_search():
    first, again = (search(resolve("textbook"), FP32, rounds=20, seed=4) for _ in range(2))
    assert first.worst == again.worst
    assert first.pairs == again.pairs
    assert search(resolve("textbook"), FP32, rounds=20, seed=5).worst != first.worst


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_a_correctly_rounded_kernel_stays_within_half_an_ulp(fmt):
    found = search(resolve("exact"), fmt, rounds=16)
    assert found.worst is not None
    assert abs(found.worst.ulp) <= 0.5
    assert found.nonfinite is None
    assert found.moved is None


def test_a_lost_sigma_costs_all_the_digits_of_fp32():
    found = search(resolve("ascend"), FP32, rounds=24)
    assert abs(found.worst.ulp) > 16e6
    assert found.worst.computed.decimal == "0"


def test_the_case_file_shows_the_fault_again(tmp_path):
    found = search(resolve("buffered"), FP16, rounds=24)
    (tmp_path / "worst.yaml").write_text(case_file(found))
    cases = load([str(tmp_path / "worst.yaml")])
    worst = next(case for case in cases if case.name == "worst-fp16")
    fmt, held = by_name(worst.dtype), tensors(worst)
    call = Call(fmt, held.grad_output, held.self, held.buffer, held.grad_input, Options())
    determinism.compute(resolve(worst.providers[0]), call)
    judged = accuracy.judge(
        fmt, "rne", 0, call.grad_output, call.self, call.grad_input, reference="mpmath"
    )
    assert judged.worst.ulp == found.worst.ulp
    assert [(rule.name, rule.text) for rule in worst.gates] == [("max_ulp", "<= 1.0")]


def test_the_case_of_moved_bits_is_found_nondeterministic_again(tmp_path):
    def plant(g, x, y):
        y[-(y.size % 16) :] ^= 1 if y.size % 16 else 0

    # A case file names providers that are known: the planted one goes by another's name.
    found = search(Faulty(plant, "fast"), BF16, rounds=1)
    (tmp_path / "w.yaml").write_text(case_file(found))
    (case,) = (c for c in load([str(tmp_path / "w.yaml")]) if c.name == "moved-bf16")
    held = tensors(case)
    call = Call(BF16, held.grad_output, held.self, None, held.grad_input, Options())
    axes = {a.name: a.stable for a in determinism.check(Faulty(plant), call).axes}
    assert axes["position"] is False


def test_stochastic_rounding_and_missing_providers_are_refused():
    with pytest.raises(UsageError, match="stochastic rounding"):
        search(resolve("exact"), FP32, options=Options(rounding="sr"))
    with pytest.raises(ProviderError, match="no program"):
        search(resolve("command:surely-not-there"), FP32)


def test_the_command_writes_a_case_file_and_says_how_to_repeat(tmp_path):
    path = tmp_path / "w.yaml"
    words = ["worst", "--provider", "ascend", "--dtype", "bf16", "--rounds", "14", "-q"]
    told = CliRunner().invoke(group, [*words, "--output", str(path)])
    assert told.exit_code == 0
    assert "repeat with --seed 0 --rounds 14" in told.output
    assert "largest error" in told.output
    assert load([str(path)])
    plain = json.loads(
        CliRunner().invoke(group, [*words, "--output", str(path), "--format", "json"]).output
    )
    assert plain["rounds"] == 14
    bad = CliRunner().invoke(group, [*words, "--budget", "never"])
    assert bad.exit_code == 2
    assert "expected a time such as 30s or 2min" in bad.output


def test_a_provider_that_dies_ends_the_search_with_what_was_found(monkeypatch, tmp_path):
    """In this process it would take the test with it."""
    monkeypatch.setenv(FATAL, "-inf")  # the first batch is of special values: it dies at once
    words = ["worst", "--provider", f"python:{USERS}:segfaults_at", "--dtype", "bf16", "-q"]
    words += ["--rounds", "6", "--output", str(tmp_path / "w.yaml")]
    done = CliRunner().invoke(group, words, standalone_mode=False)
    assert str(done.exception) == "died of SIGSEGV (Segmentation fault)"
    monkeypatch.setenv(FATAL, "3.046875")  # no special value: the second batch holds it
    done = CliRunner().invoke(group, words, standalone_mode=False)
    assert done.return_value == 3, done.output
    assert "failed in round 2: died of SIGSEGV (Segmentation fault)" in done.output
    assert "largest error" in done.output
    assert load([str(tmp_path / "w.yaml")])
