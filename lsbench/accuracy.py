"""Accuracy of one result: every element judged, in chunks, into one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from lsbench import exact
from lsbench.errors import TensorError
from lsbench.formats import Bits, Format
from lsbench.records import Accuracy, Element, Reference, Value
from lsbench.reference import Audit, Declared, Judge, MpmathOracle, make
from lsbench.rounding import Rounding, shortest_decimal
from lsbench.tally import Entry, Tally

CHUNK = 1 << 16
"""Elements judged at a time; 16-bit and 32-bit chunks of three tensors stay below 1 MiB."""

Array = npt.NDArray[np.generic]
Progress = Callable[[int, int], None]
"""Called with the number of elements judged so far and of all."""


def judge(
    fmt: Format,
    mode: Rounding | str,
    seed: int,
    grad_output: Array,
    self: Array,
    grad_input: Array,
    *,
    reference: str = "certified",
    ftz: bool = False,
    progress: Progress | None = None,
) -> Accuracy:
    """Judge ``grad_input`` as the result of the operator on ``grad_output`` and ``self``.

    The arrays have one shape and the format's dtype, in any strides (0 and negative ones too);
    elements are numbered in row-major order, which is what stochastic rounding counts. ``mode``,
    ``seed`` and ``ftz`` are what the result claims; ``reference`` is certified, mpmath or arb.
    Needs a few MiB beyond the arrays, whatever their size.

    Raises TensorError for arrays that do not fit together, UsageError for an unknown reference.
    """
    tensors = {"grad_output": grad_output, "self": self, "grad_input": grad_input}
    for name, array in tensors.items():
        if array.shape != grad_output.shape:
            raise TensorError(f"shape of {name} is {array.shape}: expected {grad_output.shape}")
        if array.dtype != fmt.dtype:
            raise TensorError(f"dtype of {name} is {array.dtype}: expected {fmt.dtype}")
    declared = Declared(fmt, Rounding(mode), seed, ftz)
    judged_by = make(reference, declared)
    audit = Audit(judged_by, grad_output.size, seed=seed)
    for position, g, x, computed in _chunks(fmt, grad_output, self, grad_input):
        judged_by.add(position, g, x, computed)
        audit.check(position, g, x, computed)
        if progress is not None:
            progress(position + g.size, grad_output.size)
    return conclude(judged_by, audit)


def _chunks(fmt: Format, *tensors: Array) -> Iterator[tuple[int, Bits, Bits, Bits]]:
    """Row-major chunks of bit patterns, contiguous whatever the strides."""
    if tensors[0].size == 0:
        return
    chunks = np.nditer(  # type: ignore[call-overload]  # NumPy's stub lacks "contig"
        [fmt.pattern(tensor) for tensor in tensors],
        flags=["external_loop", "buffered"],
        op_flags=[["readonly", "contig"]] * len(tensors),
        order="C",
        buffersize=CHUNK,
    )
    position = 0
    for g, x, computed in chunks:
        yield position, g, x, computed
        position += g.size


def conclude(judge: Judge, audit: Audit, *, sampled: int | None = None) -> Accuracy:
    """Audit the worst elements and make the record of a judge that has seen every element."""
    tally = judge.finish()
    audit.check_worst(tally)
    reference = Reference(
        name=judge.name,
        judged=tally.counts.elements,
        undecided=tally.counts.undecided,
        audited=audit.audited,
        differed=audit.differed,
    )
    return summarise(tally, judge.declared, reference, sampled=sampled)


def summarise(
    tally: Tally, declared: Declared, reference: Reference, *, sampled: int | None = None
) -> Accuracy:
    """The record of a tally.

    The maxima are the errors that mpmath finds for the elements that the reference holds for the
    worst; another element can exceed them by twice the reference's bound at most, 2^-19 ulp.
    """
    counts = tally.counts
    kept = _error(declared, tally.worst_kept)
    largest = max(_error(declared, tally.worst), kept)
    named = tally.worst if tally.nonfinite is None else tally.nonfinite
    return Accuracy(
        elements=counts.elements,
        measured=counts.measured,
        max_ulp=largest,
        mean_ulp=tally.mean(),
        rms_ulp=tally.rms(),
        p50_ulp=min(tally.percentile(500), largest),
        p99_ulp=min(tally.percentile(990), largest),
        p999_ulp=min(tally.percentile(999), largest),
        bias_ulp=tally.bias(),
        max_ulp_ftz=kept,
        misrounded=counts.misrounded,
        nonfinite=counts.nonfinite,
        nan_lost=counts.nan_lost,
        zero_sign=counts.zero_sign,
        flushed=counts.flushed,
        spurious_zero=counts.spurious_zero,
        daz=counts.daz,
        misrounded_share=counts.misrounded / counts.elements if counts.elements else 0.0,
        worst=None if named is None else element(declared, named),
        reference=reference,
        sampled=sampled,
    )


def _error(declared: Declared, entry: Entry | None) -> float:
    if entry is None:
        return 0.0
    error = exact.ulp_error(declared.fmt, entry.g, entry.x, entry.computed)
    return 0.0 if error is None else abs(error.ulp)


def element(declared: Declared, entry: Entry) -> Element:
    """The record of one element, everything in it by mpmath."""
    fmt = declared.fmt
    truth = MpmathOracle(declared).truth(
        entry.g, entry.x, entry.computed, declared.draw(entry.position)
    )
    return Element(
        index=entry.position,
        g=value(fmt, entry.g),
        x=value(fmt, entry.x),
        computed=value(fmt, entry.computed),
        correct=value(fmt, declared.stored(truth.correct)),
        exact=exact.decimal(fmt, entry.g, entry.x),
        ulp=truth.error,
    )


def value(fmt: Format, bits: int) -> Value:
    """A bit pattern as reports show it."""
    return Value(hex=fmt.hex(bits), decimal=shortest_decimal(fmt, bits))
