"""Memory of the C interface: what was freed is not mistaken for what came later at its address."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from acl_calls import (
    INVALID,
    INVALID_PARAM,
    OK,
    TO_DEVICE,
    TO_HOST,
    initialised,
)

KEPT = 256
"""Freed ranges that no later allocation lies in (kernels/acl/quarantine.c)."""
SMALL = 64


@pytest.fixture
def acl():
    with initialised() as made:
        yield made


def free(acl, *data):
    """Give memory back."""
    assert [acl.call("aclrtFree", address) for address in data] == [OK] * len(data)


def came_again(acl, wanted, tries=20000):
    """Free and allocate small blocks until one of ``wanted`` is handed out again, and which."""
    held = []
    for _ in range(tries):
        held.append(acl.malloc(SMALL))
        if held[-1] in wanted:
            free(acl, *held[:-1])
            return held[-1]
        if len(held) == 40:
            free(acl, *held)
            held = []
    raise AssertionError(f"none of {len(wanted)} addresses came again in {tries} allocations")


def test_an_address_rests_before_it_is_handed_out_again(acl):
    wanted = [acl.malloc(SMALL) for _ in range(100)]
    free(acl, *wanted)
    for _ in range(KEPT - len(wanted)):
        data = acl.malloc(SMALL)
        assert data not in wanted
        free(acl, data)
    assert came_again(acl, set(wanted))


@pytest.mark.parametrize("made", ["after", "when"])
def test_a_tensor_is_not_taken_for_one_on_later_memory(acl, made):
    """Tensors made before their memory is freed ("after" they were made), and on freed memory."""
    data = [acl.malloc(SMALL) for _ in range(200)]
    old = {address: acl.tensor(address) for address in data}
    free(acl, *data)
    tensors = old if made == "after" else {address: acl.tensor(address) for address in data}
    others = acl.set()
    assert acl.first([others[0], tensors[data[0]], *others[2:]])[0] == INVALID
    assert acl.message().endswith("memory that was freed: expected device memory")
    again = came_again(acl, tensors.keys())
    assert acl.first([others[0], tensors[again], *others[2:]])[0] == INVALID
    message = acl.message()
    assert message.startswith("self is on ")
    assert f"memory that was freed {made} the tensor was made and given out again" in message
    assert acl.first([others[0], acl.tensor(again), *others[2:]])[0] == OK


@pytest.mark.parametrize("name", ["grad_output", "self", "grad_input"])
def test_an_executor_does_not_run_on_later_memory(acl, name):
    executors = {}
    for _ in range(200):
        data = acl.malloc(SMALL)
        executor = acl.first(acl.set(**{name: acl.tensor(data)}))[2]
        assert acl.call("aclSetAclOpExecutorRepeatable", executor) == OK
        assert acl.second(executor) == OK
        executors[data] = executor
    acl.wait()
    free(acl, *executors)
    again = came_again(acl, executors.keys())
    assert acl.second(executors[again]) == INVALID
    assert "given out again" in acl.message()


def test_many_blocks_come_and_go_and_none_is_mistaken(acl):
    """Tensors on a hundred blocks, freed and allocated at random: each works as long as its own."""
    rng, blocks, stale = np.random.default_rng(4), [], 0
    others = acl.set()
    for _ in range(6000):
        if len(blocks) < 20 or (len(blocks) < 100 and rng.random() < 0.5):
            data = acl.malloc(int(rng.choice([24, SMALL, 5000])))
            blocks.append((data, acl.tensor(data)))
            continue
        data, tensor = blocks.pop(int(rng.integers(len(blocks))))
        free(acl, data)
        status = acl.first([others[0], tensor, *others[2:]])[0]
        assert status == INVALID
        stale += 1
        if rng.random() < 0.9:
            acl.call("aclDestroyTensor", tensor)
    for data, tensor in blocks:
        status, _, executor = acl.first([others[0], tensor, *others[2:]])
        assert status == OK, acl.message()
        assert acl.call("aclDestroyAclOpExecutor", executor) == OK
        free(acl, data)
    assert stale > 2000


def test_a_size_that_no_machine_has_does_not_empty_the_quarantine(acl):
    data, place = acl.malloc(SMALL), ctypes.c_void_p()
    free(acl, data)
    assert acl.call("aclrtMalloc", ctypes.byref(place), 1 << 62, 0) == 207001
    assert acl.call("aclrtFree", data) == INVALID_PARAM
    assert "memory that was freed" in acl.message()


def test_what_a_freed_block_held_cannot_be_read_any_more(acl):
    """Whatever reads it past the interface finds NaN, or zeros where whole pages were given up."""
    for size in (SMALL, 4096 * 3):
        data = acl.malloc(size)
        acl.upload(data, np.full(size // 4, 2.5, np.float32))
        free(acl, data)
        found = np.frombuffer(ctypes.string_at(data, size), np.float32)
        assert (np.isnan(found) | (found == 0)).all()
        assert np.isnan(found[-1])


def test_large_memory_is_given_up_when_it_is_freed(acl):
    """A hundred ranges of 64 MiB, each written: resident memory does not grow with them."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    size = 64 << 20
    before = resident()
    for _ in range(100):
        data = acl.malloc(size)
        assert acl.call("aclrtMemset", data, size, 1, size) == OK
        free(acl, data)
    assert resident() - before < 4 * size


# ---- memory that nothing here returned ----


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("later", [False, True])
def test_device_memory_is_not_taken_for_the_hosts(acl, later):
    data, host = acl.malloc(SMALL), np.zeros(SMALL, np.uint8)
    name = "aclrtMemcpyAsync" if later else "aclrtMemcpy"
    stream = [acl.stream] if later else []

    def copy(to, source, kind):
        return acl.call(name, to, SMALL, source, SMALL, kind, *stream)

    assert copy(data, data, TO_DEVICE) == INVALID_PARAM
    assert "device memory: expected host memory" in acl.message()
    assert copy(data, data, TO_HOST) == INVALID_PARAM
    assert "device memory: expected host memory" in acl.message()
    assert copy(address(host), address(host), TO_HOST) == INVALID_PARAM
    assert "foreign memory, not of aclrtMalloc: expected device memory" in acl.message()
    free(acl, data)
    for kind in (TO_HOST, 0, 4):
        assert copy(address(host), data, kind) == INVALID_PARAM
        assert "memory that was freed" in acl.message()


def test_foreign_memory_that_reaches_into_the_devices(acl):
    data, other = acl.malloc(SMALL), acl.malloc(SMALL)
    copy = ("aclrtMemcpy", other, SMALL)
    assert acl.call(*copy, data - 8, 16, TO_DEVICE) == INVALID_PARAM
    message = acl.message()
    assert "src is" in message
    assert "foreign memory of 16 bytes that reaches into device memory: expected host" in message
    free(acl, data)
    assert acl.call(*copy, data - 8, 16, TO_DEVICE) == INVALID_PARAM
    assert "reaches into memory that was freed" in acl.message()


def test_memory_that_the_process_does_not_have(acl):
    data, host = acl.malloc(SMALL), np.zeros(SMALL, np.uint8)
    for bad in (64, (1 << 47) - 4096, acl.stream, (1 << 64) - 8):
        assert acl.call("aclrtMemcpy", data, SMALL, bad, SMALL, TO_DEVICE) == INVALID_PARAM
        assert "foreign memory" in acl.message()
    assert acl.call("aclrtMemcpy", address(host), SMALL, data, SMALL, TO_HOST) == OK
    place = ctypes.create_string_buffer(SMALL)
    assert acl.call("aclrtMemcpy", place, SMALL, data, SMALL, TO_HOST) == OK
