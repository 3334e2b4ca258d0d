"""Cold caches: every run takes the next of many sets of tensors.

Together the sets are at least four times as large as the last-level cache, so that what a run needs
was pushed out since it was last used. Rotating beats flushing: nothing but the runs under test
touches memory, and no run pays for what a flush left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from math import ceil, prod

import numpy as np

from lsbench.errors import UsageError
from lsbench.providers.base import Array, Call, Prepared

CACHES = 4
"""How many times the last-level cache the sets are together."""
ASSUMED_CACHE = 32 << 20
"""Bytes of a last-level cache where the system does not tell."""
MOST_SETS = 4096
"""Sets at most: a call too small to fill the caches with so many cannot be timed cold."""


def touched(array: Array) -> int:
    """Bytes of the distinct elements of an array; an expanded dimension counts once."""
    dims = zip(array.shape, array.strides, strict=True)
    distinct: int = prod(n for n, stride in dims if stride or not n)
    return distinct * array.itemsize


def rotated(call: Call, cache: int = 0) -> list[Call]:
    """The call on as many sets of its tensors as exceed the caches; its own set is the first.

    Every copy lies in memory as the original does: same strides, same gaps, one memory where the
    original's tensors are one view. ``cache`` is the size of the last-level cache in bytes, 0 where
    it is not known. Raises UsageError for a call too small to be timed cold.
    """
    cache = cache or ASSUMED_CACHE
    bytes_of_a_set = sum(map(touched, (call.grad_output, call.self, call.grad_input)))
    sets = ceil(CACHES * cache / max(bytes_of_a_set, 1)) + 1
    if sets > MOST_SETS:
        least = ceil(CACHES * cache / MOST_SETS)
        raise UsageError(
            f"a call of {bytes_of_a_set:,} bytes cannot be timed cold: expected {least:,} bytes or "
            f"more, beside a cache of {cache >> 10:,} KiB"
        )
    return [call, *(_copied(call) for _ in range(sets - 1))]


def _copied(call: Call) -> Call:
    views: dict[tuple[object, ...], Array] = {}

    def copy(array: Array) -> Array:
        place = (array.ctypes.data, array.shape, array.strides)
        if place not in views:
            views[place] = _like(array)
        return views[place]

    return replace(
        call,
        grad_output=copy(call.grad_output),
        self=copy(call.self),
        grad_input=copy(call.grad_input),
    )


def _like(array: Array) -> Array:
    """The values in memory of their own, laid out alike."""
    if array.size == 0:
        return array.copy()
    ends = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = sum(min(end, 0) for end in ends)
    span = sum(max(end, 0) for end in ends) - low + array.itemsize
    storage = np.zeros(span, np.uint8)
    made: Array = np.ndarray(array.shape, array.dtype, storage, -low, array.strides)
    made[...] = array
    return made


class Sets:
    """The tensors of a call: one set, which stays in the caches, or many in turn, which do not."""

    def __init__(self, call: Call, *, cold: bool = False, cache: int = 0) -> None:
        """``cache``: bytes of the last-level cache. UsageError for a call too small for cold."""
        self.cold = cold
        self.calls = rotated(call, cache) if cold else [call]
        self._turns = cycle(range(len(self.calls)))

    def prepare(self, make: Callable[[Call], Prepared]) -> Prepared:
        """One contestant's computation on all the sets."""
        made = [make(call) for call in self.calls]
        return Rotating(made, self._turns) if self.cold else made[0]


class Rotating(Prepared):
    """One computation prepared on many sets of tensors; each run takes the next set.

    ``turns`` yields the number of the next set; computations that share sets share it, so that none
    finds a set warm that another has just used.
    """

    def __init__(self, prepared: Sequence[Prepared], turns: Iterator[int]) -> None:
        self._prepared, self._turns = prepared, turns

    def run(self) -> None:
        """Compute once, on the next set."""
        self._prepared[next(self._turns)].run()

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take, each timed by the computation itself."""
        return sum(self._prepared[next(self._turns)].time(1) for _ in range(loops))

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` empty calls take."""
        return self._prepared[0].time_empty(loops)

    def close(self) -> None:
        """Give back every set."""
        for prepared in self._prepared:
            prepared.close()
