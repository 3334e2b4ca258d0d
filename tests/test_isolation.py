"""A provider in a child process: the same bits, and whatever it does, only its row ends."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from calls import call, computed, drawn, worst_ulp
from click.testing import CliRunner

from lsbench import results
from lsbench.cli import group
from lsbench.errors import ProviderError
from lsbench.formats import BF16, FORMATS, FP32
from lsbench.providers.base import Call
from lsbench.providers.isolation import IsolatedProvider, isolate
from lsbench.providers.registry import resolve
from lsbench.providers.shared import Block, attach

USERS = Path(__file__).with_name("users.py")


@pytest.fixture
def user():
    """Makes an isolated provider of a function of users.py; its child is ended afterwards."""
    made = []

    def make(function: str, timeout: float = 20.0, memory: int | None = None):
        provider = isolate(resolve(f"python:{USERS}:{function}"), timeout=timeout, memory=memory)
        made.append(provider)
        return provider

    yield make
    for provider in made:
        provider.close()


def laid(fmt) -> Call:
    """Strides, an offset, gaps, a flip and an expanded input, in one call."""
    rng = np.random.default_rng(3)
    g = np.broadcast_to(rng.standard_normal((1, 6)).astype(fmt.dtype), (4, 6)).copy()[:1]
    x = rng.standard_normal((6, 9)).astype(fmt.dtype)[::-1, 1:5].T
    out = np.full((4, 13), np.nan, fmt.dtype)[:, 1::2]
    return call(fmt, np.lib.stride_tricks.as_strided(g, (4, 6), (0, g.itemsize)), x, out=out)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_bits_are_those_of_the_same_provider_without_isolation(fmt, user):
    here, there = laid(fmt), laid(fmt)
    computed(resolve("fast"), here)
    provider = isolate(resolve("fast"))
    assert isinstance(provider, IsolatedProvider)
    computed(provider, there)
    provider.close()
    assert np.array_equal(fmt.pattern(here.grad_input), fmt.pattern(there.grad_input))


def test_siblings_and_axes_are_those_of_the_provider():
    inner = resolve("fast")
    provider = isolate(inner)
    assert provider.axes == inner.axes
    assert provider.version() == inner.version()
    assert set(provider.siblings()) == set(inner.siblings())
    for name, sibling in provider.siblings().items():
        made, again = drawn(FP32), drawn(FP32)
        computed(inner.siblings()[name], made)
        assert np.array_equal(computed(sibling, again), made.grad_input)
    provider.close()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("segfaults", r"died of SIGSEGV \(Segmentation fault\)"),
        ("exits", r"exits called exit\(7\)"),
        ("exits_at_once", "ended with exit status 0"),
        ("raises", r"raises: users.py:\d+: ValueError: no such thing"),
    ],
)
def test_a_death_is_told_and_the_next_call_is_served(user, function, said):
    provider = user(function)
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            computed(provider, drawn(FP32))
        assert re.fullmatch(said, str(caught.value))
        assert caught.value.verdict == "crashed"


def test_a_hang_ends_at_the_timeout_with_its_process(user):
    provider = user("hangs", timeout=0.5)
    made = drawn(FP32)
    prepared = provider.prepare(made)
    pid = provider._worker._child.pid
    began = time.monotonic()
    with pytest.raises(ProviderError, match=r"no answer within 0.5 s, killed"):
        prepared.run()
    assert time.monotonic() - began < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ProviderError, match="has died"):
        prepared.run()
    prepared.close()


def test_hunger_ends_at_the_memory_limit(user):
    with pytest.raises(ProviderError, match=r"used \d+ MiB of memory, expected at most 200 MiB"):
        computed(user("eats_memory", memory=200 << 20), drawn(FP32))


def test_what_a_child_prints_neither_disturbs_nor_blocks(user, capfd):
    made = drawn(BF16)
    computed(user("prints"), made)
    assert worst_ulp(made) < 3
    assert capfd.readouterr() == ("", "")


def test_a_changed_input_comes_back_changed(user):
    made = drawn(FP32)
    computed(user("changes_input"), made)
    assert not made.self.any()


def test_a_changed_input_that_is_read_only_here_is_a_breach(user):
    made = drawn(FP32)
    made.self.setflags(write=False)
    with pytest.raises(ProviderError, match="changed self") as caught:
        computed(user("changes_input"), made)
    assert caught.value.verdict == "contract"


def test_a_write_outside_the_tensors_is_a_breach(user):
    with pytest.raises(ProviderError, match="wrote outside the tensors' memory") as caught:
        computed(user("writes_outside"), drawn(FP32))
    assert caught.value.verdict == "contract"


def test_a_child_is_kept_over_calls_and_gone_after_close(user):
    provider = user("good")
    computed(provider, drawn(FP32))
    pid = provider._worker._child.pid
    computed(provider, drawn(BF16))
    assert provider._worker._child.pid == pid
    provider.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_empty_and_single_tensors_are_served(user):
    provider = user("good")
    for shape in ((0,), (3, 0, 2), ()):
        made = drawn(FP32, shape)
        computed(provider, made)
        assert worst_ulp(made) < 3


def test_time_is_measured_in_the_child(user):
    prepared = user("good").prepare(drawn(FP32))
    assert 0 < prepared.time(3) < 10
    assert 0 <= prepared.time_empty(3) < 1
    prepared.close()


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_a_block_keeps_strides_overlap_gaps_and_alignment(fmt):
    storage = np.arange(100).astype(fmt.dtype)
    made = Call(fmt, storage[3:13], storage[12:2:-1], None, storage[50:70:2], drawn(fmt).options)
    block = Block(made)
    block.fill()
    seen = attach(os.dup(block.file.fileno()), block.description())
    for name in ("grad_output", "self", "grad_input"):
        mine, theirs = getattr(made, name), getattr(seen, name)
        assert np.array_equal(fmt.pattern(mine), fmt.pattern(theirs))
        assert mine.strides == theirs.strides
        assert mine.ctypes.data % 64 == theirs.ctypes.data % 64
    assert np.shares_memory(seen.grad_output, seen.self)
    gap = np.lib.stride_tricks.as_strided(seen.grad_input, (19,), (fmt.itemsize,))
    gap[1] = 77
    block.take()
    assert storage[51] == fmt.dtype.type(77)
    del gap, seen
    block.close()


CASES = """
schema: 1
defaults: {throughput: false}
cases:
  - {name: first, dtype: fp32, shape: [5]}
  - {name: second, dtype: bf16, shape: [5]}
"""


def test_a_run_and_its_finished_rows_survive_every_death(tmp_path):
    (tmp_path / "cases.yaml").write_text(CASES)
    deaths = {
        "segfaults": "died of SIGSEGV (Segmentation fault)",
        "hangs": "no answer within 0.5 s, killed",
    }
    names = ["exact", *(f"python:{USERS}:{name}" for name in deaths), "fast"]
    words = ["run", str(tmp_path / "cases.yaml"), "--timeout", "0.5", "-q"]
    words += [word for name in names for word in ("--provider", name)]
    output = tmp_path / "r.json"
    code = (
        CliRunner()
        .invoke(group, [*words, "--output", str(output)], standalone_mode=False)
        .return_value
    )
    assert code == 3
    run = results.load(output)
    assert run.complete
    found = {(row.case, row.provider.rpartition(":")[2]): row for row in run.rows}
    assert len(found) == 8
    for case in ("first", "second"):
        for name in ("exact", "fast"):
            assert found[case, name].verdicts == ("pass",)
        for name, reason in deaths.items():
            assert found[case, name].verdicts == ("crashed",)
            assert found[case, name].reason.startswith(reason)


def test_a_run_holds_a_provider_to_the_memory_that_was_given(tmp_path):
    (tmp_path / "cases.yaml").write_text(CASES)
    words = ["run", str(tmp_path / "cases.yaml"), "-k", "first", "--memory", "200", "-q"]
    words += ["--provider", f"python:{USERS}:eats_memory", "--output", str(tmp_path / "r.json")]
    CliRunner().invoke(group, words, standalone_mode=False)
    (row,) = results.load(tmp_path / "r.json").rows
    assert row.verdicts == ("crashed",)
    assert "of memory, expected at most 200 MiB: killed" in row.reason


def test_a_users_traceback_is_recorded_on_request(tmp_path):
    (tmp_path / "cases.yaml").write_text(CASES)
    words = ["run", str(tmp_path / "cases.yaml"), "-k", "first", "-q"]
    words += ["--provider", f"python:{USERS}:raises", "--output", str(tmp_path / "r.json")]
    for more, expected in (([], False), (["--traceback"], True)):
        CliRunner().invoke(group, [*words, *more], standalone_mode=False)
        (row,) = results.load(tmp_path / "r.json").rows
        assert row.verdicts == ("crashed",)
        assert any("Traceback" in note for note in row.notes) is expected


def test_a_second_implementation_that_dies_costs_its_own_standard_alone(tmp_path):
    (tmp_path / "cases.yaml").write_text(CASES)
    words = ["run", str(tmp_path / "cases.yaml"), "-k", "first", "--provider", "exact", "-q"]
    words += ["--second", f"python:{USERS}:segfaults", "--output", str(tmp_path / "r.json")]
    done = CliRunner().invoke(group, words, standalone_mode=False)
    assert done.return_value == 0, done.output
    (row,) = results.load(tmp_path / "r.json").rows
    assert row.verdicts == ("pass",)
    (note,) = (note for note in row.notes if note.startswith("no cann-ratio: python:"))
    assert note.endswith("segfaults: died of SIGSEGV (Segmentation fault)")
