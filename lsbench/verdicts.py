"""Name the kind of fault: from a row's measures, and from small probes where they leave it open.

A row carries every verdict that applies, worst first, so that its reader learns what is wrong and
not only how much. ``accuracy`` is what remains when no other verdict explains the errors: errors
above the row's own accuracy gates, or above :data:`ULP_LIMIT` where it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from lsbench.formats import Format
from lsbench.providers.base import Array, Call, Provider, compute_once
from lsbench.records import VERDICTS, Accuracy, Determinism, Gate, Options, Throughput
from lsbench.rounding import Rounding, round_fraction

ULP_LIMIT = 4.0
"""Largest error, in ulp, that is no accuracy fault where a row's gates say nothing else.

The page's formula evaluated in working precision stays below it for results of normal size.
"""

ACCURACY_GATES = frozenset(
    [
        "max_ulp",
        "mean_ulp",
        "rms_ulp",
        "p50_ulp",
        "p99_ulp",
        "p999_ulp",
        "bias_ulp",
        "misrounded",
        "misrounded_share",
        "zero_sign",
        "torch",
        "cann-mere-mare",
        "cann-mixed",
        "cann-ratio",
        "faithful",
        "exact",
    ]
)
"""Figures whose failing gate is an accuracy fault, unless another verdict explains it."""


def order(verdicts: Iterable[str]) -> tuple[str, ...]:
    """Sort verdicts worst first, each once; "pass" where there is none.

    >>> order(["stride", "nonfinite"])
    ('nonfinite', 'stride')
    >>> order([])
    ('pass',)
    """
    found = set(verdicts)
    return tuple(v for v in VERDICTS if v in found) or ("pass",)


def accuracy_faulty(accuracy: Accuracy, gates: Collection[Gate]) -> bool:
    """Whether the errors of a row count as a fault: by its gates, else by :data:`ULP_LIMIT`."""
    judged = [gate for gate in gates if gate.name in ACCURACY_GATES]
    if any(not gate.passed for gate in judged):
        return True
    bounded = any(gate.name in ("max_ulp", "misrounded", "faithful", "exact") for gate in judged)
    return accuracy.zero_sign > 0 or (not bounded and accuracy.max_ulp > ULP_LIMIT)


def of_accuracy(
    accuracy: Accuracy, gates: Collection[Gate], *, flushes: bool, reads_zero: bool
) -> set[str]:
    """The verdicts that the errors alone give.

    ``flushes`` and ``reads_zero`` are what :func:`probe_subnormals` found of the provider.
    """
    verdicts = set()
    if accuracy.nan_lost:
        verdicts.add("nan_lost")
    if accuracy.nonfinite > accuracy.nan_lost:
        verdicts.add("nonfinite")
    if accuracy.spurious_zero:
        verdicts.add("spurious_zero")
    if accuracy.flushed > accuracy.spurious_zero:
        verdicts |= {"ftz"} if flushes else {"daz"} if reads_zero else set()
    explained = verdicts if accuracy.max_ulp_ftz <= limit(gates) else verdicts - {"ftz", "daz"}
    if accuracy.zero_sign or (accuracy_faulty(accuracy, gates) and not explained):
        verdicts.add("accuracy")
    return verdicts


def limit(gates: Iterable[Gate]) -> float:
    """The row's own bound on max_ulp, or :data:`ULP_LIMIT`."""
    bounds = [float(g.rule.split()[-1]) for g in gates if g.name == "max_ulp" and " " in g.rule]
    return min(bounds, default=ULP_LIMIT)


def of_determinism(determinism: Determinism | None) -> set[str]:
    """``tail`` where bits depend on the position; ``nondeterministic`` for every other axis."""
    if determinism is None:
        return set()
    moved = {axis.name for axis in determinism.axes if axis.stable is False}
    return ({"tail"} if "position" in moved else set()) | (
        {"nondeterministic"} if moved - {"position"} else set()
    )


def of_throughput(throughput: Iterable[Throughput]) -> set[str]:
    """``timing-unstable`` where a measurement says so of itself."""
    flags = {flag for measured in throughput for flag in measured.flags}
    return {"timing-unstable"} if flags & {"unstable", "contaminated"} else set()


def compute(provider: Provider, fmt: Format, g: Array, x: Array, options: Options) -> Array:
    """Run a provider once on fresh contiguous arrays and return what it computed.

    Raises ProviderError where it fails.
    """
    y = fmt.values(np.full(g.shape, fmt.nan_bits, fmt.bits_dtype))
    call = Call(fmt, np.asarray(g, order="C"), np.asarray(x, order="C"), None, y, options)
    compute_once(provider, call)
    return y


def probe_subnormals(provider: Provider, fmt: Format, options: Options) -> tuple[bool, bool]:
    """Whether a provider flushes subnormal results, and whether it reads subnormal inputs as zero.

    Two pairs tell them apart: a normal g whose result is subnormal, and a subnormal g that comes
    back as it is (x = -20). Where the first is flushed the second can say nothing more.
    """
    one = fmt.encode(0, 1, 0)
    minus_20 = round_fraction(fmt, -20 * fmt.to_fraction(one), Rounding.RNE)
    three = fmt.encode(0, 3, 0)
    g = np.array([fmt.encode(0, 1, fmt.emin), fmt.encode(0, 1, fmt.emin - 1)] * 8, fmt.bits_dtype)
    x = np.array([three, minus_20] * 8, fmt.bits_dtype)
    y = fmt.pattern(compute(provider, fmt, fmt.values(g), fmt.values(x), options))
    zero = (y & np.array(~fmt.sign_bit & ((1 << fmt.bits) - 1), fmt.bits_dtype)) == 0
    flushes = bool(zero[0])
    return flushes, bool(zero[1]) and not flushes
