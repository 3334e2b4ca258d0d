"""The operator's C interface: its contract, and misuse that a device would not survive."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from acl_calls import (
    BF16,
    F16,
    F32,
    INVALID,
    INVALID_HANDLE,
    INVALID_PARAM,
    NULL,
    OK,
    ON_DEVICE,
    STILL_USED,
    TO_DEVICE,
    TO_HOST,
    initialised,
)

from lsbench import exact
from lsbench.formats import FP32
from lsbench.operator import PRODUCTS, get_workspace_size

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
    from lsbench.operator import Tensor
    from lsbench.views import View

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


# ---- misuse: caught, named, and nothing crashes ----


def test_destroyed_tensors(acl):
    tensors = acl.set()
    assert acl.call("aclDestroyTensor", tensors[1]) == OK
    assert acl.first(tensors)[0] == INVALID
    assert acl.message() == "self was destroyed: expected a tensor that is alive"
    assert acl.call("aclDestroyTensor", tensors[1]) == INVALID
    tensors = acl.set()
    executor = acl.first(tensors)[2]
    acl.call("aclDestroyTensor", tensors[3])
    assert acl.second(executor) == INVALID
    assert "gradInput was destroyed" in acl.message()


@pytest.mark.parametrize("junk", [1, 0x7FFF12345678, 0x1A5E000000000010, (1 << 64) - 16])
def test_unknown_handles(acl, junk):
    tensors = acl.set(self=junk)
    assert acl.first(tensors)[0] == INVALID
    assert "self is" in acl.message()
    assert acl.second(junk) == INVALID
    assert "executor is" in acl.message()
    executor = acl.first(acl.set())[2]
    assert acl.second(executor, stream=junk) == INVALID
    assert "stream is" in acl.message()
    for name in ("aclrtDestroyStream", "aclrtSynchronizeStream", "aclrtDestroyEvent"):
        assert acl.call(name, junk) == INVALID_HANDLE
    for name in ("aclDestroyTensor", "aclDestroyAclOpExecutor", "aclSetAclOpExecutorRepeatable"):
        assert acl.call(name, junk) == INVALID


def test_one_handle_in_place_of_another(acl):
    executor = acl.first(acl.set())[2]
    assert acl.first(acl.set(self=acl.stream))[0] == INVALID
    assert acl.message() == "self is a stream: expected a tensor"
    assert acl.second(executor, stream=executor) == INVALID
    assert acl.message() == "stream is an executor: expected a stream"


def test_an_executor_runs_once_unless_it_is_repeatable(acl):
    executor = acl.first(acl.set())[2]
    assert acl.second(executor) == OK
    assert acl.second(executor) == INVALID
    assert "executor has run already" in acl.message()
    assert acl.call("aclDestroyAclOpExecutor", executor) == INVALID
    again = acl.first(acl.set())[2]
    assert acl.call("aclSetAclOpExecutorRepeatable", again) == OK
    assert [acl.second(again) for _ in range(3)] == [OK] * 3
    acl.wait()
    assert acl.call("aclDestroyAclOpExecutor", again) == OK
    assert acl.second(again) == INVALID
    assert "executor was destroyed" in acl.message()
    assert acl.second(0) == NULL


def test_a_handle_is_not_mistaken_for_a_later_one(acl):
    old = acl.tensor(0, (0,))
    acl.call("aclDestroyTensor", old)
    fresh = {acl.tensor(0, (0,)) for _ in range(5000)}
    assert old not in fresh
    for handle in fresh:
        acl.call("aclDestroyTensor", handle)
    assert len({acl.tensor(0, (0,)) for _ in range(5000)} & fresh) == 0
    assert acl.first(acl.set(self=old))[0] == INVALID


def test_destroyed_streams(acl):
    stream = acl.library.made("aclrtCreateStream")
    assert acl.call("aclrtDestroyStream", stream) == OK
    assert acl.call("aclrtDestroyStream", stream) == INVALID_HANDLE
    assert "stream was destroyed" in acl.message()
    assert acl.second(acl.first(acl.set())[2], stream=stream) == INVALID


def test_freed_and_unknown_memory(acl):
    data = acl.malloc(64)
    tensors = acl.set(self=acl.tensor(data))
    executor = acl.first(tensors)[2]
    assert acl.call("aclrtFree", data) == OK
    assert acl.call("aclrtFree", data) == INVALID_PARAM
    assert "memory that was freed: expected device memory" in acl.message()
    assert acl.second(executor) == INVALID
    assert "self is" in acl.message()
    assert acl.first(tensors)[0] == INVALID
    host = np.zeros(6, np.float32)
    mine = acl.tensor(host.__array_interface__["data"][0])
    assert acl.first(acl.set(grad_output=mine))[0] == INVALID
    assert "not memory of aclrtMalloc: expected device memory" in acl.message()
    data = acl.malloc(64)
    assert acl.call("aclrtFree", data + 8) == INVALID_PARAM
    assert "points 8 bytes into an allocation" in acl.message()
    assert acl.call("aclrtFreeHost", data) == INVALID_PARAM
    assert "device memory: expected host memory" in acl.message()
    assert acl.call("aclrtFree", 0) == INVALID_PARAM


def test_memory_that_a_stream_still_uses_cannot_be_freed(acl):
    data = [acl.malloc(64) for _ in range(4)]
    tensors = [acl.tensor(address) for address in data]
    assert acl.second(acl.first(tensors)[2]) == OK
    for index in (0, 1, 3):
        assert acl.call("aclrtFree", data[index]) == STILL_USED
        assert "a stream still uses" in acl.message()
    assert acl.call("aclrtFree", data[2]) == OK
    acl.wait()
    assert [acl.call("aclrtFree", data[index]) for index in (0, 1, 3)] == [OK] * 3


def test_an_event_of_another_stream_frees_memory_too(acl):
    data = [acl.malloc(64) for _ in range(4)]
    assert acl.second(acl.first([acl.tensor(address) for address in data])[2]) == OK
    event, other = acl.library.made("aclrtCreateEvent"), acl.library.made("aclrtCreateStream")
    assert acl.call("aclrtRecordEvent", event, acl.stream) == OK
    assert acl.call("aclrtStreamWaitEvent", other, event) == OK
    assert acl.call("aclrtFree", data[0]) == STILL_USED
    assert acl.call("aclrtSynchronizeStream", other) == OK
    assert acl.call("aclrtFree", data[0]) == OK


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("to", "most", "source", "count", "kind", "said"),
    [
        ("d", 64, "h", 65, TO_DEVICE, "count is 65: expected at most destMax, which is 64"),
        ("d", 99, "h", 65, TO_DEVICE, "dst reaches 65 bytes"),
        ("h", 99, "d", 65, TO_HOST, "src reaches 65 bytes"),
        ("h", 64, "h", 8, TO_DEVICE, "dst is"),
        ("h", 64, "h", 8, ON_DEVICE, "dst is"),
        ("h", 64, "d", 8, 0, "src is"),
        ("n", 64, "d", 8, TO_HOST, "dst is null"),
        ("h", 64, "n", 8, TO_DEVICE, "src is null"),
        ("h", 64, "d", 8, 77, "kind is 77"),
    ],
)
def test_a_copy_that_overruns_or_mistakes_its_ends(acl, to, most, source, count, kind, said, later):
    host = acl.library.find("aclrtMallocHost")
    host.argtypes, host.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    place = ctypes.c_void_p()
    assert host(ctypes.addressof(place), 100) == OK
    ends = {"d": acl.malloc(64), "h": place.value, "n": 0}
    arguments = [ends[to], most, ends[source], count, kind]
    if later:
        status = acl.call("aclrtMemcpyAsync", *arguments, acl.stream)
    else:
        status = acl.call("aclrtMemcpy", *arguments)
    assert status == INVALID_PARAM
    assert said in acl.message()


def test_a_fill_that_overruns(acl):
    data = acl.malloc(64)
    assert acl.call("aclrtMemset", data, 64, 7, 64) == OK
    assert acl.call("aclrtMemset", data, 64, 7, 65) == INVALID_PARAM
    assert acl.call("aclrtMemset", data + 1, 65, 7, 64) == INVALID_PARAM
    assert "devPtr reaches 64 bytes" in acl.message()
    back = np.zeros(64, np.uint8)
    acl.download(back, data)
    assert (back == 7).all()


def test_descriptions_that_make_no_sense_give_no_tensor(acl):
    for shape in ((-1,), (1 << 40, 1 << 40), (1,) * 26):
        dims = (ctypes.c_int64 * len(shape))(*shape)
        create = acl.library.find("aclCreateTensor")
        create.restype = ctypes.c_void_p
        arguments = (dims, ctypes.c_uint64(len(shape)), 0, None, ctypes.c_int64(0), 2)
        assert create(*arguments, dims, ctypes.c_uint64(1), None) is None
        assert "viewDims" in acl.message()


def test_an_allocation_of_nothing_or_of_everything_fails(acl):
    place = ctypes.c_void_p()
    assert acl.call("aclrtMalloc", ctypes.byref(place), 0, 0) == INVALID_PARAM
    assert acl.call("aclrtMalloc", ctypes.byref(place), (1 << 63) - 64, 0) == 207001
    assert acl.call("aclrtMalloc", ctypes.byref(place), 8, 6) == INVALID_PARAM
    assert "policy" in acl.message()


def test_events_out_of_order_are_errors_in_words(acl):
    start, end = (acl.library.made("aclrtCreateEvent") for _ in range(2))
    place = ctypes.c_float()
    assert acl.call("aclrtEventElapsedTime", ctypes.byref(place), start, end) == 107006
    assert "startEvent was never recorded" in acl.message()
    for event in (end, start):
        assert acl.call("aclrtRecordEvent", event, acl.stream) == OK
    acl.wait()
    assert acl.library.elapsed(end, start) >= 0
    if acl.call("aclrtEventElapsedTime", ctypes.byref(place), start, end) != OK:
        assert "came before" in acl.message()


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
    assert acl.call("aclGetViewShape", 0, ctypes.byref(numbers), ctypes.byref(count)) == NULL
