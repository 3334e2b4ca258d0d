"""Time, told honestly on a shared machine.

All arms of a measurement are sampled in one interleaved run: the provider, the same provider again
(A/A: what this run sees where nothing differs), the bandwidth roof, and peers. A block takes every
arm twice, there and back (A B C C B A), starting at either end by the seed; the loop count is
calibrated once and frozen. Ratios are taken block by block. The run stops when the interval of the
ratio is narrow enough, or at its budget, and says which. Times are those of the provider's own
clock (compiled loops, device events); nothing is drawn, nothing is collected inside a block.

Two states: hot, where every run finds its tensors where the last one left them, and cold, where
every run takes other tensors (:mod:`lsbench.rotation`).
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from lsbench import _kernels
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.kernels import usable_processors
from lsbench.records import Arm, Ratio, Throughput
from lsbench.rotation import Sets
from lsbench.statistics import ratio, summarise

UNSTABLE_IQR = 0.15
"""Interquartile range over median above which a measurement is marked unstable."""
CONTAMINATED = 0.05
"""A/A bias, whole interval beyond it, above which a run is marked contaminated."""
MOST_LOOPS = 1 << 24
"""Calls of a sample at most, whatever the clock says."""
ABOVE_ROOF = 1.05
"""A share of the roof above it means an error of units, or a roof of another cache level."""


@dataclass(frozen=True)
class Plan:
    """How long and how narrow."""

    budget: float = 0.25
    """Seconds for all arms together, warm-up and calibration included."""
    sample: float = 0.004
    """Seconds of one sample, 2 to 10 ms; shorter where the budget would not hold five blocks."""
    width: float = 0.02
    """Half-width of the ratio's interval at which sampling ends."""
    least: int = 10
    """Blocks taken whatever the budget."""
    most: int = 400
    """Blocks taken at most."""
    seed: int = 0
    warm: float = 0.1
    """Share of the budget that warms up: processor clocks, caches, pages, compilers."""
    clock: Callable[[], float] = time.perf_counter
    """For tests: what tells the budget."""
    tell: Callable[[float], object] = lambda share: None
    """Told, between blocks, which share of the budget is spent."""


@dataclass(frozen=True)
class Work:
    """What one call does, for the units."""

    elements: int
    bytes: int
    """Logical traffic: read g, read x, write y."""
    threads: int
    state: str = "hot"


def measure(
    arms: Sequence[tuple[str, Prepared]], work: Work, plan: Plan, *, roof: str = "roof"
) -> Throughput:
    """Sample the arms interleaved and report the first one; the others are its peers.

    An A/A arm of the first is added. The arm named ``roof``, if there is one, gives ``of_roof``.
    """
    named = [arms[0], ("A/A", arms[0][1]), *arms[1:]]
    start = plan.clock()
    with quiet():
        _warm_up(named, plan)
        loops = _calibrate(named, plan)
        samples = _sample(named, loops, plan, start)
        empty = arms[0][1].time_empty(1000) / 1000
    taken = [samples.arm(i, name, loops) for i, (name, _) in enumerate(named)]
    return _report(taken, work, samples.stopped, empty, roof)


@contextmanager
def quiet() -> Iterator[None]:
    """The garbage collector off, and as it was afterwards."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _warm_up(arms: Sequence[tuple[str, Prepared]], plan: Plan) -> None:
    """Run every arm in turn, once at least, for a while: first passes are not to be told."""
    spent, loops = 0.0, 1
    while loops == 1 or (spent < plan.warm * plan.budget and loops < MOST_LOOPS):
        spent += sum(prepared.time(loops) for _, prepared in arms)
        loops *= 2


def _calibrate(arms: Sequence[tuple[str, Prepared]], plan: Plan) -> int:
    """Find the loop count of a sample of the first arm, one for all arms."""
    blocks_that_fit = plan.budget / (2 * len(arms) * plan.least * 1.5)
    wanted = min(plan.sample, blocks_that_fit)
    loops, took = 1, arms[0][1].time(1)
    while took < wanted / 4 and loops < MOST_LOOPS:
        loops *= 4
        took = arms[0][1].time(loops)
    return max(1, round(loops * wanted / took)) if took > 0 else loops


class _Samples:
    """Seconds per call as they are taken."""

    def __init__(self, arms: int) -> None:
        self.seconds: list[list[float]] = [[] for _ in range(arms)]
        self.blocks: list[list[int]] = [[] for _ in range(arms)]
        self.order: list[list[int]] = [[] for _ in range(arms)]
        self.stopped = "budget"
        self._taken = 0

    def add(self, arm: int, block: int, seconds: float) -> None:
        """Take in the next sample."""
        self.seconds[arm].append(seconds)
        self.blocks[arm].append(block)
        self.order[arm].append(self._taken)
        self._taken += 1

    def arm(self, arm: int, name: str, loops: int) -> Arm:
        """The samples of one arm so far."""
        return summarise(name, self.seconds[arm], self.blocks[arm], loops, self.order[arm])


def _sample(arms: Sequence[tuple[str, Prepared]], loops: int, plan: Plan, start: float) -> _Samples:
    draw = random.Random(plan.seed)
    samples = _Samples(len(arms))
    for block in range(plan.most):
        order = list(range(len(arms)))
        if draw.random() < 0.5:
            order.reverse()
        for i in (*order, *reversed(order)):
            samples.add(i, block, arms[i][1].time(loops) / loops)
        spent = plan.clock() - start
        plan.tell(min(spent / plan.budget, 1.0))
        if block + 1 < plan.least:
            continue
        if spent > plan.budget:
            break
        if block % 4 == 3 and _narrow(samples, loops, plan):
            samples.stopped = "width"
            break
    return samples


def _narrow(samples: _Samples, loops: int, plan: Plan) -> bool:
    first, *others = (samples.arm(i, str(i), loops) for i in range(len(samples.seconds)))
    found = [ratio(other, first) for other in others]
    return all(r is not None and r.high - r.low <= 2 * plan.width * r.value for r in found)


def _report(arms: list[Arm], work: Work, stopped: str, empty: float, roof: str) -> Throughput:
    mine, again = arms[0], arms[1]
    roofs = [arm for arm in arms if arm.name == roof]
    of_roof = ratio(roofs[0], mine) if roofs else None
    noise = ratio(again, mine)
    return Throughput(
        state=work.state,
        threads=work.threads,
        bytes_per_call=work.bytes,
        arms=tuple(arms),
        gb_per_s=work.bytes / mine.median * 1e-9,
        gelem_per_s=work.elements / mine.median * 1e-9,
        of_roof=of_roof,
        noise=noise,
        empty_call=empty,
        stopped=stopped,
        flags=_flags(mine, noise, of_roof),
    )


def _flags(mine: Arm, noise: Ratio | None, of_roof: Ratio | None) -> tuple[str, ...]:
    flags = []
    if mine.iqr > UNSTABLE_IQR * mine.median:
        flags.append("unstable")
    if noise and (noise.low > 1 + CONTAMINATED or noise.high < 1 - CONTAMINATED):
        flags.append("contaminated")
    if of_roof and of_roof.low > ABOVE_ROOF:
        flags.append("above-roof")
    return tuple(flags)


class Roof(Prepared):
    """Reads two streams and writes a third of the call's sizes; same driver, same threads."""

    def __init__(self, call: Call, threads: int) -> None:
        shape, kind = call.self.shape, call.fmt.bits_dtype
        arrays = (call.grad_output, call.self)
        held = [call.fmt.pattern(np.ascontiguousarray(a)) for a in arrays]
        self._arguments = (*held, np.empty(shape, kind), call.options.block or 0, threads)
        self._blocks = _kernels.load()

    def run(self) -> None:
        """One pass."""
        self.time(1)

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` passes take, measured in compiled code."""
        return float(self._blocks.roof(*self._arguments, loops)) * 1e-9


def measure_row(provider: Provider, prepared: Prepared, sets: Sets, plan: Plan) -> Throughput:
    """Time one provider beside its A/A arm and the roof; ``prepared`` serves if caches are hot."""
    if not sets.cold:
        return measure_arms([(provider.name, prepared)], sets, plan)
    with closing(sets.prepare(provider.prepare)) as rotating:
        return measure_arms([(provider.name, rotating)], sets, plan)


def measure_arms(arms: Sequence[tuple[str, Prepared]], sets: Sets, plan: Plan) -> Throughput:
    """Time computations of one call's sizes beside the roof; the first one is reported."""
    call = sets.calls[0]
    threads = call.options.threads or usable_processors()
    state = "cold" if sets.cold else "hot"
    work = Work(call.self.size, 3 * call.self.size * call.fmt.itemsize, threads, state)
    roof = sets.prepare(lambda one: Roof(one, threads))
    return measure([*arms, ("roof", roof)], work, plan)
