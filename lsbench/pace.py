"""Whether a recorded time changed: an interval, a noise floor, and three honest verdicts.

Two recordings of one provider are compared block by block, in the order taken, as logarithms of
times. On one machine that is the paired ratio of times; between machines it is the ratio of the
times' shares of each run's own measured roof. The median of the block ratios gets a bootstrap
interval over blocks.

A change counts only where its interval clears the threshold and its median exceeds the noise floor,
which the A/A arms of both runs show: a run that cannot tell a provider from itself to 3 % cannot
tell a change of 3 %. Where the roof of one machine moved as well, the machine changed, not the
code: then the share of the roof must say the same, or nothing is concluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lsbench.records import Arm, Ratio, Throughput

Verdict = Literal["slower", "faster", "same", "noise", "inconclusive", "unstable"]

RESAMPLES = 2000
LEVEL = 0.99
"""Coverage of the interval."""
SEED = 20260101
"""Of the resampling: a comparison of the same two files always says the same."""
FEWEST_BLOCKS = 5
"""With fewer blocks than this a bootstrap interval means nothing."""

What = Literal["time", "roof", "share"]
Logs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pace:
    """How a time changed."""

    verdict: Verdict
    ratio: Ratio | None
    """New time over old, 1.1 is 10 % slower; None where there are too few samples."""
    floor: float
    """The share that the A/A arms differ by: changes below it are not seen."""
    words: str
    """The verdict in one line."""


def compare(
    before: Throughput, after: Throughput, *, same_machine: bool, threshold: float = 0.05
) -> Pace:
    """Compare two recordings; ``threshold`` is the share by which a time must change to count."""
    floor = max(_floor(before), _floor(after))
    if {"unstable", "contaminated"} & {*before.flags, *after.flags}:
        which = ", ".join(sorted({*before.flags, *after.flags} & {"unstable", "contaminated"}))
        return Pace(
            "unstable", None, floor, f"unstable: the timing is {which}, nothing to conclude"
        )
    ratio = _between(before, after, "time" if same_machine else "share")
    if ratio is None:
        why = "too few samples" if same_machine else "no roof to compare the machines by"
        return Pace("inconclusive", None, floor, f"inconclusive: {why}")
    found = _verdict(ratio, floor, threshold)
    if same_machine and found.verdict in ("slower", "faster"):
        roof = _between(before, after, "roof")
        if roof is not None and _moved(roof, threshold / 2):
            return _with_moved_roof(found, _between(before, after, "share"), roof, threshold)
    return found


def _with_moved_roof(found: Pace, share: Ratio | None, roof: Ratio, threshold: float) -> Pace:
    beside = _verdict(share, found.floor, threshold).verdict if share else None
    if beside == found.verdict:
        return found
    moved = f"the roof moved by {_percent(roof.value)}, so the machine changed"
    return replace(found, verdict="inconclusive", words=f"inconclusive: {found.words}, but {moved}")


def _verdict(ratio: Ratio, floor: float, threshold: float) -> Pace:
    upper, lower = 1 + threshold, 1 / (1 + threshold)
    said = f"{_percent(ratio.value)} [{_percent(ratio.low)}, {_percent(ratio.high)}]"
    if _moved(ratio, threshold):
        if abs(math.log(ratio.value)) <= math.log1p(floor):
            return Pace(
                "noise", ratio, floor, f"noise: {said}, A/A alone differs by {100 * floor:.1f} %"
            )
        verdict: Verdict = "slower" if ratio.value > 1 else "faster"
        return Pace(verdict, ratio, floor, f"{verdict}: {said}")
    if lower <= ratio.low and ratio.high <= upper:
        return Pace("same", ratio, floor, f"same: {said}")
    smallest = max(ratio.high / ratio.value, ratio.value / ratio.low) * (1 + threshold) - 1
    seen = f"the smallest change this could show is {100 * smallest:.0f} %"
    return Pace("inconclusive", ratio, floor, f"inconclusive: {said}, {seen}")


def _moved(ratio: Ratio, threshold: float) -> bool:
    return ratio.low > 1 + threshold or ratio.high < 1 / (1 + threshold)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _floor(timed: Throughput) -> float:
    """The share by which a provider differs from itself, at the far end of the A/A interval."""
    if timed.noise is None:
        return 0.0
    return max(timed.noise.high, 1 / timed.noise.low) - 1


def _between(before: Throughput, after: Throughput, what: What) -> Ratio | None:
    """The median ratio after / before over blocks, with its bootstrap interval."""
    a, b = _logs(before, what), _logs(after, what)
    n = min(a.size, b.size)
    return _bootstrap(b[:n] - a[:n]) if n >= FEWEST_BLOCKS else None


def _logs(timed: Throughput, what: What) -> Logs:
    """Mean logarithm by block of the provider's time, the roof's, or the first over the second."""
    own = _by_block(timed.arms[0])
    roofs = (_by_block(arm) for arm in timed.arms[1:] if arm.name == "roof")
    roof = next(roofs, {})
    logs = {
        "time": own,
        "roof": roof,
        "share": {b: own[b] - roof[b] for b in own if b in roof},
    }[what]
    return np.array([logs[b] for b in sorted(logs)])


def _by_block(arm: Arm) -> dict[int, float]:
    logs: dict[int, list[float]] = {}
    for block, seconds in zip(arm.blocks, arm.seconds, strict=True):
        logs.setdefault(block, []).append(math.log(seconds))
    return {block: math.fsum(values) / len(values) for block, values in logs.items()}


def _bootstrap(logs: Logs) -> Ratio:
    generator = np.random.default_rng(SEED)
    picks = generator.integers(0, logs.size, (RESAMPLES, logs.size))
    medians: Any = np.median(logs[picks], axis=1)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Ratio(math.exp(np.median(logs)), math.exp(low), math.exp(high))
