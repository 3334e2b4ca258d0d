"""Functions as users write them, and as they break: what providers of callables are tested with.

Loaded by path, in child processes; each of the broken ones plants one fault.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np


def good(grad_output, self):
    """Right to a few ulp, in any dtype."""
    wide = grad_output.astype(np.float32) / (1 + np.exp(self.astype(np.float32)))
    return wide.astype(self.dtype)


def raises(grad_output, self):
    raise ValueError("no such thing\nand more")


def wrong_shape(grad_output, self):
    return grad_output.reshape(-1)[:3]


def wrong_dtype(grad_output, self):
    return grad_output.astype(np.float64)


def returns_nothing(grad_output, self):
    good(grad_output, self)


def changes_input(grad_output, self):
    result = good(grad_output, self)
    self[...] = 0
    return result


def segfaults(grad_output, self):
    ctypes.string_at(0)


def hangs(grad_output, self):
    while True:
        pass


def exits(grad_output, self):
    sys.exit(7)


def exits_at_once(grad_output, self):
    os._exit(0)


def eats_memory(grad_output, self):
    eaten = []
    while True:
        eaten.append(np.ones(1 << 20))


def prints(grad_output, self):
    print("x" * 1_000_000)
    return good(grad_output, self)


def writes_outside(grad_output, self):
    """Writes one element before its input, as an index that is off by one does."""
    before = np.lib.stride_tricks.as_strided(self.reshape(-1)[0:], (2,), (-self.itemsize,))
    before[1] = 0
    return good(grad_output, self)


class Holder:
    """A function may be an attribute."""

    method = staticmethod(good)


not_a_function = 3


FATAL = "LSBENCH_TEST_FATAL"
"""Environment variable: the x on which the functions below fail."""


def _fatal(self):
    return (self == self.dtype.type(os.environ[FATAL])).any()


def segfaults_at(grad_output, self):
    return segfaults(grad_output, self) if _fatal(self) else good(grad_output, self)


def hangs_at(grad_output, self):
    return hangs(grad_output, self) if _fatal(self) else good(grad_output, self)


def raises_at(grad_output, self):
    return raises(grad_output, self) if _fatal(self) else good(grad_output, self)


def eats_memory_at(grad_output, self):
    return eats_memory(grad_output, self) if _fatal(self) else good(grad_output, self)
