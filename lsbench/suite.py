"""The project's own goals of speed, measured: every figure a ratio inside one interleaved run.

A goal names two arms and the least ratio of their speeds. PyTorch is compared where it is
installed, and said to be missing where not. Nothing here is a test: a person runs it and reads it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lsbench import environment
from lsbench.errors import LsbenchError
from lsbench.load import Load
from lsbench.output import write_json
from lsbench.providers import extras
from lsbench.providers.base import Array, Call, Prepared
from lsbench.providers.registry import resolve
from lsbench.providers.torch_ import Held
from lsbench.records import Ratio
from lsbench.statistics import ratio
from lsbench.throughput import Plan, Roof, Work, measure

Say = Callable[[str], object]


@dataclass(frozen=True)
class Goal:
    """One line of the table."""

    what: str
    found: Ratio | None
    """The median of the paired ratios, or of the times, with its interval; None: not measured."""
    goal: float
    better: str = "at least"
    unit: str = "x"
    samples: int = 0
    """Samples of each arm."""
    note: str = ""
    """Why it was not measured, or what is doubtful about it."""

    @property
    def reached(self) -> bool | None:
        """Whether the measured value meets the goal; None where it was not measured."""
        if self.found is None:
            return None
        met = self.found.value >= self.goal
        return met if self.better == "at least" else self.found.value <= self.goal

    def line(self) -> str:
        """The goal as it is printed, in 80 columns or a note more."""
        head, sign = f"{self.what:<37}", ">=" if self.better == "at least" else "<="
        if self.found is None:
            return f"{head} {'-':>6} {'':>13} {'':>4}  {sign} {self.goal:<4g} {self.note}"
        f = self.found
        spread = f"{f.low:.2f}..{f.high:.2f}"
        mark = " ".join(["met" if self.reached else "NOT MET", self.note]).rstrip()
        return f"{head} {f.value:6.2f} {spread:>13} {self.samples:4}  {sign} {self.goal:<4g} {mark}"


class TorchProduct(Prepared):
    """g * torch.sigmoid(-x), into tensors that are there already."""

    def __init__(self, call: Call) -> None:
        self._torch = extras.load("torch")
        arrays = (call.grad_output, call.self, np.empty_like(call.self))
        g, x, y = (Held(call.fmt, array, "cpu").tensor for array in arrays)
        torch, other = self._torch, self._torch.empty_like(x)
        self._threads = call.options.threads or 1

        def product() -> None:
            torch.neg(x, out=other)
            torch.sigmoid(other, out=other)
            torch.mul(g, other, out=y)

        self.run = product  # type: ignore[method-assign]

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take, on as many threads as the call says."""
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads)
        try:
            return super().time(loops)
        finally:
            self._torch.set_num_threads(before)


def _kernel(name: str, call: Call, **options: Any) -> Prepared:
    return resolve(name).prepare(replace(call, options=replace(call.options, **options)))


MISSING = "PyTorch is not installed"


def _torch(call: Call) -> Prepared | None:
    """PyTorch's own backward on the very arrays; None where it is not installed."""
    provider = resolve("torch")
    return None if provider.unavailable() else provider.prepare(call)


@dataclass(frozen=True)
class _Race:
    """The speed of one computation over that of others, taken block by block."""

    speeds: dict[str, Ratio | None]
    samples: int
    note: str

    def goal(self, what: str, peer: str, least: float) -> Goal:
        """The goal on the ratio to one peer."""
        found = self.speeds.get(peer)
        if found is None:
            return Goal(what, None, least, note=MISSING)
        return Goal(what, found, least, samples=self.samples, note=self.note)


def _race(mine: Prepared, peers: dict[str, Prepared], call: Call, plan: Plan) -> _Race:
    work = Work(call.self.size, 3 * call.self.size * call.fmt.itemsize, call.options.threads or 1)
    with ExitStack() as held:
        for prepared in (mine, *peers.values()):
            held.callback(prepared.close)
        found = measure([("mine", mine), *peers.items()], work, plan)
    arms = {arm.name: arm for arm in found.arms}
    speeds = {name: ratio(arms[name], arms["mine"]) for name in peers}
    return _Race(speeds, len(arms["mine"].seconds), " ".join(found.flags))


LARGE = 1 << 24
SIDE = 1 << 12


def kernel_goals(plan: Plan) -> Iterator[Goal]:
    """fast and exact against the roof and PyTorch, 2^24 elements on two threads."""
    goals = {
        ("fast", "fp32"): (0.95, 1.1),
        ("fast", "fp16"): (0.90, 1.1),
        ("fast", "bf16"): (0.90, 1.1),
        ("exact", "fp32"): (None, 0.75),
        ("exact", "fp16"): (None, 1.0),
        ("exact", "bf16"): (None, 1.0),
    }
    for (name, dtype), (of_roof, of_torch) in goals.items():
        call = Load(dtype, (LARGE,), 2).call
        peers: dict[str, Prepared] = {"roof": Roof(call, 2)}
        torch = _torch(call)
        if torch is not None:
            peers["torch"] = torch
        found = _race(_kernel(name, call), peers, call, plan)
        if of_roof is not None:
            yield found.goal(f"{name} {dtype} / roof", "roof", of_roof)
        yield found.goal(f"{name} {dtype} / PyTorch backward", "torch", of_torch)


def mode_goals(plan: Plan) -> Iterator[Goal]:
    """exact in every other rounding mode against its own rne."""
    for dtype in ("fp32", "fp16", "bf16"):
        call = Load(dtype, (1 << 20,), 1).call
        for mode in ("rna", "rtz", "rup", "rdn", "rto", "sr"):
            peers = {"rne": _kernel("exact", call)}
            found = _race(_kernel("exact", call, rounding=mode), peers, call, plan)
            yield found.goal(f"exact {dtype} {mode} / rne", "rne", 0.5)


def single_thread_goal(plan: Plan) -> Iterator[Goal]:
    """fast against g * torch.sigmoid(-x) with preallocated outputs, 2^18 elements, one thread."""
    call = Load("fp32", (1 << 18,), 1).call
    peers: dict[str, Prepared] = {}
    if resolve("torch").unavailable() is None:
        peers["torch"] = TorchProduct(call)
    found = _race(_kernel("fast", call), peers, call, plan)
    yield found.goal("fast fp32 / g * torch.sigmoid(-x)", "torch", 2.0)


def _strided(array: Array) -> dict[str, Array]:
    """The values of a square matrix, or of its first row, in other layouts."""
    wide = np.empty((len(array), 2 * len(array)), array.dtype)
    wide[:, ::2] = array
    expanded = np.broadcast_to(array[:1], array.shape)
    return {"transposed": array.T, "every second": wide[:, ::2], "expanded": expanded}


def stride_goals(plan: Plan) -> Iterator[Goal]:
    """Strided inputs against contiguous ones, fp32, 4096 x 4096, two threads."""
    plain = Load("fp32", (SIDE, SIDE), 2).call
    layouts = zip(_strided(plain.grad_output).items(), _strided(plain.self).values(), strict=True)
    for (name, g), x in layouts:
        result = np.empty_like(plain.grad_input)
        for words, inputs in {"x": {"self": x}, "g, x": {"grad_output": g, "self": x}}.items():
            strided = replace(plain, grad_input=result, **inputs)  # type: ignore[arg-type]
            peers = {"contiguous": _kernel("fast", plain)}
            found = _race(_kernel("fast", strided), peers, plain, plan)
            yield found.goal(f"fast fp32, {words} {name}", "contiguous", 0.5)


def start_goals(plan: Plan) -> Iterator[Goal]:
    """Seconds of two commands, and microseconds that a call adds to one element."""
    words = [sys.executable, "-P", "-m", "lsbench"]
    yield Goal("lsbench --help, s", _seconds([*words, "--help"], 7), 0.25, "at most", "s", 7)
    yield _quick(words)
    from lsbench import log_sigmoid_backward

    one = np.ones(1, np.float32)
    taken = []
    for _ in range(20):
        start = time.perf_counter_ns()
        for _ in range(2000):
            log_sigmoid_backward(one, one)
        taken.append((time.perf_counter_ns() - start) / 2000 * 1e-3)
    found = Ratio(float(np.median(taken)), min(taken), max(taken))
    yield Goal("a call on one element, us", found, 5.0, "at most", "us", 20)


QUICK = Path("cases/quick.yaml")


def _quick(words: list[str]) -> Goal:
    """The main job; about ten seconds, so that twelve are still good."""
    what, least = f"lsbench run {QUICK}, s", 12.0
    if not QUICK.exists():
        return Goal(what, None, least, "at most", "s", note=f"no {QUICK} here")
    with tempfile.TemporaryDirectory() as folder:
        job = [*words, "run", str(QUICK), "-q", "--output", f"{folder}/quick.json"]
        return Goal(what, _seconds(job, 1), least, "at most", "s", 1)


def _seconds(words: list[str], times: int) -> Ratio:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        taken.append(time.perf_counter() - start)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise LsbenchError(f"{' '.join(words[3:])} ended with {done.returncode}: {last}")
    return Ratio(float(np.median(taken)), min(taken), max(taken))


GROUPS = {
    "kernels, 2^24 elements, 2 threads": kernel_goals,
    "2^18 elements, 1 thread": single_thread_goal,
    "strided / contiguous inputs, 4096 x 4096, 2 threads": stride_goals,
    "rounding modes, 2^20 elements, 1 thread": mode_goals,
    "the command and a call": start_goals,
}


def run_suite(say: Say, plan: Plan, *, output: Path | None) -> list[Goal]:
    """Measure every goal, say each as it is known, and write them to a file if one is given."""
    found: list[Goal] = []
    say(f"{'ratios of speed, or as said':<37} {'median':>6} {'99 % interval':>13} {'n':>4}  goal")
    for title, goals in GROUPS.items():
        say(f"-- {title}")
        for goal in goals(plan):
            say(goal.line())
            found.append(goal)
    met = sum(goal.reached is True for goal in found)
    say(f"{met} of {sum(goal.reached is not None for goal in found)} measured goals met")
    if output is not None:
        write_json(output, {"environment": environment.collect(), "goals": found})
    return found
