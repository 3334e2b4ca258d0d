"""Instruction sets: probed before they are imported, chosen once, forced by LSBENCH_ISA."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from types import ModuleType

import pytest

from lsbench import _kernels
from lsbench.errors import BuildError
from lsbench.exact import correct_bits
from lsbench.formats import FP32

CHOICE = _kernels.available()
USABLE = [isa for isa, obstacle in CHOICE.items() if obstacle is None]

V3 = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def record(*built: str) -> ModuleType:
    """What a build that made those instruction sets leaves behind."""
    module = ModuleType("_build")
    module.COMPILER = "cc 1"
    module.FLAGS = dict.fromkeys(built, "-O3")
    module.MISSING = {} if "x86_64_v4" in built else {"x86_64_v4": "the compiler does not know it"}
    return module


def test_at_least_one_runs_and_the_best_is_chosen():
    assert USABLE
    assert os.environ.get("LSBENCH_ISA") or _kernels.selected() == USABLE[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (V4, "x86_64_v4"),
        (V4 - {"avx512vl"}, "x86_64_v3"),
        (V3 - {"fma"}, "x86_64"),
        (set(), "x86_64"),
        (None, "x86_64"),
    ],
)
def test_the_processor_decides(monkeypatch, flags, expected):
    built = record("x86_64", "x86_64_v3", "x86_64_v4")
    monkeypatch.setattr(_kernels, "_build_record", lambda: built)
    monkeypatch.setattr(_kernels, "processor_flags", lambda: flags)
    monkeypatch.delenv("LSBENCH_ISA", raising=False)
    assert _kernels.selected.__wrapped__() == expected
    for obstacle in list(_kernels.available().values())[: list(_kernels.NEEDS).index(expected)]:
        assert obstacle


def test_an_older_compiler_leaves_one_out_with_its_reason(monkeypatch):
    monkeypatch.setattr(_kernels, "_build_record", lambda: record("x86_64", "x86_64_v3"))
    monkeypatch.setattr(_kernels, "processor_flags", lambda: frozenset(V4))
    assert _kernels.available()["x86_64_v4"] == "the compiler does not know it"


def test_another_architecture_has_the_plain_build(monkeypatch):
    monkeypatch.setattr(_kernels, "_build_record", lambda: record("plain"))
    monkeypatch.setattr(_kernels, "processor_flags", lambda: None)
    monkeypatch.delenv("LSBENCH_ISA", raising=False)
    assert _kernels.selected.__wrapped__() == "plain"


def test_a_system_without_cpuinfo_gets_the_baseline(monkeypatch, tmp_path):
    monkeypatch.setattr(_kernels, "_CPUINFO", tmp_path / "absent")
    assert _kernels.processor_flags() is None


@pytest.mark.parametrize("forced", ["x86_64_v9", "avx2", "plain" if "plain" not in USABLE else "x"])
def test_forcing_what_cannot_be_used_is_one_clear_line(monkeypatch, forced):
    monkeypatch.setenv("LSBENCH_ISA", forced)
    with pytest.raises(BuildError) as caught:
        _kernels.selected.__wrapped__()
    message = str(caught.value)
    assert message.startswith(f"LSBENCH_ISA={forced}: ")
    assert f"usable here: {', '.join(USABLE)}" in message
    assert "\n" not in message


@pytest.mark.parametrize("isa", USABLE)
def test_each_one_can_be_forced_in_a_fresh_process(isa):
    code = (
        "import numpy as np, lsbench; from lsbench import _kernels; "
        "y = lsbench.log_sigmoid_backward(np.float32([1]), np.float32([1]), kernel='exact'); "
        "print(_kernels.selected(), _kernels.load().__name__, y.view(np.uint32)[0])"
    )
    environment = {**os.environ, "LSBENCH_ISA": isa}
    child = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    right = correct_bits(FP32, 0x3F800000, 0x3F800000)
    assert child.stdout.split() == [isa, f"lsbench._kernels.blocks__{isa}", str(right)]


def test_loading_another_one_is_checked():
    for isa, obstacle in CHOICE.items():
        if obstacle is not None:
            with pytest.raises(BuildError, match="usable here"):
                _kernels.load(isa)
    with pytest.raises(BuildError, match="unknown instruction set"):
        _kernels.load("mmx")


def test_a_source_tree_without_a_build_says_how_to_build(monkeypatch):
    monkeypatch.setitem(sys.modules, "lsbench._kernels._build", None)
    with pytest.raises(BuildError, match="make build"):
        _kernels.available()


@pytest.mark.parametrize("isa", USABLE)
def test_the_build_is_recorded_and_licenses_no_reordering(isa):
    compiler, flags = _kernels.flags_of(isa)
    assert compiler
    assert "-ffp-contract=off" in flags
    for loose in ("-ffast-math", "-Ofast", "-funsafe-math", "-fassociative-math"):
        assert loose not in flags


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels are of x86-64")
def test_x86_builds_are_named_for_their_levels():
    assert "-march=x86-64-v3" in _kernels.flags_of("x86_64_v3")[1]


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded interpreter"
)
@pytest.mark.parametrize("isa", USABLE)
def test_a_free_threaded_interpreter_stays_so(isa):
    code = f"from lsbench import _kernels; _kernels.load({isa!r}); import sys; " \
           "print(sys._is_gil_enabled())"  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "False"
