"""Is B faster than A?  Providers, or builds of one, interleaved in one run.

A contestant is a provider name, or ``NAME@PYTHON``: the provider NAME of the lsbench that another
Python interpreter has installed (:mod:`lsbench.builds`). The first one is what the others are
compared with. A change counts when its interval clears the tolerance and the A/A floor, in a run
that nothing disturbed, and when a second run, in a fresh process and with the order reversed, says
the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

from lsbench.builds import Remote, last_line
from lsbench.errors import ProviderError
from lsbench.load import Load, prepare
from lsbench.providers import processes
from lsbench.providers.base import Prepared
from lsbench.providers.isolation import START, Limits
from lsbench.records import Ratio, Throughput
from lsbench.rotation import Sets
from lsbench.statistics import Change, Comparison, half_width, judge, ratio
from lsbench.throughput import Plan, measure_arms

LEAST_BLOCKS = 20
"""Blocks of a contest: with fewer, a slowdown of a tenth is missed once in twenty times or more."""


@dataclass(frozen=True)
class Rival:
    """A contestant compared with the first one."""

    name: str
    comparison: Comparison
    """Its time over the first one's."""
    confirmed: bool | None = None
    """Whether a fresh process in reversed order says the same; None where nothing changed."""


@dataclass(frozen=True)
class Contest:
    """Contestants measured on one load, and what came of it."""

    title: str
    """The load in words."""
    names: tuple[str, ...]
    elements: int
    measured: Throughput
    """The first contestant, then A/A, the others, and the roof."""
    floor: float
    """How far the A/A interval reaches from 1."""
    rivals: tuple[Rival, ...]


@dataclass(frozen=True)
class NotRun:
    """A load that a contestant failed on."""

    title: str
    names: tuple[str, ...]
    verdict: str
    reason: str
    """One line that names the contestant."""


def contest(
    names: Sequence[str],
    load: Load,
    plan: Plan,
    *,
    tolerance: float = 0.05,
    confirm: bool = True,
    limits: Limits | None = None,
) -> Contest:
    """Measure contestants interleaved and judge the ratios of their times to the first one's.

    Contestants are isolated as ``limits`` say. Raises UsageError for an unknown name, ProviderError
    for a contestant that cannot run or fails.
    """
    limits = (limits or Limits()).among(len(names))
    measured = _measure(names, load, replace(plan, least=max(plan.least, LEAST_BLOCKS)), limits)
    arms = measured.arms
    floor = half_width(measured.noise)
    rivals = []
    for name, arm in zip(names[1:], arms[2:-1], strict=True):
        times = ratio(arm, arms[0])
        assert times is not None
        comparison = judge(times, tolerance, floor)
        if "contaminated" in measured.flags:
            comparison = replace(comparison, change=Change.INCONCLUSIVE)
        confirmed = None
        if confirm and comparison.change in MIRRORED:
            again = _again(name, names[0], load, plan, tolerance, limits)
            confirmed = again is comparison.change
        rivals.append(Rival(name, comparison, confirmed))
    elements = load.call.self.size
    return Contest(load.title(), tuple(names), elements, measured, floor, tuple(rivals))


def _measure(names: Sequence[str], load: Load, plan: Plan, limits: Limits) -> Throughput:
    sets = load.sets()
    with ExitStack() as held:
        arms = []
        for name in names:
            arms.append((name, _contestant(name, load, sets, limits)))
            held.callback(arms[-1][1].close)
        return measure_arms(arms, sets, plan)


def _contestant(name: str, load: Load, sets: Sets, limits: Limits | None = None) -> Prepared:
    provider, _, interpreter = name.partition("@")
    if interpreter:
        return Remote(interpreter, provider, load, limits)
    return prepare(name, load, sets, limits)


CONFIRMATION = 3
"""Times its budget and its starts that the run which confirms may take."""

MIRRORED = {Change.FASTER: Change.SLOWER, Change.SLOWER: Change.FASTER}

_AGAIN = """
import json, sys
from lsbench.bench import contest
from lsbench.load import Load
from lsbench.providers.isolation import Limits
from lsbench.throughput import Plan
names, load, budget, seed, tolerance, limits = json.loads(sys.argv[1])
plan, limits = Plan(budget=budget, seed=seed), Limits(**limits)
found = contest(names, Load(**load), plan, tolerance=tolerance, confirm=False, limits=limits)
print(found.rivals[0].comparison.change)
"""


def _again(
    first: str, second: str, load: Load, plan: Plan, tolerance: float, limits: Limits
) -> Change:
    """The contest in a fresh process with the order reversed, as a change of the first."""
    names, seed = [first, second], plan.seed + 1
    words = json.dumps([names, load.words(), plan.budget, seed, tolerance, asdict(limits)])
    command = [sys.executable, "-P", "-c", _AGAIN, words]
    # It holds its contestants to the limits itself; what it takes to start them is on top.
    longest = CONFIRMATION * (plan.budget + START + limits.timeout)
    done = processes.run(command, timeout=longest, output=True)
    if done.killed or done.status:
        why = done.killed or f"{processes.how_it_ended(done.status)}: {last_line(done.errors)}"
        raise ProviderError(f"the run that confirms {why}")
    change = Change(last_line(done.output))
    return MIRRORED.get(change, change)


def speed(rival: Rival) -> Ratio:
    """A rival's speed over the first one's, the reciprocal of the ratio of times."""
    times = rival.comparison.ratio
    return Ratio(1 / times.value, 1 / times.high, 1 / times.low)


def answer(found: Contest, rival: Rival) -> str:
    """The answer in one sentence.

    Names the change, the ratio with its interval, and where nothing was found the smallest change
    that this run could have seen.
    """
    first, second = found.names[0], rival.name
    faster, change = speed(rival), rival.comparison.change
    figures = f"{faster.value:.3f} × the speed of {first} ({faster.low:.3f} to {faster.high:.3f})"
    if change is Change.SAME:
        return f"{second} is as fast as {first}: {figures}"
    if "contaminated" in found.measured.flags:
        return f"inconclusive: {second} has {figures}, but {first} differs from itself"
    if change is Change.INCONCLUSIVE:
        smallest = 100 * rival.comparison.smallest
        return f"inconclusive: {second} has {figures}; visible from {smallest:.1f} % up"
    if rival.confirmed is False:
        return f"inconclusive: {second} has {figures}, but a fresh run in reverse does not say so"
    return f"{second} is {change} than {first}: {figures}"


def labels(names: Sequence[str]) -> list[str]:
    """Names of the arms that differ, so that a table can tell A from A."""
    seen: dict[str, int] = {}
    made = []
    for name in (names[0], "A/A", *names[1:], "roof"):
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made
