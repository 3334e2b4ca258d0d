"""Faulty implementations on purpose: each has one kind of fault that was seen in public.

Each fault is right wherever its kind does not show: the computation is done in double precision and
rounded once, and one thing is then done wrong. A fault names the case of cases/faults.yaml that
shows it and the verdicts of which the row must carry at least one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench.errors import ProviderError
from lsbench.formats import FP16, FP32, Bits, Format
from lsbench.inputs import as_patterns, nearest
from lsbench.providers.base import Array, Call, Prepared, Provider

Reals = npt.NDArray[np.float64]
Elementwise = Callable[[Format, Array, Array], npt.NDArray[Any]]
"""Format, g and x as 1-d arrays → float64 to be rounded once, or bit patterns."""
Compute = Callable[[Call], None]


def reals(array: Array) -> Reals:
    """Values as doubles, exactly."""
    return np.asarray(array).astype(np.float64)


def sigma(x: Reals) -> Reals:
    """1/(1 + e^x) without overflow or cancellation."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, 1.0, e) / (1.0 + e)


def right(fmt: Format, g: Array, x: Array) -> Reals:
    """The result in double precision, special values included."""
    wide_g, wide_x = reals(g), reals(x)
    y = wide_g * sigma(wide_x)
    return np.where(np.isinf(wide_g) & np.isfinite(wide_x), wide_g, y)


def rounded(fmt: Format, values: Reals) -> Reals:
    """Values of the format nearest to doubles, as doubles: one operation in working precision."""
    return reals(fmt.values(nearest(fmt, values)))


# Formulas ------------------------------------------------------------------------------------


def rounded_buffer(fmt: Format, g: Array, x: Array) -> Reals:
    """exp(-|x|) is stored in the tensors' format before it is used."""
    x, g = reals(x), reals(g)
    z = rounded(fmt, np.exp(-np.abs(x)))
    return g * np.where(x < 0, 1.0, z) / (1.0 + z)


def sigma_in_working_precision(fmt: Format, g: Array, x: Array) -> Reals:
    """sigma is rounded before the product: it underflows where the product does not."""
    return reals(g) * rounded(fmt, sigma(reals(x)))


def nan_at_infinity(fmt: Format, g: Array, x: Array) -> Reals:
    """x - x is taken for a zero."""
    return right(fmt, g, x) + (reals(x) - reals(x))


def exp_overflows(fmt: Format, g: Array, x: Array) -> Reals:
    """e^-x / (1 + e^-x) in the tensors' format: infinity over infinity."""
    e = rounded(fmt, np.exp(-reals(x)))
    return reals(g) * (e / (1.0 + e))


def exp_in_fp16(fmt: Format, g: Array, x: Array) -> Reals:
    """1/(1 + e^x) with e^x in fp16: infinite from x = 11.1 on."""
    return reals(g) / (1.0 + rounded(FP16, np.exp(reals(x))))


def one_minus_sigmoid(fmt: Format, g: Array, x: Array) -> Reals:
    """1 - sigmoid(x) with sigmoid rounded to the format."""
    return reals(g) * (1.0 - rounded(fmt, sigma(-reals(x))))


def one_minus_exp_logsigmoid(fmt: Format, g: Array, x: Array) -> Reals:
    """1 - exp(logsigmoid(x)) from the rounded forward result."""
    forward = rounded(fmt, -np.logaddexp(0.0, -reals(x)))
    return reals(g) * (1.0 - rounded(fmt, np.exp(forward)))


def s_times_one_minus_s(fmt: Format, g: Array, x: Array) -> Reals:
    """The sigmoid's own derivative divided by the sigmoid."""
    s = rounded(fmt, sigma(-reals(x)))
    return reals(g) * (s * (1.0 - s) / s)


def zero_at_zero(fmt: Format, g: Array, x: Array) -> Reals:
    """A sign function that is 0 at 0 chooses the branch."""
    return right(fmt, g, x) * np.abs(np.sign(reals(x)))


def clamped(fmt: Format, g: Array, x: Array) -> Reals:
    """Nothing is left from x = 20 on."""
    return np.where(reals(x) >= 20, 0.0, right(fmt, g, x))


def sign_lost(fmt: Format, g: Array, x: Array) -> Reals:
    """|x| where x belongs."""
    return reals(g) * sigma(np.abs(reals(x)))


def branch_missing(fmt: Format, g: Array, x: Array) -> Reals:
    """From |x| = 4 on the denominator is left out."""
    x = reals(x)
    return np.where(np.abs(x) >= 4, reals(g) * np.where(x < 0, 1.0, np.exp(-x)), right(fmt, g, x))


def truncated(fmt: Format, g: Array, x: Array) -> Bits:
    """Low bits are cut off instead of rounded."""
    y = right(fmt, g, x)
    bits = nearest(fmt, y)
    over = np.abs(reals(fmt.values(bits))) > np.abs(y)
    return (bits - over).astype(fmt.bits_dtype)


def rounded_twice(fmt: Format, g: Array, x: Array) -> Reals:
    """Through fp32 on the way to the format."""
    return rounded(FP32, right(fmt, g, x))


def one_ulp_off(fmt: Format, g: Array, x: Array) -> Bits:
    """The neighbour above every result of normal size."""
    bits = nearest(fmt, right(fmt, g, x))
    magnitude = bits & (fmt.sign_bit - 1)
    normal = (magnitude >= fmt.encode(0, 1, fmt.emin)) & (magnitude < fmt.max_bits)
    return (bits + normal).astype(fmt.bits_dtype)


def all_zeros(fmt: Format, g: Array, x: Array) -> Reals:
    """Zeros pass an absolute tolerance."""
    return np.zeros(x.shape)


def flushing(fmt: Format, g: Array, x: Array) -> Bits:
    """Subnormal results become zeros of their sign."""
    return flushed(fmt, nearest(fmt, right(fmt, g, x)))


def denormals_are_zero(fmt: Format, g: Array, x: Array) -> Reals:
    """Subnormal inputs are read as zeros."""
    g, x = (fmt.values(flushed(fmt, fmt.pattern(np.ascontiguousarray(a)))) for a in (g, x))
    return right(fmt, g, x)


def flushed(fmt: Format, bits: Bits) -> Bits:
    """Patterns with subnormals replaced by zeros."""
    magnitude = bits & (fmt.sign_bit - 1)
    subnormal = magnitude < fmt.encode(0, 1, fmt.emin)
    return np.where(subnormal, bits & fmt.sign_bit, bits).astype(fmt.bits_dtype)


def nan_becomes_infinity(fmt: Format, g: Array, x: Array) -> Bits:
    """A NaN loses its payload and with it its being one."""
    bits = nearest(fmt, right(fmt, g, x))
    nan = (bits & (fmt.sign_bit - 1)) > fmt.inf_bits
    return np.where(nan, fmt.inf_bits, bits).astype(fmt.bits_dtype)


def nan_swallowed(fmt: Format, g: Array, x: Array) -> Reals:
    """A clamp by fmax and fmin returns the bound for a NaN."""
    return right(fmt, g, np.fmax(np.fmin(reals(x), 1e4), -1e4))


# Blocks --------------------------------------------------------------------------------------

VECTOR = 8


def body_saturates(fmt: Format, g: Array, x: Array) -> Reals:
    """Whole vectors are clamped at x = 88, what is left over is not."""
    body = x.size // VECTOR * VECTOR
    limited = reals(x)
    limited[:body] = np.minimum(limited[:body], 88.0)
    return reals(g) * sigma(limited)


def tail_differs(fmt: Format, g: Array, x: Array) -> Bits:
    """What is left over from whole vectors is rounded up."""
    bits = nearest(fmt, right(fmt, g, x))
    bits[x.size // VECTOR * VECTOR :] += fmt.bits_dtype.type(1)
    return bits


class Differing:
    """Another last bit at every call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, fmt: Format, g: Array, x: Array) -> Bits:
        """The result, its last bit moved in every second call."""
        self.calls += 1
        bits = nearest(fmt, right(fmt, g, x))
        bits[-1] ^= self.calls & 1
        return bits


# Memory --------------------------------------------------------------------------------------


def element_by_element(function: Elementwise) -> Compute:
    """A computation that respects every stride."""

    def compute(call: Call) -> None:
        g, x = (a.reshape(-1) for a in (call.grad_output, call.self))
        made = as_patterns(call.fmt, function(call.fmt, g, x))
        call.grad_input[...] = call.fmt.values(made).reshape(call.grad_input.shape)

    return compute


def flat(array: Array, count: int) -> Array:
    """The first ``count`` elements of memory from an array's first one on."""
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def stride_ignored(call: Call) -> None:
    """Inputs are read from their first element on, whatever their strides."""
    n = call.self.size
    g, x = flat(call.grad_output, n), flat(call.self, n)
    made = nearest(call.fmt, right(call.fmt, g, x))
    call.grad_input[...] = call.fmt.values(made).reshape(call.grad_input.shape)


def rows_taken_together(call: Call) -> None:
    """The last axis is read with its stride, rows as if each began where the last one ended."""
    y = call.grad_input
    if y.ndim < 2:
        element_by_element(right)(call)
        return
    g, x = (_rows(a) for a in (call.grad_output, call.self))
    made = nearest(call.fmt, right(call.fmt, g.reshape(-1), x.reshape(-1)))
    y[...] = call.fmt.values(made).reshape(y.shape)


def _rows(array: Array) -> Array:
    step = array.strides[-1]
    pitch = step * array.shape[-1]
    return np.lib.stride_tricks.as_strided(
        array, (array.size // array.shape[-1], array.shape[-1]), (pitch, step)
    )


def stride_zero_refused(call: Call) -> None:
    """A stride of 0 ends in an error."""
    if 0 in call.grad_output.strides or 0 in call.self.strides:
        raise ProviderError("unsupported memory format: stride 0")
    element_by_element(right)(call)


def gaps_overwritten(call: Call) -> None:
    """Results go out as whole runs of memory, over what lies between the elements."""
    element_by_element(right)(call)
    y = call.grad_input
    if y.ndim and y.size and y.strides[-1] > y.itemsize:
        gap = np.lib.stride_tricks.as_strided(
            y[..., :1], (*y.shape[:-1], 2), (*y.strides[:-1], y.itemsize)
        )
        gap[..., 1] = 0


def scalar_differs(call: Call) -> None:
    """A tensor without dimensions takes another path."""
    element_by_element(sign_lost if call.self.ndim == 0 else right)(call)
    if call.self.ndim == 0:
        call.grad_input[...] = reals(call.grad_input) / 2


def buffer_consulted(call: Call) -> None:
    """Where the buffer holds a number it is taken for exp(-|x|)."""
    buffer = call.buffer
    if buffer is None or buffer.shape != call.self.shape or np.isnan(reals(buffer)).all():
        element_by_element(right)(call)
        return
    z, x = reals(buffer), reals(call.self)
    y = reals(call.grad_output) * np.where(x < 0, 1.0, z) / (1.0 + z)
    call.grad_input[...] = call.fmt.values(nearest(call.fmt, np.ascontiguousarray(y)))


def buffer_added(call: Call) -> None:
    """Nothing of the buffer is meant to arrive: it is multiplied by 0, and a NaN stays one."""
    element_by_element(right)(call)
    if call.buffer is not None and call.buffer.shape == call.self.shape:
        y = reals(call.grad_input) + 0.0 * reals(call.buffer)
        call.grad_input[...] = call.fmt.values(nearest(call.fmt, np.ascontiguousarray(y)))


def buffer_broadcast(call: Call) -> None:
    """A buffer of another shape is broadcast."""
    element_by_element(right)(call)
    if call.buffer is not None and call.buffer.shape != call.self.shape:
        y = reals(call.grad_input) * reals(call.buffer)
        call.grad_input[...] = call.fmt.values(nearest(call.fmt, np.ascontiguousarray(y)))


def raising(call: Call) -> None:
    """An exception that is no lsbench error."""
    raise IndexError("index 9 is out of bounds\nfor axis 0")


def misaligned_wrong(call: Call) -> None:
    """Aligned loads drop the low bits of an address."""
    x = call.self
    off = x.__array_interface__["data"][0] % 16 // x.itemsize
    if x.size and x.flags.c_contiguous and off:
        x = np.lib.stride_tricks.as_strided(x.reshape(-1), x.shape, x.strides)
        x = np.roll(x, off)
    element_by_element(right)(
        Call(call.fmt, call.grad_output, x, None, call.grad_input, call.options)
    )


def misaligned_refused(call: Call) -> None:
    """A base off its alignment ends in an error."""
    if call.self.__array_interface__["data"][0] % 16:
        raise ProviderError("misaligned address")
    element_by_element(right)(call)


def empty_refused(call: Call) -> None:
    """An empty tensor ends in an error."""
    if call.self.size == 0:
        raise ProviderError("invalid configuration: grid of 0 blocks")
    element_by_element(right)(call)


def input_changed(call: Call) -> None:
    """The input serves as scratch memory."""
    element_by_element(right)(call)
    if call.self.size and call.self.flags.writeable:
        call.self[...] = 0


# Providers -----------------------------------------------------------------------------------


class _Computation(Prepared):
    def __init__(self, compute: Compute, call: Call) -> None:
        self._compute, self._call = compute, call

    def run(self) -> None:
        """Compute into grad_input."""
        with np.errstate(all="ignore"):
            self._compute(self._call)


class Python(Provider):
    """An implementation in NumPy that follows no options."""

    def __init__(self, name: str, compute: Compute) -> None:
        super().__init__(name)
        self._compute = compute

    def unavailable(self) -> str | None:
        """It is always there."""
        return None

    def version(self) -> str:
        """It has one."""
        return "1"

    def refuse(self, call: Call) -> str | None:
        """It takes every tensor."""
        return None

    def prepare(self, call: Call) -> Prepared:
        """Make it ready."""
        return _Computation(self._compute, call)


@dataclass(frozen=True)
class Fault:
    """One kind of fault with the case that shows it."""

    kind: str
    case: str
    """Name of a case of cases/faults.yaml; all of its matrix, or the dtypes named here."""
    compute: Compute
    verdicts: tuple[str, ...]
    """Verdicts of which the row carries at least one."""
    dtypes: tuple[str, ...] = ("fp32", "fp16", "bf16")

    @property
    def provider(self) -> Python:
        """A fresh provider that has the fault."""
        return Python(self.kind, self.compute)


def _formula(
    kind: str, case: str, function: Elementwise, *verdicts: str, dtypes: str = "fp32 fp16 bf16"
) -> Fault:
    return Fault(kind, case, element_by_element(function), verdicts, tuple(dtypes.split()))


RIGHT = Python("right", element_by_element(right))
"""The computation that every fault begins from."""

FAULTS = (
    _formula("rounded buffer", "rounded-buffer", rounded_buffer, "spurious_zero", "accuracy"),
    _formula("sigma underflows", "sigma-underflows", sigma_in_working_precision, "spurious_zero"),
    _formula("NaN at an infinity", "nan-at-infinity", nan_at_infinity, "nonfinite"),
    _formula("exp overflows", "exp-overflows", exp_overflows, "nonfinite"),
    _formula("exp overflows in fp16", "exp-overflows-fp16", exp_in_fp16, "spurious_zero"),
    _formula("cancellation", "cancellation", one_minus_sigmoid, "spurious_zero"),
    _formula("1 - exp(logsigmoid)", "cancellation", one_minus_exp_logsigmoid, "spurious_zero"),
    _formula("clamped at 20", "cancellation", clamped, "spurious_zero"),
    _formula("s (1 - s)", "s-times-one-minus-s", s_times_one_minus_s, "spurious_zero"),
    _formula("point failure at zero", "point-at-zero", zero_at_zero, "spurious_zero"),
    _formula("subnormal results flushed", "subnormal-results", flushing, "ftz"),
    _formula("fp16 subnormals flushed", "subnormal-results-fp16", flushing, "ftz"),
    _formula("subnormal inputs as zero", "subnormal-inputs", denormals_are_zero, "daz"),
    _formula("fp32 inputs as zero", "subnormal-inputs-fp32", denormals_are_zero, "daz"),
    _formula("vector body saturates", "body-saturates", body_saturates, "tail"),
    _formula("tail differs", "tail-differs", tail_differs, "tail"),
    _formula("sign half lost", "sign-half-lost", sign_lost, "accuracy"),
    _formula("branch missing", "branch-missing", branch_missing, "accuracy"),
    Fault("stride ignored", "stride-ignored", stride_ignored, ("stride",)),
    Fault("column block", "column-block", rows_taken_together, ("stride",)),
    Fault("stride 0 is garbage", "stride-zero", stride_ignored, ("stride",)),
    Fault("stride 0 is an error", "stride-zero", stride_zero_refused, ("crashed",)),
    Fault("output gaps overwritten", "output-gaps", gaps_overwritten, ("contract",)),
    Fault("0-d differs", "zero-dimensional", scalar_differs, ("accuracy",)),
    Fault("buffer consulted", "buffer-consulted", buffer_consulted, ("contract",)),
    Fault("NaN of the buffer kept", "buffer-consulted", buffer_added, ("contract", "nonfinite")),
    Fault("buffer broadcast", "buffer-of-another-shape", buffer_broadcast, ("contract",)),
    Fault("raises", "repeated", raising, ("crashed",)),
    Fault("input changed", "sign-half-lost", input_changed, ("contract",)),
    _formula("truncated", "truncated", truncated, "accuracy"),
    _formula("fp32 truncated", "truncated-fp32", truncated, "accuracy"),
    _formula("rounded twice", "rounded-twice", rounded_twice, "accuracy"),
    _formula("NaN becomes infinity", "nan-swallowed", nan_becomes_infinity, "nan_lost"),
    _formula("NaN is swallowed", "nan-swallowed-16", nan_swallowed, "nan_lost"),
    _formula("all zeros", "all-zeros", all_zeros, "spurious_zero"),
    Fault("misaligned base is wrong", "misaligned", misaligned_wrong, ("stride", "accuracy")),
    Fault("misaligned base is an error", "misaligned", misaligned_refused, ("crashed",)),
    Fault("empty is an error", "empty", empty_refused, ("crashed",)),
    _formula("one ulp off", "one-ulp-off", one_ulp_off, "accuracy"),
    _formula("differs each time", "repeated", Differing(), "nondeterministic"),
)
"""Every kind of fault that was seen in public, and those that the design asks to plant."""
