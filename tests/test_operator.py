"""The operator's contract: every row of the page, in the vendor's order of checks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lsbench.errors import UsageError
from lsbench.operator import (
    PRODUCTS,
    DataType,
    Status,
    Tensor,
    check_memory,
    get_workspace_size,
    status_of,
)
from lsbench.views import View

OK, NULL, INVALID = 0, 161001, 161002
F32, F16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16
NAMES = ["grad_output", "self", "buffer", "grad_input"]


def tensor(shape=(2, 3), dtype=F32):
    return Tensor(View.contiguous(tuple(shape)), dtype)


def phase(**changes):
    tensors = {name: tensor() for name in NAMES}
    options = {k: v for k, v in changes.items() if k not in NAMES}
    tensors |= {k: v for k, v in changes.items() if k in NAMES}
    return get_workspace_size(*(tensors[name] for name in NAMES), **options)


def test_codes_and_types_have_the_interfaces_numbers():
    assert Status.ACLNN_ERR_PARAM_NULLPTR == NULL
    assert Status.ACLNN_ERR_PARAM_INVALID == INVALID
    assert (F32, F16, BF16) == (0, 1, 27)


@pytest.mark.parametrize("name", NAMES)
def test_a_null_tensor(name):
    found = phase(**{name: None})
    assert found.status == NULL
    assert found.executor is None
    assert "is null" in found.message


@pytest.mark.parametrize("name", ["workspace_size", "executor"])
def test_a_null_output_address(name):
    assert phase(**{name: False}).status == NULL


SUPPORT = {
    "Atlas A2": {F32, F16, BF16},
    "Atlas A3": {F32, F16, BF16},
    "Atlas inference": {F32, F16},
    "Atlas training": {F32, F16},
    "Ascend 950PR": set(),
    "Ascend 950DT": set(),
    "Atlas 200I/500 A2": set(),
}


@pytest.mark.parametrize(("product", "dtype"), list(itertools.product(SUPPORT, [F32, F16, BF16])))
def test_the_products_and_their_dtypes(product, dtype):
    found = phase(**{name: tensor(dtype=dtype) for name in NAMES}, product=product)
    assert found.status == (OK if dtype in SUPPORT[product] else INVALID)
    assert set(PRODUCTS) == set(SUPPORT)


@pytest.mark.parametrize("name", ["grad_output", "self", "grad_input"])
def test_dtypes_and_shapes_must_agree(name):
    for odd in (tensor(dtype=F16), tensor(shape=(3, 2)), tensor(shape=(2, 3, 1))):
        found = phase(**{name: odd})
        assert found.status == INVALID
        assert "expected" in found.message


@pytest.mark.parametrize("odd", [tensor(dtype=BF16), tensor(shape=(7,)), tensor(shape=())])
def test_the_buffer_is_not_checked_but_noted(odd):
    found = phase(buffer=odd)
    assert found.status == OK
    assert any("buffer" in note for note in found.notes)
    assert phase().notes == ()


@pytest.mark.parametrize("rank", range(11))
def test_one_to_eight_dimensions(rank):
    shape = (2,) * rank
    found = phase(**{name: tensor(shape) for name in NAMES})
    assert found.status == (OK if 1 <= rank <= 8 else INVALID)


def test_null_is_checked_before_dtypes_and_dtypes_before_shapes():
    odd = tensor(shape=(9,), dtype=F16)
    assert phase(grad_output=odd, buffer=None).status == NULL
    assert "FLOAT16" in phase(self=odd).message
    assert "FLOAT16" in phase(grad_output=tensor((1,) * 9), self=odd).message


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_tensors_succeed_and_compute_nothing(shape):
    found = phase(**{name: tensor(shape) for name in NAMES})
    assert (found.status, found.workspace_size) == (OK, 0)
    ran = []
    assert found.executor.run(lambda: ran.append(1)) == OK
    assert ran == []


def test_an_executor_runs_once():
    executor = phase().executor
    ran = []
    assert executor.run(lambda: ran.append(1)) == OK
    with pytest.raises(UsageError, match="has run already"):
        executor.run(lambda: ran.append(1))
    assert ran == [1]


def test_an_unknown_product_is_named():
    with pytest.raises(UsageError, match=r"Atlas Z9.*expected one of Atlas A2"):
        phase(product="Atlas Z9")


def test_memory_that_gradinput_may_share():
    base = np.zeros(40, np.float32)
    g, x = base[:10], base[5:15]
    assert check_memory(g, x, base[20:30]) == ""
    assert check_memory(g, base[20:30], g) == ""
    assert check_memory(g, base[20:30], base[20:30]) == ""
    assert check_memory(g, g, g) == ""
    assert "overlaps gradOutput in part" in check_memory(g, x, x)
    assert "overlaps self in part" in check_memory(base[30:40], x, base[10:20])
    twice = np.lib.stride_tricks.as_strided(base, (2, 3), (0, 4))
    assert "one address" in check_memory(base[10:16], base[20:26], twice)


def test_a_status_of_another_interface_stays_a_number():
    assert status_of(161002) is Status.ACLNN_ERR_PARAM_INVALID
    assert status_of(561103) == 561103
