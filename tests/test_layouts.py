"""Each named layout is the NumPy view that it is named after."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench import layouts
from lsbench.errors import TensorError
from lsbench.views import View

SHAPE = (2, 3, 4)


def stored(*shape: int) -> np.ndarray:
    """A row-major tensor whose elements are their own storage indices."""
    return np.arange(prod(shape)).reshape(shape)


NUMPY: dict[str, tuple[View, Callable[[], np.ndarray]]] = {
    "contiguous": (layouts.contiguous(SHAPE), lambda: stored(2, 3, 4)),
    "transposed": (layouts.transposed(SHAPE), lambda: stored(4, 3, 2).T),
    "permuted": (
        layouts.transposed(SHAPE, axes=[1, -1, 0]),
        lambda: stored(4, 2, 3).transpose(1, 2, 0),
    ),
    "sliced": (layouts.sliced(SHAPE), lambda: stored(2, 3, 8)[..., ::2]),
    "sliced backwards": (
        layouts.sliced(SHAPE, step=-3, axis=0),
        lambda: stored(6, 3, 4)[3::-3],
    ),
    "slice": (
        layouts.slice_steps(SHAPE, steps=[2, None, 3]),
        lambda: stored(4, 3, 12)[::2, :, ::3],
    ),
    "expanded": (layouts.expanded(SHAPE), lambda: np.broadcast_to(stored(1, 3, 4), SHAPE)),
    "expanded twice": (
        layouts.expanded(SHAPE, axis=[0, -1]),
        lambda: np.broadcast_to(stored(1, 3, 1), SHAPE),
    ),
    "flipped": (layouts.flipped(SHAPE), lambda: stored(2, 3, 4)[::-1, ::-1, ::-1]),
    "flipped once": (layouts.flipped(SHAPE, axis=1), lambda: stored(2, 3, 4)[:, ::-1]),
    "padded": (layouts.padded(SHAPE, gap=3), lambda: stored(2, 3, 7)[..., :4]),
    "offset": (layouts.offset(SHAPE, elements=5), lambda: 5 + stored(2, 3, 4)),
    "strided": (
        layouts.strided(SHAPE, (1, 50, 7), 9),
        lambda: 9 + np.add.outer([0, 1], np.add.outer([0, 50, 100], [0, 7, 14, 21])),
    ),
    "strided backwards": (layouts.strided((3,), (-2,)), lambda: np.array([4, 2, 0])),
}


@pytest.mark.parametrize("name", NUMPY)
def test_a_layout_addresses_what_numpy_does(name):
    view, expected = NUMPY[name]
    view.check("view")
    assert np.array_equal(view.array(np.arange(view.storage)), expected())


@pytest.mark.parametrize("name", layouts.LAYOUTS)
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1,), (1, 1, 1), (2,) * 8])
def test_every_layout_holds_empty_and_8_dimensional_shapes(name, shape):
    given = {"steps": [2] * len(shape)} if name == "slice" else {}
    view = layouts.LAYOUTS[name](shape, **given)
    view.check("view")
    assert view.shape == shape
    assert view.array(np.arange(view.storage)).shape == shape


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_explicit_strides_take_the_least_storage(dims, spare):
    shape, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    view = layouts.strided(shape, strides)
    low, high = view.extent
    assert (low, high) == (0, view.storage - 1)
    moved = layouts.strided(shape, strides, view.offset + spare)
    assert moved.storage == view.storage + spare


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layouts.transposed(SHAPE, axes=[0, 0, 1]), "each of 3 dimensions once"),
        (lambda: layouts.transposed(SHAPE, axes=[0, 1]), "each of 3 dimensions once"),
        (lambda: layouts.sliced(SHAPE, axis=3), "axis 3 of 3 dimensions"),
        (lambda: layouts.sliced(SHAPE, step=0), "a step is 0"),
        (lambda: layouts.sliced(()), "no axis to slice"),
        (lambda: layouts.slice_steps(SHAPE, steps=[2]), "1 steps for 3 dimensions"),
        (lambda: layouts.expanded(()), "no axis to expand"),
        (lambda: layouts.expanded(SHAPE, axis=[-4]), "axis -4"),
        (lambda: layouts.padded(SHAPE, gap=-1), "gap of -1"),
        (lambda: layouts.offset(SHAPE, elements=-1), "offset of -1"),
        (lambda: layouts.strided(SHAPE, (1, 2)), "2 strides for 3 dimensions"),
        (lambda: layouts.strided((3,), (2,), storage=4), "elements lie at 0..4"),
        (lambda: layouts.strided((3,), (-2,), 1), "elements lie at -3..1"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(make, message):
    with pytest.raises(TensorError, match=message) as caught:
        make()
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)
