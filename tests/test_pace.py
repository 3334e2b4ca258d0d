"""Verdicts on time: both error rates on simulated noise, and honesty where nothing can be said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import THROUGHPUT, arm

from lsbench import pace
from lsbench.records import Ratio

BLOCKS = 20
"""ABBA blocks of a default measurement; each holds two samples of every arm."""
FEW = 10
"""Blocks of one that slow calls or a busy machine cut short."""
NOISE = 0.03
TRIALS = 1000


def recorded(rng, *, time=1e-6, roof=0.5e-6, noise=NOISE, blocks=BLOCKS, **changes):
    """A throughput record with lognormal noise of the given share."""

    def samples(median):
        return median * np.exp(noise * rng.standard_normal(2 * blocks))

    arms = (arm("fast", *samples(time)), arm("A/A", *samples(time)), arm("roof", *samples(roof)))
    return replace(THROUGHPUT, arms=arms, noise=Ratio(1.0, 0.98, 1.02), **changes)


@pytest.mark.parametrize(
    ("same_machine", "blocks", "threshold"),
    [(True, FEW, 0.05), (True, BLOCKS, 0.02), (False, FEW, 0.05)],
)
def test_identical_distributions_raise_an_alarm_in_one_trial_of_a_hundred_at_most(
    same_machine, blocks, threshold
):
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(TRIALS):
        a, b = recorded(rng, blocks=blocks), recorded(rng, blocks=blocks)
        found = pace.compare(a, b, same_machine=same_machine, threshold=threshold)
        alarms += found.verdict in ("slower", "faster")
    assert alarms <= TRIALS // 100


@pytest.mark.parametrize(("same_machine", "blocks"), [(True, FEW), (False, BLOCKS)])
def test_a_true_slowdown_of_a_tenth_is_detected_in_95_trials_of_a_hundred(same_machine, blocks):
    rng = np.random.default_rng(2)
    detected = 0
    for _ in range(TRIALS):
        a, b = recorded(rng, blocks=blocks), recorded(rng, time=1.1e-6, blocks=blocks)
        detected += pace.compare(a, b, same_machine=same_machine).verdict == "slower"
    assert detected >= 0.95 * TRIALS


def quiet(**changes):
    return recorded(np.random.default_rng(3), noise=0.002, **changes)


def verdict(before, after, **options):
    return pace.compare(before, after, **{"same_machine": True, **options})


def test_the_direction_and_the_size_are_right():
    slower = verdict(quiet(), quiet(time=1.2e-6))
    assert slower.verdict == "slower"
    assert slower.ratio.value == pytest.approx(1.2, rel=0.01)
    assert slower.ratio.low < 1.2 < slower.ratio.high or slower.ratio.low == pytest.approx(1.2)
    assert verdict(quiet(), quiet(time=0.8e-6)).verdict == "faster"
    assert verdict(quiet(), quiet()).verdict == "same"


def test_a_change_below_the_threshold_is_no_change():
    assert verdict(quiet(), quiet(time=1.04e-6)).verdict == "same"
    assert verdict(quiet(), quiet(time=1.04e-6), threshold=0.01).verdict == "slower"


def test_a_change_that_the_aa_arm_shows_too_is_noise():
    loud = replace(quiet(time=1.1e-6), noise=Ratio(1.0, 0.85, 1.12))
    found = verdict(quiet(), loud)
    assert found.verdict == "noise"
    assert "A/A alone differs by 15.0 %" in found.words


@pytest.mark.parametrize("flag", ["unstable", "contaminated"])
def test_an_unstable_measurement_is_called_so_and_never_a_regression(flag):
    found = verdict(quiet(), quiet(time=3e-6, flags=(flag,)))
    assert found.verdict == "unstable"
    assert flag in found.words
    assert verdict(quiet(flags=(flag,)), quiet()).verdict == "unstable"


def test_too_much_noise_is_inconclusive_and_says_what_could_have_been_seen():
    rng = np.random.default_rng(4)
    found = verdict(recorded(rng, noise=0.5), recorded(rng, noise=0.5))
    assert found.verdict == "inconclusive"
    assert "the smallest change this could show is" in found.words


@pytest.mark.parametrize("changes", [{"threads": 1}, {"state": "cold"}])
def test_times_of_another_state_or_thread_count_are_not_compared(changes):
    found = verdict(quiet(), quiet(time=2e-6, **changes))
    assert found.verdict == "inconclusive"
    assert found.words.startswith("inconclusive: hot on 2 threads against ")


def test_too_few_blocks_are_inconclusive():
    found = verdict(quiet(blocks=4), quiet(blocks=4, time=2e-6))
    assert found.verdict == "inconclusive"
    assert "too few samples" in found.words


def test_other_machines_are_compared_by_their_roofs():
    twice_as_fast = quiet(time=0.5e-6, roof=0.25e-6)
    assert verdict(quiet(), twice_as_fast, same_machine=False).verdict == "same"
    slower = quiet(time=0.6e-6, roof=0.25e-6)
    assert verdict(quiet(), slower, same_machine=False).verdict == "slower"


def test_without_a_roof_other_machines_cannot_be_compared():
    alone = replace(quiet(), arms=quiet().arms[:2])
    found = verdict(alone, quiet(), same_machine=False)
    assert found.verdict == "inconclusive"
    assert "beside a roof" in found.words


def test_a_slowdown_that_the_roof_shares_is_the_machine_s():
    found = verdict(quiet(), quiet(time=1.2e-6, roof=0.6e-6))
    assert found.verdict == "inconclusive"
    assert "the roof moved by +20.0 %" in found.words
    both = verdict(quiet(), quiet(time=1.5e-6, roof=0.6e-6))
    assert both.verdict == "slower"


def test_the_same_files_always_get_the_same_verdict():
    rng = np.random.default_rng(5)
    a, b = recorded(rng), recorded(rng, time=1.06e-6)
    assert verdict(a, b) == verdict(a, b)
