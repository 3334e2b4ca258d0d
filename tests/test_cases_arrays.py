"""Arrays of cases: values where they belong, canaries everywhere else, memory asked for first."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lsbench import cases
from lsbench.cases import arrays as made
from lsbench.cases.case import Case
from lsbench.errors import TensorError
from lsbench.formats import FORMATS, Format
from lsbench.inputs import Drawn, Explicit, Source
from lsbench.layouts import expanded, flipped, offset, padded, sliced, strided, transposed
from lsbench.views import View

EVERY = pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
SHAPE = (4, 6)
VIEWS = {
    "contiguous": View.contiguous(SHAPE),
    "transposed": transposed(SHAPE),
    "sliced": sliced(SHAPE, step=3),
    "flipped": flipped(SHAPE),
    "padded": padded(SHAPE, gap=2),
    "offset": offset(SHAPE, elements=3),
    "strided": strided(SHAPE, (7, 30), 5),
}


def case(fmt: Format, shape: tuple[int, ...] = SHAPE, **views: View | None) -> Case:
    plain = View.contiguous(shape)
    whole = {"grad_output": plain, "self": plain, "buffer": plain, "grad_input": plain} | views
    inputs = {name: Source(Drawn("patterns")) for name in ("grad_output", "self")}
    return Case(
        "c", "c", fmt.name, shape, views=whole, dtypes=dict.fromkeys(whole, fmt.name), inputs=inputs
    )


@EVERY
@pytest.mark.parametrize("name", VIEWS)
def test_values_are_the_same_in_every_layout(fmt, name):
    plain, laid = cases.tensors(case(fmt)), cases.tensors(case(fmt, self=VIEWS[name]))
    assert laid.self.dtype == fmt.dtype
    assert np.array_equal(fmt.pattern(laid.self), fmt.pattern(plain.self))
    assert VIEWS[name].strides == tuple(s // fmt.itemsize for s in laid.self.strides)


def test_values_are_equal_along_an_expanded_axis():
    fmt = FORMATS["fp16"]
    plain = fmt.pattern(cases.tensors(case(fmt)).self)
    laid = fmt.pattern(cases.tensors(case(fmt, self=expanded(SHAPE))).self)
    assert np.array_equal(laid, np.broadcast_to(plain[:1], SHAPE))


def test_of_indices_with_one_address_the_last_holds():
    fmt = FORMATS["fp16"]
    inputs = {"self": Source(Explicit((1, 2, 3, 4))), "grad_output": Source(Explicit((1,), True))}
    window = replace(case(fmt, (2, 2), self=strided((2, 2), (1, 1))), inputs=inputs)
    assert fmt.pattern(cases.tensors(window).self).tolist() == [[1, 3], [3, 4]]


@EVERY
@pytest.mark.parametrize("name", VIEWS)
def test_a_write_outside_the_elements_is_seen_and_one_inside_is_not(fmt, name):
    held = cases.tensors(case(fmt, grad_input=VIEWS[name]))
    assert all(fmt.is_nan(int(b)) for b in fmt.pattern(held.grad_input).ravel())
    held.grad_input[...] = 1
    assert held.gaps_touched() == 0
    outside = np.flatnonzero(held.gaps)
    assert outside.size == held.whole.size - 24
    for place in outside:
        before = held.whole[place]
        held.whole[place] = 0
        assert held.gaps_touched() == 1
        held.whole[place] = before


@EVERY
def test_canaries_lie_in_the_gaps_of_inputs_too(fmt):
    held = cases.tensors(case(fmt, self=sliced(SHAPE)))
    base = held.self
    while base.base is not None:
        base = base.base
    bits = np.frombuffer(bytes(base.tobytes()), fmt.bits_dtype)
    assert np.count_nonzero(bits == made.canary(fmt)) >= 24


@EVERY
def test_storages_are_aligned_and_an_offset_is_off_by_its_elements(fmt):
    held = cases.tensors(case(fmt, self=offset(SHAPE, elements=1)))
    for array, off in ((held.self, 1), (held.grad_output, 0), (held.grad_input, 0)):
        address = array.__array_interface__["data"][0]
        assert address % made.ALIGNMENT == off * fmt.itemsize


@EVERY
def test_the_canary_is_a_nan_that_no_rounding_makes(fmt):
    assert fmt.is_nan(made.canary(fmt))
    assert made.canary(fmt) != fmt.nan_bits


def test_a_buffer_without_values_is_all_nan_and_a_null_one_is_none():
    fmt = FORMATS["fp32"]
    assert np.isnan(cases.tensors(case(fmt)).buffer).all()
    assert cases.tensors(case(fmt, buffer=None)).buffer is None
    with pytest.raises(TensorError, match="self is null"):
        cases.tensors(case(fmt, self=None))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 8, (2, 1, 2, 1, 2, 1, 2, 1)])
def test_empty_scalar_and_8_dimensional_tensors(shape):
    held = cases.tensors(case(FORMATS["bf16"], shape))
    assert held.self.shape == held.grad_input.shape == shape
    assert held.gaps_touched() == 0


def test_more_memory_than_the_machine_has_is_refused_before_it_is_taken():
    huge = case(FORMATS["fp32"], (1 << 20, 1 << 22))
    assert made.needed_memory(huge) > Fraction(4 * 4 * (1 << 42))
    with pytest.raises(TensorError, match=r"c: needs .* GiB of memory, expected at most"):
        cases.tensors(huge)
    wide = case(FORMATS["fp32"], (2,), self=strided((2,), (1 << 45,)))
    with pytest.raises(TensorError, match="of memory"):
        cases.tensors(wide)


def test_an_output_with_shared_addresses_is_refused():
    with pytest.raises(TensorError, match="two indices at one address"):
        cases.tensors(case(FORMATS["fp32"], grad_input=expanded(SHAPE)))
