"""Whether a recorded time changed between two runs.

Two recordings of one provider are compared block by block, in the order taken. On one machine that
is the ratio of times; between machines it is the ratio of their shares of each run's own measured
roof. The interval, the noise floor and the verdict are those of :mod:`lsbench.statistics`.

A change that clears the threshold but not the noise floor is called noise: a run that cannot tell
a provider from itself to 3 % cannot tell a change of 3 %. Where the roof of one machine moved as
well, the machine changed, not the code: then the shares of the roof must say the same, or nothing
is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lsbench import statistics
from lsbench.records import Arm, Ratio, Throughput
from lsbench.statistics import Change, Doubles

Verdict = Literal["slower", "faster", "same", "noise", "inconclusive", "unstable"]
What = Literal["time", "roof", "share"]

FEWEST_BLOCKS = 5
"""With fewer blocks than this a bootstrap interval means nothing."""
CONFIDENCE = 0.95
"""Of the interval. The threshold keeps false alarms away: by chance, identical runs would have to
differ by all of it. A wider interval would only miss more slowdowns."""
UNSTABLE = frozenset({"unstable", "contaminated"})
"""Flags of a measurement from which nothing is concluded."""


@dataclass(frozen=True)
class Pace:
    """How a time changed."""

    verdict: Verdict
    ratio: Ratio | None
    """New time over old, 1.1 is 10 % slower; None where there are too few samples."""
    words: str
    """The verdict in one line."""


def compare(
    before: Throughput, after: Throughput, *, same_machine: bool, threshold: float = 0.05
) -> Pace:
    """Compare two recordings; ``threshold`` is the share by which a time must change to count."""
    flags = UNSTABLE & {*before.flags, *after.flags}
    if flags:
        words = f"unstable: the timing is {', '.join(sorted(flags))}, nothing to conclude"
        return Pace("unstable", None, words)
    if (before.state, before.threads) != (after.state, after.threads):
        states = [f"{t.state} on {t.threads} threads" for t in (before, after)]
        return Pace("inconclusive", None, f"inconclusive: {states[0]} against {states[1]}")
    ratio = _between(before, after, "time" if same_machine else "share")
    if ratio is None:
        why = "too few samples" if same_machine else "too few samples beside a roof"
        return Pace("inconclusive", None, f"inconclusive: {why}")
    floor = max(statistics.half_width(timed.noise) for timed in (before, after))
    found = _judged(ratio, threshold, floor)
    if same_machine and found.verdict in ("slower", "faster"):
        roof = _between(before, after, "roof")
        if roof is not None and _moved(roof, threshold / 2):
            share = _between(before, after, "share")
            beside = _judged(share, threshold, floor) if share is not None else None
            return _with_moved_roof(found, roof, beside)
    return found


def _with_moved_roof(found: Pace, roof: Ratio, share: Pace | None) -> Pace:
    if share is not None and share.verdict == found.verdict:
        return found
    moved = f"the roof moved by {_percent(roof.value)}, so the machine changed"
    return replace(found, verdict="inconclusive", words=f"inconclusive: {found.words}, but {moved}")


def _judged(ratio: Ratio, threshold: float, floor: float) -> Pace:
    said = f"{_percent(ratio.value)} [{_percent(ratio.low)}, {_percent(ratio.high)}]"
    found = statistics.judge(ratio, threshold, floor)
    if found.change == Change.SLOWER:
        return Pace("slower", ratio, f"slower: {said}")
    if found.change == Change.FASTER:
        return Pace("faster", ratio, f"faster: {said}")
    if _moved(ratio, threshold):
        return Pace("noise", ratio, f"noise: {said}, A/A alone differs by {100 * floor:.1f} %")
    if found.change == Change.SAME:
        return Pace("same", ratio, f"same: {said}")
    seen = f"the smallest change this could show is {100 * found.smallest:.0f} %"
    return Pace("inconclusive", ratio, f"inconclusive: {said}, {seen}")


def _moved(ratio: Ratio, threshold: float) -> bool:
    return statistics.judge(ratio, threshold).change in (Change.SLOWER, Change.FASTER)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _between(before: Throughput, after: Throughput, what: What) -> Ratio | None:
    """The median ratio after / before over blocks, with its interval; None for too few blocks."""
    a, b = _blocks(before, what), _blocks(after, what)
    if a is None or b is None or min(a.size, b.size) < FEWEST_BLOCKS:
        return None
    n = min(a.size, b.size)
    return statistics.interval(b[:n] / a[:n], CONFIDENCE)


def _blocks(timed: Throughput, what: What) -> Doubles | None:
    """Per block: the provider's seconds, the roof's, or the first over the second."""
    own, roof = timed.arms[0], _roof(timed)
    if what == "time":
        return statistics.per_block(own)
    if roof is None:
        return None
    return statistics.per_block(roof) if what == "roof" else statistics.paired(own, roof)


def _roof(timed: Throughput) -> Arm | None:
    return next((arm for arm in timed.arms[1:] if arm.name == "roof"), None)
