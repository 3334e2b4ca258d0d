"""Cold caches: enough sets of tensors, laid out alike, used in turn; no time is tested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calls import drawn

from lsbench import rotation
from lsbench.errors import UsageError
from lsbench.formats import BF16, FP32
from lsbench.providers.base import Prepared
from lsbench.providers.kernels import KernelProvider
from lsbench.rotation import Sets, rotated, touched
from lsbench.throughput import Plan, measure_row

CACHE = 1 << 14


def test_the_sets_are_four_times_the_cache_beside_the_one_in_use():
    call = drawn(FP32, (64,))
    sets = rotated(call, CACHE)
    assert (len(sets) - 1) * 3 * 64 * 4 >= 4 * CACHE
    assert (len(sets) - 2) * 3 * 64 * 4 < 4 * CACHE
    assert sets[0] is call
    starts = {a.ctypes.data for s in sets for a in (s.grad_output, s.self, s.grad_input)}
    assert len(starts) == 3 * len(sets)


def test_copies_hold_the_same_values_and_lie_alike():
    wide = np.arange(96, dtype=np.float32).reshape(4, 24)
    views = {
        "stepped": wide[:, ::3],
        "flipped": wide[::-1, 8:0:-1],
        "transposed": wide.reshape(24, 4)[:8].T,
        "expanded": np.broadcast_to(wide[:1, :8], (4, 8)),
    }
    out = np.zeros((4, 8), np.float32)
    for name, view in views.items():
        call = replace(drawn(FP32, (4, 8)), grad_output=view, self=wide[:, :8], grad_input=out)
        copy = rotated(call, CACHE)[1]
        assert (copy.grad_output == view).all(), name
        assert copy.grad_output.strides == view.strides, name
        assert not np.may_share_memory(copy.grad_output, view), name
        assert not np.may_share_memory(copy.grad_output, copy.self), name


def test_what_is_one_view_stays_one_view():
    call = drawn(BF16, (64,))
    call = replace(call, grad_input=call.self)
    copy = rotated(call, CACHE)[1]
    assert copy.grad_input is copy.self
    assert copy.grad_output is not copy.self


def test_an_expanded_dimension_counts_once():
    one = np.zeros((1, 8), np.float32)
    assert touched(np.broadcast_to(one, (100, 8))) == 32
    assert touched(np.zeros((3, 0), np.float32)) == 0


@pytest.mark.parametrize("n", [0, 1, 10])
def test_a_call_too_small_says_how_large_one_must_be(n):
    with pytest.raises(UsageError, match=r"expected 32,768 bytes or more"):
        rotated(drawn(FP32, (n,)), 32 << 20)


def test_an_unknown_cache_is_assumed():
    assert len(rotated(drawn(FP32, (1 << 20,)))) == 4 * rotation.ASSUMED_CACHE // (12 << 20) + 2


class Kept(Prepared):
    """Notes on whose tensors it ran."""

    def __init__(self, call, log):
        self.call, self.log = call, log

    def run(self):
        self.log.append(self.call)

    def time(self, loops):
        self.run()
        return loops * 1e-3


def test_contestants_that_share_sets_never_find_one_warm():
    sets = Sets(drawn(FP32, (512,)), cold=True, cache=CACHE)
    log = []
    a, b = (sets.prepare(lambda call: Kept(call, log)) for _ in range(2))
    assert a.time(5) == pytest.approx(5e-3)
    b.time(3)
    a.run()
    b.time(2 * len(sets.calls))
    ran = [next(i for i, call in enumerate(sets.calls) if call is one) for one in log]
    assert ran == [i % len(sets.calls) for i in range(len(ran))]


def test_hot_is_the_call_itself():
    call = drawn(FP32, (8,))
    sets = Sets(call)
    assert sets.calls == [call]
    assert isinstance(sets.prepare(lambda one: Kept(one, [])), Kept)


def test_a_row_is_timed_cold_on_tensors_of_its_own():
    call = drawn(FP32, (512,))
    provider = KernelProvider("exact")
    sets = Sets(call, cold=True, cache=CACHE)
    timed = measure_row(provider, provider.prepare(call), sets, Plan(budget=0.05, sample=0.0005))
    assert timed.state == "cold"
    assert [arm.name for arm in timed.arms] == ["exact", "A/A", "roof"]
    right = KernelProvider("exact").prepare(
        replace(call, grad_input=(y := np.empty_like(call.self)))
    )
    right.run()
    assert all((one.grad_input == y).all() for one in sets.calls)
