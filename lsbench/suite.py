"""The project's own goals of speed, measured: every figure a ratio inside one interleaved run.

A goal names two arms and the least ratio of their speeds. PyTorch is compared where it is
installed, and said to be missing where not. Nothing here is a test: a person runs it and reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lsbench import environment, output
from lsbench.bench import Load
from lsbench.errors import LsbenchError
from lsbench.providers.base import Call, Prepared
from lsbench.providers.registry import resolve
from lsbench.records import Ratio
from lsbench.statistics import ratio
from lsbench.throughput import Plan, Roof, Work, measure

Say = Callable[[str], object]


@dataclass(frozen=True)
class Goal:
    """One line of the table."""

    what: str
    found: Ratio | None
    goal: float
    better: str = "at least"
    unit: str = "x"
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the measured value meets the goal; None where it was not measured."""
        if self.found is None:
            return None
        met = self.found.value >= self.goal
        return met if self.better == "at least" else self.found.value <= self.goal

    def line(self) -> str:
        """The goal as it is printed."""
        if self.found is None:
            return f"{self.what:<46} {'-':>7} {'':>15} {self.better} {self.goal:g}  {self.note}"
        f = self.found
        spread = f"{f.low:.2f}..{f.high:.2f}"
        mark = "met" if self.reached else "not met"
        return f"{self.what:<46} {f.value:7.2f} {spread:>15} {self.better} {self.goal:g}  {mark}"


class Torch(Prepared):
    """PyTorch on the very arrays: its backward from a stored buffer, or g * sigmoid(-x)."""

    def __init__(self, call: Call, what: str) -> None:
        import torch

        self._torch, threads = torch, call.options.threads or 1
        kinds = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        whole = np.int32 if call.fmt.itemsize == 4 else np.int16
        g, x, y = (
            torch.from_numpy(a.view(whole)).view(kinds[call.fmt.name])
            for a in (call.grad_output, call.self, np.empty_like(call.self))
        )
        torch.set_num_threads(threads)
        if what == "backward":
            buffer = torch.ops.aten.log_sigmoid_forward(x)[1]
            step = torch.ops.aten.log_sigmoid_backward.grad_input
            self._step: Callable[[], object] = lambda: step(g, x, buffer, grad_input=y)
        else:
            other = torch.empty_like(x)

            def product() -> None:
                torch.neg(x, out=other)
                torch.sigmoid(other, out=other)
                torch.mul(g, other, out=y)

            self._step = product

    def run(self) -> None:
        """Compute once."""
        self._step()


def _torch(call: Call, what: str) -> Prepared | None:
    try:
        return Torch(call, what)
    except ImportError:
        return None


def _kernel(name: str, call: Call, **options: Any) -> Prepared:
    return resolve(name).prepare(replace(call, options=replace(call.options, **options)))


def _speeds(
    mine: Prepared, peers: dict[str, Prepared], call: Call, plan: Plan
) -> dict[str, Ratio | None]:
    """Speed of the first computation over that of each peer, taken block by block."""
    work = Work(call.self.size, 3 * call.self.size * call.fmt.itemsize, call.options.threads or 1)
    found = measure([("mine", mine), *peers.items()], work, plan)
    arms = {arm.name: arm for arm in found.arms}
    return {name: ratio(arms[name], arms["mine"]) for name in peers}


MISSING = "PyTorch is not installed"
LARGE = 1 << 24


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
        call = Load(dtype, LARGE, 2).call()
        peers: dict[str, Prepared] = {"roof": Roof(call, 2)}
        torch = _torch(call, "backward")
        if torch is not None:
            peers["torch"] = torch
        found = _speeds(_kernel(name, call), peers, call, plan)
        if of_roof is not None:
            yield Goal(f"{name} {dtype} / roof", found["roof"], of_roof)
        yield Goal(f"{name} {dtype} / PyTorch backward", found.get("torch"), of_torch, note=MISSING)


def mode_goals(plan: Plan) -> Iterator[Goal]:
    """exact in every other rounding mode against its own rne."""
    for dtype in ("fp32", "fp16", "bf16"):
        call = Load(dtype, 1 << 20, 1).call()
        for mode in ("rna", "rtz", "rup", "rdn", "rto", "sr"):
            peers = {"rne": _kernel("exact", call)}
            found = _speeds(_kernel("exact", call, rounding=mode), peers, call, plan)
            yield Goal(f"exact {dtype} {mode} / rne", found["rne"], 0.5)


def single_thread_goal(plan: Plan) -> Iterator[Goal]:
    """fast against g * torch.sigmoid(-x) with preallocated outputs, 2^18 elements, one thread."""
    call = Load("fp32", 1 << 18, 1).call()
    peer = _torch(call, "product")
    what = "fast fp32, 1 thread / g * torch.sigmoid(-x)"
    found = _speeds(_kernel("fast", call), {"torch": peer}, call, plan) if peer else {}
    yield Goal(what, found.get("torch"), 2.0, note=MISSING)


def stride_goals(plan: Plan) -> Iterator[Goal]:
    """Strided inputs against contiguous ones, fp32, 4096 x 4096, two threads."""
    base = Load("fp32", LARGE, 2).call()
    side = 4096
    shape = (side, side)
    g, x, y = (a.reshape(shape) for a in (base.grad_output, base.self, base.grad_input))
    plain = replace(base, grad_output=g, self=x, grad_input=y)
    wide = np.empty((side, 2 * side), x.dtype)
    wide[:, ::2] = x
    layouts = {
        "transposed": x.T,
        "every second": wide[:, ::2],
        "expanded": np.broadcast_to(x[:1], shape),
    }
    for name, laid in layouts.items():
        strided = replace(plain, self=laid, grad_input=np.empty_like(y))
        peers = {"contiguous": _kernel("fast", plain)}
        found = _speeds(_kernel("fast", strided), peers, plain, plan)
        yield Goal(f"fast fp32, x {name} / contiguous", found["contiguous"], 0.5)


def start_goals(plan: Plan) -> Iterator[Goal]:
    """Seconds of ``lsbench --help``, and microseconds that a call adds to one element."""
    words = [sys.executable, "-P", "-m", "lsbench", "--help"]
    yield Goal("lsbench --help, s", _seconds(words, 7), 0.25, "at most", "s")
    from lsbench import log_sigmoid_backward

    one = np.ones(1, np.float32)
    taken = []
    for _ in range(20):
        start = time.perf_counter_ns()
        for _ in range(2000):
            log_sigmoid_backward(one, one)
        taken.append((time.perf_counter_ns() - start) / 2000 * 1e-3)
    found = Ratio(float(np.median(taken)), min(taken), max(taken))
    yield Goal("one element, us a call", found, 5.0, "at most", "us")


def _seconds(words: list[str], times: int) -> Ratio:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(words, capture_output=True, check=True)
        taken.append(time.perf_counter() - start)
    return Ratio(float(np.median(taken)), min(taken), max(taken))


GROUPS = {
    "kernels, 2^24 elements, 2 threads": kernel_goals,
    "one thread, 2^18 elements": single_thread_goal,
    "strides, 4096 x 4096, 2 threads": stride_goals,
    "rounding modes, 2^20 elements, 1 thread": mode_goals,
    "the command and a call": start_goals,
}


def run_suite(say: Say, *, budget: float, output: Path | None) -> list[Goal]:
    """Measure every goal, say each as it is known, and write them to a file if one is given."""
    found: list[Goal] = []
    say(f"{'speed ratios, medians of paired blocks':<46} {'ratio':>7} {'99 % interval':>15} goal")
    for title, goals in GROUPS.items():
        say(f"-- {title}")
        for goal in goals(Plan(budget=budget)):
            say(goal.line())
            found.append(goal)
    met = sum(goal.reached is True for goal in found)
    say(f"{met} of {sum(goal.reached is not None for goal in found)} measured goals met")
    if output is not None:
        write_json(output, {"environment": environment.collect(), "goals": found})
    return found


def write_json(path: Path, value: object) -> None:
    """Write records as JSON, whole or not at all; raises OutputError where that fails."""
    output.write(path, json.dumps(value, default=_plain, indent=1) + "\n")


def _plain(value: Any) -> Any:
    try:
        return asdict(value)
    except TypeError:
        raise LsbenchError(f"cannot write {type(value).__name__} as JSON") from None
