"""Statistics of timings: paired ratios, bootstrap intervals, and three verdicts. Pure functions.

Shared machines drift by tens of per cent within a minute, so that nothing here compares two medians
of different times. Arms are sampled in blocks; the unit is the ratio inside a block, which the
drift leaves alone, and its uncertainty comes from resampling blocks (Efron 1979, percentile
interval of the median).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lsbench.records import Arm, Ratio

RESAMPLES = 1000
CONFIDENCE = 0.99
SEED = 20260101

Doubles = npt.NDArray[np.float64]


def per_block(arm: Arm) -> Doubles:
    """Mean seconds per call of each block, in the order of the blocks."""
    seconds, blocks = np.asarray(arm.seconds), np.asarray(arm.blocks)
    return np.array([seconds[blocks == block].mean() for block in np.unique(blocks)])


def paired(numerator: Arm, denominator: Arm) -> Doubles:
    """Ratios of seconds, block by block; blocks that only one of the two has are left out.

    >>> a = Arm("a", (2.0, 2.0, 4.0), (0, 0, 1), 1, 2.0, 2.0, 0.0)
    >>> b = Arm("b", (1.0, 1.0, 2.0), (0, 0, 1), 1, 1.0, 1.0, 0.0)
    >>> paired(a, b).tolist()
    [2.0, 2.0]
    """
    common = sorted(set(numerator.blocks) & set(denominator.blocks))
    if not common:
        return np.empty(0)
    keep = [np.isin(np.unique(arm.blocks), common) for arm in (numerator, denominator)]
    result: Doubles = per_block(numerator)[keep[0]] / per_block(denominator)[keep[1]]
    return result


def interval(values: Doubles, confidence: float = CONFIDENCE) -> Ratio:
    """The median of the values with its bootstrap interval, reproducible to the bit."""
    draw = np.random.default_rng(SEED)
    picks = draw.integers(0, values.size, (RESAMPLES, values.size))
    medians = np.median(values[picks], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Ratio(float(np.median(values)), float(low), float(high))


def ratio(numerator: Arm, denominator: Arm, confidence: float = CONFIDENCE) -> Ratio | None:
    """The paired ratio of two arms' seconds; None without a common block."""
    values = paired(numerator, denominator)
    return interval(values, confidence) if values.size else None


class Change(StrEnum):
    """What a comparison of two speeds comes to."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Comparison:
    """A verdict on a change of time, with what it rests on."""

    change: Change
    ratio: Ratio
    """New seconds over old seconds: above 1 is slower."""
    smallest: float
    """The smallest relative change that this measurement could have told from none."""


def judge(ratio: Ratio, tolerance: float, floor: float = 0.0) -> Comparison:
    """Three verdicts on new/old seconds.

    Changed: the whole interval lies beyond ``tolerance`` (0.05 is 5 %) and beyond ``floor``, the
    half-width of the A/A interval. Same: the whole interval lies within ``tolerance``. Anything
    else is inconclusive, what the floor hides included.
    """
    bound = max(tolerance, floor)
    smallest = max(bound, ratio.high - ratio.value, ratio.value - ratio.low)
    if ratio.low > 1 + bound:
        return Comparison(Change.SLOWER, ratio, smallest)
    if ratio.high < 1 / (1 + bound):
        return Comparison(Change.FASTER, ratio, smallest)
    within = ratio.low >= 1 / (1 + tolerance) and ratio.high <= 1 + tolerance
    return Comparison(Change.SAME if within else Change.INCONCLUSIVE, ratio, smallest)


def unpaired(new: Sequence[float], old: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """The ratio of medians of two samples that no block ties together, with its interval."""
    draw = np.random.default_rng(SEED)
    medians = []
    for values in map(np.asarray, (new, old)):
        picks = draw.integers(0, values.size, (RESAMPLES, values.size))
        medians.append(np.median(values[picks], axis=1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians[0] / medians[1], [tail, 1 - tail])
    return Ratio(float(np.median(new) / np.median(old)), float(low), float(high))


def half_width(noise: Ratio | None) -> float:
    """How far an A/A interval reaches from 1: the noise floor; 0 without one."""
    return max(abs(noise.high - 1), abs(noise.low - 1)) if noise else 0.0


def summarise(
    name: str,
    seconds: Sequence[float],
    blocks: Sequence[int],
    loops: int,
    order: Sequence[int] = (),
) -> Arm:
    """An arm from its samples: seconds per call, the block and the turn each was taken in."""
    values = np.asarray(seconds)
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    return Arm(
        name,
        tuple(map(float, values)),
        tuple(blocks),
        loops,
        float(median),
        float(values.min()),
        float(q3 - q1),
        tuple(order),
    )
