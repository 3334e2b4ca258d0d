"""A call's tensors in memory that two processes share.

Every stretch of memory that the tensors cover is copied whole, gaps included, to a place in one
block: strides, overlaps and the alignment of each address to 64 bytes are what they were. Guards
around each stretch show a write outside it.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench.errors import ProviderError, TensorError
from lsbench.formats import by_name
from lsbench.operator import DataType, Tensor
from lsbench.providers.base import Array, Call
from lsbench.records import Options
from lsbench.views import View

GUARD = 256
"""Bytes before and after each stretch."""
_PATTERN = 0xA5
_LINE = 64
_STEP = 1 << 24
TENSORS = ("grad_output", "self", "buffer", "grad_input")
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Stretch:
    """Memory from one address to another, and where it lies in the block."""

    start: int
    stop: int
    offset: int
    written: bool
    """Whether grad_input lies in it."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.start

    def own(self) -> Bytes:
        """The memory itself, in the process that the tensors belong to."""
        kind = ctypes.c_ubyte * self.size
        return np.ctypeslib.as_array(kind.from_address(self.start))


def extent(array: Array) -> tuple[int, int]:
    """First address of an array and the one past its last; both its base where it is empty."""
    base = array.__array_interface__["data"][0]
    if array.size == 0:
        return base, base
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low, high = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
    return base + low, base + high + array.itemsize


def stretches(call: Call) -> list[Stretch]:
    """The stretches of a call's tensors; tensors whose extents meet share one."""
    extents = []
    for name in TENSORS:
        array = getattr(call, name)
        if array is not None and array.size:
            extents.append((*extent(array), name == "grad_input"))
    merged: list[tuple[int, int, bool]] = []
    for start, stop, written in sorted(extents):
        if merged and start < merged[-1][1]:
            low, high, before = merged.pop()
            start, stop, written = low, max(high, stop), before or written
        merged.append((start, stop, written))
    placed, end = [], 0
    for start, stop, written in merged:
        offset = -(-(end + GUARD) // _LINE) * _LINE + start % _LINE
        placed.append(Stretch(start, stop, offset, written))
        end = offset + (stop - start) + GUARD
    return placed


class Block:
    """The shared block of one call, as the process that owns the tensors sees it."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stretches = stretches(call)
        last = self._stretches[-1] if self._stretches else None
        size = last.offset + last.size + GUARD if last else 1
        self.file = tempfile.TemporaryFile(dir=_memory())  # noqa: SIM115 - held until close
        try:
            self.file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                # Claimed now: later a full file system would end the process that writes.
                os.posix_fallocate(self.file.fileno(), 0, size)
            self._map = mmap.mmap(self.file.fileno(), size)
        except (OSError, ValueError) as error:
            self.file.close()
            raise TensorError(f"cannot share {size} bytes with a child process: {error}") from None
        self._bytes: Bytes = np.frombuffer(self._map, np.uint8)
        self._bytes[:] = _PATTERN

    def fill(self) -> None:
        """Copy the tensors in."""
        for stretch in self._stretches:
            self._place(stretch)[:] = stretch.own()

    def description(self) -> dict[str, Any]:
        """What the other process needs to see the tensors: plain values only."""
        tensors = {}
        for name in TENSORS:
            array = getattr(self._call, name)
            if array is not None:
                tensors[name] = self._described(array)
        options = {f: getattr(self._call.options, f) for f in Options.__dataclass_fields__}
        views = {name: _plain_view(v) for name, v in self._call.views.items() if v is not None}
        named = {"fmt": self._call.fmt.name, "tensors": tensors, "options": options}
        return {**named, "views": views}

    def _described(self, array: Array) -> list[Any]:
        start, _ = extent(array)
        base = array.__array_interface__["data"][0]
        held = next((s for s in self._stretches if s.start <= start < s.stop), None)
        offset = held.offset + base - held.start if held is not None else 0
        return [offset, list(array.shape), list(array.strides)]

    def take(self) -> None:
        """Copy back grad_input's stretch, and whatever else was changed.

        Raises ProviderError ("contract") for a write outside the tensors' memory, and for one into
        an input that is read-only here.
        """
        breaches = [] if self._guards_whole() else ["wrote outside the tensors' memory"]
        for stretch in self._stretches:
            place = self._place(stretch)
            if stretch.written:
                stretch.own()[:] = place
            else:
                breaches += self._take_changes(stretch, place)
        if breaches:
            raise ProviderError("; ".join(breaches), verdict="contract", brought=True)

    def _take_changes(self, stretch: Stretch, place: Bytes) -> list[str]:
        own = stretch.own()
        for at in range(0, stretch.size, _STEP):
            part = slice(at, at + _STEP)
            if not np.array_equal(own[part], place[part]):
                name = self._read_only(stretch)
                if name:
                    return [f"changed {name}"]
                own[part] = place[part]
        return []

    def _read_only(self, stretch: Stretch) -> str:
        for name in TENSORS:
            array = getattr(self._call, name)
            if array is not None and array.size and not array.flags.writeable:
                start, _ = extent(array)
                if stretch.start <= start < stretch.stop:
                    return name
        return ""

    def _place(self, stretch: Stretch) -> Bytes:
        return self._bytes[stretch.offset : stretch.offset + stretch.size]

    def _gaps(self) -> Iterator[Bytes]:
        end = 0
        for stretch in self._stretches:
            yield self._bytes[end : stretch.offset]
            end = stretch.offset + stretch.size
        yield self._bytes[end:]

    def _guards_whole(self) -> bool:
        return all(bool((gap == _PATTERN).all()) for gap in self._gaps())

    def close(self) -> None:
        """Unmap; the memory goes when the other process has let go of it too."""
        self._bytes = np.empty(0, np.uint8)
        # A traceback under way may still hold a view: then the last view's end unmaps.
        with contextlib.suppress(BufferError):
            self._map.close()
        self.file.close()


def _memory() -> str | None:
    """A folder that lies in memory, where the system has one."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None


def attach(descriptor: int, description: dict[str, Any]) -> Call:
    """The call that a block describes, as the process that received it sees it."""
    size = os.fstat(descriptor).st_size
    mapped = mmap.mmap(descriptor, size)
    os.close(descriptor)
    fmt = by_name(description["fmt"])

    def array(name: str) -> Array | None:
        if name not in description["tensors"]:
            return None
        offset, shape, strides = description["tensors"][name]
        if 0 in shape:
            return np.empty(shape, fmt.dtype)
        return np.ndarray(shape, fmt.dtype, mapped, offset, strides)

    grad_output, self, grad_input = array("grad_output"), array("self"), array("grad_input")
    assert grad_output is not None
    assert self is not None
    assert grad_input is not None
    options = Options(**description["options"])
    views = {name: _full_view(plain) for name, plain in description["views"].items()}
    return Call(fmt, grad_output, self, array("buffer"), grad_input, options, views)


def _plain_view(view: View) -> list[Any]:
    return [list(view.shape), list(view.strides), view.offset, view.storage]


def _full_view(plain: list[Any]) -> View:
    shape, strides, offset, storage = plain
    return View(tuple(shape), tuple(strides), offset, storage)


def plain_tensor(tensor: Tensor) -> list[Any]:
    """A tensor's description as plain values."""
    return [_plain_view(tensor.view), int(tensor.dtype), tensor.format]


def full_tensor(plain: list[Any]) -> Tensor:
    """The description that plain values stand for."""
    view, dtype, form = plain
    return Tensor(_full_view(view), DataType(dtype), form)
