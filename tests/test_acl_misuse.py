"""Misuse of the C interface that a device would not survive: caught, named, and nothing crashes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from acl_calls import (
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


@pytest.fixture
def acl():
    with initialised() as made:
        yield made


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
    assert "foreign memory, not of aclrtMalloc: expected device memory" in acl.message()
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
