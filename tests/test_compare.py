"""Compare: every planted regression is found and named, and nothing else is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from made import DETERMINISM, ENVIRONMENT, MOVED, STANDARDS, THROUGHPUT, accuracy, row, run, skipped

from lsbench import compare, inject
from lsbench.compare import Options
from lsbench.records import Axis, Determinism, Standard
from lsbench.records import Options as Kernel


def compared(before, after, **options):
    return compare.compare(
        ("base.json", run(before)), [("new.json", run(after))], Options(**options)
    )


def outcomes(before, after, **options):
    """Outcome by figure of the one pair, speed aside."""
    (pair,) = compared(before, after, **options).columns[0].pairs
    return {c.figure: c.outcome for c in pair.changes if c.category != "speed"}


BROKEN = Determinism((*DETERMINISM.axes, Axis("layout", ("transposed",), False, "", MOVED)))


def test_equal_runs_are_equal():
    found = compared(row(), row())
    assert outcomes(row(), row()) == {}
    assert (found.exit_code, found.verdict) == (0, "1 rows compared, none worse")


@pytest.mark.parametrize(
    ("figure", "after"),
    [
        ("max_ulp", row(accuracy=accuracy(max_ulp=math.nextafter(0.75, 1)))),
        ("misrounded", row(accuracy=accuracy(misrounded=21))),
        ("nonfinite", row(accuracy=accuracy(nonfinite=1))),
        ("zero_sign", row(accuracy=accuracy(zero_sign=1))),
        ("mean_ulp", row(accuracy=accuracy(mean_ulp=0.2500001))),
        ("bias_ulp", row(accuracy=accuracy(bias_ulp=0.02))),
        ("torch", row(standards=(Standard("torch", False, {}), STANDARDS[1]))),
        ("status", row(status=161002)),
        ("deterministic", row(determinism=BROKEN)),
        ("max_ulp", row(accuracy=accuracy(max_ulp=math.nan))),
    ],
)
def test_a_planted_regression_is_found_whatever_its_size(figure, after):
    assert outcomes(row(), after)[figure] == "worse"
    assert compared(row(), after).exit_code == 1
    better = outcomes(after, row())
    assert better[figure] == "better"
    assert compared(after, row()).exit_code == 0


def test_the_axis_that_broke_is_named():
    stable = Determinism((*DETERMINISM.axes, Axis("layout", ("transposed",), True)))
    found = outcomes(row(determinism=stable), row(determinism=BROKEN))
    assert found == {"deterministic": "worse", "deterministic.layout": "worse"}


def test_a_crash_is_a_regression_and_an_absent_peer_is_not():
    crashed = skipped(verdicts=("crashed",), reason="exit status -11")
    assert outcomes(row(), crashed) == {"computed": "worse"}
    assert compared(row(), crashed).exit_code == 1
    assert outcomes(row(), skipped()) == {"computed": "lost"}
    assert compared(row(), skipped()).exit_code == 0
    assert outcomes(skipped(), row())["computed"] == "better"


def test_other_bits_of_equal_quality_are_told_and_are_no_regression():
    found = outcomes(row(), row(output_hash="c" * 64))
    assert found == {"bits": "changed"}
    assert compared(row(), row(output_hash="c" * 64)).exit_code == 0


def test_a_tolerance_is_per_figure():
    after = row(accuracy=accuracy(max_ulp=0.76, misrounded=21))
    found = outcomes(row(), after, tolerance={"max_ulp": 0.02})
    assert (found["max_ulp"], found["misrounded"]) == ("changed", "worse")
    assert compared(row(), after, tolerance={"max_ulp": 0.02, "misrounded": 1}).exit_code == 0
    assert compared(row(), after, tolerance={"max_ulp": 0.005, "misrounded": 1}).exit_code == 1


def test_what_is_no_longer_measured_is_told():
    found = outcomes(row(), row(determinism=None))
    assert found == {
        "deterministic": "lost",
        "deterministic.repeats": "lost",
        "deterministic.threads": "lost",
    }


def test_changed_inputs_are_not_compared_and_not_passed():
    after = row(input_hash="f" * 64, accuracy=accuracy(max_ulp=99.0))
    found = compared(row(), after)
    assert found.columns[0].pairs[0].state == "inputs changed"
    assert found.exit_code == 4
    assert found.verdict.startswith("0 rows compared, none worse, 1 not comparable")


def test_the_seed_of_random_rounding_is_an_input():
    a, b = (row(options=Kernel(rounding="sr", seed=n)) for n in (1, 2))
    assert compared(a, b).columns[0].pairs[0].state == "inputs changed"
    a, b = (row(options=Kernel(seed=n)) for n in (1, 2))
    assert compared(a, b).columns[0].pairs[0].state == "matched"


def test_a_sample_is_not_compared_with_the_whole():
    part = row(accuracy=accuracy(sampled=10))
    assert compared(row(), part).columns[0].pairs[0].state == "inputs changed"


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "bf16"},
        {"shape": (1000,)},
        {"provider": "exact"},
        {"layout": {"self": "transposed"}},
        {"options": Kernel(arithmetic="fp16")},
        {"options": Kernel(rounding="rtz")},
    ],
)
def test_rows_of_another_identity_are_one_sided(changes):
    found = compared(row(), row(**changes))
    assert [p.state for p in found.columns[0].pairs] == ["only in baseline", "only in new"]
    assert found.exit_code == 4
    assert "no row of new.json is in the baseline" in found.verdict


def test_new_and_removed_cases_are_told_and_do_not_fail():
    found = compare.compare(
        ("base.json", run(row(), row("gone"))), [("new.json", run(row(), row("fresh")))]
    )
    states = {p.row.case: p.state for p in found.columns[0].pairs}
    assert states == {"plain": "matched", "gone": "only in baseline", "fresh": "only in new"}
    assert found.exit_code == 0


def test_rows_of_one_identity_are_matched_in_order():
    first, second = row(), row(accuracy=accuracy(max_ulp=2.0))
    found = compare.compare(("a", run(first, second)), [("b", run(first, second))])
    assert len(found.columns[0].matched()) == 2
    assert found.exit_code == 0


def test_nothing_in_the_new_run():
    assert compare.compare(("a", run(row())), [("b", run())]).exit_code == 5


def test_the_gravest_regression_comes_first():
    base = [row(name) for name in ("a", "b", "c", "d", "e")]
    new = [
        row("a"),
        row("b", accuracy=accuracy(mean_ulp=0.3)),
        row("c", accuracy=accuracy(max_ulp=1.5)),
        row("d", accuracy=accuracy(nonfinite=3)),
        row("e", accuracy=accuracy(max_ulp=150.0)),
    ]
    found = compare.compare(("x", run(*base)), [("y", run(*new))])
    assert [p.row.case for p in found.columns[0].pairs] == ["d", "e", "c", "b", "a"]
    assert found.columns[0].pairs[0].changes[0].figure == "nonfinite"


def test_several_new_runs_are_columns_and_one_failure_fails():
    worse = row(accuracy=accuracy(misrounded=21))
    found = compare.compare(("x", run(row())), [("good", run(row())), ("bad", run(worse))])
    assert [c.name for c in found.columns] == ["good", "bad"]
    assert [bool(c.pairs[0].failures(found.options)) for c in found.columns] == [False, True]
    assert found.exit_code == 1


def test_other_machines_and_software_are_told():
    other = replace(ENVIRONMENT, cpu="Other", libraries={"numpy": "2.2.0"})
    found = compare.compare(("x", run(row())), [("y", run(row(), environment=other))])
    assert found.columns[0].environment == ("processor: Some CPU → Other", "numpy: 2.1.0 → 2.2.0")


def steady(factor=1.0, flags=()):
    """A row timed in many quiet blocks."""
    seconds = [1e-6 * factor * (1 + 0.001 * (i % 3)) for i in range(24)]
    arms = (
        replace(
            THROUGHPUT.arms[0], seconds=tuple(seconds), blocks=tuple(i // 2 for i in range(24))
        ),
        replace(THROUGHPUT.arms[2], seconds=(5e-7,) * 24, blocks=tuple(i // 2 for i in range(24))),
    )
    return row(throughput=replace(THROUGHPUT, arms=arms, flags=flags))


def test_speed_fails_only_where_it_may():
    found = compared(steady(), steady(1.2))
    (change,) = found.columns[0].pairs[0].changes
    assert (change.category, change.outcome) == ("speed", "worse")
    assert found.exit_code == 1
    assert compared(steady(), steady(1.2), fail_on=frozenset({"accuracy"})).exit_code == 0
    assert compared(steady(), steady(1.2), speed_threshold=0.3).exit_code == 0
    assert compared(steady(1.2), steady()).exit_code == 0


def test_an_unstable_time_fails_only_on_request():
    found = compared(steady(), steady(9.0, ("unstable",)))
    assert found.columns[0].pairs[0].changes[0].outcome == "unstable"
    assert found.exit_code == 0
    asked = frozenset({"inconclusive"})
    assert compared(steady(), steady(9.0, ("unstable",)), fail_on=asked).exit_code == 1


@pytest.mark.parametrize(
    ("category", "after"),
    [
        ("accuracy", row(accuracy=accuracy(misrounded=21))),
        ("determinism", row(determinism=BROKEN)),
    ],
)
def test_fail_on_picks_what_fails(category, after):
    assert compared(row(), after, fail_on=frozenset({category})).exit_code == 1
    others = compare.DEFAULT_FAIL_ON - {category}
    assert compared(row(), after, fail_on=others).exit_code == 0


def test_a_planted_ulp_is_caught_in_every_judged_row():
    base = run(row("a"), skipped("b"), row("c"))
    found = compare.compare(("x", base), [("y", inject.ulp(base, 1))])
    failing = {p.row.case for p in found.columns[0].pairs if p.failures(found.options)}
    assert failing == {"a", "c"}
    assert outcomes(row(), inject.ulp(run(row()), 1).rows[0])["max_ulp"] == "worse"


def test_a_planted_slowdown_is_caught_and_leaves_accuracy_alone():
    base = run(steady())
    found = compare.compare(("x", base), [("y", inject.slowdown(base, 0.1))])
    (change,) = found.columns[0].pairs[0].changes
    assert (change.figure, change.outcome) == ("seconds", "worse")
    assert "slower: +10.0 %" in change.note


def test_gates_tell_what_was_worse_by_category():
    after = row(accuracy=accuracy(max_ulp=2.0, misrounded=30))
    (pair,) = compared(row(), after).columns[0].pairs
    gates = {g.name: g for g in compare.gates(pair, "base.json", Options())}
    assert not gates["baseline.accuracy"].passed
    assert "max_ulp 0.75 → 2.0; misrounded 20 → 30" in gates["baseline.accuracy"].found
    assert gates["baseline.determinism"].passed
    assert gates["baseline.accuracy"].rule == "no worse than base.json"


def test_a_row_that_is_not_in_the_baseline_exercises_nothing():
    found = compare.compare(("a", run(row())), [("b", run(row(), row("fresh")))])
    fresh = next(p for p in found.columns[0].pairs if p.row.case == "fresh")
    (gate,) = compare.gates(fresh, "a", Options())
    assert gate.passed
    assert not gate.exercised
