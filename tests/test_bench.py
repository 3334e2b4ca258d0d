"""Is B faster than A: the words, the workers, the confirmation, the goals; no time is tested."""

from __future__ import annotations

import sys

import pytest

from lsbench import bench, suite
from lsbench.bench import Contest, Load, Remote, answer, contest
from lsbench.errors import ProviderError, UsageError
from lsbench.records import Arm, Ratio, Throughput
from lsbench.statistics import Change, judge
from lsbench.suite import Goal
from lsbench.throughput import Plan

TINY = Load(elements=64)
QUICK = Plan(budget=0.05, sample=0.0005)


def found(ratio, confirmed=None, tolerance=0.05):
    arm = Arm("a", (1.0,), (0,), 1, 1.0, 1.0, 0.0)
    timed = Throughput("hot", 1, 12, (arm,) * 4, 1.0, 1.0, None, None, 0.0, "width")
    return Contest(TINY, timed, judge(ratio, tolerance), 0.0, confirmed)


def test_the_answer_says_what_was_found():
    assert answer("a", "b", found(Ratio(1.0, 0.99, 1.01))).startswith("b is as fast as a")
    slower = answer("a", "b", found(Ratio(1.25, 1.2, 1.3), confirmed=True))
    assert slower == "b is slower than a: 0.800 × the speed of a (0.769 to 0.833)"
    assert answer("a", "b", found(Ratio(0.5, 0.49, 0.51), True)).startswith(
        "b is faster than a: 2.0"
    )
    wide = answer("a", "b", found(Ratio(1.1, 0.9, 1.3)))
    assert wide.startswith("inconclusive")
    assert "visible from 20.0 % up" in wide


def test_a_change_that_a_fresh_run_denies_is_inconclusive():
    text = answer("a", "b", found(Ratio(1.25, 1.2, 1.3), confirmed=False))
    assert text.startswith("inconclusive")
    assert "reverse" in text


@pytest.mark.parametrize(("said", "meant"), [("faster", "slower"), ("same", "same")])
def test_the_confirmation_is_read_in_reverse(monkeypatch, said, meant):
    class Done:
        returncode, stdout, stderr = 0, said + "\n", ""

    monkeypatch.setattr(bench.subprocess, "run", lambda *a, **k: Done)
    assert bench._again("b", "a", TINY, QUICK, 0.05) is Change(meant)


def test_two_providers_in_one_run():
    measured = contest("exact", "textbook", TINY, QUICK, confirm=False)
    assert [arm.name for arm in measured.measured.arms] == ["exact", "A/A", "textbook", "roof"]
    assert measured.comparison.ratio.value > 0


def test_another_interpreter_times_itself_in_a_worker():
    worker = Remote(sys.executable, "exact", TINY)
    try:
        assert worker.time(10) > 0
        assert worker.time_empty(10) >= 0
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("exakt", UsageError, "did you mean 'exact'"),
        ("exact@/no/such/python", ProviderError, "cannot be started"),
        (f"nothing@{sys.executable}", ProviderError, "unknown provider"),
    ],
)
def test_contestants_that_cannot_run_are_one_line(name, error, words):
    with pytest.raises(error, match=words) as caught:
        bench.prepare(name, TINY)
    assert "\n" not in str(caught.value)


def test_the_values_are_the_same_in_every_process():
    first, second = TINY.call(), Load(elements=64).call()
    assert (first.self == second.self).all()
    assert (Load(elements=64, seed=1).call().self != first.self).any()


def test_goals_are_judged_in_their_direction():
    assert Goal("a", Ratio(1.2, 1.1, 1.3), 1.0).reached
    assert not Goal("a", Ratio(0.9, 0.8, 1.3), 1.0).reached
    assert Goal("a", Ratio(0.2, 0.1, 0.3), 0.25, "at most").reached
    missing = Goal("a / PyTorch", None, 1.0, note=suite.MISSING)
    assert missing.reached is None
    assert "not installed" in missing.line()


def test_goals_go_to_json(tmp_path):
    suite.write_json(tmp_path / "bench.json", {"goals": [Goal("a", Ratio(1.2, 1.1, 1.3), 1.0)]})
    assert '"what": "a"' in (tmp_path / "bench.json").read_text()


def test_strided_goals_compute_the_same_values(monkeypatch):
    seen = []

    def speeds(mine, peers, call, plan):
        mine.run()
        seen.append(mine)
        return {name: Ratio(1, 1, 1) for name in peers}

    monkeypatch.setattr(suite, "_speeds", speeds)
    monkeypatch.setattr(suite, "LARGE", 1 << 24)
    assert [goal.reached for goal in suite.stride_goals(QUICK)] == [True, True, True]
    assert len(seen) == 3
