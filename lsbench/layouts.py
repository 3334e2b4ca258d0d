"""Layouts: how a tensor of some shape lies in its storage, one named function each.

A case file names them; each takes the shape and its own parameters (the keyword-only arguments,
whose first may be given without its name) and returns a :class:`~lsbench.views.View`. Axes count
from 0, negative ones from the end; strides, offsets and gaps count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lsbench.errors import TensorError
from lsbench.views import View, contiguous_strides

Shape = tuple[int, ...]


def contiguous(shape: Shape) -> View:
    """Row-major, filling its storage.

    >>> contiguous((2, 3)).strides
    (3, 1)
    """
    return View.contiguous(shape)


def transposed(shape: Shape, *, axes: Sequence[int] | None = None) -> View:
    """A row-major tensor seen with its axes in another order; by default in reversed order.

    ``axes[i]`` is the axis of the stored tensor that becomes axis i, as in ``numpy.transpose``.

    >>> transposed((2, 3)).strides
    (1, 2)
    """
    rank = len(shape)
    order = list(range(rank))[::-1] if axes is None else [_axis(a, rank) for a in axes]
    if sorted(order) != list(range(rank)):
        raise TensorError(
            f"axes {list(axes or ())} do not name each of {rank} dimensions once: "
            f"expected an order of 0 to {rank - 1}"
        )
    stored = [0] * rank
    for i, axis in enumerate(order):
        stored[axis] = shape[i]
    strides = contiguous_strides(tuple(stored))
    return View(shape, tuple(strides[axis] for axis in order), 0, prod(shape))


def sliced(shape: Shape, *, step: int = 2, axis: int = -1) -> View:
    """Every step-th element along one axis of a larger tensor; a negative step runs backwards.

    >>> sliced((4,)).strides, sliced((4,)).storage
    ((2,), 8)
    """
    if not shape:
        raise TensorError("a tensor of 0 dimensions has no axis to slice: expected 1 or more")
    steps: list[int | None] = [None] * len(shape)
    steps[_axis(axis, len(shape))] = step
    return slice_steps(shape, steps=steps)


def slice_steps(shape: Shape, *, steps: Sequence[int | None]) -> View:
    """One step an axis, null for a whole axis: [null, 2] is x[:, ::2] of a tensor twice as wide.

    >>> slice_steps((2, 3), steps=[None, 2]).strides
    (6, 2)
    """
    if len(steps) != len(shape):
        raise TensorError(
            f"{len(steps)} steps for {len(shape)} dimensions: expected one step (or null) each"
        )
    if 0 in steps:
        raise TensorError("a step is 0: expected another integer, or the layout 'expanded'")
    wide = tuple(n * abs(s or 1) for n, s in zip(shape, steps, strict=True))
    stored = contiguous_strides(wide)
    strides = tuple(b * (s or 1) for b, s in zip(stored, steps, strict=True))
    return View(shape, strides, _first(shape, strides), prod(wide))


def expanded(shape: Shape, *, axis: int | Sequence[int] = 0) -> View:
    """Stride 0 along one axis or several, so that all values along it are one value.

    >>> expanded((2, 3)).strides, expanded((2, 3)).storage
    ((0, 1), 3)
    """
    if not shape:
        raise TensorError("a tensor of 0 dimensions has no axis to expand: expected 1 or more")
    axes = {_axis(a, len(shape)) for a in _listed(axis)}
    stored = tuple(min(n, 1) if i in axes else n for i, n in enumerate(shape))
    strides = contiguous_strides(stored)
    kept = tuple(0 if i in axes else s for i, s in enumerate(strides))
    return View(shape, kept, 0, prod(stored))


def flipped(shape: Shape, *, axis: int | Sequence[int] | None = None) -> View:
    """Negative strides along one axis or several; by default along all of them.

    >>> flipped((4,)).strides, flipped((4,)).offset
    ((-1,), 3)
    """
    rank = len(shape)
    axes = set(range(rank)) if axis is None else {_axis(a, rank) for a in _listed(axis)}
    strides = tuple(-s if i in axes else s for i, s in enumerate(contiguous_strides(shape)))
    return View(shape, strides, _first(shape, strides), prod(shape))


def padded(shape: Shape, *, gap: int = 1) -> View:
    """Row-major with a gap after each row (of the last axis), as a pitched allocation has.

    >>> padded((2, 3), gap=5).strides
    (8, 1)
    """
    if gap < 0:
        raise TensorError(f"a gap of {gap} elements: expected 0 or more")
    if not shape:
        return View((), (), 0, 1 + gap)
    wide = (*shape[:-1], shape[-1] + gap)
    return View(shape, contiguous_strides(wide), 0, prod(wide))


def offset(shape: Shape, *, elements: int = 1) -> View:
    """Row-major, beginning some elements into its storage: a base that is off its alignment.

    >>> offset((2,), elements=3).offset
    3
    """
    if elements < 0:
        raise TensorError(f"an offset of {elements}: expected 0 or more")
    return View(shape, contiguous_strides(shape), elements, elements + prod(shape))


def strided(
    shape: Shape, strides: Sequence[int], offset: int | None = None, storage: int | None = None
) -> View:
    """Explicit strides and offset; the storage is by default as small as they allow.

    Without an offset the view begins where the lowest element lies at 0. Raises TensorError for an
    element outside the storage.

    >>> strided((64, 48), (1, 1024), 3).storage
    48195
    """
    if len(strides) != len(shape):
        raise TensorError(
            f"{len(strides)} strides for {len(shape)} dimensions: expected one stride a dimension"
        )
    start = _first(shape, tuple(strides)) if offset is None else offset
    view = View(shape, tuple(strides), start, 0)
    needed = max(view.extent[1] + 1, start if view.size == 0 else 0)
    view = View(shape, view.strides, start, needed if storage is None else storage)
    view.check("view")
    return view


LAYOUTS: dict[str, Callable[..., View]] = {
    "contiguous": contiguous,
    "transposed": transposed,
    "sliced": sliced,
    "slice": slice_steps,
    "expanded": expanded,
    "flipped": flipped,
    "padded": padded,
    "offset": offset,
}
"""Name in a case file → function; explicit strides are :func:`strided`."""


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise TensorError(f"axis {axis} of {rank} dimensions: expected {-rank} to {rank - 1}")
    return axis % rank


def _listed(axis: int | Sequence[int]) -> Sequence[int]:
    return [axis] if isinstance(axis, int) else axis


def _first(shape: Shape, strides: Shape) -> int:
    """The offset at which the lowest element of a view lies at 0."""
    return -View(shape, strides, 0, 0).extent[0]
