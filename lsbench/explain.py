"""One pair, explained: the exact value, its neighbours, every provider's answer, every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lsbench import exact
from lsbench.errors import ProviderError, UsageError
from lsbench.formats import Format
from lsbench.providers.base import Call, Provider, compute_once
from lsbench.providers.extras import first_line
from lsbench.records import Options, Value
from lsbench.rounding import Rounding, shortest_decimal
from lsbench.spaces import parse_value
from lsbench.steps import FORMULAS, Trace, trace

LONE, PADDED = 1, 67
"""Lengths of the tensors in which a provider computes the pair: alone, and in a vector's body."""


@dataclass(frozen=True)
class Answer:
    """What one provider makes of the pair."""

    provider: str
    version: str
    computed: Value | None
    """None where it gave none; ``note`` says why."""
    ulp: float | None
    correct: bool
    note: str = ""
    """Why there is no answer, or the other bits that it gives in a longer tensor."""


@dataclass(frozen=True)
class Explanation:
    """All there is to say about one pair."""

    dtype: str
    rounding: str
    g: Value
    x: Value
    exact: str
    """The exact value, 30 digits."""
    rule: str
    """The row of the special values that decides, or nothing."""
    below: Value | None
    """The neighbours in the format that enclose the exact value; None where it is special."""
    above: Value | None
    between: float | None
    """Where the exact value lies from ``below`` (0) to ``above`` (1)."""
    correct: Value
    answers: tuple[Answer, ...]
    traces: tuple[Trace, ...]


def value_of(fmt: Format, text: str) -> int:
    """A bit pattern from text: as ``lsbench sweep --g`` reads it, and nan, inf and -inf."""
    words = {"nan": fmt.nan_bits, "inf": fmt.inf_bits, "+inf": fmt.inf_bits}
    words["-inf"] = fmt.inf_bits | fmt.sign_bit
    word = text.strip().lower()
    return words[word] if word in words else parse_value(fmt, text)


def explain(
    fmt: Format,
    g_bits: int,
    x_bits: int,
    providers: Sequence[Provider] = (),
    *,
    mode: Rounding = Rounding.RNE,
    arithmetics: Sequence[Format] = (),
) -> Explanation:
    """Explain one pair of bit patterns.

    Every formula is traced in each of ``arithmetics``; providers are asked as they are, with the
    rounding mode. Raises UsageError for stochastic rounding, which no single pair explains.
    """
    if mode is Rounding.SR:
        raise UsageError("stochastic rounding has no one right result: expected another mode")
    special = exact.special_bits(fmt, g_bits, x_bits)
    correct = exact.correct_bits(fmt, g_bits, x_bits, mode)
    below, above, between = (None, None, None)
    if special is None:
        below, above, between = _neighbours(fmt, g_bits, x_bits)
    return Explanation(
        dtype=fmt.name,
        rounding=mode.value,
        g=value(fmt, g_bits),
        x=value(fmt, x_bits),
        exact=exact.decimal(fmt, g_bits, x_bits, 30),
        rule=_rule(fmt, g_bits, x_bits),
        below=below,
        above=above,
        between=between,
        correct=value(fmt, correct),
        answers=tuple(_answer(p, fmt, g_bits, x_bits, mode, correct) for p in providers),
        traces=tuple(
            trace(kernel, arithmetic, fmt, g_bits, x_bits, mode)
            for kernel in FORMULAS
            for arithmetic in arithmetics
            if special is None
        ),
    )


def value(fmt: Format, bits: int) -> Value:
    """A bit pattern as a record."""
    return Value(fmt.hex(bits), shortest_decimal(fmt, bits))


def _rule(fmt: Format, g_bits: int, x_bits: int) -> str:
    """The row of the table of special values, in words."""
    if fmt.is_nan(g_bits) or fmt.is_nan(x_bits):
        return "NaN if either is NaN"
    if fmt.is_inf(x_bits):
        if fmt.is_negative(x_bits):
            return "g at x = -inf"
        if fmt.is_inf(g_bits):
            return "NaN for an infinite g at x = +inf"
        return "zero with the sign of g at x = +inf"
    if fmt.is_inf(g_bits):
        return "an infinite g stays: sigma(-x) > 0 for every finite x"
    return "a zero g stays" if g_bits & ~fmt.sign_bit == 0 else ""


def _neighbours(fmt: Format, g_bits: int, x_bits: int) -> tuple[Value, Value, float]:
    """The values next to the exact one, and where it lies between them."""
    negative = fmt.is_negative(g_bits)
    low = exact.correct_bits(fmt, g_bits, x_bits, Rounding.RDN)
    high = exact.correct_bits(fmt, g_bits, x_bits, Rounding.RUP)
    enclosed = exact.magnitude(fmt, g_bits, x_bits).middle()
    exactly = -enclosed if negative else enclosed
    if low == high:
        return value(fmt, low), value(fmt, high), 0.0
    start, stop = fmt.to_fraction(low), fmt.to_fraction(high)
    return value(fmt, low), value(fmt, high), float((exactly - start) / (stop - start))


def _answer(
    provider: Provider, fmt: Format, g_bits: int, x_bits: int, mode: Rounding, correct: int
) -> Answer:
    reason = provider.unavailable()
    if reason is not None:
        return Answer(provider.name, "", None, None, False, reason)
    try:
        version = provider.version()
        alone = _computed(provider, fmt, g_bits, x_bits, mode, LONE)
        body = _computed(provider, fmt, g_bits, x_bits, mode, PADDED)
    except ProviderError as error:
        return Answer(provider.name, "", None, None, False, str(error))
    except Exception as error:
        # A third party's provider may raise anything: its answer is lost, the others are not.
        return Answer(provider.name, "", None, None, False, first_line(error))
    off = exact.ulp_error(fmt, g_bits, x_bits, alone[0])
    others = sorted({bits for bits in body if bits != alone[0]})
    note = ""
    if others:
        shown = ", ".join(f"{fmt.hex(b)} ({shortest_decimal(fmt, b)})" for b in others[:3])
        note = f"in a tensor of {PADDED} equal pairs it also gives {shown}"
    nan = fmt.is_nan(alone[0]) and fmt.is_nan(correct)
    return Answer(
        provider.name,
        version,
        value(fmt, alone[0]),
        None if off is None else off.ulp,
        nan or alone[0] == correct,
        note,
    )


def _computed(
    provider: Provider, fmt: Format, g_bits: int, x_bits: int, mode: Rounding, length: int
) -> list[int]:
    g, x = (fmt.values(np.full(length, bits, fmt.bits_dtype)) for bits in (g_bits, x_bits))
    y = fmt.values(np.full(length, fmt.nan_bits, fmt.bits_dtype))
    call = Call(fmt, g, x, None, y, Options(rounding=mode.value))
    reason = provider.refuse(call)
    if reason is not None:
        raise ProviderError(reason)
    compute_once(provider, call)
    return [int(bits) for bits in fmt.pattern(y)]
