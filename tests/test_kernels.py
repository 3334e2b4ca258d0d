"""The Python function and the provider over the compiled kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lsbench
from lsbench import _kernels
from lsbench.errors import TensorError, UsageError
from lsbench.formats import FORMATS, FP32
from lsbench.providers.base import Call
from lsbench.providers.kernels import KERNELS, KernelProvider
from lsbench.records import Options

USABLE = [isa for isa, obstacle in _kernels.available().items() if obstacle is None]
ROWS = [(k.name, a, s) for k in KERNELS.values() for a in k.storages for s in k.storages[a]]

each_isa = pytest.mark.parametrize("isa", USABLE)
each_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)


def compute(isa, kernel, g, x, fmt, *, out=None, **options):
    """One provider call with the kernels of one instruction set."""
    y = np.full(x.shape, 7, fmt.dtype) if out is None else out
    call = Call(fmt, g, x, None, y, Options(**{"threads": 1, **options}))
    provider = KernelProvider(kernel, isa)
    assert provider.refuse(call) is None
    provider.prepare(call).run()
    return y


def bits_of(fmt, array):
    return fmt.pattern(np.ascontiguousarray(array)).ravel()


def pairs(fmt, n, seed, low=-20.0, high=20.0):
    rng = np.random.default_rng(seed)
    g = (rng.standard_normal(n) * rng.choice([1e-3, 1.0, 1e3], n)).astype(fmt.dtype)
    x = rng.uniform(low, high, n).astype(fmt.dtype)
    return g, x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_scalars_and_empty_arrays(dtype):
    one = lsbench.log_sigmoid_backward(np.ones((), dtype), np.zeros((), dtype))
    assert one.shape == ()
    assert one.dtype == dtype
    assert one == 0.5
    for shape in ((0,), (3, 0, 2)):
        empty = lsbench.log_sigmoid_backward(np.ones(shape, dtype), np.ones(shape, dtype))
        assert empty.shape == shape
        assert empty.dtype == dtype


def test_out_is_returned():
    out = np.empty(3, np.float32)
    g = x = np.ones(3, np.float32)
    assert lsbench.log_sigmoid_backward(g, x, out=out) is out


F32 = np.ones(6, np.float32)
READ_ONLY = np.ones(6, np.float32)
READ_ONLY.flags.writeable = False

WRONG = {
    "dtype of self": ({"self": np.ones(6)}, "self: unsupported dtype float64"),
    "byte order": ({"self": F32.astype(">f4")}, "native byte order"),
    "dtypes differ": ({"grad_output": F32.astype(np.float16)}, "grad_output has dtype float16"),
    "shapes differ": ({"grad_output": F32[:5]}, "grad_output has shape (5,), expected (6,)"),
    "shapes that would broadcast": ({"grad_output": F32[:1]}, "grad_output has shape (1,)"),
    "objects": ({"self": np.array([None] * 6)}, "unsupported dtype object"),
    "dimensions": (
        {"grad_output": np.ones((1,) * 9, np.float32), "self": np.ones((1,) * 9, np.float32)},
        "9 dimensions, expected at most 8",
    ),
    "out is a list": ({"out": [0.0] * 6}, "out is a list"),
    "out of another dtype": ({"out": np.ones(6, np.float16)}, "out has dtype float16"),
    "out of another shape": ({"out": np.ones(7, np.float32)}, "out has shape (7,)"),
    "out read-only": ({"out": READ_ONLY}, "out is read-only"),
    "out expanded": (
        {"out": np.lib.stride_tricks.as_strided(np.ones(6, np.float32), (6,), (0,))},
        "out has two elements at one address",
    ),
    "out in halves of elements": (
        {"out": np.lib.stride_tricks.as_strided(np.ones(6, np.float32), (6,), (2,))},
        "out has two elements at one address",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_arrays_that_do_not_fit(case):
    wrong, message = WRONG[case]
    arguments = {"grad_output": F32, "self": F32, **wrong}
    with pytest.raises(TensorError) as caught:
        lsbench.log_sigmoid_backward(
            arguments.pop("grad_output"), arguments.pop("self"), **arguments
        )
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_partial_overlap_is_refused_and_interleaving_is_not():
    memory = np.ones(13, np.float32)
    with pytest.raises(TensorError, match="out overlaps self in part"):
        lsbench.log_sigmoid_backward(F32, memory[:6], out=memory[1:7])
    with pytest.raises(TensorError, match="out overlaps grad_output in part"):
        lsbench.log_sigmoid_backward(memory[:6], F32, out=memory[5::-1])
    even, odd = memory[:12:2], memory[1::2]
    assert (lsbench.log_sigmoid_backward(even, F32, out=odd) < 1).all()
    assert (even == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "fats"}, "did you mean 'fast'?"),
        ({"arithmetic": "fp8", "kernel": "ascend"}, "expected one of fp32, fp16, bf16"),
        ({"arithmetic": "fp16", "kernel": "exact"}, "expected one of fp32"),
        ({"rounding": "up"}, "unknown rounding 'up'"),
        ({"block": 0}, "block is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": 1 << 40}, "threads is"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1 << 64}, "seed is"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UsageError) as caught:
        lsbench.log_sigmoid_backward(F32, F32, **options)
    assert message in str(caught.value)


def test_a_provider_refuses_what_its_kernel_lacks():
    call = Call(FP32, F32, F32, None, F32.copy(), Options(arithmetic="bf16"))
    assert "no arithmetic 'bf16'" in KernelProvider("fast").refuse(call)
    assert KernelProvider("textbook").refuse(call) is None
    assert KernelProvider("nothing").unavailable() is not None
    assert KernelProvider("fast").unavailable() is None


def test_siblings_are_the_other_instruction_sets():
    siblings = KernelProvider("exact").siblings()
    assert set(siblings) == set(USABLE) - {_kernels.selected()}


def test_time_is_measured_in_compiled_code():
    call = Call(FP32, F32, F32, None, F32.copy(), Options(threads=1))
    prepared = KernelProvider("fast").prepare(call)
    assert 0 < prepared.time(10) < 10
    assert 0 <= prepared.time_empty(10) < 10
