"""No access outside the views: arrays end, or begin, at a page that cannot be touched."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from lsbench import _kernels
from lsbench.formats import FORMATS
from lsbench.providers.kernels import KERNELS

USABLE = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
PAGE = mmap.PAGESIZE
TAILS = range(71)
PROT_NONE, PROT_ALL = 0, 3

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="mprotect is called through the C library of Linux"
)


@contextmanager
def guarded(pages):
    """Writable bytes between two pages without any access."""
    library = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    keep = ctypes.c_char.from_buffer(memory)
    start = ctypes.addressof(keep)
    walls = (start, start + (pages + 1) * PAGE)
    for wall in walls:
        assert library.mprotect(ctypes.c_void_p(wall), PAGE, PROT_NONE) == 0
    try:
        yield np.frombuffer(memory, np.uint8, pages * PAGE, PAGE)
    finally:
        for wall in walls:
            library.mprotect(ctypes.c_void_p(wall), PAGE, PROT_ALL)


def run(isa, kernel, fmt, g, x, y, *, rounding="rne", block=0, threads=1):
    blocks = _kernels.load(isa)
    storage = list(FORMATS).index(fmt.name)
    mode = blocks.ROUNDINGS.index(rounding)
    blocks.run(KERNELS[kernel].number, 0, storage, mode, False, 0, g, x, y, block, threads)


def at_the_wall(space, fmt, n, end, step=1):
    """n elements, `step` apart, the last against the upper wall or the first against the lower."""
    itemsize = fmt.itemsize
    held = ((n - 1) * step + 1) * itemsize if n else 0
    part = space[len(space) - held :] if end else space[:held]
    return np.ndarray((n,), fmt.dtype, part, strides=(step * itemsize,))


@pytest.mark.parametrize("isa", USABLE)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("end", [True, False], ids=["upper", "lower"])
def test_every_tail_length_stays_inside(isa, fmt, kernel, end):
    values = np.random.default_rng(1).standard_normal(71).astype(fmt.dtype)
    with guarded(1) as first, guarded(1) as second, guarded(1) as third:
        for n in TAILS:
            tensors = [at_the_wall(s, fmt, n, end) for s in (first, second, third)]
            tensors[0][...] = tensors[1][...] = values[:n]
            for rounding in ("rne", "sr"):
                run(isa, kernel, fmt, *tensors, rounding=rounding)
        del tensors


@pytest.mark.parametrize("isa", USABLE)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("end", [True, False], ids=["upper", "lower"])
def test_strided_views_stay_inside(isa, fmt, end):
    with guarded(4) as first, guarded(4) as second, guarded(4) as third:
        for step in (1, 2, 3, 7):
            for n in TAILS:
                g, x, y = (at_the_wall(s, fmt, n, end, step) for s in (first, second, third))
                run(isa, "exact", fmt, g, x, y)
                run(isa, "exact", fmt, g[::-1], x, y, block=5)
        for rows, columns in ((37, 41), (32, 32), (33, 64), (5, 70), (70, 5), (3, 3)):
            g, x, y = (at_the_wall(s, fmt, rows * columns, end) for s in (first, second, third))
            g, x, y = g.reshape(rows, columns), x.reshape(columns, rows).T, y.reshape(rows, columns)
            run(isa, "fast", fmt, g, x, y)
            run(isa, "fast", fmt, x.T, g.T, y.T, rounding="sr")
            run(isa, "fast", fmt, g, y, x, threads=2)
        del g, x, y


def test_the_wall_is_a_wall():
    # The planted fault: one element beyond the view must kill the process.
    code = """
import numpy as np, sys
from importlib.util import spec_from_file_location, module_from_spec
spec = spec_from_file_location("guard", sys.argv[1]); guard = module_from_spec(spec)
spec.loader.exec_module(guard)
fmt = guard.FORMATS["fp32"]
with guard.guarded(1) as space:
    view = guard.at_the_wall(space, fmt, 8, True)
    beyond = np.lib.stride_tricks.as_strided(view, (9,), (4,))
    guard.run(guard.USABLE[0], "fast", fmt, beyond, beyond, np.empty(9, np.float32))
print("survived")
"""
    child = subprocess.run(
        [sys.executable, "-P", "-c", code, __file__], capture_output=True, text=True, check=False
    )
    assert child.returncode < 0
    assert "survived" not in child.stdout
