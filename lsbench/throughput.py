"""Time, told honestly on a shared machine.

All arms of a measurement are sampled in one interleaved run: the provider, the same provider again
(A/A: what this run sees where nothing differs), the bandwidth roof, and peers. A block takes every
arm twice, there and back (A B C C B A), starting at either end by the seed; the loop count is
calibrated once and frozen. Ratios are taken block by block. The run stops when the interval of the
ratio is narrow enough, or at its budget, and says which. Times are those of the provider's own
clock (compiled loops, device events); nothing is drawn, nothing is collected inside a block.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lsbench import _kernels
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.kernels import usable_processors
from lsbench.records import Arm, Ratio, Throughput
from lsbench.statistics import ratio, summarise

UNSTABLE_IQR = 0.15
"""Interquartile range over median above which a measurement is marked unstable."""
CONTAMINATED = 0.05
"""A/A bias, whole interval beyond it, above which a run is marked contaminated."""
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
    clock: Callable[[], float] = time.perf_counter
    """For tests: what tells the budget."""


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
        loops = _calibrate(named, plan)
        samples = _sample(named, loops, plan, start)
        empty = arms[0][1].time_empty(1000) / 1000
    taken = [summarise(name, *samples.of(i), loops) for i, (name, _) in enumerate(named)]
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


def _calibrate(arms: Sequence[tuple[str, Prepared]], plan: Plan) -> int:
    """Warm every arm up and find the loop count of a sample, one for all arms."""
    blocks_that_fit = plan.budget / (2 * len(arms) * plan.least * 1.5)
    wanted = min(plan.sample, blocks_that_fit)
    for _, prepared in arms:
        prepared.time(1)
    loops, took = 1, arms[0][1].time(1)
    while took < wanted / 4 and loops < 1 << 24:
        loops *= 4
        took = arms[0][1].time(loops)
    return max(1, round(loops * wanted / took)) if took > 0 else loops


class _Samples:
    """Seconds per call as they are taken."""

    def __init__(self, arms: int) -> None:
        self.seconds: list[list[float]] = [[] for _ in range(arms)]
        self.blocks: list[list[int]] = [[] for _ in range(arms)]
        self.stopped = "budget"

    def of(self, arm: int) -> tuple[list[float], list[int]]:
        """The samples of one arm and their blocks."""
        return self.seconds[arm], self.blocks[arm]


def _sample(arms: Sequence[tuple[str, Prepared]], loops: int, plan: Plan, start: float) -> _Samples:
    draw = random.Random(plan.seed)
    samples = _Samples(len(arms))
    for block in range(plan.most):
        order = list(range(len(arms)))
        if draw.random() < 0.5:
            order.reverse()
        for i in (*order, *reversed(order)):
            samples.seconds[i].append(arms[i][1].time(loops) / loops)
            samples.blocks[i].append(block)
        if block + 1 < plan.least:
            continue
        if plan.clock() - start > plan.budget:
            break
        if block % 4 == 3 and _narrow(samples, loops, plan):
            samples.stopped = "width"
            break
    return samples


def _narrow(samples: _Samples, loops: int, plan: Plan) -> bool:
    first, *others = (summarise(str(i), *samples.of(i), loops) for i in range(len(samples.seconds)))
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


def measure_row(provider: Provider, prepared: Prepared, call: Call, plan: Plan) -> Throughput:
    """Time one prepared computation beside its A/A arm and the roof, with warm caches."""
    return measure_arms([(provider.name, prepared)], call, plan)


def measure_arms(arms: Sequence[tuple[str, Prepared]], call: Call, plan: Plan) -> Throughput:
    """Time computations of one call's sizes beside the roof; the first one is reported."""
    threads = call.options.threads or usable_processors()
    work = Work(call.self.size, 3 * call.self.size * call.fmt.itemsize, threads)
    return measure([*arms, ("roof", Roof(call, threads))], work, plan)
