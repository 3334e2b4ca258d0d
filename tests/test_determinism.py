"""Determinism: every axis is tried; a fault planted on one is found there and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from lsbench import determinism
from lsbench.formats import BF16, FP16, FP32
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.records import Options


class Reciprocal(Provider):
    """g / (1 + 2x) in NumPy, with a spoiler that may look at the call and at a counter."""

    def __init__(self, spoil=lambda call, n, y: None, axes=("threads", "block"), sibling=None):
        super().__init__("planted")
        self.spoil, self._axes, self.sibling, self.count = spoil, axes, sibling, 0

    axes = property(lambda self: frozenset(self._axes))

    def siblings(self):
        return {"other": self.sibling} if self.sibling else {}

    def unavailable(self):
        return None

    def version(self):
        return "1"

    def refuse(self, call):
        return None

    def prepare(self, call):
        provider = self

        class Run(Prepared):
            def run(self):
                provider.count += 1
                y = (call.grad_output / (1 + 2 * call.self)).astype(call.fmt.dtype)
                provider.spoil(call, provider.count, y)
                call.grad_input[...] = y

        return Run()


def call(n=100, fmt=FP32, options=None, shape=None):
    draw = np.random.default_rng(3)
    g, x = (draw.uniform(1, 2, shape or (n,)).astype(fmt.dtype) for _ in range(2))
    return Call(fmt, g, x, None, np.empty_like(g), options or Options())


def add_one(y, at=0):
    y.reshape(-1)[at] += 1


def moved(found):
    return {axis.name for axis in found.axes if axis.stable is False}


ALL = set(determinism.AXES)


def test_a_sound_provider_is_stable_on_every_axis_that_it_has():
    sound = Reciprocal(sibling=Reciprocal())
    found = determinism.check(sound, call())
    assert found.stable
    states = {axis.name: axis.stable for axis in found.axes}
    assert states == dict.fromkeys(ALL, True) | {"process": None}
    assert all(axis.tried or axis.reason for axis in found.axes)


PLANTED = {
    "repeats": lambda call, n, y: add_one(y, 5) if n == 3 else None,
    "threads": lambda call, n, y: add_one(y, 5) if call.options.threads == 2 else None,
    "blocks": lambda call, n, y: add_one(y, 5) if call.options.block == 64 else None,
    "alignment": lambda call, n, y: add_one(y) if call.self.ctypes.data % 64 == 12 else None,
    "layout": lambda call, n, y: add_one(y) if call.self.strides[-1] < 0 else None,
    "position": lambda call, n, y: add_one(y, y.size // 4 * 4) if y.size % 4 else None,
}


@pytest.mark.parametrize("axis", PLANTED)
def test_a_planted_fault_is_found_on_its_axis(axis):
    tested = call(100)
    tested = Call(
        tested.fmt,
        determinism.shifted(tested.grad_output, 0),
        determinism.shifted(tested.self, 0),
        None,
        tested.grad_input,
        tested.options,
    )
    found = determinism.check(Reciprocal(PLANTED[axis]), tested)
    assert axis in moved(found)
    # A flipped array begins at its last element, wherever the allocator put that.
    both = {"alignment", "layout"}
    assert moved(found) <= both if axis in both else moved(found) == {axis}
    difference = next(a.difference for a in found.axes if a.name == axis)
    assert difference.first.hex != difference.second.hex
    assert difference.variants[0] == "first run"


def test_another_build_that_differs_is_found():
    other = Reciprocal(lambda call, n, y: add_one(y, 7))
    found = determinism.check(Reciprocal(sibling=other), call())
    assert moved(found) == {"isa"}
    assert next(a.difference for a in found.axes if a.name == "isa").index == 7


def test_what_cannot_be_varied_says_why():
    found = determinism.check(Reciprocal(axes=()), call(options=Options(rounding="sr")))
    why = {axis.name: axis.reason for axis in found.axes if axis.stable is None}
    assert set(why) == {"threads", "blocks", "position", "isa", "process"}
    assert all(why.values())


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4)])
def test_odd_shapes(shape):
    assert determinism.check(Reciprocal(), call(shape=shape)).stable


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
def test_16_bit_formats_report_the_differing_values(fmt):
    found = determinism.check(Reciprocal(PLANTED["threads"]), call(fmt=fmt))
    difference = next(a.difference for a in found.axes if a.name == "threads")
    assert difference.index == 5
    low, high = (float(v.decimal) for v in (difference.first, difference.second))
    assert high == pytest.approx(low + 1, rel=0.01)


def test_the_hash_is_of_logical_bits_alone():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    hashes = {
        determinism.output_hash(FP32, a)
        for a in (
            base,
            np.asfortranarray(base),
            base[::-1].copy()[::-1],
            np.repeat(base, 2, 1)[:, ::2],
        )
    }
    assert len(hashes) == 1
    assert determinism.output_hash(FP32, base.T) not in hashes
    assert determinism.output_hash(FP32, base.reshape(6, 4)) not in hashes


def test_nans_are_one_value_and_zeros_two():
    def one(bits):
        return determinism.output_hash(FP32, np.array([bits], np.uint32).view(np.float32))

    assert one(0x7FC00000) == one(0xFFC00001) == one(0x7F800001)
    assert one(0) != one(0x80000000)
    assert one(0x7F800000) != one(0x7FC00000)


def test_the_hash_does_not_depend_on_chunks(monkeypatch):
    array = np.arange(1000, dtype=np.float32)
    whole = determinism.output_hash(FP32, array)
    monkeypatch.setattr(determinism, "CHUNK", 7)
    assert determinism.output_hash(FP32, array) == whole
