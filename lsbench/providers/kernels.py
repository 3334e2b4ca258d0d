"""The project's own compiled kernels: the Python function and the provider.

``KERNELS`` is the table of the compiled side (kernels/table.h), where each kernel states its
guarantee; lists, documentation and tests are made from it.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench import __version__, _kernels
from lsbench.errors import TensorError, UsageError
from lsbench.formats import FORMATS, by_dtype
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.rounding import Rounding
from lsbench.views import Overlap, View, overlap

Array = npt.NDArray[Any]

MAX_DIMS = 8
SERIAL = 1 << 15
"""Elements up to which one thread works alone: starting another costs as much as they do."""

_blocks = _kernels.load()
_FORMAT_NUMBER = {name: number for number, name in enumerate(_blocks.FORMATS)}
_ROUNDING_NUMBER = {name: number for number, name in enumerate(_blocks.ROUNDINGS)}
_STORAGE_NUMBER = {FORMATS[name].dtype: number for name, number in _FORMAT_NUMBER.items()}


@dataclass(frozen=True)
class Kernel:
    """A row of the compiled table. Arithmetic and storage are format names."""

    number: int
    name: str
    formula: str
    guarantee: str
    """What holds, and where it ends, in words."""
    storages: dict[str, tuple[str, ...]]
    """Arithmetic → formats that it stores; arithmetics that it lacks are absent."""
    max_ulp: dict[tuple[str, str], float]
    """(arithmetic, storage) → largest error under rne for x <= x_max and a normal result."""
    x_max: dict[str, float]
    """Arithmetic → the largest x of that bound."""

    @property
    def summary(self) -> str:
        """One line: the formula, where it computes, and its guarantee."""
        return f"{self.formula}  [{', '.join(self.storages)}]  {self.guarantee}"


def _read_table() -> dict[str, Kernel]:
    names: tuple[str, ...] = _blocks.FORMATS
    kernels = {}
    for number, row in enumerate(_blocks.table()):
        pairs = [(a, s) for a in range(len(names)) for s in range(len(names))]
        held = [(a, s) for a, s in pairs if row["supported"][a][s]]
        kernels[row["name"]] = Kernel(
            number=number,
            name=row["name"],
            formula=row["formula"],
            guarantee=row["guarantee"],
            storages={
                names[a]: tuple(names[s] for b, s in held if b == a) for a in {a for a, _ in held}
            },
            max_ulp={
                (names[a], names[s]): row["max_ulp"][a][s] for a, s in held if row["max_ulp"][a][s]
            },
            x_max={names[a]: row["x_max"][a] for a in range(len(names))},
        )
    return kernels


KERNELS: dict[str, Kernel] = _read_table()
"""Kernel name → its row."""


def log_sigmoid_backward(
    grad_output: Array,
    self: Array,
    *,
    kernel: str = "fast",
    arithmetic: str = "fp32",
    rounding: str = "rne",
    block: int | None = None,
    threads: int | None = None,
    out: Array | None = None,
    ftz: bool = False,
    seed: int = 0,
) -> Array:
    """Compute ``grad_output / (1 + exp(self))``, element by element.

    ``grad_output`` and ``self`` are arrays of one shape (at most 8 dimensions, empty and 0-d ones
    included) and one dtype: float32, float16 or ml_dtypes.bfloat16; any strides, 0 and negative
    ones included. ``out``, of that shape and dtype, receives the result; it may be the very array
    ``grad_output`` or ``self``. Without it a new C-contiguous array is made.

    ``kernel`` is a name of ``KERNELS``, ``arithmetic`` the format that its operations round to,
    ``rounding`` how results are stored (``lsbench.rounding.Rounding``), ``ftz`` stores subnormal
    results as zeros, and ``seed`` is that of stochastic rounding. ``block`` (elements) and
    ``threads`` change the time taken, never a bit.

    Raises UsageError for an unknown name or number, and TensorError for arrays that do not fit:
    another dtype, differing shapes or dtypes, a read-only ``out``, one with two elements at one
    address, or one that overlaps an input in part.

    >>> log_sigmoid_backward(np.float32([1, 1]), np.float32([0, -200]), kernel="ascend")
    array([0.5, 1. ], dtype=float32)
    """
    grad_output, self = np.asanyarray(grad_output), np.asanyarray(self)
    storage = _storage(grad_output, self)
    choice = _choice(kernel, arithmetic, rounding, storage)
    _check_counts(block, threads, seed)
    if out is None:
        out = np.empty(self.shape, self.dtype)
    else:
        _check_out(out, grad_output, self)
    if threads is None:
        threads = 1 if self.size <= SERIAL else usable_processors()
    _blocks.run(*choice, ftz, seed, grad_output, self, out, block or 0, threads)
    return out


def usable_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _storage(grad_output: Array, self: Array) -> int:
    """The number of the storage format, once the inputs fit together."""
    storage = _STORAGE_NUMBER.get(self.dtype)
    if storage is None or grad_output.dtype != self.dtype or grad_output.shape != self.shape:
        _refuse_inputs(grad_output, self)
    if self.ndim > MAX_DIMS:
        raise TensorError(f"self has {self.ndim} dimensions, expected at most {MAX_DIMS}")
    return storage  # type: ignore[return-value]


def _refuse_inputs(grad_output: Array, self: Array) -> None:
    for name, array in (("grad_output", grad_output), ("self", self)):
        try:
            by_dtype(array.dtype)
        except UsageError as error:
            raise TensorError(f"{name}: {error}") from None
    for what in ("dtype", "shape"):
        found, expected = getattr(grad_output, what), getattr(self, what)
        if found != expected:
            raise TensorError(
                f"grad_output has {what} {found}, expected {expected}, the {what} of self"
            )


@lru_cache(maxsize=1024)
def _choice(kernel: str, arithmetic: str, rounding: str, storage: int) -> tuple[int, int, int, int]:
    """Names → the numbers of kernel, arithmetic, storage and rounding."""
    reason = _obstacle(kernel, arithmetic, rounding)
    if reason is not None:
        raise UsageError(reason)
    arithmetic_number = _FORMAT_NUMBER[arithmetic]
    return KERNELS[kernel].number, arithmetic_number, storage, _ROUNDING_NUMBER[rounding]


def _obstacle(kernel: str, arithmetic: str, rounding: str) -> str | None:
    """Why no kernel goes by these names, or None."""
    if kernel not in KERNELS:
        close = difflib.get_close_matches(kernel, KERNELS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(KERNELS)}"
        return f"unknown kernel {kernel!r}: {hint}"
    if arithmetic not in KERNELS[kernel].storages:
        known = ", ".join(KERNELS[kernel].storages)
        return f"kernel {kernel!r} has no arithmetic {arithmetic!r}: expected one of {known}"
    if rounding not in _ROUNDING_NUMBER:
        return f"unknown rounding {rounding!r}: expected one of {', '.join(Rounding)}"
    return None


def _check_counts(block: int | None, threads: int | None, seed: int) -> None:
    if block is not None and not 0 < block < 1 << 62:
        raise UsageError(f"block is {block}, expected a positive number of elements")
    if threads is not None and not 0 < threads < 1 << 31:
        raise UsageError(f"threads is {threads}, expected a positive number")
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"seed is {seed}, expected a number from 0 to 2^64 - 1")


def _check_out(out: Array, grad_output: Array, self: Array) -> None:
    if not isinstance(out, np.ndarray):
        raise TensorError(f"out is a {type(out).__name__}, expected a NumPy array")
    if out.dtype != self.dtype:
        raise TensorError(f"out has dtype {out.dtype}, expected {self.dtype}, the dtype of self")
    if out.shape != self.shape:
        raise TensorError(f"out has shape {out.shape}, expected {self.shape}, the shape of self")
    if not out.flags.writeable:
        raise TensorError("out is read-only, expected a writeable array")
    if _overlaps_itself(out):
        raise TensorError(
            f"out has two elements at one address (shape {out.shape}, strides {out.strides} bytes)"
        )
    for name, array in (("grad_output", grad_output), ("self", self)):
        # The bounds of most arrays are apart, and NumPy compares those in no time.
        if out is array or not np.may_share_memory(out, array):
            continue
        if overlap(out, array) is Overlap.PARTIAL:
            raise TensorError(
                f"out overlaps {name} in part, expected the very same view or memory of its own"
            )


def _overlaps_itself(array: Array) -> bool:
    if array.flags.c_contiguous:
        return False
    # Counted in bytes, an element being a dimension: strides need not be whole elements.
    shape, strides = (*array.shape, array.itemsize), (*array.strides, 1)
    return View(shape, strides, 0, 0).overlaps_itself


class KernelProvider(Provider):
    """One formula of the compiled kernels, in any arithmetic and rounding that it has.

    ``isa`` names an instruction set; None takes the selected one.
    """

    def __init__(self, name: str, isa: str | None = None) -> None:
        super().__init__(name)
        self.isa = isa or _kernels.selected()

    def unavailable(self) -> str | None:
        """Why it cannot run here: a kernel that this build lacks."""
        return None if self.name in KERNELS else f"this build has no kernel {self.name!r}"

    def version(self) -> str:
        """Version of lsbench and the instruction set in use."""
        return f"{__version__} ({self.isa})"

    def refuse(self, call: Call) -> str | None:
        """Names that the kernel does not have."""
        options = call.options
        reason = _obstacle(self.name, options.arithmetic, options.rounding)
        stored = KERNELS[self.name].storages.get(options.arithmetic, ()) if reason is None else ()
        if reason is None and call.fmt.name not in stored:
            reason = f"kernel {self.name!r} in {options.arithmetic} does not store {call.fmt.name}"
        return reason

    def prepare(self, call: Call) -> Prepared:
        """Check the call once; each run is one call of the compiled driver."""
        return _KernelRun(_kernels.load(self.isa), self.name, call)

    @property
    def axes(self) -> frozenset[str]:
        """Threads and blocks may be varied, and must not change a bit."""
        return frozenset({"threads", "block"})

    def siblings(self) -> dict[str, Provider]:
        """The same kernel in every other instruction set that runs here."""
        usable = (isa for isa, obstacle in _kernels.available().items() if obstacle is None)
        return {isa: KernelProvider(self.name, isa) for isa in usable if isa != self.isa}


class _KernelRun(Prepared):
    """A checked call of the driver on the caller's arrays."""

    def __init__(self, blocks: ModuleType, kernel: str, call: Call) -> None:
        self._blocks = blocks
        options = call.options
        storage = _storage(call.grad_output, call.self)
        _check_counts(options.block, options.threads, options.seed)
        _check_out(call.grad_input, call.grad_output, call.self)
        self._arguments = (
            *_choice(kernel, options.arithmetic, options.rounding, storage),
            options.ftz,
            options.seed,
            call.grad_output,
            call.self,
            call.grad_input,
            options.block or 0,
            options.threads or usable_processors(),
        )

    def run(self) -> None:
        """Compute into ``grad_input``."""
        self._blocks.run(*self._arguments)

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take, measured in compiled code."""
        return float(self._blocks.time_run(*self._arguments, loops)) * 1e-9

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` runs over an empty tensor take."""
        return float(self._blocks.time_empty(loops)) * 1e-9
