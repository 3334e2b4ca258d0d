"""Determinism: every axis is tried; a fault planted on one is found there and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from lsbench import determinism
from lsbench.cases import load
from lsbench.formats import BF16, FP16, FP32
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.kernels import KernelProvider
from lsbench.records import Options
from lsbench.row import Settings, run_row

PROCESS = "{deterministic.process: true}"


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


def begins(array):
    """The lowest address, which a flipped view does not begin at."""
    return min(array.ctypes.data, array.ctypes.data + (array.size - 1) * array.strides[-1])


PLANTED = {
    "repeats": lambda call, n, y: add_one(y, 5) if n == 3 else None,
    "threads": lambda call, n, y: add_one(y, 5) if call.options.threads == 2 else None,
    "blocks": lambda call, n, y: add_one(y, 5) if call.options.block == 64 else None,
    "alignment": lambda call, n, y: add_one(y) if begins(call.self) % 64 == 12 else None,
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


def test_a_result_that_another_process_would_not_give_is_found():
    """The child resolves the name: it computes with the real kernel, this process with a fault."""
    honest = KernelProvider("exact")

    class Planted(Reciprocal):
        def prepare(self, call):
            prepared = honest.prepare(call)

            class Run(Prepared):
                def run(self):
                    prepared.run()
                    call.grad_input.flat[11] += 1

            return Run()

    tested = call(20)
    assert determinism.check(honest, tested, axes=["process"]).stable
    planted = Planted()
    planted.name = "exact"
    found = determinism.check(planted, tested, axes=["process"])
    assert moved(found) == {"process"}
    difference = found.axes[-1].difference
    assert difference.index == 11
    assert difference.variants == ("first run", "a fresh process")


def test_a_fresh_process_that_fails_is_a_reason_and_no_verdict():
    found = determinism.check(Reciprocal(), call(), axes=["process"])
    assert found.axes[-1].stable is None
    assert "unknown provider 'planted'" in found.axes[-1].reason


def test_an_element_that_is_not_written_or_added_to_is_found():
    class Lazy(Reciprocal):
        def prepare(self, call):
            honest, provider = super().prepare(call), self

            class Run(Prepared):
                def run(self):
                    before = call.grad_input.copy()
                    honest.run()
                    provider.tail(call.grad_input, before)

            return Run()

    def skip_last(y, before):
        y[..., -1:] = before[..., -1:]

    def accumulate(y, before):
        y += np.nan_to_num(before)

    for tail in (skip_last, accumulate):
        lazy = Lazy()
        lazy.tail = tail
        assert "repeats" in moved(determinism.check(lazy, call(33)))


@pytest.mark.parametrize("place", [0, 5, 36])
@pytest.mark.parametrize(("axis", "n", "index"), [("layout", 100, 0), ("position", 37, 99)])
def test_one_pair_in_all_places_of_a_batch_is_one_result(axis, n, index, place):
    def spoil(call, _, y):
        if y.size == n and np.all(call.self == call.self.flat[0]):
            add_one(y, place)

    found = determinism.check(Reciprocal(spoil), call(100))
    assert moved(found) == {axis}
    assert next(a.difference for a in found.axes if a.name == axis).index == index


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


@pytest.mark.parametrize(("gates", "asked"), [("{}", False), ("{}", True), (PROCESS, False)])
def test_a_row_tries_a_fresh_process_where_it_is_asked_to(tmp_path, gates, asked):
    path = tmp_path / "cases.yaml"
    path.write_text(f"schema: 1\ncases: [{{name: a, shape: [5], dtype: fp32, gates: {gates}}}]\n")
    (case,) = load([str(path)])
    settings = Settings(throughput=False, fresh_process=asked)
    row = run_row(case, KernelProvider("exact"), settings, lambda what, done, total: None)
    tried = row.determinism.axes[-1]
    assert (tried.name, tried.stable) == ("process", True if asked or gates != "{}" else None)
    assert row.passed
