"""Timing without a clock: the protocol, on computations that claim to take what they are told."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from lsbench.providers.base import Prepared
from lsbench.throughput import Plan, Work, measure

WORK = Work(elements=1000, bytes=12000, threads=1)


class World:
    """A clock that only computations move, with a drift that all share."""

    def __init__(self, drift=lambda now: 1.0):
        self.now, self.drift, self.order = 0.0, drift, []

    def clock(self):
        return self.now


class Costs(Prepared):
    """Takes a fixed time a call, times the drift, times noise."""

    def __init__(self, world, name, seconds, noise=lambda: 1.0):
        self.world, self.name, self.seconds, self.noise = world, name, seconds, noise

    def time(self, loops):
        took = loops * self.seconds * self.world.drift(self.world.now) * self.noise()
        self.world.now += took
        self.world.order.append((self.name, loops))
        return took

    def time_empty(self, loops):
        return loops * 1e-7


def run(world, plan=None, **seconds):
    arms = [(name, Costs(world, name, cost)) for name, cost in seconds.items()]
    return measure(arms, WORK, plan or Plan(clock=world.clock))


def test_units():
    found = run(World(), mine=1e-4, roof=5e-5)
    assert found.gb_per_s == pytest.approx(12000 / 1e-4 * 1e-9)
    assert found.gelem_per_s == pytest.approx(1000 / 1e-4 * 1e-9)
    assert found.of_roof.value == pytest.approx(0.5)
    assert found.noise.value == pytest.approx(1)
    assert found.empty_call == pytest.approx(1e-7)
    assert [arm.name for arm in found.arms] == ["mine", "A/A", "roof"]
    assert found.flags == ()


def test_drift_that_all_arms_share_does_not_move_the_ratio():
    steady = run(World(), mine=1e-4, roof=5e-5).of_roof.value
    for drift in (lambda t: 1 + 10 * t, lambda t: 3.0 if t > 0.1 else 1.0):
        found = run(World(drift), mine=1e-4, roof=5e-5)
        assert found.of_roof.value == pytest.approx(steady, rel=0.03)
        assert found.noise.value == pytest.approx(1, rel=0.03)


def test_blocks_go_there_and_back_from_either_end_by_the_seed():
    world = World()
    found = run(world, Plan(clock=world.clock, seed=3), mine=1e-4, roof=5e-5)
    loops = found.arms[0].loops
    taken = [name for name, n in world.order if n == loops][-6 * max(found.arms[0].blocks) - 6 :]
    blocks = ["".join(n[0] for n in taken[i : i + 6]) for i in range(0, len(taken), 6)]
    assert set(blocks) == {"mmrrmm", "rmmmmr"}
    again = World()
    run(again, Plan(clock=again.clock, seed=3), mine=1e-4, roof=5e-5)
    assert again.order == world.order


def test_the_loop_count_is_frozen_and_samples_last_milliseconds():
    found = run(World(), Plan(budget=2.0, sample=0.004), mine=1e-6, roof=1e-6)
    assert {arm.loops for arm in found.arms} == {found.arms[0].loops}
    assert 0.002 <= found.arms[0].loops * 1e-6 <= 0.010


def test_it_stops_by_width_or_by_budget_and_says_which():
    steady = World()
    assert (
        run(steady, Plan(budget=5.0, clock=steady.clock), mine=1e-4, roof=5e-5).stopped == "width"
    )
    draw = np.random.default_rng(1)
    noisy = World(lambda t: float(draw.lognormal(0, 0.5)))
    found = run(noisy, Plan(budget=0.5, clock=noisy.clock), mine=1e-4, roof=5e-5)
    assert found.stopped == "budget"
    assert "unstable" in found.flags
    assert noisy.now < 2.0


def test_every_arm_warms_up_by_time_before_anything_is_told():
    world = World()
    run(world, Plan(budget=1.0, warm=0.2, clock=world.clock), mine=1e-4, roof=1e-4)
    # Calibration begins with a single call again.
    begun = world.order.index(("mine", 1), 3)
    warm = world.order[:begun]
    assert [name for name, _ in warm] == ["mine", "mine", "roof"] * (begun // 3)
    assert 0.2 <= sum(loops for _, loops in warm) * 1e-4 < 0.5


def test_a_clock_that_stands_still_ends_nothing_early_and_hangs_nothing():
    class Free(Costs):
        def time(self, loops):
            return 1e-12 * loops

    world = World()
    found = measure([("mine", Free(world, "mine", 0.0))], WORK, Plan(budget=1e-3, most=10))
    assert len(set(found.arms[0].blocks)) == 10


def test_turns_tell_which_arm_ran_before_which():
    world = World()
    found = run(world, Plan(clock=world.clock, seed=3), mine=1e-4, roof=5e-5)
    turns = sorted((turn, arm.name) for arm in found.arms for turn in arm.order)
    assert [turn for turn, _ in turns] == list(range(len(turns)))
    taken = ["mine" if name == "A/A" else name for _, name in turns]
    assert taken == [name for name, _ in world.order][-len(turns) :]


def test_progress_is_told_between_blocks_and_ends_whole():
    world, told = World(), []
    found = run(world, Plan(clock=world.clock, tell=told.append), mine=1e-3, roof=1e-3)
    assert len(told) == len(set(found.arms[0].blocks))
    assert told == sorted(told)
    assert found.stopped == "width" or told[-1] == 1


def test_slow_computations_still_get_their_least_blocks():
    world = World()
    found = run(world, Plan(budget=0.2, clock=world.clock), mine=1.0, roof=1.0)
    assert len(set(found.arms[0].blocks)) == 10
    assert found.arms[0].loops == 1


def test_a_biased_a_a_arm_marks_the_run_contaminated():
    class Second(Costs):
        """Slow whenever it is asked twice in a row: in the order m A A m that is A/A alone."""

        def time(self, loops):
            n = sum(taken == loops for _, taken in self.world.order)
            self.seconds = 2e-4 if n % 4 in (1, 2) else 1e-4
            return super().time(loops)

    world = World()
    plan = Plan(clock=world.clock, most=1, least=1)
    found = measure([("mine", Second(world, "mine", 1e-4))], WORK, plan)
    assert found.noise.value == pytest.approx(2) or found.noise.value == pytest.approx(0.5)
    assert "contaminated" in found.flags
    assert "contaminated" not in run(World(), mine=1e-4).flags


def test_faster_than_the_roof_is_said_to_be_an_error():
    assert "above-roof" in run(World(), mine=1e-4, roof=2e-4).flags


def test_the_collector_is_off_inside_and_as_before_outside():
    seen = []

    class Looks(Costs):
        def time(self, loops):
            seen.append(gc.isenabled())
            return super().time(loops)

    world = World()
    assert gc.isenabled()
    measure([("mine", Looks(world, "mine", 1e-4))], WORK, Plan(clock=world.clock))
    assert gc.isenabled()
    assert not any(seen)
