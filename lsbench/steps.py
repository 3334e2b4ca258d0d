"""The project's formulas, step by step, and what the rounding of each step costs the result.

A formula is a list of steps over named quantities. It is computed as the kernels compute it: each
step exactly (rationals; exp by mpmath to :data:`PRECISION` bits), then rounded to nearest even in
the format of that step. Beside it runs the same list without any rounding.

What a step brought is defined so that the steps add up to the whole error: let F(k) be the final
value when the first k steps are taken as computed and all later ones are exact. Then F(0) is the
exact result, the last F is the computed one, and step k brought F(k) - F(k-1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath

from lsbench import exact
from lsbench.errors import UsageError
from lsbench.formats import Format
from lsbench.records import Value
from lsbench.rounding import Rounding, round_fraction, shortest_decimal

PRECISION = 640
"""Bits of what is said to be exact: 1 + e^-200 needs 289, and the rest is to spare."""
_CLAMP = 200
"""Beyond this |x| every format overflows or underflows alike, in the kernels too."""
_CONTEXT = mpmath.MPContext()

Quantities = Mapping[str, Any]
"""Names → mpmath numbers."""


@dataclass(frozen=True)
class Operation:
    """One step of a formula."""

    name: str
    """The quantity it makes."""
    expression: str
    """As a person writes it."""
    compute: Callable[[Quantities], Any]
    """Exactly, from the quantities so far."""
    stored: bool = False
    """Rounded to the storage format instead of the arithmetic's."""


@dataclass(frozen=True)
class Step:
    """One step as it was computed."""

    name: str
    expression: str
    fmt: str
    """Format that it was rounded to."""
    computed: Value
    exact: str
    """The same quantity without any rounding, 12 digits."""
    brought: float | None
    """What this step's rounding added to the final error, in ulp; None beside NaN or infinity."""


@dataclass(frozen=True)
class Trace:
    """One formula, traced on one pair."""

    kernel: str
    arithmetic: str
    storage: str
    steps: tuple[Step, ...]
    result: Value
    ulp: float | None
    entered: str
    """In words: the step that brought most, or that none brought half an ulp."""
    agrees: bool
    """Whether the compiled kernel gives the very bits."""


def _exp(x: Any) -> Any:
    return _CONTEXT.exp(max(min(x, _CLAMP), -_CLAMP))


def _exp_minus_magnitude(q: Quantities) -> Any:
    return _exp(-abs(q["x"]))


def _derivative(q: Quantities) -> Any:
    return 1 - q["share"] if q["x"] < 0 else q["share"]


FORMULAS: dict[str, tuple[Operation, ...]] = {
    "textbook": (
        Operation("e", "exp(x)", lambda q: _exp(q["x"])),
        Operation("d", "1 + e", lambda q: 1 + q["e"]),
        Operation("s", "1 / d", lambda q: 1 / q["d"]),
        Operation("y", "g * s", lambda q: q["g"] * q["s"]),
    ),
    "ascend": (
        Operation("e", "exp(-|x|)", _exp_minus_magnitude),
        Operation("d", "1 + e", lambda q: 1 + q["e"]),
        Operation("s", "(x < 0 ? 1 : e) / d", lambda q: (1 if q["x"] < 0 else q["e"]) / q["d"]),
        Operation("y", "s * g", lambda q: q["s"] * q["g"]),
    ),
    "buffered": (
        Operation("z", "exp(-|x|)", _exp_minus_magnitude),
        Operation("buffer", "z, as the forward stores it", lambda q: q["z"], stored=True),
        Operation("d", "1 + buffer", lambda q: 1 + q["buffer"]),
        Operation("share", "buffer / d", lambda q: q["buffer"] / q["d"]),
        Operation("s", "x < 0 ? 1 - share : share", _derivative),
        Operation("y", "g * s", lambda q: q["g"] * q["s"]),
    ),
}
"""Kernel → its steps; the inputs in the arithmetic's format come before, storing comes after."""


def trace(
    kernel: str,
    arithmetic: Format,
    storage: Format,
    g_bits: int,
    x_bits: int,
    mode: Rounding = Rounding.RNE,
) -> Trace:
    """Trace a formula on finite g and x in the storage format.

    Raises UsageError for a kernel that is not a formula, and for NaNs and infinities.
    """
    if kernel not in FORMULAS:
        raise UsageError(f"no formula {kernel!r}: expected one of {', '.join(FORMULAS)}")
    if not (storage.is_finite(g_bits) and storage.is_finite(x_bits)):
        raise UsageError("found an infinity or a NaN: expected finite values to trace")
    operations = _whole(FORMULAS[kernel])
    with _CONTEXT.workprec(PRECISION):
        inputs = {"g": _number(storage, g_bits), "x": _number(storage, x_bits)}
        negative = storage.is_negative(g_bits)
        finals = [_finish(operations, 0, inputs)]
        truth = _values(operations, inputs)
        held, made = dict(inputs), []
        for k, operation in enumerate(operations, 1):
            last = k == len(operations)
            fmt = storage if operation.stored or last else arithmetic
            rounding = mode if last else Rounding.RNE
            sign = negative if operation.name in ("g", "y", "stored") else None
            bits = _rounded(fmt, operation.compute(held), rounding, sign)
            held[operation.name] = _number(fmt, bits)
            finals.append(_finish(operations, k, held))
            made.append((operation, fmt, bits))
        unit = _ulp(storage, g_bits, x_bits)
        brought = [_in_ulp(b - a, unit) for a, b in pairwise(finals)]
        steps = tuple(
            Step(o.name, o.expression, f.name, _value(f, bits), _text(truth[o.name]), b)
            for (o, f, bits), b in zip(made, brought, strict=True)
        )
    result = made[-1][2]
    error = exact.ulp_error(storage, g_bits, x_bits, result)
    return Trace(
        kernel=kernel,
        arithmetic=arithmetic.name,
        storage=storage.name,
        steps=steps,
        result=_value(storage, result),
        ulp=None if error is None else error.ulp,
        entered=_entered(steps),
        agrees=_by_kernel(kernel, arithmetic, storage, g_bits, x_bits, mode) == result,
    )


def _whole(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """A formula from the inputs in the arithmetic's format to the stored result."""
    return (
        Operation("g", "g in the arithmetic's format", lambda q: q["g"]),
        Operation("x", "x in the arithmetic's format", lambda q: q["x"]),
        *operations,
        Operation("stored", "y, stored", lambda q: q["y"], stored=True),
    )


def _finish(operations: tuple[Operation, ...], done: int, held: Quantities) -> Any:
    """The final value with the first ``done`` steps as they are held and the others exact."""
    quantities = dict(held)
    for operation in operations[done:]:
        quantities[operation.name] = operation.compute(quantities)
    return quantities["stored"]


def _values(operations: tuple[Operation, ...], inputs: Quantities) -> Quantities:
    quantities = dict(inputs)
    for operation in operations:
        quantities[operation.name] = operation.compute(quantities)
    return quantities


def _number(fmt: Format, bits: int) -> Any:
    if not fmt.is_finite(bits):
        return _CONTEXT.mpf(fmt.to_float(bits))
    fraction = fmt.to_fraction(bits)
    return _CONTEXT.mpf(fraction.numerator) / fraction.denominator


def _rounded(fmt: Format, number: Any, mode: Rounding, negative: bool | None) -> int:
    if _CONTEXT.isnan(number):
        return fmt.nan_bits
    if _CONTEXT.isinf(number):
        return fmt.inf_bits | (fmt.sign_bit if number < 0 else 0)
    sign, significand, exponent, _ = number._mpf_
    fraction = Fraction((-1) ** sign * int(significand)) * Fraction(2) ** int(exponent)
    return round_fraction(fmt, fraction, mode, negative=None if fraction else negative)


def _ulp(fmt: Format, g_bits: int, x_bits: int) -> Any:
    error = exact.ulp_error(fmt, g_bits, x_bits, 0)
    assert error is not None
    return _CONTEXT.mpf(2) ** error.exponent


def _in_ulp(difference: Any, unit: Any) -> float | None:
    return float(difference / unit) if _CONTEXT.isfinite(difference) else None


def _value(fmt: Format, bits: int) -> Value:
    return Value(fmt.hex(bits), shortest_decimal(fmt, bits))


def _text(number: Any) -> str:
    return str(_CONTEXT.nstr(number, 12))


def _entered(steps: tuple[Step, ...]) -> str:
    known = [step for step in steps if step.brought is not None]
    if len(known) < len(steps):
        lost = next(step for step in steps if step.brought is None)
        return f"{lost.name} = {lost.expression} leaves the numbers of {lost.fmt}"
    worst = max(known, key=lambda step: abs(step.brought or 0.0))
    if abs(worst.brought or 0.0) <= 0.5:
        return "no single step brought more than half an ulp"
    return (
        f"{worst.name} = {worst.expression} rounded to {worst.fmt} brought "
        f"{worst.brought:+.6g} ulp: {worst.computed.decimal} where {worst.exact} is exact"
    )


def _by_kernel(
    kernel: str, arithmetic: Format, storage: Format, g_bits: int, x_bits: int, mode: Rounding
) -> int:
    import numpy as np

    from lsbench.providers.kernels import log_sigmoid_backward

    g, x = (storage.values(np.array([b], storage.bits_dtype)) for b in (g_bits, x_bits))
    y = log_sigmoid_backward(g, x, kernel=kernel, arithmetic=arithmetic.name, rounding=mode.value)
    return int(storage.pattern(y)[0])
