"""Views: a shape, strides and an offset over a flat storage, all counted in elements."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench.errors import TensorError

MAX_ELEMENTS = (1 << 63) - 1
"""Sizes and positions beyond this cannot be addressed."""

Array = npt.NDArray[Any]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class View:
    """How a tensor lies in its storage; strides may be 0 (expanded) or negative (flipped)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    """Number of elements of the storage."""

    @classmethod
    def contiguous(cls, shape: tuple[int, ...]) -> View:
        """The row-major view that fills its storage."""
        return cls(shape, contiguous_strides(shape), 0, prod(shape))

    @property
    def size(self) -> int:
        """Number of elements of the view."""
        return prod(self.shape)

    @property
    def extent(self) -> tuple[int, int]:
        """First and last storage index that the view touches; (0, -1) for an empty view."""
        if self.size == 0:
            return 0, -1
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(step, 0) for step in steps)
        return low, self.offset + sum(max(step, 0) for step in steps)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        wanted = contiguous_strides(self.shape)
        dims = zip(self.shape, self.strides, wanted, strict=True)
        return self.size <= 1 or all(have == want for n, have, want in dims if n > 1)

    def check(self, name: str) -> None:
        """Raise TensorError unless every element lies inside the storage."""
        if len(self.shape) != len(self.strides):
            raise TensorError(
                f"{name}: found {len(self.strides)} strides for {len(self.shape)} dimensions, "
                "expected one stride a dimension"
            )
        if any(n < 0 for n in self.shape):
            raise TensorError(f"{name}: shape {list(self.shape)} has a negative extent")
        if max(self.size, self.storage) > MAX_ELEMENTS:
            raise TensorError(f"{name}: shape {list(self.shape)} exceeds the address space")
        low, high = self.extent
        if low < 0 or high >= self.storage:
            raise TensorError(
                f"{name}: elements lie at {low}..{high}, expected them inside its storage of "
                f"{self.storage} elements"
            )

    @property
    def overlaps_itself(self) -> bool:
        """Whether two indices share one address: decided exactly, in bounded time.

        Strides that leave room for all smaller ones need no search. Others are decided by listing
        the addresses, where there are few, and else by counting: more elements than addresses must
        collide; what remains open counts as an overlap.
        """
        if self.size <= 1:
            return False
        dims = sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1)
        reach, nested = 0, True
        for stride, n in dims:
            nested = nested and stride > reach
            reach += (n - 1) * stride
        if nested:
            return False
        if dims[0][0] == 0 or self.size > reach + 1 or self.size > _LISTED:
            return True
        addresses = np.zeros(1, np.int64)
        for stride, n in dims:
            addresses = (addresses[:, None] + stride * np.arange(n, dtype=np.int64)).ravel()
        return bool(np.unique(addresses).size < addresses.size)

    def array(self, storage: Array) -> Array:
        """The view of a flat array of ``self.storage`` elements; raises TensorError outside it."""
        self.check("view")
        if storage.shape != (self.storage,):
            raise TensorError(f"storage of shape {storage.shape}, expected ({self.storage},)")
        if self.size == 0:
            return np.empty(self.shape, storage.dtype)
        strides = tuple(s * storage.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(storage[self.offset :], self.shape, strides)

    @classmethod
    def of(cls, array: Array) -> View:
        """The view that an array is of the smallest storage that holds it."""
        strides = tuple(s // array.itemsize for s in array.strides)
        low, high = cls(array.shape, strides, 0, 0).extent
        return cls(array.shape, strides, -low, high - low + 1)

    def __str__(self) -> str:
        if self.is_contiguous and self.offset == 0 and self.storage == self.size:
            return "contiguous"
        return f"strides {list(self.strides)} offset {self.offset}"


_LISTED = 1 << 22


class Overlap(Enum):
    """How two arrays share memory."""

    NONE = "none"
    SAME = "the very same view"
    PARTIAL = "partial overlap"


def overlap(a: Array, b: Array) -> Overlap:
    """How two arrays share memory; what cannot be decided with bounded work counts as partial."""
    if a.size == 0 or b.size == 0:
        return Overlap.NONE
    same_start = a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    if same_start and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype:
        return Overlap.SAME
    try:
        shared = np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        shared = True
    return Overlap.PARTIAL if shared else Overlap.NONE
