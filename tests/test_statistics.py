"""The verdicts on speed: their error rates on simulated noise."""

from __future__ import annotations

import numpy as np
import pytest

from lsbench.bench import LEAST_BLOCKS
from lsbench.records import Ratio
from lsbench.statistics import (
    Change,
    half_width,
    interval,
    judge,
    paired,
    ratio,
    summarise,
    unpaired,
)

BLOCKS = LEAST_BLOCKS


def arms(draw, slowdown=1.0, noise=0.03, drift=0.3):
    """Two arms in ABBA blocks on a machine that drifts; the second is slower by a factor."""
    level = np.exp(np.cumsum(draw.normal(0, drift / BLOCKS**0.5, BLOCKS)))
    blocks = np.repeat(np.arange(BLOCKS), 2)
    made = []
    for name, factor in (("old", 1.0), ("new", slowdown)):
        seconds = factor * np.repeat(level, 2) * np.exp(draw.normal(0, noise, 2 * BLOCKS))
        made.append(summarise(name, seconds.tolist(), blocks.tolist(), 1))
    return made


def verdict(draw, slowdown):
    old, new = arms(draw, slowdown)
    return judge(ratio(new, old), tolerance=0.05).change


def test_at_most_one_false_alarm_in_a_hundred():
    draw = np.random.default_rng(5)
    alarms = sum(verdict(draw, 1.0) in (Change.SLOWER, Change.FASTER) for _ in range(1000))
    assert alarms <= 10


def test_a_true_slowdown_of_ten_per_cent_is_found():
    draw = np.random.default_rng(6)
    found = sum(verdict(draw, 1.10) is Change.SLOWER for _ in range(1000))
    assert found >= 950


def test_identical_arms_are_called_the_same():
    draw = np.random.default_rng(7)
    assert sum(verdict(draw, 1.0) is Change.SAME for _ in range(200)) >= 190


def test_noise_beyond_the_tolerance_is_inconclusive():
    draw = np.random.default_rng(8)
    old, new = arms(draw, 1.1, noise=0.6)
    found = judge(ratio(new, old), tolerance=0.05)
    assert found.change is Change.INCONCLUSIVE
    assert found.smallest > 0.05


def test_what_the_noise_floor_hides_is_neither_changed_nor_the_same():
    slower = Ratio(1.10, 1.08, 1.12)
    assert judge(slower, 0.05).change is Change.SLOWER
    hidden = judge(slower, 0.05, floor=0.2)
    assert hidden.change is Change.INCONCLUSIVE
    assert hidden.smallest == 0.2
    assert judge(Ratio(1.0, 0.98, 1.02), 0.05, floor=0.2).change is Change.SAME
    assert half_width(Ratio(1.0, 0.9, 1.05)) == pytest.approx(0.1)
    assert half_width(None) == 0


def test_faster_is_the_mirror_of_slower():
    assert judge(Ratio(0.8, 0.78, 0.82), 0.05).change is Change.FASTER
    assert judge(Ratio(1.25, 1.2, 1.3), 0.05).change is Change.SLOWER


def test_the_interval_covers_the_median_as_often_as_it_says():
    draw = np.random.default_rng(9)
    covered = 0
    for _ in range(300):
        found = interval(draw.normal(1, 0.05, 25))
        covered += found.low <= 1 <= found.high
    assert covered >= 285


def test_pairing_uses_common_blocks_only():
    a = summarise("a", [2, 2, 6], [0, 0, 1], 1)
    b = summarise("b", [1, 1, 9], [0, 0, 2], 1)
    assert paired(a, b).tolist() == [2.0]
    assert ratio(a, summarise("c", [1.0], [7], 1)) is None


def test_unpaired_samples():
    draw = np.random.default_rng(10)
    old, new = draw.normal(1, 0.02, 60), draw.normal(1.2, 0.02, 60)
    found = unpaired(new.tolist(), old.tolist())
    assert found.low < 1.2 < found.high
    assert found.low > 1.15
