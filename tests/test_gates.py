"""Gates: bounds on either side, nearness, and no gate that cannot fail."""

from __future__ import annotations

import math

import pytest
from made import DETERMINISM, MOVED, THROUGHPUT, accuracy, row, skipped

from lsbench import gates
from lsbench.errors import UsageError
from lsbench.gates import GateRule
from lsbench.records import Axis, Determinism


def outcome(name, value, judged):
    (gate,) = gates.evaluate([GateRule(name, value, source="f.yaml:3")], judged)
    return gate


@pytest.mark.parametrize(
    ("name", "value", "passed"),
    [
        ("max_ulp", 0.75, True),
        ("max_ulp", 0.7499999, False),
        ("max_ulp", "< 0.75", False),
        ("max_ulp", ">= 0.75", True),
        ("max_ulp", "1", True),
        ("misrounded", 20, True),
        ("misrounded", 19, False),
        ("misrounded", "== 20", True),
        ("misrounded", "==21", False),
        ("of_roof", 0.5, True),
        ("of_roof", 0.51, False),
        ("of_roof", "< 0.5", False),
        ("deterministic", True, True),
        ("deterministic", False, False),
        ("torch", True, True),
        ("exact", True, False),
        ("exact", "false", True),
        ("status", True, True),
    ],
)
def test_a_bound_holds_on_the_worse_side(name, value, passed):
    gate = outcome(name, value, row())
    assert (gate.passed, gate.exercised, gate.source) == (passed, True, "f.yaml:3")


def test_what_was_found_and_expected_is_in_the_gate():
    gate = outcome("max_ulp", 0.5, row())
    assert (gate.name, gate.rule, gate.found) == ("max_ulp", "<= 0.5", "0.75")
    gate = outcome("deterministic", True, row())
    assert (gate.rule, gate.found) == ("== true", "true")


def test_rounding_for_the_reader_never_hides_why_a_gate_failed():
    gate = outcome("max_ulp", 0.5, row(accuracy=accuracy(max_ulp=0.5000000001)))
    assert not gate.passed
    assert gate.found == "0.5000000001"


def test_nan_meets_no_bound():
    broken = row(accuracy=accuracy(mean_ulp=math.nan))
    for value in (1e300, ">= 0", "== 0"):
        assert not outcome("mean_ulp", value, broken).passed


def test_a_moved_bit_fails_the_gate_on_determinism():
    moved = Determinism((*DETERMINISM.axes, Axis("blocks", ("64",), False, "", MOVED)))
    assert not outcome("deterministic", True, row(determinism=moved)).passed
    assert not outcome("deterministic.blocks", True, row(determinism=moved)).passed
    assert outcome("deterministic.threads", True, row(determinism=moved)).passed


def test_a_skipped_row_exercises_nothing_and_says_so():
    gate = outcome("max_ulp", 1.0, skipped())
    assert gate.passed
    assert not gate.exercised
    assert gate.found == "not exercised: torch is not installed"


def rule(value, provider=None, dtype=None, source="f.yaml:1", name="max_ulp"):
    return GateRule(name, value, provider, dtype, source)


@pytest.mark.parametrize(
    ("rules", "decides"),
    [
        ([rule(1), rule(2)], 2),
        ([rule(1, dtype="fp16"), rule(2)], 1),
        ([rule(1, provider="fast"), rule(2, dtype="fp16")], 1),
        ([rule(1, provider="fast", dtype="fp16"), rule(2, provider="fast")], 1),
        ([rule(1, provider="exact"), rule(2)], 2),
        ([rule(1), rule(2, dtype="bf16")], 1),
        ([rule(9, source=gates.COMMAND_LINE), rule(1, provider="fast", dtype="fp16")], 9),
        ([rule(1, provider="fast"), rule(2, provider="fast")], 2),
    ],
)
def test_the_nearest_rule_decides(rules, decides):
    (gate,) = gates.evaluate(rules, row())
    assert gate.rule == f"<= {decides}"


def test_rules_for_different_figures_all_count():
    both = gates.evaluate([rule(1), rule(0, name="nonfinite")], row())
    assert [g.name for g in both] == ["max_ulp", "nonfinite"]


@pytest.mark.parametrize(
    ("written", "name", "text"),
    [
        ("max_ulp<=1", "max_ulp", "<= 1"),
        (" max_ulp  <=  1.5 ", "max_ulp", "<= 1.5"),
        ("max_ulp=1e-3", "max_ulp", "<= 0.001"),
        ("max_ulp: 1", "max_ulp", "<= 1"),
        ("of_roof=0.5", "of_roof", ">= 0.5"),
        ("of_roof>0.5", "of_roof", "> 0.5"),
        ("deterministic", "deterministic", "== true"),
        ("deterministic.threads=true", "deterministic.threads", "== true"),
        ("cann-mixed==false", "cann-mixed", "== false"),
    ],
)
def test_the_command_line_reads_as_people_write(written, name, text):
    parsed = gates.parse(written)
    assert (parsed.name, parsed.text, parsed.source) == (name, text, "--gate")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("max_upl<=1", "did you mean 'max_ulp'"),
        ("max_ulp", "found true: expected a number"),
        ("max_ulp<=nan", "expected a finite number"),
        ("max_ulp<=inf", "expected a finite number"),
        ("max_ulp<=one", "expected a finite number"),
        ("max_ulp<=true", "has no meaning"),
        ("torch<=1", "expected true or false"),
        ("torch=yes", "expected true or false"),
        ("torch<true", "has no meaning"),
        ("", "cannot read gate"),
        ("<=1", "cannot read gate"),
        ("max_ulp<=1 2", "cannot read gate"),
    ],
)
def test_a_gate_that_means_nothing_is_refused_with_its_place(written, said):
    with pytest.raises(UsageError, match=said) as caught:
        gates.parse(written)
    assert str(caught.value).startswith("--gate: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [math.inf, math.nan, "", "<= ", True, None, [1]])
def test_a_value_that_is_no_bound_is_refused_with_file_and_line(value):
    with pytest.raises(UsageError, match=r"^cases/a\.yaml:12: gate max_ulp: "):
        GateRule("max_ulp", value, source="cases/a.yaml:12")


def test_a_gate_that_no_row_exercised_fails():
    timed = rule(0.5, name="of_roof")
    untimed = row(throughput=None)
    (gate,) = gates.unused([([timed, rule(1)], untimed), ([timed], skipped())])
    assert (gate.name, gate.passed, gate.exercised) == ("of_roof", False, False)
    assert gate.source == "f.yaml:1"


def test_one_row_is_enough_to_exercise_a_gate():
    timed = rule(0.5, name="of_roof")
    assert gates.unused([([timed], skipped()), ([timed], row())]) == ()
    assert THROUGHPUT.of_roof is not None


def test_a_gate_for_a_provider_that_did_not_run_is_unused():
    (gate,) = gates.unused([([rule(1, provider="fats")], row())])
    assert gate.found == "not exercised: no row has provider fats"
    (gate,) = gates.unused([([rule(1, "fast", "bf16")], row())])
    assert gate.found == "not exercised: no row has provider fast and dtype bf16"


def test_a_rule_that_a_nearer_one_overrules_is_not_unused():
    rules = [rule(1), rule(2, provider="fast"), rule(3, source=gates.COMMAND_LINE)]
    assert gates.unused([(rules, row())]) == ()
