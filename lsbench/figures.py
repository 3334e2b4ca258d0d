"""The one table of figures: what gates, compare, tables, JSON and CSV can ask of a row.

A figure has a name, a unit, a direction and a reader. Adding a metric is one field of a record and
one row here; everything that names figures takes them from :data:`FIGURES`.

>>> figure("max_ulp").better
'lower'
>>> figure("max_upl")
Traceback (most recent call last):
lsbench.errors.UsageError: unknown figure 'max_upl'; did you mean 'max_ulp'?
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from lsbench import standards
from lsbench.determinism import AXES
from lsbench.errors import UsageError
from lsbench.records import Row, Throughput

Scalar = bool | int | float
Better = Literal["lower", "higher", "true"]
Kind = Literal["exact", "noisy"]
Group = Literal["accuracy", "standard", "determinism", "contract", "speed"]


@dataclass(frozen=True)
class Figure:
    """One figure of a row."""

    name: str
    group: Group
    """Which measure it belongs to."""
    unit: str
    """ulp, elements, GB/s, ...; empty for a share or a truth value."""
    better: Better
    """Which way is better; "true" for a truth value that should hold."""
    kind: Kind
    """exact: the same bits give the same figure on every machine. noisy: a measured time."""
    doc: str
    read: Callable[[Row], Scalar | None]
    """The figure of a row; None where the row does not have it."""

    def worse(self, found: Scalar, reference: Scalar) -> bool:
        """Whether ``found`` is worse than ``reference``; a NaN is worse than any number."""
        if self.better == "true":
            return bool(reference) and not found
        if found != found or reference != reference:
            return reference == reference
        return found < reference if self.better == "higher" else found > reference


def _accuracy(name: str, row: Row) -> Scalar | None:
    errors = row.accuracy
    # An error is a figure only where one was measured, a count only where there are elements.
    if errors is None or not (errors.measured if name in ERRORS else errors.elements):
        return None
    value: Scalar = getattr(errors, name)
    return abs(value)


def _standard(name: str, row: Row) -> Scalar | None:
    return next((s.passed for s in row.standards if s.name == name), None)


def _deterministic(row: Row) -> Scalar | None:
    axes = row.determinism.axes if row.determinism else ()
    tried = [axis.stable for axis in axes if axis.stable is not None]
    return all(tried) if tried else None


def _axis(name: str, row: Row) -> Scalar | None:
    axes = row.determinism.axes if row.determinism else ()
    return next((axis.stable for axis in axes if axis.name == name), None)


def _speed(read: Callable[[Throughput], Scalar | None], row: Row) -> Scalar | None:
    return None if row.throughput is None else read(row.throughput)


def _status(row: Row) -> Scalar | None:
    return None if row.status is None else row.status == (row.expected_status or 0)


ERRORS = {
    "max_ulp": "largest error",
    "mean_ulp": "mean error",
    "rms_ulp": "root mean square error",
    "p50_ulp": "error that half of the elements do not exceed",
    "p99_ulp": "error that 99 % of the elements do not exceed",
    "p999_ulp": "error that 99.9 % of the elements do not exceed",
    "bias_ulp": "magnitude of the mean signed error",
    "max_ulp_ftz": "largest error with subnormal results excused",
}
COUNTS = {
    "misrounded": "results that are not the correctly rounded ones",
    "misrounded_share": "misrounded results as a share of all",
    "nonfinite": "NaN or infinity where it is wrong, or its absence where it is right",
    "nan_lost": "numbers where NaN is right",
    "zero_sign": "zeros of the wrong sign",
    "flushed": "zeros where the correctly rounded result is not zero",
    "spurious_zero": "zeros where the correctly rounded result is a normal number",
    "daz": "results that are right only if subnormal inputs are read as zero",
}
SPEEDS: dict[str, tuple[str, Better, str, Callable[[Throughput], Scalar | None]]] = {
    "of_roof": (
        "",
        "higher",
        "speed as a share of the measured roof",
        lambda t: t.of_roof.value if t.of_roof else None,
    ),
    "gb_per_s": ("GB/s", "higher", "logical traffic per second", lambda t: t.gb_per_s),
    "gelem_per_s": ("Gelem/s", "higher", "elements per second", lambda t: t.gelem_per_s),
    "seconds": (
        "s",
        "lower",
        "median time of a call",
        lambda t: t.arms[0].median if t.arms else None,
    ),
}


def _figures() -> Iterator[Figure]:
    def number(name: str, unit: str, doc: str) -> Figure:
        read = partial(_accuracy, name)
        return Figure(name, "accuracy", unit, "lower", "exact", doc, read)

    def truth(name: str, group: Group, doc: str, read: Callable[[Row], Scalar | None]) -> Figure:
        return Figure(name, group, "", "true", "exact", doc, read)

    for name, doc in ERRORS.items():
        yield number(name, "ulp", doc)
    for name, doc in COUNTS.items():
        yield number(name, "" if name.endswith("_share") else "elements", doc)
    for name, doc in standards.NAMES.items():
        yield truth(name, "standard", doc, partial(_standard, name))
    doc = "no bit depends on anything but the inputs, on every axis tried"
    yield truth("deterministic", "determinism", doc, _deterministic)
    for axis in AXES:
        doc = f"no bit depends on {axis}"
        yield truth(f"deterministic.{axis}", "determinism", doc, partial(_axis, axis))
    yield truth("status", "contract", "the operator's status is the expected one", _status)
    for name, (unit, better, doc, read) in SPEEDS.items():
        yield Figure(name, "speed", unit, better, "noisy", doc, partial(_speed, read))


FIGURES: dict[str, Figure] = {f.name: f for f in _figures()}
"""Every figure by name, in the order of reports."""


def figure(name: str) -> Figure:
    """The figure of that name; raises UsageError with the nearest name for an unknown one."""
    try:
        return FIGURES[name]
    except KeyError:
        raise UsageError(f"unknown figure {name!r}; {suggestion(name)}") from None


def suggestion(name: str) -> str:
    """What was probably meant by an unknown figure's name."""
    wanted = name.strip().lower().replace("-", "_")
    spelled = {known.replace("-", "_"): known for known in FIGURES}
    close = difflib.get_close_matches(wanted, spelled, n=1)
    if close:
        return f"did you mean {spelled[close[0]]!r}?"
    return f"known are {', '.join(FIGURES)}"


def of_row(row: Row) -> dict[str, Scalar | None]:
    """Every figure of a row by name; None where it has none."""
    return {name: f.read(row) for name, f in FIGURES.items()}


def text(value: Scalar | None) -> str:
    """A figure in full: truth as true or false, numbers as the shortest decimal that reads back.

    >>> text(True), text(3), text(0.1), text(None)
    ('true', '3', '0.1', '-')
    """
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else repr(value)
