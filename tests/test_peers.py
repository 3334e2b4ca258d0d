"""Frameworks as providers, where they are installed: right where they are right, and their faults.

The faults are those of named versions; with others the figures may differ, so those tests hold the
ways of computing to mpmath and to each other, and the known faults only where the version is known.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from calls import call, computed, drawn, worst_ulp

from lsbench import exact
from lsbench.cases import load
from lsbench.errors import ProviderError
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.providers import extras
from lsbench.providers.isolation import isolate
from lsbench.providers.registry import BUILTIN, resolve
from lsbench.row import Settings
from lsbench.runner import run, select

CASES = Path(__file__).parent.parent / "cases" / "peers.yaml"
TOLERANCES = ("torch", "cann-mere-mare", "cann-mixed")
PLAIN = ["numpy", "scipy", "torch", "torch-autograd", "torch-compile", "jax", "onnxruntime"]


def available(name: str):
    """The provider, or a skip with its own reason."""
    provider = resolve(name)
    reason = provider.unavailable()
    if reason is not None:
        pytest.skip(reason)
    return provider


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
@pytest.mark.parametrize("name", PLAIN)
def test_small_values_come_out_within_a_few_ulp(name, fmt):
    provider, made = available(name), drawn(fmt, (40,))
    reason = provider.refuse(made)
    if reason is not None:
        assert (name, fmt) == ("onnxruntime", BF16)
        assert reason.startswith("onnxruntime has no kernel for bf16")
        return
    computed(provider, made)
    assert worst_ulp(made) < 25


@pytest.mark.parametrize("name", PLAIN)
def test_empty_tensors_and_single_elements_are_served(name):
    provider = available(name)
    for shape in ((0,), (3, 0, 2), (), (1,)):
        made = drawn(FP32, shape)
        computed(provider, made)
        assert worst_ulp(made) < 25


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
@pytest.mark.parametrize("name", ["numpy", "scipy", "torch", "torch-autograd", "torch-compile"])
def test_strides_are_taken_or_refused_never_ignored(name, fmt):
    provider, plain = available(name), drawn(fmt, (6, 10))
    g, x = plain.grad_output, plain.self
    lays = [
        (g.T, x.T, np.zeros((6, 10), fmt.dtype).T),
        (g[:, ::2], x[:, 1::2], np.zeros((6, 11), fmt.dtype)[:, 1::2]),
        (np.broadcast_to(g[:1], (6, 10)), x, np.zeros((6, 10), fmt.dtype)),
        (g[::-1], x, np.zeros((6, 10), fmt.dtype)),
    ]
    for g_laid, x_laid, out in lays:
        made = call(fmt, g_laid, x_laid, out=out)
        reason = provider.refuse(made)
        if reason is not None:
            assert reason == "torch has no negative strides, found them in grad_output"
            assert g_laid.strides[0] < 0
            continue
        computed(provider, made)
        assert worst_ulp(made) < 25


def test_gaps_of_the_output_are_left_alone_by_torch():
    provider, plain = available("torch"), drawn(FP32, (6, 5))
    storage = np.full((6, 11), 7, np.float32)
    computed(provider, call(FP32, plain.grad_output, plain.self, out=storage[:, 1::2]))
    assert (storage[:, ::2] == 7).all()


@pytest.mark.parametrize("name", ["jax", "onnxruntime"])
def test_providers_of_packed_arrays_refuse_strides_with_the_tensor(name):
    provider, made = available(name), drawn(FP32, (6, 10))
    asked = call(FP32, made.grad_output, made.self.T.copy().T)
    assert provider.refuse(asked) == f"{name} has packed arrays only, found strides in self"


@pytest.mark.parametrize("name", ["torch", "torch-autograd", "onnxruntime"])
def test_threads_are_followed_and_given_back(name):
    provider, made = available(name), drawn(FP32, (1000,))
    first = computed(provider, made).copy()
    torch = extras.load("torch") if name.startswith("torch") else None
    before = torch.get_num_threads() if torch else 0
    assert provider.axes == {"threads"}
    for threads in (1, 2):
        asked = call(FP32, made.grad_output, made.self, threads=threads)
        assert np.array_equal(computed(provider, asked), first)
    assert (torch.get_num_threads() if torch else 0) == before


@pytest.mark.parametrize("name", PLAIN)
def test_options_of_kernels_are_refused(name):
    provider, made = resolve(name), drawn(FP32)
    asked = call(FP32, made.grad_output, made.self, rounding="rtz")
    assert provider.refuse(asked) == "takes no rounding option, asked for rtz"


@pytest.mark.parametrize("name", PLAIN)
def test_a_repeated_run_gives_the_time_and_the_same_bits(name):
    provider, made = available(name), drawn(FP32, (100,))
    prepared = provider.prepare(made)
    prepared.run()
    prepared.fetch()
    first = made.grad_input.copy()
    assert 0 < prepared.time(3) < 60
    prepared.fetch()
    assert np.array_equal(first, made.grad_input)
    prepared.close()


@pytest.mark.parametrize(
    "name", [n for n in BUILTIN if n in ("scipy", "torch", "jax", "onnxruntime")]
)
def test_a_missing_package_is_one_line_that_names_the_extra(name, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    assert resolve(name).unavailable() == (
        f"{name} is not installed: pip install 'lsbench[{name}]'"
    )


def test_a_package_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('no such\\nlibrary')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ProviderError, match=r"^broken_package cannot be imported: RuntimeError"):
        extras.load("broken_package")


def test_a_device_that_is_not_there_is_one_line():
    available("torch")
    torch = extras.load("torch")
    if not torch.cuda.is_available():
        reason = resolve("torch:cuda").unavailable()
        assert reason == f"torch {torch.__version__} finds no cuda device here"
    assert "torch knows no device 'abacus'" in resolve("torch:abacus").unavailable()


def test_the_compiler_of_torch_is_named_where_it_is_missing(monkeypatch):
    """The one that torch will call: another one on the path is of no use."""
    available("torch")
    monkeypatch.setattr("shutil.which", lambda name: None if "own" in name else f"/bin/{name}")
    monkeypatch.setenv("CXX", "my-own-c++")
    assert resolve("torch-compile").unavailable() == (
        "torch.compile needs a C++ compiler, found no 'my-own-c++': install it, or set CXX"
    )


BROKEN = """#!/bin/sh
case " $* " in
*" -c "*|*" -shared "*) echo "kernel.cpp:1:1: fatal error: no such header" >&2; exit 1;;
esac
exec {compiler} "$@"
"""
"""A compiler that tells its version and compiles nothing."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\nexit 1\n", "No working C++ compiler found"),
        (BROKEN, "C++ compile error: kernel.cpp:1:1: fatal error: no such header"),
    ],
)
def test_a_compiler_that_fails_is_one_line(monkeypatch, tmp_path, text, said):
    """In a child with a cache of its own: what is compiled already hides the compiler."""
    provider = available("torch-compile")
    path = tmp_path / "g++"
    path.write_text(text.format(compiler=shutil.which(os.environ.get("CXX", "g++"))))
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    child = isolate(provider)
    try:
        with pytest.raises(ProviderError, match=r"^torch-compile: ") as caught:
            computed(child, drawn(FP32))
    finally:
        child.close()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def version_of(name: str, wanted: str):
    """The provider, or a skip where it has another version."""
    provider = available(name)
    if not provider.version().startswith(wanted):
        pytest.skip(f"found {provider.version()}, expected {wanted}: its faults are known")
    return provider


def one(fmt, provider, g, x):
    """The bits and the error of one pair."""
    made = call(fmt, np.array([g], fmt.dtype), np.array([x], fmt.dtype))
    computed(provider, made)
    bits = [int(fmt.pattern(a)[0]) for a in (made.grad_output, made.self, made.grad_input)]
    return bits[2], exact.ulp_error(fmt, *bits)


def test_the_fp16_buffer_of_torch_loses_large_gradients():
    bits, error = one(FP16, version_of("torch", "torch 2.13"), 60000, 20.015625)
    assert bits == 0
    assert error.ulp == pytest.approx(-2042.66, abs=0.01)


def test_the_fp32_backward_of_torch_loses_large_gradients():
    bits, error = one(FP32, version_of("torch", "torch 2.13"), 1e30, 104.428)
    assert bits == 0
    assert error.ulp < -8e6


@pytest.mark.parametrize(
    ("name", "dtype", "failing"),
    [
        ("torch", "fp32", set()),
        ("torch", "fp16", {"cann-mere-mare"}),
        ("torch-compile", "fp16", set()),
    ],
)
def test_what_usual_tests_draw_hides_the_buffer_of_torch_from_most_tolerances(name, dtype, failing):
    version_of(name, "torch 2.13")
    cases = [c for c in load([str(CASES)]) if c.name == f"peers-normal[dtype={dtype}]"]
    settings = Settings(throughput=False, determinism=False)
    (row,) = run(select(cases, [name]), settings).rows
    judged = {s.name: s.passed for s in row.standards if s.name in TOLERANCES}
    assert {standard for standard, passed in judged.items() if not passed} == failing
    assert len(judged) == len(TOLERANCES)


def test_compiled_torch_keeps_the_fp16_gradient_that_its_library_loses():
    """Fused in fp32, it has no fp16 buffer: the bits show that it is compiled code that ran."""
    bits, error = one(FP16, version_of("torch-compile", "torch 2.13"), 60000, 20.015625)
    assert bits == 0x07FB
    assert abs(error.ulp) < 0.5


def test_compiled_torch_loses_large_fp32_gradients_as_its_library_does():
    bits, _ = one(FP32, version_of("torch-compile", "torch 2.13"), 1e30, 104.428)
    assert bits == 0


def test_jax_flushes_subnormal_results():
    bits, _ = one(FP32, version_of("jax", "jax 0.10"), 1, 88)
    assert bits == 0


def test_an_isolated_framework_gives_the_same_bits():
    provider = available("torch")
    here, there = drawn(BF16, (30,)), drawn(BF16, (30,))
    computed(provider, here)
    child = isolate(provider)
    computed(child, there)
    child.close()
    assert np.array_equal(BF16.pattern(here.grad_input), BF16.pattern(there.grad_input))
