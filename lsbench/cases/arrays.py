"""Arrays of a case: values laid into storages whose gaps hold a canary."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench.cases.case import TENSORS, Case
from lsbench.errors import TensorError
from lsbench.formats import Bits, Format, by_name
from lsbench.inputs import CHUNK, generate, stream
from lsbench.operator import DataType, FirstPhase, Status, Tensor, get_workspace_size
from lsbench.views import View

GUARD = 64
"""Elements before and after each storage that hold the canary too; whole cache lines."""
ALIGNMENT = 64
"""Bytes that the first element of a storage is aligned to."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Tensors:
    """The four arrays of one case: NumPy views over storages of the case's layouts.

    Gaps of every storage and all of grad_input hold a NaN of odd payload: a kernel that reads a
    gap, or leaves an element out, gives itself away.
    """

    grad_output: Array
    self: Array
    buffer: Array | None
    grad_input: Array
    whole: Bits
    """grad_input's storage with its guards, as bit patterns."""
    gaps: npt.NDArray[np.bool_]
    """Where ``whole`` is no element of grad_input."""
    fmt: Format

    def gaps_touched(self) -> int:
        """How many places outside grad_input's elements no longer hold the canary."""
        return int(np.count_nonzero(self.gaps & (self.whole != canary(self.fmt))))


def canary(fmt: Format) -> int:
    """A quiet NaN that no computation makes: payload 0x5a at the low end."""
    return fmt.nan_bits | 0x5A & ((1 << (fmt.p - 2)) - 1)


def tensors(case: Case) -> Tensors:
    """Build the arrays of a case.

    Raises TensorError for a null tensor, for tensors that differ in shape or dtype, for a file that
    cannot be taken, and where the machine has too little memory, before anything is allocated.
    """
    views = {}
    for name in TENSORS:
        view = case.views[name]
        if view is None and name != "buffer":
            raise TensorError(f"{case.name}: {name} is null, expected a tensor to compute with")
        views[name] = view
    _check_memory(case)
    held = {name: _input(case, name) for name in TENSORS[:3]}
    fmt = by_name(case.dtypes["grad_input"])
    grad_input, whole, gaps = _output(fmt, views["grad_input"])
    grad_output, self = held["grad_output"], held["self"]
    assert grad_output is not None
    assert self is not None
    return Tensors(grad_output, self, held["buffer"], grad_input, whole, gaps, fmt)


def first_phase(case: Case) -> FirstPhase:
    """What the operator's first phase says to the case's tensors.

    A case with ``operator: false`` goes past it: success, without an executor.
    """
    if not case.operator:
        return FirstPhase(Status.SUCCESS, 0, None, "")
    given = described(case)
    return get_workspace_size(
        given["grad_output"],
        given["self"],
        given["buffer"],
        given["grad_input"],
        product=case.product,
        workspace_size="workspace_size" not in case.null,
        executor="executor" not in case.null,
    )


def described(case: Case) -> dict[str, Tensor | None]:
    """The case's tensors as the first phase takes them, by name; None for a null one."""
    return {
        name: None if view is None else Tensor(view, DataType.of(case.dtypes[name]))
        for name, view in case.views.items()
    }


def needed_memory(case: Case) -> int:
    """Bytes that the case's tensors take, and the largest intermediate of making them."""
    total = 0
    for name, view in case.views.items():
        if view is None:
            continue
        size = by_name(case.dtypes[name]).itemsize
        total += (view.storage + 2 * GUARD) * size + 2 * view.size * size
    return total + 64 * CHUNK


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _check_memory(case: Case) -> None:
    needed, available = needed_memory(case), available_memory()
    if available is not None and needed > available:
        raise TensorError(
            f"{case.name}: needs {_gib(needed)} of memory, expected at most the {_gib(available)} "
            "that this machine has free"
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.3g} GiB"


def _storage(fmt: Format, view: View) -> tuple[Bits, Bits]:
    """A storage full of canaries: with its guards, and alone, its first element aligned."""
    count = view.storage + 2 * GUARD
    room = np.empty(count * fmt.itemsize + ALIGNMENT, np.uint8)
    skip = -room.__array_interface__["data"][0] % ALIGNMENT
    whole = room[skip : skip + count * fmt.itemsize].view(fmt.bits_dtype)
    whole[:] = canary(fmt)
    return whole, whole[GUARD : GUARD + view.storage]


def _input(case: Case, name: str) -> Array | None:
    view = case.views[name]
    if view is None:
        return None
    fmt = by_name(case.dtypes[name])
    _, storage = _storage(fmt, view)
    array = fmt.values(view.array(storage))
    source = case.inputs.get(name)
    if source is not None and view.size:
        made = generate(source, fmt, view.shape, stream(case.seed, case.family, name))
        _lay(fmt, view, storage, made)
    return array


def _lay(fmt: Format, view: View, storage: Bits, made: Array) -> None:
    """Write values through a view; where indices share an address, see each case."""
    # Along a stride of 0 the first value holds for all.
    first = (*(slice(0, 1) if s == 0 else slice(None) for s in view.strides), Ellipsis)
    place, bits = view.array(storage)[first], fmt.pattern(made)[first]
    shape = tuple(1 if s == 0 else n for n, s in zip(view.shape, view.strides, strict=True))
    reduced = View(shape, view.strides, view.offset, view.storage)
    if not reduced.overlaps_itself:
        place[...] = bits
        return
    # Of other indices with one address the last in row-major order holds.
    addresses = np.full(1, view.offset, np.int64)
    for n, stride in zip(shape, view.strides, strict=True):
        addresses = (addresses[:, None] + stride * np.arange(n, dtype=np.int64)).ravel()
    storage[addresses] = bits.reshape(-1)


def _output(fmt: Format, view: View | None) -> tuple[Array, Bits, npt.NDArray[np.bool_]]:
    assert view is not None
    if view.overlaps_itself:
        raise TensorError("grad_input has two indices at one address, expected one address each")
    whole, storage = _storage(fmt, view)
    gaps = np.ones(whole.size, np.bool_)
    view.array(gaps[GUARD : GUARD + view.storage])[...] = False
    return fmt.values(view.array(storage)), whole, gaps
