"""The operator's C interface: its contract, its results, its settings."""

from __future__ import annotations

import ctypes
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from acl_calls import (
    BF16,
    F16,
    F32,
    INVALID,
    INVALID_PARAM,
    NULL,
    OK,
    initialised,
)

from lsbench import _acl, _kernels, exact
from lsbench.formats import FORMATS, FP32
from lsbench.operator import PRODUCTS, DataType, Tensor, get_workspace_size
from lsbench.providers.kernels import KERNELS, log_sigmoid_backward
from lsbench.views import View

NAMES = {"grad_output": "gradOutput", "self": "self", "buffer": "buffer", "grad_input": "gradInput"}
ORDER = list(NAMES)


@pytest.fixture
def acl():
    with initialised() as made:
        yield made


# ---- the contract ----


@pytest.mark.parametrize("name", ORDER)
def test_a_null_tensor(acl, name):
    tensors = acl.set()
    tensors[ORDER.index(name)] = None
    assert acl.first(tensors) == (NULL, 0, 0)
    assert acl.message() == f"{NAMES[name]} is null: expected a tensor"


def test_null_output_addresses(acl):
    tensors = acl.set()
    assert acl.library.first_phase(tensors, size=False)[0] == NULL
    assert "workspaceSize is null" in acl.message()
    assert acl.library.first_phase(tensors, executor=False)[0] == NULL
    assert "executor is null" in acl.message()


@pytest.mark.parametrize(("product", "dtype"), list(itertools.product(PRODUCTS, [F32, F16, BF16])))
def test_products_are_those_of_the_operator_in_python(product, dtype):
    with initialised(LSBENCH_ACL_PRODUCT=product) as acl:
        tensors = [acl.tensor(acl.malloc(64), dtype=dtype) for _ in ORDER]
        status = acl.first(tensors)[0]
        assert status == (OK if dtype in PRODUCTS[product] else INVALID)
        assert not status or f"{product} supports" in acl.message()


@pytest.mark.parametrize("name", ["grad_output", "self", "grad_input"])
@pytest.mark.parametrize("odd", [{"dtype": F16}, {"shape": (3, 2)}, {"shape": (2, 3, 1)}])
def test_dtypes_and_shapes_must_agree(acl, name, odd):
    tensors = acl.set(**{name: acl.tensor(acl.malloc(64), **odd)})
    assert acl.first(tensors)[0] == INVALID
    assert "expected" in acl.message()


@pytest.mark.parametrize("odd", [{"dtype": BF16}, {"shape": (7,)}, {"shape": ()}])
def test_the_buffer_only_has_to_be_there(acl, odd):
    tensors = acl.set(buffer=acl.tensor(0, **odd))
    assert acl.first(tensors)[0] == OK


@pytest.mark.parametrize("rank", range(11))
def test_one_to_eight_dimensions(acl, rank):
    tensors = [acl.tensor(acl.malloc(4096), (2,) * rank) for _ in ORDER]
    assert acl.first(tensors)[0] == (OK if 1 <= rank <= 8 else INVALID)


def test_the_order_of_checks_is_null_then_dtypes_then_shapes(acl):
    odd = acl.tensor(acl.malloc(64), (9,), F16)
    assert acl.first([odd, odd, None, odd])[0] == NULL
    assert acl.first(acl.set(self=odd))[0] == INVALID
    assert "FLOAT16" in acl.message()
    deep = acl.tensor(acl.malloc(64), (1,) * 9)
    assert acl.first(acl.set(grad_output=deep, self=odd))[0] == INVALID
    assert "FLOAT16" in acl.message()


def test_python_and_c_say_the_same_statuses(acl):
    """The operator's two implementations against each other, over crossed descriptions."""
    shapes, dtypes = [(2, 3), (3, 2), (6,), (), (1,) * 9], [F32, F16]
    described = {key: acl.tensor(acl.malloc(64), *key) for key in itertools.product(shapes, dtypes)}
    rng = np.random.default_rng(3)
    keys = list(described)
    for _ in range(300):
        chosen = [keys[i] for i in rng.integers(len(keys), size=4)]
        chosen = [None if rng.random() < 0.05 else key for key in chosen]
        wanted = get_workspace_size(
            *(None if k is None else Tensor(View.contiguous(k[0]), k[1]) for k in chosen)
        )
        memory = [None if key is None else described[key] for key in chosen]
        status = acl.first(memory)[0]
        overlapping = status == INVALID and "overlaps" in acl.message()
        assert status == wanted.status or overlapping


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_tensors_need_no_memory_and_write_nothing(acl, shape):
    tensors = [acl.tensor(0, shape) for _ in ORDER]
    status, size, executor = acl.first(tensors)
    assert (status, size) == (OK, 0)
    assert acl.second(executor) == OK
    acl.wait()


def test_the_worked_example_in_place_and_strided(acl):
    x = np.arange(1, 5, dtype=np.float32)
    right = [
        FP32.to_float(exact.correct_bits(FP32, int(FP32.pattern(np.float32([1]))[0]), int(bits)))
        for bits in FP32.pattern(x)
    ]
    ones, both = acl.malloc(4), acl.malloc(32)
    acl.upload(ones, np.ones(1, np.float32))
    spread = np.full(8, 7, np.float32)
    spread[1::2] = x
    acl.upload(both, spread)
    g = acl.tensor(ones, (2, 2), strides=(0, 0), storage=1)
    y = acl.tensor(both, (2, 2), strides=(4, 2), offset=1, storage=8)
    status, _, executor = acl.first([g, y, g, y])
    assert status == OK, acl.message()
    assert acl.second(executor) == OK
    acl.wait()
    acl.download(spread, both)
    assert spread[1::2].tolist() == right
    assert (spread[::2] == 7).all()


def computed(acl, fmt, g, x):
    """gradInput's patterns for flat arrays of patterns, through both phases."""
    data = [acl.malloc(g.nbytes) for _ in range(3)]
    for address, bits in zip(data, (g, x), strict=False):
        acl.upload(address, bits)
    dtype = DataType.of(fmt.name)
    g_tensor, x_tensor, y_tensor = (acl.tensor(at, (g.size,), dtype) for at in data)
    status, _, executor = acl.first([g_tensor, x_tensor, x_tensor, y_tensor])
    assert status == OK, acl.message()
    assert acl.second(executor) == OK
    acl.wait()
    y = np.zeros_like(g)
    acl.download(y, data[2])
    return y


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_the_table_of_special_values(acl, fmt):
    """The operator's table, written out: NaN by its kind, everything else by its bits."""
    inf, nan, sign, one = fmt.inf_bits, fmt.nan_bits, fmt.sign_bit, fmt.encode(0, 1, 0)
    finite = [one, sign | one, 1, fmt.max_bits, sign | fmt.max_bits]
    rows = [(nan, v, nan) for v in (0, *finite, inf, sign | inf, nan)]
    rows += [(v, nan, nan) for v in (0, *finite, inf, sign | inf)]
    rows += [(g, inf, g & sign) for g in (0, sign, *finite)]
    rows += [(g, inf, nan) for g in (inf, sign | inf)]
    rows += [(g, sign | inf, g) for g in (0, sign, *finite, inf, sign | inf)]
    rows += [(g, x, g) for g in (0, sign, inf, sign | inf) for x in (0, sign, *finite)]
    rows += [(g, 0, g - (1 << (fmt.p - 1))) for g in (one, sign | one, fmt.max_bits)]
    g, x, right = (np.array(column, fmt.bits_dtype) for column in zip(*rows, strict=True))
    assert computed(acl, fmt, g, x).tolist() == right.tolist()


def drawn(fmt, size=40000):
    """Patterns of normal values, more than one thread's share of them."""
    rng = np.random.default_rng(9)
    return [fmt.pattern(np.array(rng.normal(0, s, size), fmt.dtype)) for s in (1, 6)]


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_the_default_is_correctly_rounded_on_every_instruction_set(fmt):
    g, x = drawn(fmt)
    hashes = set()
    for isa in [isa for isa, obstacle in _kernels.available().items() if obstacle is None]:
        with initialised(LSBENCH_ISA=isa) as acl:
            assert f"exact ({isa})" in acl.library.text("lsbenchAclDescribe")
            y = computed(acl, fmt, g, x)
        for i in range(0, y.size, 199):
            assert int(y[i]) == exact.correct_bits(fmt, int(g[i]), int(x[i]))
        hashes.add(y.tobytes())
    assert len(hashes) == 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_has_the_bits_that_it_has_in_python(kernel):
    for fmt in FORMATS.values():
        g, x = drawn(fmt)
        right = log_sigmoid_backward(fmt.values(g), fmt.values(x), kernel=kernel)
        with initialised(LSBENCH_ACL_KERNEL=kernel) as acl:
            assert np.array_equal(computed(acl, fmt, g, x), fmt.pattern(right))


def test_a_workspace_is_asked_for_when_told_so():
    with initialised(LSBENCH_ACL_WORKSPACE="100") as acl:
        status, size, executor = acl.first(acl.set())
        assert (status, size) == (OK, 100)
        assert acl.second(executor, 0, 0) == INVALID
        assert "workspaceSize is 0: expected the 100 bytes" in acl.message()
        assert acl.second(executor, 0, 100) == NULL
        assert "workspace is null" in acl.message()
        small = acl.malloc(99)
        assert acl.second(executor, small, 100) == INVALID
        assert "workspace reaches 100 bytes" in acl.message()
        assert acl.second(executor, acl.malloc(100), 100) == OK
        acl.wait()


# ---- views ----


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ({"strides": (4, 1), "storage": 6}, "inside its storage of 6 elements"),
        ({"offset": 1, "storage": 6}, "inside its storage of 6 elements"),
        ({"offset": -1}, "no negative one"),
        ({"strides": (-3, 1)}, "no negative one"),
        ({"storage": 100, "offset": 50}, "its allocation has left"),
        ({"strides": (1 << 62, 1 << 62), "storage": 1 << 60}, "inside its storage"),
    ],
)
@pytest.mark.parametrize("name", ["grad_output", "self", "grad_input"])
def test_a_view_outside_its_storage_or_allocation(acl, name, view, said):
    tensors = acl.set(**{name: acl.tensor(acl.malloc(64), **view)})
    assert acl.first(tensors)[0] == INVALID
    message = acl.message()
    assert message.startswith(NAMES[name])
    assert said in message


@pytest.mark.parametrize(
    ("strides", "meets"),
    [((1, 2), True), ((0, 1), True), ((2, 3), False), ((3, 1), False), ((1, 1), True)],
)
def test_two_indices_of_gradinput_at_one_address(acl, strides, meets):
    y = acl.tensor(acl.malloc(64), (3, 2), strides=strides, storage=16)
    inputs = [acl.tensor(acl.malloc(64), (3, 2)) for _ in range(3)]
    assert acl.first([*inputs, y])[0] == (INVALID if meets else OK)
    assert meets == ("one address" in acl.message())


def test_overlap_of_views_against_enumeration(acl):
    """The C side's equation against sets of addresses, over small random views."""
    rng, seen = np.random.default_rng(11), {OK: 0, INVALID: 0}
    data = acl.malloc(400)
    for _ in range(1500):
        shape = tuple(int(n) for n in rng.integers(1, 4, size=rng.integers(1, 4)))
        views = []
        for _ in range(2):
            strides = tuple(int(s) for s in rng.integers(0, 9, size=len(shape)))
            views.append((strides, int(rng.integers(0, 12))))
        touched = [
            [o + sum(i * s for i, s in zip(at, st, strict=True)) for at in np.ndindex(*shape)]
            for st, o in views
        ]
        y, x = touched
        right = len(set(y)) == len(y) and (y == x or not set(y) & set(x))
        tensors = [
            acl.tensor(data, shape, strides=strides, offset=offset, storage=100)
            for strides, offset in views
        ]
        elsewhere = acl.tensor(acl.malloc(400), shape)
        status = acl.first([elsewhere, tensors[1], elsewhere, tensors[0]])[0]
        assert status == (OK if right else INVALID), (shape, views, acl.message())
        seen[status] += 1
    assert min(seen.values()) > 100


def test_views_that_overlap_by_bytes_alone(acl):
    data = acl.malloc(64)
    y, x = acl.tensor(data, (4,), storage=8), acl.tensor(data + 14, (4,), storage=8)
    other = acl.tensor(acl.malloc(64), (4,))
    assert acl.first([other, x, other, y])[0] == INVALID
    assert "overlaps self in part" in acl.message()


def test_hostile_strides_end_at_once(acl):
    n = 1 << 22
    data = acl.malloc(8 * n)
    strides = (3, 5, 7, 11, 13, 17, 19, 23)
    tensors = [
        acl.tensor(data, (9,) * 8, strides=strides, offset=offset, storage=2 * n)
        for offset in (0, 1)
    ]
    assert acl.first([tensors[1], tensors[1], tensors[1], tensors[0]])[0] == INVALID


# ---- initialisation ----


def test_nothing_works_before_initialisation_and_everything_is_said():
    with initialised() as acl:
        assert acl.call("aclInit", 0) == 100002
        assert acl.call("aclrtSetDevice", 1) == 107001
        assert "deviceId is 1: expected 0" in acl.message()
        assert acl.call("aclFinalize") == OK
        assert acl.call("aclFinalize") == 100037
        assert acl.call("aclrtSetDevice", 0) == 100001
        place = ctypes.c_void_p()
        assert acl.call("aclrtMalloc", ctypes.byref(place), 8, 0) == 100001
        assert acl.call("aclrtCreateStream", ctypes.byref(place)) == 100001
        assert acl.call("aclInit", 0) == OK
        assert acl.call("aclrtCreateStream", ctypes.byref(place)) == 107002
        assert "expected aclrtSetDevice(0)" in acl.message()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LSBENCH_ACL_KERNEL", "slow"),
        ("LSBENCH_ACL_PRODUCT", "Atlas Z9"),
        ("LSBENCH_ISA", "sse9"),
        ("LSBENCH_ACL_CHECK", "yes"),
        ("LSBENCH_ACL_CHECK", "2"),
        ("LSBENCH_ACL_THREADS", "0"),
        ("LSBENCH_ACL_WORKSPACE", "-1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(variable, value, monkeypatch):
    with initialised() as acl:
        acl.call("aclFinalize")
        monkeypatch.setenv(variable, value)
        assert acl.call("aclInit", 0) == INVALID_PARAM
        message = acl.message()
        assert f"{variable} is {value}: expected" in message
        assert variable != "LSBENCH_ACL_CHECK" or message.endswith("expected 0 or 1")


def test_a_message_is_handed_out_once_and_is_the_threads_own(acl):
    acl.first([None] * 4)
    assert "null" in acl.message()
    assert acl.message() == "no message"


def test_tensors_tell_what_they_were_told(acl):
    tensor = acl.tensor(0, (2, 3), BF16, strides=(7, 2), offset=5, storage=40)
    numbers, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    for name, expected in (
        ("aclGetViewShape", [2, 3]),
        ("aclGetViewStrides", [7, 2]),
        ("aclGetStorageShape", [40]),
    ):
        assert acl.call(name, tensor, ctypes.byref(numbers), ctypes.byref(count)) == OK
        assert numbers[: count.value] == expected
    number, small = ctypes.c_int64(), ctypes.c_int()
    assert acl.call("aclGetViewOffset", tensor, ctypes.byref(number)) == OK
    assert number.value == 5
    assert acl.call("aclGetDataType", tensor, ctypes.byref(small)) == OK
    assert small.value == 27
    assert acl.call("aclGetFormat", tensor, ctypes.byref(small)) == OK
    assert small.value == 2
    assert acl.call("aclGetFormat", tensor, 0) == NULL
    assert acl.call("aclGetViewStrides", tensor, ctypes.byref(numbers), 0) == NULL
    assert "stridesNum is null" in acl.message()
    assert acl.call("aclGetStorageShape", tensor, 0, ctypes.byref(count)) == NULL
    assert "storageDims is null" in acl.message()
    assert acl.call("aclGetViewShape", 0, ctypes.byref(numbers), ctypes.byref(count)) == NULL


def test_every_function_of_the_headers_is_exported_and_documented():
    page = (Path(__file__).parents[1] / "docs" / "acl.md").read_text()
    declared = [
        name
        for header in _acl.INCLUDE.rglob("*.h")
        for name in re.findall(
            r"ACL_FUNC_VISIBILITY [^;(]*?((?:acl|lsbench)\w+)\(", header.read_text()
        )
    ]
    assert len(declared) > 40
    library = ctypes.CDLL(str(_acl.library()))
    for name in declared:
        assert hasattr(library, name)
        short = re.sub(r"^(aclrt|aclGet)", "", name)
        assert name in page or f"`{short}`" in page or name.startswith("lsbench"), name
