"""Is B faster than A?  Two providers, or two builds of one, interleaved in one run.

A contestant is a provider name, or ``NAME@PYTHON``: the provider NAME of the lsbench that another
Python interpreter has installed, run in a worker process of its own and timed there. A change
counts when its interval clears the tolerance and the A/A floor, and when a second run, in a fresh
process and with the order reversed, says the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lsbench.errors import ProviderError
from lsbench.formats import Format, by_name
from lsbench.providers.base import Call, Prepared
from lsbench.providers.registry import resolve
from lsbench.records import Options, Ratio, Throughput
from lsbench.statistics import Change, Comparison, half_width, judge, ratio
from lsbench.throughput import Plan, measure_arms


@dataclass(frozen=True)
class Load:
    """What both contestants compute: x ~ N(0, 4^2), g ~ N(0, 1), contiguous."""

    dtype: str = "fp32"
    elements: int = 1 << 20
    threads: int = 1
    rounding: str = "rne"
    seed: int = 0

    def call(self) -> Call:
        """The arrays and options; the same values in every process."""
        fmt = by_name(self.dtype)
        draw = np.random.default_rng(self.seed)
        g = _rounded(fmt, draw.standard_normal(self.elements, np.float32))
        x = _rounded(fmt, 4 * draw.standard_normal(self.elements, np.float32))
        options = Options(rounding=self.rounding, threads=self.threads)
        return Call(fmt, g, x, None, np.empty_like(x), options)


def _rounded(fmt: Format, values: Any) -> Any:
    return values.astype(fmt.dtype)


@dataclass(frozen=True)
class Contest:
    """Two contestants measured, and what came of it."""

    load: Load
    measured: Throughput
    """A first, then A/A, B and the roof."""
    comparison: Comparison
    """B's time over A's."""
    floor: float
    confirmed: bool | None
    """Whether a fresh process in reversed order says the same; None where nothing changed."""


def prepare(contestant: str, load: Load) -> Prepared:
    """A contestant made ready; UsageError for an unknown name, ProviderError if it cannot run."""
    name, _, interpreter = contestant.partition("@")
    if interpreter:
        return Remote(interpreter, name, load)
    provider = resolve(name)
    reason = provider.unavailable()
    call = load.call()
    reason = reason or provider.refuse(call)
    if reason is not None:
        raise ProviderError(f"{name}: {reason}")
    return provider.prepare(call)


def contest(
    first: str,
    second: str,
    load: Load,
    plan: Plan,
    *,
    tolerance: float = 0.05,
    confirm: bool = True,
) -> Contest:
    """Measure two contestants interleaved and judge the ratio of their times."""
    runs = [prepare(name, load) for name in (first, second)]
    try:
        measured = measure_arms([(first, runs[0]), (second, runs[1])], load.call(), plan)
    finally:
        for run in runs:
            run.close()
    arms = measured.arms
    times = ratio(arms[2], arms[0])
    assert times is not None
    floor = half_width(measured.noise)
    comparison = judge(times, tolerance, floor)
    confirmed = None
    if confirm and comparison.change in (Change.FASTER, Change.SLOWER):
        again = _again(second, first, load, plan, tolerance)
        confirmed = again is comparison.change
    return Contest(load, measured, comparison, floor, confirmed)


def _again(first: str, second: str, load: Load, plan: Plan, tolerance: float) -> Change:
    """The contest in a fresh process with the order reversed, as a change of the second over A."""
    code = (
        "import json, sys\n"
        "from lsbench.bench import Load, Plan, contest\n"
        "first, second, load, budget, seed, tolerance = json.loads(sys.argv[1])\n"
        "plan = Plan(budget=budget, seed=seed)\n"
        "found = contest(first, second, Load(**load), plan, tolerance=tolerance, confirm=False)\n"
        "print(found.comparison.change)\n"
    )
    words = json.dumps([first, second, asdict(load), plan.budget, plan.seed + 1, tolerance])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProviderError(
            f"the run that confirms ended with {done.returncode}: {_last(done.stderr)}"
        )
    mirrored = {Change.FASTER: Change.SLOWER, Change.SLOWER: Change.FASTER}
    change = Change(done.stdout.strip())
    return mirrored.get(change, change)


_WORKER = """
import json, sys
from lsbench.bench import Load, prepare
name, load = json.loads(sys.argv[1])
run = prepare(name, Load(**load))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    what, loops = json.loads(line)
    print(json.dumps(getattr(run, what)(loops)), flush=True)
"""


class Remote(Prepared):
    """A computation in another interpreter's process, which times itself."""

    def __init__(self, interpreter: str, name: str, load: Load) -> None:
        words = json.dumps([name, asdict(load)])
        self._name = f"{name}@{interpreter}"
        try:
            self._worker = subprocess.Popen(
                [interpreter, "-P", "-c", _WORKER, words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise ProviderError(f"{self._name}: cannot be started: {error.strerror}") from None
        self._read()

    def _read(self) -> Any:
        assert self._worker.stdout is not None
        line = self._worker.stdout.readline()
        if not line:
            _, text = self._worker.communicate()
            raise ProviderError(f"{self._name}: the worker ended: {_last(text)}")
        return json.loads(line)

    def _ask(self, what: str, loops: int) -> float:
        assert self._worker.stdin is not None
        try:
            self._worker.stdin.write(json.dumps([what, loops]) + "\n")
            self._worker.stdin.flush()
        except BrokenPipeError:
            pass  # what the worker said last is read below
        return float(self._read())

    def run(self) -> None:
        """Compute once, over there."""
        self._ask("time", 1)

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take, by the worker's clock."""
        return self._ask("time", loops)

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` empty calls take, by the worker's clock."""
        return self._ask("time_empty", loops)

    def close(self) -> None:
        """End the worker."""
        self._worker.communicate()


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def speed(found: Contest) -> Ratio:
    """B's speed over A's, the reciprocal of the ratio of times."""
    times = found.comparison.ratio
    return Ratio(1 / times.value, 1 / times.high, 1 / times.low)


def answer(first: str, second: str, found: Contest) -> str:
    """The answer in one sentence.

    Names the change, the ratio with its interval, and where nothing was found the smallest change
    that this run could have seen.
    """
    faster = speed(found)
    figures = f"{faster.value:.3f} × the speed of {first} ({faster.low:.3f} to {faster.high:.3f})"
    change = found.comparison.change
    if change is Change.SAME:
        return f"{second} is as fast as {first}: {figures}"
    if change is Change.INCONCLUSIVE:
        smallest = 100 * found.comparison.smallest
        return f"inconclusive: {second} has {figures}; visible from {smallest:.1f} % up"
    if found.confirmed is False:
        return f"inconclusive: {second} has {figures}, but a fresh run in reverse does not say so"
    return f"{second} is {change} than {first}: {figures}"


def contestants(names: Sequence[str]) -> list[str]:
    """Names that differ, so that a table can tell A from A."""
    return [name if names.index(name) == i else f"{name} (again)" for i, name in enumerate(names)]
