"""Views: addresses against plain enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench.errors import TensorError
from lsbench.views import Overlap, View, contiguous_strides, overlap

VIEWS = st.integers(0, 4).flatmap(
    lambda rank: st.builds(
        View,
        st.tuples(*[st.integers(0, 4)] * rank),
        st.tuples(*[st.integers(-7, 7)] * rank),
        st.integers(0, 30),
        st.integers(0, 90),
    )
)


def addresses(view):
    """Every address that the view touches, by counting through its indices."""
    indices = itertools.product(*map(range, view.shape))
    return [
        view.offset + sum(i * s for i, s in zip(at, view.strides, strict=True)) for at in indices
    ]


@given(VIEWS)
def test_extent_overlap_and_bounds_by_enumeration(view):
    touched = addresses(view)
    assert view.size == len(touched)
    if touched:
        assert view.extent == (min(touched), max(touched))
    assert view.overlaps_itself == (len(set(touched)) < len(touched))
    if all(0 <= a < view.storage for a in touched):
        storage = np.arange(view.storage, dtype=np.int32)
        assert view.array(storage).ravel().tolist() == touched
    else:
        with pytest.raises(TensorError, match=r"\d\.\."):
            view.check("self")


@given(VIEWS)
def test_contiguous_is_what_numpy_calls_c_contiguous(view):
    if view.size and view.extent[0] >= 0 and view.extent[1] < view.storage:
        array = view.array(np.zeros(view.storage, np.float32))
        assert view.is_contiguous == array.flags.c_contiguous


def test_strides_that_interleave_without_meeting_are_no_overlap():
    assert not View((3, 2), (2, 3), 0, 9).overlaps_itself
    assert View((4, 2), (2, 6), 0, 20).overlaps_itself


def test_hostile_strides_are_decided_at_once():
    assert View((1 << 20, 1 << 20), (1, 1 << 10), 0, 1 << 40).overlaps_itself
    assert not View((1 << 40, 2), (2, 1), 0, 1 << 42).overlaps_itself


def test_ranks_signs_and_sizes_are_checked():
    with pytest.raises(TensorError, match="2 strides for 1 dimensions"):
        View((3,), (1, 1), 0, 9).check("self")
    with pytest.raises(TensorError, match="negative extent"):
        View((-3,), (1,), 0, 9).check("self")
    with pytest.raises(TensorError, match="address space"):
        View.contiguous((1 << 40, 1 << 40)).check("self")


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (3, 0, 2), (1, 1, 7)])
def test_contiguous_strides_are_numpys(shape):
    array = np.zeros(shape, np.int8)
    assert array.size == 0 or contiguous_strides(shape) == array.strides
    assert View.contiguous(shape).is_contiguous


def test_the_view_of_an_array_gives_the_array_back():
    base = np.arange(24.0).reshape(4, 6)
    for array in (base, base[::-1, ::2], base.T, base[1:3, 2:], np.broadcast_to(base[0], (3, 6))):
        view = View.of(array)
        assert view.shape == array.shape
        low, high = view.extent
        assert (low, high) == (0, view.storage - 1)


def test_overlap_of_two_arrays():
    base = np.zeros(20, np.float32)
    assert overlap(base[:10], base[10:]) is Overlap.NONE
    assert overlap(base[::2], base[1::2]) is Overlap.NONE
    assert overlap(base[:10], base[:10]) is Overlap.SAME
    assert overlap(base[:10], base[5:15]) is Overlap.PARTIAL
    assert overlap(base[:10], base[9::-1]) is Overlap.PARTIAL
    assert overlap(base[:0], base) is Overlap.NONE
