"""The end of a run: verdict, exit status, and gates that nothing exercised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import accuracy, row, run, skipped

from lsbench import gates, inject, settle
from lsbench.exits import exit_code
from lsbench.gates import GateRule
from lsbench.records import Gate

STATUS = Gate("status", "== 0", "0", True, "f.yaml:1")


def settled(rules, *rows, **options):
    """A run of the rows, all under the same rules, as the runner leaves it, settled."""
    judged = tuple(replace(r, gates=(STATUS, *gates.evaluate(rules, r))) for r in rows)
    made = run(*judged, exit_code=exit_code(judged))
    return settle.settle(made, [rules] * len(rows), **options)


ERROR = GateRule("max_ulp", 1.0, source="f.yaml:2")
ROOF = GateRule("of_roof", 0.1, source="f.yaml:3")


def test_a_run_that_passes():
    found = settled([ERROR, ROOF], row())
    assert (found.exit_code, found.gates) == (0, ())
    assert found.verdict == "1 row, none failed"


def test_a_gate_that_no_row_exercised_fails_a_run_that_passes_otherwise():
    found = settled([ERROR, ROOF], row(throughput=None))
    assert found.exit_code == 1
    assert [g.name for g in found.gates] == ["of_roof"]
    assert "gate of_roof >= 0.1 not exercised" in found.verdict


def test_it_is_relaxed_on_request():
    found = settled([ROOF], row(throughput=None), allow_unused=True)
    assert (found.exit_code, found.gates) == (0, ())


def test_a_narrowed_run_is_held_to_the_gates_of_the_command_line_only():
    asked = GateRule("gb_per_s", 1.0)
    found = settled([ROOF, asked], row(throughput=None), narrowed=True)
    assert found.exit_code == 1
    assert [g.name for g in found.gates] == ["gb_per_s"]
    found = settled([ROOF], row(throughput=None), narrowed=True)
    assert found.exit_code == 0


def test_a_run_that_ended_early_is_not_held_to_its_unused_gates():
    stopped = run(row(throughput=None), complete=False, exit_code=130)
    found = settle.settle(stopped, [[ROOF]] * 3)
    assert (found.exit_code, found.gates) == (130, ())
    assert found.verdict.endswith("interrupted")


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ([row(), row(accuracy=accuracy(max_ulp=2.0))], 1, "1 of 2 rows failed"),
        ([row(), skipped()], 3, "2 rows, none failed, 1 could not be run"),
        ([], 5, "0 rows, none failed"),
    ],
)
def test_the_verdict_says_what_the_status_means(rows, code, said):
    found = settled([ERROR], *rows)
    assert (found.exit_code, found.verdict) == (code, said)


def test_a_planted_ulp_is_judged_by_the_same_gates():
    found = settled([ERROR, ROOF], row())
    again = settle.judge_again(inject.ulp(found, 1), [[ERROR, ROOF]])
    assert again.exit_code == 1
    assert [g.name for g in again.rows[0].gates] == ["status", "max_ulp", "of_roof"]
    assert [g.passed for g in again.rows[0].gates] == [True, False, True]
    slow = settle.judge_again(inject.slowdown(found, 9.0), [[ERROR, ROOF]])
    assert [g.passed for g in slow.rows[0].gates] == [True, True, False]
