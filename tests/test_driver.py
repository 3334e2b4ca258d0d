"""The blocked driver: strides, threads, blocks, instruction sets, floating-point state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lsbench
from lsbench import _kernels
from lsbench.formats import FORMATS, FP32
from lsbench.providers.base import Call
from lsbench.providers.kernels import KERNELS, KernelProvider
from lsbench.records import Options

USABLE = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
ROWS = [(k.name, a, s) for k in KERNELS.values() for a in k.storages for s in k.storages[a]]

each_isa = pytest.mark.parametrize("isa", USABLE)
each_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)


def compute(isa, kernel, g, x, fmt, *, out=None, **options):
    """One provider call with the kernels of one instruction set."""
    y = np.full(x.shape, 7, fmt.dtype) if out is None else out
    call = Call(fmt, g, x, None, y, Options(**{"threads": 1, **options}))
    provider = KernelProvider(kernel, isa)
    assert provider.refuse(call) is None
    provider.prepare(call).run()
    return y


def bits_of(fmt, array):
    return fmt.pattern(np.ascontiguousarray(array)).ravel()


def pairs(fmt, n, seed, low=-20.0, high=20.0):
    rng = np.random.default_rng(seed)
    g = (rng.standard_normal(n) * rng.choice([1e-3, 1.0, 1e3], n)).astype(fmt.dtype)
    x = rng.uniform(low, high, n).astype(fmt.dtype)
    return g, x


@st.composite
def layouts(draw):
    """A shape and, for each of three tensors, a permutation, steps, flips and an expansion."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=8, min_side=0, max_side=9))
    while math.prod(shape) > 20000:
        shape = shape[:-1]
    tensors = []
    for tensor in range(3):
        order = draw(st.permutations(range(len(shape))))
        steps = draw(st.lists(st.sampled_from([1, 1, 2, 3, -1, -2]), min_size=len(shape),
                              max_size=len(shape)))  # fmt: skip
        expanded = draw(st.sets(st.integers(0, 7))) if tensor < 2 else set()
        tensors.append((order, steps, expanded & set(range(len(shape)))))
    return shape, tensors


def strided(base_bits, shape, layout, fmt):
    """The storage and the view of an array of that shape whose memory is laid out so."""
    order, steps, expanded = layout
    sizes = [
        1 if d in expanded else n * abs(s)
        for d, (n, s) in enumerate(zip(shape, steps, strict=True))
    ]
    storage = np.resize(base_bits, max(math.prod(sizes), 1))[: math.prod(sizes)].copy()
    view = storage.reshape([sizes[d] for d in order]).transpose(np.argsort(order).tolist())
    view = view[tuple(slice(None, None, 1 if d in expanded else s) for d, s in enumerate(steps))]
    view = np.lib.stride_tricks.as_strided(
        view,
        shape,
        tuple(0 if d in expanded else view.strides[d] for d in range(len(shape))),
    )
    return storage, view.view(fmt.dtype)


@settings(max_examples=150, deadline=None)
@given(layout=layouts(), data=st.data())
def test_any_strides_give_the_bits_of_contiguous_arrays(layout, data):
    shape, tensors = layout
    fmt = data.draw(st.sampled_from(list(FORMATS.values())))
    isa = data.draw(st.sampled_from(USABLE))
    kernel = data.draw(st.sampled_from(list(KERNELS)))
    options = {
        "rounding": data.draw(st.sampled_from(["rne", "sr", "rup"])),
        "block": data.draw(st.sampled_from([None, 1, 7, 100, 1 << 20])),
        "threads": data.draw(st.integers(1, 3)),
    }
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    pools = [bits_of(fmt, (rng.standard_normal(500) * 3).astype(fmt.dtype)) for _ in range(3)]
    storages, views = zip(
        *(strided(p, shape, t, fmt) for p, t in zip(pools, tensors, strict=True)), strict=True
    )
    before = [s.copy() for s in storages]
    g, x, y = views
    expected = compute(isa, kernel, g.copy(), x.copy(), fmt, rounding=options["rounding"])
    compute(isa, kernel, g, x, fmt, out=y, **options)
    assert np.array_equal(bits_of(fmt, y), bits_of(fmt, expected))
    assert np.array_equal(storages[0], before[0])
    assert np.array_equal(storages[1], before[1])
    # Gaps of the output keep their bits.
    gaps = np.ones(storages[2].size, bool)
    gaps[positions(shape, tensors[2])] = False
    assert np.array_equal(storages[2][gaps], before[2][gaps])


def positions(shape, layout):
    """Indices into the storage that a tensor of that layout owns."""
    order, steps, _ = layout
    sizes = [n * abs(s) for n, s in zip(shape, steps, strict=True)]
    storage = np.arange(math.prod(sizes))
    view = storage.reshape([sizes[d] for d in order]).transpose(np.argsort(order).tolist())
    return view[tuple(slice(None, None, s) for s in steps)].ravel()


@each_isa
@each_format
@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (33, 1, 65), (3, 70, 70), (1000, 3)])
def test_transposed_operands(isa, fmt, shape):
    rng = np.random.default_rng(2)
    make = lambda: (rng.standard_normal(shape[::-1]) * 3).astype(fmt.dtype)  # noqa: E731
    g, x = make(), make()
    expected = compute(isa, "exact", g.T.copy(), x.T.copy(), fmt)
    for rounding in ("rne", "sr"):
        expected = compute(isa, "exact", g.T.copy(), x.T.copy(), fmt, rounding=rounding)
        for gt, xt in ((g.T, x.T.copy()), (g.T.copy(), x.T), (g.T, x.T)):
            for out in (np.zeros(shape, fmt.dtype), np.zeros(shape[::-1], fmt.dtype).T):
                got = compute(isa, "exact", gt, xt, fmt, out=out, rounding=rounding, threads=2)
                assert np.array_equal(bits_of(fmt, got), bits_of(fmt, expected))


@each_isa
@each_format
def test_transposed_operands_at_every_offset_from_a_cache_line(isa, fmt):
    item, shape = fmt.dtype.itemsize, (300, 150)  # some tiles high, some wide
    values = [
        (np.random.default_rng(i).standard_normal(shape) * 3).astype(fmt.dtype) for i in (0, 1)
    ]
    expected = compute(isa, "exact", *values, fmt).tobytes()
    room = np.zeros(math.prod(shape) * item + 128, np.uint8)
    aligned = -room.ctypes.data % 64
    for offset in range(0, 64, item):
        for moved in range(3):
            where = room[aligned + offset :][: math.prod(shape) * item]
            view = where.view(fmt.dtype).reshape(shape[::-1]).T
            tensors = [*values, np.full(shape, 7, fmt.dtype)]
            view[...] = tensors[moved]
            tensors[moved] = view
            compute(isa, "exact", *tensors[:2], fmt, out=tensors[2])
            assert np.ascontiguousarray(tensors[2]).tobytes() == expected, (offset, moved)


@each_isa
@each_format
@pytest.mark.parametrize("shape", [(40, 33, 50), (17, 70, 35), (65, 2, 33)])
def test_every_tensor_dense_in_another_dimension(isa, fmt, shape):
    rng = np.random.default_rng(3)
    values = [(rng.standard_normal(shape) * 3).astype(fmt.dtype) for _ in range(2)]
    orders = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    for rounding in ("rne", "sr"):
        expected = compute(isa, "exact", *values, fmt, rounding=rounding).tobytes()
        for first in orders:
            for second in orders:
                laid = [
                    np.ascontiguousarray(v.transpose(o)).transpose(np.argsort(o).tolist())
                    for v, o in zip(values, (first, second), strict=True)
                ]
                got = compute(isa, "exact", *laid, fmt, rounding=rounding, threads=2)
                assert got.tobytes() == expected


@each_isa
@each_format
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_threads_blocks_and_position_do_not_move_a_bit(isa, fmt, kernel):
    g, x = pairs(fmt, 150_000, 8)
    for rounding in ("rne", "sr"):
        reference = bits_of(fmt, compute(isa, kernel, g, x, fmt, rounding=rounding))
        for threads, block in ((2, None), (3, 1000), (7, 12345), (1, 77), (2, 1 << 40)):
            options = {"rounding": rounding, "threads": threads, "block": block}
            assert np.array_equal(
                bits_of(fmt, compute(isa, kernel, g, x, fmt, **options)), reference
            )
    reference = bits_of(fmt, compute(isa, kernel, g, x, fmt))
    for start in (1, 2, 3, 5, 8, 13, 31):
        got = compute(isa, kernel, g[start : start + 1000], x[start : start + 1000], fmt)
        assert np.array_equal(bits_of(fmt, got), reference[start : start + 1000])


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 12.0, -12.0, 88.5, -88.5, 104.0, 1e-7]


@pytest.mark.parametrize("kernel", list(KERNELS))
@each_format
def test_instruction_sets_agree(kernel, fmt):
    g, x = pairs(fmt, 20_000, 9)
    x[::7] = np.resize(np.array(SPECIAL).astype(fmt.dtype), x[::7].shape)
    g[::5] = np.resize(np.array(SPECIAL).astype(fmt.dtype), g[::5].shape)
    for arithmetic in KERNELS[kernel].storages:
        for rounding in ("rne", "rto", "sr"):
            options = {"arithmetic": arithmetic, "rounding": rounding}
            results = {compute(isa, kernel, g, x, fmt, **options).tobytes() for isa in USABLE}
            assert len(results) == 1, (arithmetic, rounding)


@each_isa
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("threads", [1, 2])
def test_the_callers_floating_point_state_changes_nothing_and_is_kept(isa, kernel, threads):
    blocks = _kernels.load(isa)
    usual = blocks.floating_point_state()
    g, x = pairs(FP32, 100_000, 4)
    g[::3] = 1e-40
    x[::3] = 3
    x[1::3] += 85
    reference = compute(isa, kernel, g, x, FP32, threads=threads).tobytes()
    for flags in (0, 1, 2, 3):
        for direction in range(4):
            try:
                blocks.set_floating_point_state(flags, direction)
                found = compute(isa, kernel, g, x, FP32, threads=threads)
                kept = blocks.floating_point_state()
            finally:
                blocks.set_floating_point_state(*usual)
            assert found.tobytes() == reference
            assert kept == (flags, direction)


@each_isa
def test_ftz_flushes_results_and_only_when_asked(isa):
    g, x = np.float32([1, 1, -1]), np.float32([88, 1, 88])
    assert (compute(isa, "exact", g, x, FP32)[[0, 2]] != 0).all()
    flushed = compute(isa, "exact", g, x, FP32, ftz=True)
    assert flushed.view(np.uint32)[[0, 2]].tolist() == [0, 0x80000000]
    assert flushed[1] != 0


@each_isa
@each_format
@pytest.mark.parametrize("threads", [1, 2])
def test_in_place(isa, fmt, threads):
    g, x = pairs(fmt, 90_000, 6)
    for shape in ((90_000,), (300, 300)):
        for transpose in (False, True):
            a, b = g.reshape(shape).copy(), x.reshape(shape).copy()
            a, b = (a.T, b) if transpose else (a, b)
            expected = compute(isa, "exact", a, b, fmt).tobytes()
            assert compute(isa, "exact", a.copy("K"), b, fmt, threads=threads).tobytes() == expected
            over_g, over_x = a.copy("K"), b.copy("K")
            got = compute(isa, "exact", over_g, b, fmt, out=over_g, threads=threads)
            assert got.tobytes() == expected
            got = compute(isa, "exact", a, over_x, fmt, out=over_x, threads=threads)
            assert got.tobytes() == expected


def test_fields_of_records_that_are_not_aligned():
    record = np.dtype([("tag", "i1"), ("x", "f4"), ("g", "f4")])
    rows = np.zeros(1000, record)
    rows["g"], rows["x"] = pairs(FP32, 1000, 1)
    out = np.zeros(1000, np.dtype([("tag", "i1"), ("y", "f4")]))
    lsbench.log_sigmoid_backward(rows["g"], rows["x"], kernel="exact", out=out["y"])
    expected = lsbench.log_sigmoid_backward(rows["g"].copy(), rows["x"].copy(), kernel="exact")
    assert np.array_equal(out["y"], expected)
    assert not out["tag"].any()
