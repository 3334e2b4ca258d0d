"""Baselines: what may be blessed, what a waiver needs, and what a run may not fall behind."""

from __future__ import annotations

from datetime import date

import pytest
from made import DETERMINISM, MOVED, accuracy, row, run, skipped

from lsbench import baseline, results
from lsbench.baseline import Baseline, Waiver
from lsbench.errors import BaselineError, ResultsError, UsageError
from lsbench.records import Axis, Determinism

TODAY = date(2026, 6, 1)
BROKEN = Determinism((*DETERMINISM.axes, Axis("layout", ("transposed",), False, "", MOVED)))
WAIVER = Waiver("known", "plain", "fast", "nonfinite", "vendor's fault 12", "2026-06-30")


def updated(old, new, **options):
    return baseline.update(old, new, "base.json", today=TODAY, **options)


def test_a_baseline_keeps_no_times_and_no_gates():
    made = updated(None, run(row())).baseline
    assert made.run.rows[0].throughput is None
    assert made.run.rows[0].accuracy == row().accuracy


def test_it_comes_back_from_its_file(tmp_path):
    path = tmp_path / "baseline.json"
    bad = row(accuracy=accuracy(nonfinite=1))
    made = updated(Baseline("b", run(bad), (WAIVER,)), run(bad)).baseline
    baseline.save(made, path)
    back = baseline.load(path)
    assert back.waivers == (WAIVER,)
    assert back.run.rows == made.run.rows
    assert isinstance(results.load(path).extra["waivers"], list)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row(accuracy=accuracy(nonfinite=2)), "nonfinite is 2: it needs a named waiver"),
        (row(determinism=BROKEN), "deterministic.layout is false: it needs a named waiver"),
    ],
)
def test_nonfinite_results_and_moving_bits_are_refused(bad, said):
    found = updated(None, run(row("good"), bad))
    assert found.refused == (f"plain · fast: {said}",)


def test_a_waiver_lets_exactly_its_own_row_and_figure_in():
    bad = run(row(accuracy=accuracy(nonfinite=2)), row("other", accuracy=accuracy(nonfinite=1)))
    found = updated(Baseline("b", run(), (WAIVER,)), bad)
    assert [line.split(" · ")[0] for line in found.refused] == ["other"]


def test_an_expired_waiver_lets_nothing_in():
    late = Waiver("known", "plain", "fast", "nonfinite", "why", "2026-05-31")
    found = updated(Baseline("b", run(), (late,)), run(row(accuracy=accuracy(nonfinite=2))))
    assert found.refused[0].endswith("why has expired")


def test_a_waiver_of_the_command_is_filled_in_for_what_needs_it():
    bad = run(row(accuracy=accuracy(nonfinite=2)), row("c", determinism=BROKEN), row("fine"))
    given = Waiver("known", "", "", "", "vendor's fault 12", "2026-12-31")
    found = updated(None, bad, waive=given)
    assert found.refused == ()
    assert {(w.case, w.figure) for w in found.baseline.waivers} == {
        ("plain", "nonfinite"),
        ("c", "deterministic.layout"),
    }


def test_a_waiver_of_the_command_renews_an_expired_one():
    late = Waiver("old", "plain", "fast", "nonfinite", "why", "2026-05-31")
    given = Waiver("new", "", "", "", "still", "2026-12-31")
    bad = run(row(accuracy=accuracy(nonfinite=2)))
    found = updated(Baseline("b", bad, (late,)), bad, waive=given)
    assert [w.name for w in found.baseline.waivers] == ["new"]
    assert found.refused == ()


@pytest.mark.parametrize(
    ("name", "reason", "expires", "said"),
    [
        ("", "why", "2026-12-31", "needs a name"),
        ("n", "  ", "2026-12-31", "needs a reason"),
        ("n", "why", "soon", "expected a date such as 2026-12-31"),
        ("n", "why", "2026-02-30", "expected a date"),
    ],
)
def test_a_waiver_needs_a_name_a_reason_and_a_day(name, reason, expires, said):
    given = Waiver(name, "", "", "", reason, expires)
    with pytest.raises(UsageError, match=said):
        updated(None, run(row(accuracy=accuracy(nonfinite=2))), waive=given)


def test_a_waiver_that_nothing_needs_is_dropped_and_told():
    found = updated(Baseline("b", run(row()), (WAIVER,)), run(row()))
    assert found.baseline.waivers == ()
    assert found.dropped == (WAIVER,)


def test_rows_that_were_not_run_again_stay_unless_pruned():
    old = Baseline("b", run(row(), row("other")))
    kept = updated(old, run(row(accuracy=accuracy(max_ulp=0.5))))
    assert [r.case for r in kept.baseline.run.rows] == ["plain", "other"]
    assert kept.baseline.run.rows[0].accuracy.max_ulp == 0.5
    pruned = updated(old, run(row()), prune=True)
    assert [r.case for r in pruned.baseline.run.rows] == ["plain"]


def test_what_would_change_is_shown():
    found = updated(Baseline("b", run(row())), run(row(accuracy=accuracy(max_ulp=2.0))))
    assert [
        str(c) for c in found.comparison.columns[0].pairs[0].changes if c.outcome == "worse"
    ] == ["max_ulp 0.75 → 2.0"]


def test_a_missing_baseline_is_exit_4_and_a_damaged_one_exit_2(tmp_path):
    with pytest.raises(BaselineError, match=r"no baseline .*lsbench baseline update") as missing:
        baseline.load(tmp_path / "none.json")
    assert missing.value.exit_code == 4
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ResultsError) as damaged:
        baseline.load(tmp_path / "bad.json")
    assert damaged.value.exit_code == 2


@pytest.mark.parametrize(
    ("waivers", "said"),
    [
        ({}, r"extra\.waivers: expected a list"),
        ([{"name": "x"}], r"extra\.waivers\[0\]: the key 'case' is missing"),
        (
            [
                {
                    "name": "x",
                    "case": "c",
                    "provider": "p",
                    "figure": "max_ulp",
                    "reason": "r",
                    "expires": "2026-01-01",
                }
            ],
            r"extra\.waivers\[0\]: 'max_ulp' needs no waiver",
        ),
        (
            [
                {
                    "name": "x",
                    "case": "c",
                    "provider": "p",
                    "figure": "nonfinite",
                    "reason": "r",
                    "expires": "never",
                }
            ],
            r"extra\.waivers\[0\]: a waiver's last day is 'never'",
        ),
    ],
)
def test_damaged_waivers_are_refused(tmp_path, waivers, said):
    path = tmp_path / "b.json"
    results.save(run(row(), extra={"waivers": waivers}), path)
    with pytest.raises(ResultsError, match=said):
        baseline.load(path)


def applied(new, old, **options):
    return baseline.apply(new, old, today=TODAY, **options)


def test_a_run_that_is_as_good_passes():
    found = applied(run(row()), Baseline("base.json", run(row(throughput=None))))
    assert found.exit_code == 0
    assert [g.name for g in found.rows[0].gates] == ["baseline.accuracy", "baseline.determinism"]
    assert found.rows[0].passed
    assert found.rows[0].verdicts == ("pass",)
    assert found.verdict == "1 rows compared, none worse"


def test_a_worse_run_fails_through_its_gates():
    worse = run(row(accuracy=accuracy(misrounded=21)), verdict="all gates pass")
    found = applied(worse, Baseline("base.json", run(row())))
    assert found.exit_code == 1
    assert not found.rows[0].passed
    assert found.rows[0].verdicts == ("accuracy",)
    assert found.verdict == "all gates pass; 1 rows compared, 1 worse"


def test_a_break_of_determinism_adds_its_verdict_to_the_row_s_own():
    broken = run(row(determinism=BROKEN, verdicts=("accuracy",)))
    found = applied(broken, Baseline("base.json", run(row())))
    assert found.rows[0].verdicts == ("accuracy", "nondeterministic")


def test_changed_inputs_and_foreign_rows_are_exit_4():
    stale = Baseline("base.json", run(row(input_hash="f" * 64)))
    assert applied(run(row()), stale).exit_code == 4
    assert not applied(run(row()), stale).rows[0].passed
    foreign = Baseline("base.json", run(row("other")))
    assert applied(run(row()), foreign).exit_code == 4


def test_an_expired_waiver_fails_whatever_is_compared():
    late = Waiver("known", "plain", "fast", "nonfinite", "why", "2026-05-31")
    bad = run(row(accuracy=accuracy(nonfinite=2)))
    found = applied(bad, Baseline("base.json", bad, (late,)))
    assert found.exit_code == 1
    assert [g.name for g in found.gates] == ["baseline.waiver"]
    assert "expired: waiver 'known'" in found.verdict
    last_day = Waiver("known", "plain", "fast", "nonfinite", "why", "2026-06-01")
    assert applied(bad, Baseline("base.json", bad, (last_day,))).exit_code == 0


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (run(row(), complete=False, exit_code=130), 130),
        (run(exit_code=5), 5),
        (run(row(), exit_code=1), 1),
        (run(row(), skipped("b"), exit_code=3), 3),
    ],
)
def test_the_run_s_own_failure_is_not_covered_up(new, code):
    assert applied(new, Baseline("base.json", run(row(), skipped("b")))).exit_code == code
