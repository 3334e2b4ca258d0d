"""A provider run over a space and every element judged, shard by shard.

A shard is the unit of work and of loss: its outcome depends on the plan and its number alone, and
outcomes add up exactly, so that threads, other machines, interruptions and order leave no trace in
the totals.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lsbench import reference
from lsbench.binades import Binades
from lsbench.errors import ProviderError, UsageError
from lsbench.formats import Bits
from lsbench.plan import CHUNK, TENSORS, Plan
from lsbench.providers.base import Array, Call, Provider, compute_once
from lsbench.providers.isolation import Limits, open_provider
from lsbench.reference import Audit, Judge
from lsbench.tally import Tally

AUDIT_SAMPLE = 16
"""Elements of a shard that mpmath judges again, worst elements aside."""

Tick = Callable[[int], None]
"""Called with the number of elements just judged, from any thread."""


class Stopped(Exception):
    """A shard was given up because the sweep was asked to stop."""


@dataclass(frozen=True)
class Outcome:
    """What one shard adds to the totals."""

    shard: int
    tally: Tally
    audited: int
    differed: int

    def to_plain(self) -> dict[str, Any]:
        """As plain values, to travel between machines."""
        return {**vars(self), "tally": self.tally.to_plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Outcome:
        """Read :meth:`to_plain` back."""
        return cls(**{**plain, "tally": Tally.from_plain(plain["tally"])})


@dataclass(frozen=True)
class Lost:
    """A shard that the provider failed on: nothing of it is counted."""

    shard: int
    verdict: str
    reason: str


class Worker:
    """Runs shards of one plan, one at a time: a provider, three tensors, and a judge per shard."""

    def __init__(self, plan: Plan, limits: Limits | None = None) -> None:
        self._plan, self.space = plan, plan.open_space()
        if plan.layout and self.space.size % CHUNK:
            raise UsageError(
                f"{self.space.size} elements do not fill strided tensors: expected a multiple of "
                f"{CHUNK}, or no --layout"
            )
        self._provider = open_provider(plan.provider, limits)
        self._g, self._x, self._y = (_tensor(plan, name) for name in TENSORS)
        self._flat_g, self._flat_x = (np.empty(CHUNK, plan.fmt.bits_dtype) for _ in range(2))

    def obstacle(self) -> tuple[str, str] | None:
        """(verdict, reason) where the provider cannot run this plan, else None."""
        reason = self._provider.unavailable()
        if reason is not None:
            return "skipped", reason
        try:
            reason = self._provider.refuse(self._call(CHUNK))
        except ProviderError as error:
            return error.verdict, str(error)
        return None if reason is None else ("unsupported", reason)

    @property
    def provider(self) -> Provider:
        """The provider under test."""
        return self._provider

    def run(self, shard: int, tick: Tick, stop: threading.Event) -> Outcome | Lost:
        """Run and judge one shard, or tell how the provider failed on it; raises Stopped."""
        try:
            return self._run(shard, tick, stop)
        except ProviderError as error:
            return Lost(shard, error.verdict, str(error))

    def _run(self, shard: int, tick: Tick, stop: threading.Event) -> Outcome:
        plan, size = self._plan, self.space.size
        start = shard * plan.shard_size
        end = min(start + plan.shard_size, size)
        judge = _judge(plan)
        seed = plan.options.seed * 1_000_003 + shard
        audit = Audit(judge, end - start, seed=seed, sample=AUDIT_SAMPLE, first=start)
        for position in range(start, end, CHUNK):
            if stop.is_set():
                raise Stopped
            n = min(CHUNK, end - position)
            g, x, y = self._compute(position, n)
            judge.add(position, g, x, y)
            audit.check(position, g, x, y)
            tick(n)
        tally = judge.finish()
        audit.check_worst(tally)
        return Outcome(shard, tally, audit.audited, audit.differed)

    def _compute(self, position: int, n: int) -> tuple[Bits, Bits, Bits]:
        """Make a chunk's inputs, run the provider on them, and return all three, contiguous."""
        g, x = self._flat_g[:n], self._flat_x[:n]
        self.space.fill(position, g, x)
        call, fmt = self._call(n), self._plan.fmt
        for array, bits in ((call.grad_output, g), (call.self, x)):
            fmt.pattern(array)[...] = bits.reshape(array.shape)
        fmt.pattern(call.grad_input)[...] = fmt.nan_bits
        compute_once(self._provider, call)
        return g, x, np.ascontiguousarray(fmt.pattern(call.grad_input)).reshape(-1)

    def _call(self, n: int) -> Call:
        g, x, y = (a if n == CHUNK else a[:n] for a in (self._g, self._x, self._y))
        options = replace(self._plan.options, threads=1)
        return Call(self._plan.fmt, g, x, None, y, options)

    def close(self) -> None:
        """Give back what the provider holds."""
        self._provider.close()


def _tensor(plan: Plan, name: str) -> Array:
    layout = plan.layout.get(name, "contiguous")
    if layout == "contiguous":
        return plan.fmt.values(np.zeros(CHUNK, plan.fmt.bits_dtype))
    from lsbench.layouts import LAYOUTS

    if layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}: expected one of {', '.join(LAYOUTS)}")
    side = int(CHUNK**0.5)
    view = LAYOUTS[layout]((side, side))
    if view.overlaps_itself:
        raise UsageError(f"layout {layout} of {name} holds fewer elements than a sweep writes")
    return plan.fmt.values(view.array(np.zeros(view.storage, plan.fmt.bits_dtype)))


def _judge(plan: Plan) -> Judge:
    if plan.reference == "certified":
        from lsbench.certified import CertifiedJudge

        return CertifiedJudge(plan.declared, binades=True)
    judge = reference.make(plan.reference, plan.declared)
    judge.tally.binades = Binades()
    return judge


def outcomes(
    plan: Plan,
    shards: Iterable[int],
    *,
    threads: int | None = None,
    tick: Tick = lambda n: None,
    limits: Limits | None = None,
) -> Iterator[Outcome | Lost]:
    """Run shards on local threads and yield their outcomes as they come, in any order.

    Every thread has a provider of its own, isolated as ``limits`` say: what kills one loses the
    shard that it was at. Leaving the generator early (an interruption) stops the threads within a
    chunk. Raises what a thread raised.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for shard in shards:
        todo.put(shard)
    left = todo.qsize()
    done: queue.SimpleQueue[Outcome | Lost | BaseException] = queue.SimpleQueue()
    stop = threading.Event()
    count = min(threads or processors(), left)
    each = (limits or Limits()).among(count)

    def work() -> None:
        try:
            worker = Worker(plan, each)
            try:
                while not stop.is_set():
                    done.put(worker.run(todo.get_nowait(), tick, stop))
            finally:
                worker.close()
        except (queue.Empty, Stopped):
            return
        except BaseException as error:
            done.put(error)

    pool = [threading.Thread(target=work, name=f"sweep-{i}") for i in range(count)]
    for thread in pool:
        thread.start()
    try:
        while left:
            outcome = _next(done, pool)
            if isinstance(outcome, BaseException):
                raise outcome
            left -= 1
            yield outcome
    finally:
        stop.set()
        for thread in pool:
            thread.join()


def _next(
    done: queue.SimpleQueue[Outcome | Lost | BaseException], pool: list[threading.Thread]
) -> Outcome | Lost | BaseException:
    while True:
        try:
            # A wait without an end would hold Ctrl-C back on some systems.
            return done.get(timeout=0.2)
        except queue.Empty:
            if not any(thread.is_alive() for thread in pool) and done.empty():
                return ProviderError("every thread of the sweep ended before its shards were done")


def run_shard(plan: dict[str, Any], shard: int, limits: dict[str, Any]) -> dict[str, Any]:
    """One shard from plain values to plain values: what another machine is asked for."""
    worker = Worker(Plan.from_plain(plan), Limits(**limits))
    try:
        found = worker.run(shard, lambda n: None, threading.Event())
        return vars(found) if isinstance(found, Lost) else found.to_plain()
    finally:
        worker.close()


def from_plain(plain: Mapping[str, Any]) -> Outcome | Lost:
    """Read what :func:`run_shard` returned."""
    return Outcome.from_plain(plain) if "tally" in plain else Lost(**plain)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
