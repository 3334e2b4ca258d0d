"""Is B faster than A: the words, the workers, the confirmation, the goals; no time is tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lsbench import bench, suite
from lsbench.bench import Contest, Rival, answer, contest, labels
from lsbench.builds import Remote
from lsbench.cli.bench import command
from lsbench.errors import ProviderError, UsageError
from lsbench.load import Load
from lsbench.providers import processes
from lsbench.providers.base import Prepared
from lsbench.providers.isolation import Limits
from lsbench.records import Arm, Ratio, Throughput
from lsbench.statistics import Change, judge
from lsbench.suite import Goal
from lsbench.throughput import Plan

USERS = Path(__file__).with_name("users.py")
TINY = Load(shape=(64,))
QUICK = Plan(budget=0.05, sample=0.0005)


def said(ratio, confirmed=None, flags=()):
    arm = Arm("a", (1.0,), (0,), 1, 1.0, 1.0, 0.0)
    timed = Throughput("hot", 1, 12, (arm,) * 4, 1.0, 1.0, None, None, 0.0, "width", flags)
    rival = Rival("b", judge(ratio, 0.05), confirmed)
    return answer(Contest("", ("a", "b"), 1, timed, 0.0, (rival,)), rival)


def test_the_answer_says_what_was_found():
    assert said(Ratio(1.0, 0.99, 1.01)).startswith("b is as fast as a")
    slower = said(Ratio(1.25, 1.2, 1.3), confirmed=True)
    assert slower == "b is slower than a: 0.800 × the speed of a (0.769 to 0.833)"
    assert said(Ratio(0.5, 0.49, 0.51), True).startswith("b is faster than a: 2.0")
    wide = said(Ratio(1.1, 0.9, 1.3))
    assert wide.startswith("inconclusive")
    assert "visible from 20.0 % up" in wide


def test_a_change_that_a_fresh_run_denies_is_inconclusive():
    text = said(Ratio(1.25, 1.2, 1.3), confirmed=False)
    assert text.startswith("inconclusive")
    assert "reverse" in text


class Costs(Prepared):
    """Claims what it is told; its A/A arm, the same object asked in turn, may differ."""

    def __init__(self, *seconds):
        self.seconds, self.asked = seconds, 0

    def time(self, loops):
        self.asked += 1
        return loops * self.seconds[self.asked % len(self.seconds)]

    def time_empty(self, loops):
        return 0.0


def raced(monkeypatch, **costs):
    monkeypatch.setattr(bench, "_contestant", lambda name, load, sets, limits: costs[name])
    return contest(list(costs), TINY, QUICK, confirm=False)


def test_every_rival_is_judged_against_the_first(monkeypatch):
    found = raced(monkeypatch, a=Costs(1e-3), b=Costs(2e-3), c=Costs(5e-4), d=Costs(1e-3))
    changes = {rival.name: rival.comparison.change for rival in found.rivals}
    assert changes == {"b": Change.SLOWER, "c": Change.FASTER, "d": Change.SAME}
    assert found.rivals[0].comparison.ratio.value == pytest.approx(2)
    assert found.floor == pytest.approx(0, abs=1e-9)


def test_a_run_whose_first_contestant_differs_from_itself_says_nothing(monkeypatch):
    def contaminated(*arguments):
        found = measure(*arguments)
        return bench.replace(found, flags=("contaminated",))

    measure = bench.measure_arms
    monkeypatch.setattr(bench, "measure_arms", contaminated)
    found = raced(monkeypatch, a=Costs(1e-3), b=Costs(2e-3))
    assert found.rivals[0].comparison.change is Change.INCONCLUSIVE
    assert "differs from itself" in answer(found, found.rivals[0])


@pytest.mark.parametrize(("said", "meant"), [("faster", "slower"), ("same", "same")])
def test_the_confirmation_is_read_in_reverse(monkeypatch, said, meant):
    done = processes.Ended(0, "", f"a provider's own words\n{said}\n", "")
    monkeypatch.setattr(bench.processes, "run", lambda *a, **k: done)
    assert bench._again("b", "a", TINY, QUICK, 0.05, Limits()) is Change(meant)


def test_a_change_is_confirmed_by_a_process_of_its_own():
    one = Load(shape=(4096,))
    assert bench._again("textbook", "textbook", one, QUICK, 10.0, Limits()) is Change.SAME


def test_two_providers_in_one_run():
    measured = contest(["exact", "textbook"], TINY, QUICK, confirm=False)
    assert [arm.name for arm in measured.measured.arms] == ["exact", "A/A", "textbook", "roof"]
    assert measured.rivals[0].comparison.ratio.value > 0


def test_another_interpreter_times_itself_in_a_worker():
    worker = Remote(sys.executable, "exact", TINY)
    try:
        assert worker.time(10) > 0
        assert worker.time_empty(10) >= 0
    finally:
        worker.close()


def test_a_worker_that_prints_something_else_is_one_line(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho hello\n")
    python.chmod(0o755)
    with pytest.raises(ProviderError, match="printed 'hello', expected a time"):
        Remote(str(python), "exact", TINY)


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
        bench._contestant(name, TINY, TINY.sets())
    assert "\n" not in str(caught.value)


def test_the_values_are_the_same_in_every_process():
    first, second = TINY.call, Load(shape=(64,)).call
    assert (first.self == second.self).all()
    assert (Load(shape=(64,), seed=1).call.self != first.self).any()


def test_a_load_is_told_by_what_differs_from_its_defaults():
    cold = Load("fp16", (3, 4), None, cold=True)
    words = json.loads(json.dumps(cold.words()))
    assert words == {"dtype": "fp16", "shape": [3, 4], "threads": None, "cold": True}
    assert Load(**words) == cold


CASES = """schema: 1
cases:
  - {name: a, shape: [6], dtype: bf16, layout: {self: flipped}, kernel: {rounding: rtz}}
  - {name: b, shape: [2], dtype: fp32, expect: 161001, self: null}
"""


def test_a_case_brings_its_tensors_and_options(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    one = Load(case=str(path), name="a", threads=2)
    assert one.call.self.strides == (-2,)
    assert (one.call.options.rounding, one.call.options.threads) == ("rtz", 2)
    assert one.title() == "a, bf16, 6 elements, 2 threads, rtz, hot"
    with pytest.raises(UsageError, match="has no case 'c'"):
        _ = Load(case=str(path), name="c").call


def run(*words):
    return CliRunner(catch_exceptions=False).invoke(command, words, standalone_mode=False)


def test_the_command_measures_every_combination_and_fits_80_columns(tmp_path):
    path = tmp_path / "bench.json"
    words = ["exact", "exact", "textbook", "--no-confirm", "--budget", "0.05"]
    many = [w for n in ("7", "3x5") for w in ("--shape", n)]
    done = run(*words, *many, "--threads", "1", "--threads", "2", "--output", str(path))
    assert done.return_value == 0
    titles = [line for line in done.output.splitlines() if "elements" in line]
    assert sorted(titles) == [
        "fp32, 3x5 = 15 elements, 1 thread, rne, hot",
        "fp32, 3x5 = 15 elements, 2 threads, rne, hot",
        "fp32, 7 elements, 1 thread, rne, hot",
        "fp32, 7 elements, 2 threads, rne, hot",
    ]
    table = [line for line in done.output.splitlines() if "exact (2)  " in line]
    assert len(table) == 4
    assert max(map(len, table)) <= 80
    held = json.loads(path.read_text())
    assert len(held) == 4
    assert all(len(arm["order"]) == len(arm["seconds"]) for arm in held[0]["measured"]["arms"])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("segfaults", "died of SIGSEGV (Segmentation fault)"),
        ("hangs", "no answer within 1 s, killed"),
        ("exits_at_once", "ended with exit status 0"),
    ],
)
def test_a_contestant_that_dies_is_recorded_load_by_load(tmp_path, function, reason):
    """In this process it would take the test with it."""
    path, name = tmp_path / "bench.json", f"python:{USERS}:{function}"
    words = ["exact", name, "--budget", "0.05", "--timeout", "1", "--output", str(path)]
    done = run(*words, "--shape", "5", "--shape", "7")
    assert done.return_value == 3
    assert done.output.count(f"not measured: {name}: {reason}") == 2
    held = json.loads(path.read_text())
    assert [one["verdict"] for one in held] == ["crashed", "crashed"]
    assert {one["title"] for one in held} == {
        f"fp32, {n} elements, 1 thread, rne, hot" for n in (5, 7)
    }


def test_a_users_function_that_lives_is_measured_in_its_child(tmp_path):
    path, name = tmp_path / "bench.json", f"python:{USERS}:good"
    words = ["exact", name, "--budget", "0.05", "--no-confirm", "--output", str(path)]
    assert run(*words, "--shape", "5").return_value == 0
    (held,) = json.loads(path.read_text())
    assert held["names"] == ["exact", name]


def test_another_interpreter_that_hangs_is_ended(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '\"ready\"'\nprintf 'no whole line'\nsleep 600\n")
    python.chmod(0o755)
    worker = Remote(str(python), "exact", TINY, Limits(timeout=0.5))
    with pytest.raises(ProviderError, match=r"no answer within 0\.5 s, killed"):
        worker.time(1)
    assert worker._worker.returncode == -9
    worker.close()


def test_the_command_takes_the_tensors_of_cases(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    done = run("exact", "textbook", "--case", str(path), "--no-confirm", "--budget", "0.05")
    assert "a, bf16, 6 elements, all threads, rtz, hot" in done.output


def test_another_build_comes_first(monkeypatch):
    seen = []

    def recorded(names, *arguments, **options):
        seen.append(list(names))
        return contest(["exact", "exact"], TINY, QUICK, confirm=False)

    monkeypatch.setattr(bench, "contest", recorded)
    run("exact", "--build", "/old/python")
    assert seen == [["exact@/old/python", "exact"]]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["exact"], "found 1 contestants, expected two"),
        (["a", "b", "-k", "x"], "expected --case FILE"),
        (["a", "b", "--case", "c.yaml", "--shape", "3"], "expected no --shape"),
        (["exact", "fast", "--shape", "1", "--cold"], "cannot be timed cold"),
    ],
)
def test_bad_usage_is_one_line(words, error):
    with pytest.raises(UsageError, match=error):
        run(*words)


def test_arms_of_one_name_are_told_apart():
    assert labels(["a", "a", "b"]) == ["a", "A/A", "a (2)", "b", "roof"]
    assert labels(["a", "roof"]) == ["a", "A/A", "roof", "roof (2)"]


def test_goals_are_judged_in_their_direction():
    assert Goal("a", Ratio(1.2, 1.1, 1.3), 1.0).reached
    assert not Goal("a", Ratio(0.9, 0.8, 1.3), 1.0).reached
    assert Goal("a", Ratio(0.2, 0.1, 0.3), 0.25, "at most").reached
    missing = Goal("a / PyTorch", None, 1.0, note=suite.MISSING)
    assert missing.reached is None
    assert "not installed" in missing.line()
    assert len(Goal("a" * 37, Ratio(100.2, 100.1, 100.3), 0.25, samples=1000).line()) <= 80


@pytest.fixture
def still(monkeypatch):
    """Races that compute once and take no time; what ran is kept."""
    ran = []

    def race(mine, peers, call, plan):
        for prepared in (mine, *peers.values()):
            prepared.run()
        ran.append(mine)
        return suite._Race({name: Ratio(1, 1, 1) for name in peers}, 1, "")

    monkeypatch.setattr(suite, "_race", race)
    monkeypatch.setattr(suite, "LARGE", 1 << 10)
    monkeypatch.setattr(suite, "SIDE", 1 << 5)
    return ran


def test_the_suite_says_every_goal_and_keeps_it(still, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "_seconds", lambda words, times: Ratio(0.2, 0.1, 0.3))
    lines = []
    goals = suite.run_suite(lines.append, QUICK, output=tmp_path / "bench.json")
    held = json.loads((tmp_path / "bench.json").read_text())
    assert [goal["what"] for goal in held["goals"]] == [goal.what for goal in goals]
    measured = {goal.what for goal in goals if goal.found}
    assert {"fast bf16 / roof", "exact fp16 sr / rne", "a call on one element, us"} <= measured
    assert len(goals) == 9 + 1 + 6 + 18 + 3
    assert lines[-1].endswith("measured goals met")
    assert all(
        goal.note == suite.MISSING for goal in goals if "PyTorch" in goal.what and not goal.found
    )


def test_layouts_of_the_goals_hold_the_same_values():
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    laid = suite._strided(square)
    assert (laid["transposed"] == square.T).all()
    assert (laid["every second"] == square).all()
    assert (laid["expanded"] == square[0]).all()
    strides = {name: array.strides for name, array in laid.items()}
    assert strides == {"transposed": (4, 16), "every second": (32, 8), "expanded": (0, 4)}


def test_a_command_that_fails_is_not_timed():
    with pytest.raises(suite.LsbenchError, match="ended with 1: AssertionError"):
        suite._seconds([sys.executable, "-c", "assert False"], 1)
