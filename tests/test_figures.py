"""Figures: each is read from its own place, and its direction is the field's."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from made import ACCURACY, DETERMINISM, MOVED, THROUGHPUT, accuracy, row, skipped

from lsbench.errors import UsageError
from lsbench.figures import COUNTS, ERRORS, FIGURES, figure, of_row
from lsbench.records import Accuracy, Axis, Determinism, Ratio, Standard


def test_every_error_and_count_of_the_accuracy_record_is_a_figure():
    apart = {"elements", "measured", "worst", "reference", "sampled"}
    assert {f.name for f in fields(Accuracy)} - apart == {*ERRORS, *COUNTS}


@pytest.mark.parametrize("name", [*ERRORS, *COUNTS])
def test_an_accuracy_figure_follows_its_own_field_and_no_other(name):
    before = of_row(row())
    after = of_row(row(accuracy=replace(ACCURACY, **{name: 123})))
    assert after[name] == 123
    assert {k for k in FIGURES if before[k] != after[k]} == {name}


def test_bias_is_a_magnitude():
    assert figure("bias_ulp").read(row(accuracy=accuracy(bias_ulp=-0.5))) == 0.5


def test_a_row_without_measures_has_no_figures():
    assert set(of_row(skipped()).values()) == {None}


def test_what_was_not_measured_is_absent_and_not_zero():
    specials = of_row(row(accuracy=accuracy(measured=0, max_ulp=0.0)))
    assert specials["max_ulp"] is None
    assert specials["nonfinite"] == 0
    empty = of_row(row(accuracy=accuracy(elements=0, measured=0)))
    assert {empty[name] for name in (*ERRORS, *COUNTS)} == {None}


def test_determinism_as_a_whole_and_by_axis():
    stable = of_row(row())
    assert stable["deterministic"] is True
    assert stable["deterministic.threads"] is True
    assert stable["deterministic.process"] is None
    assert stable["deterministic.layout"] is None
    moved = Determinism((*DETERMINISM.axes, Axis("layout", ("transposed",), False, "", MOVED)))
    broken = of_row(row(determinism=moved))
    assert broken["deterministic"] is False
    assert broken["deterministic.layout"] is False
    assert broken["deterministic.threads"] is True


def test_determinism_that_was_not_tried_is_no_determinism():
    untried = Determinism((Axis("threads", (), None, "one core"),))
    assert of_row(row(determinism=untried))["deterministic"] is None


def test_standards_and_status():
    found = of_row(row())
    assert (found["torch"], found["exact"], found["faithful"]) == (True, False, None)
    assert found["status"] is True
    assert of_row(row(status=161002))["status"] is False
    assert of_row(row(status=161002, expected_status=161002))["status"] is True
    many = tuple(Standard(n, n != "torch", {}) for n in ("torch", "cann-mixed"))
    assert of_row(row(standards=many))["torch"] is False


def test_speed():
    found = of_row(row())
    assert found["of_roof"] == 0.5
    assert found["seconds"] == THROUGHPUT.arms[0].median
    assert (found["gb_per_s"], found["gelem_per_s"]) == (11.5, 0.96)
    alone = replace(THROUGHPUT, of_roof=None)
    assert of_row(row(throughput=alone))["of_roof"] is None
    faster = replace(THROUGHPUT, of_roof=Ratio(0.9, 0.8, 1.0))
    assert of_row(row(throughput=faster))["of_roof"] == 0.9


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [
        ("max_ulp", 0.5, 0.50000001),
        ("misrounded", 0, 1),
        ("of_roof", 0.5, 0.49),
        ("seconds", 1e-6, 2e-6),
        ("deterministic", True, False),
        ("torch", True, False),
        ("max_ulp", 1e300, math.nan),
        ("of_roof", 0.0, math.nan),
    ],
)
def test_worse_knows_the_direction(name, better, worse):
    assert figure(name).worse(worse, better)
    assert not figure(name).worse(better, worse)
    assert not figure(name).worse(better, better)
    assert not figure(name).worse(worse, worse)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("max_upl", "max_ulp"),
        ("MAX-ULP", "max_ulp"),
        ("cann_mixed", "cann-mixed"),
        ("deterministic.thread", "deterministic.threads"),
    ],
)
def test_an_unknown_figure_brings_a_suggestion(typed, meant):
    with pytest.raises(UsageError, match=rf"unknown figure '{typed}'; did you mean '{meant}'\?"):
        figure(typed)


def test_a_name_unlike_any_figure_brings_the_list():
    with pytest.raises(UsageError, match="known are max_ulp, mean_ulp"):
        figure("zzz")


def test_every_figure_says_what_it_is():
    for name, f in FIGURES.items():
        assert f.name == name
        assert f.doc
        assert (f.kind == "noisy") == (f.group == "speed")
