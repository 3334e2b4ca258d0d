"""The running count of errors: exact, so that chunks, shards and their order leave no trace.

Every error is a double; its contributions to the three sums are integers in units of 2^-30 ulp
(ulp^2), each rounded once, so that adding is associative and two tallies of the same elements are
equal however the elements were cut.

Percentiles come from a histogram over all elements, in constant memory: the bin of an error is the
upper part, 12 bits of significand, of the double abs(error) + 1. Bins are 2^-12 ulp wide below one
ulp and 2^-12 of their value above. A percentile is the upper edge of the bin that holds the element
of rank ceil(share * n), never more than the maximum: never understated, and overstated by at most a
bin.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from lsbench.binades import Binades
from lsbench.errors import ResultsError

UNIT_BITS = 30
"""Sums count in 2^-30 ulp (ulp^2)."""
BIN_BITS = 12
_DROPPED = 52 - BIN_BITS
_ONE = 1023 << BIN_BITS


def bin_of(magnitude: float) -> int:
    """The histogram bin of an error's magnitude; bin 0 begins at 0."""
    pattern: int = struct.unpack("<q", struct.pack("<d", magnitude + 1.0))[0]
    return (pattern >> _DROPPED) - _ONE


def upper_edge(number: int) -> float:
    """The smallest error above every error of that bin (2^-12 for bin 0)."""
    pattern = (number + 1 + _ONE) << _DROPPED
    edge: float = struct.unpack("<d", struct.pack("<q", pattern))[0]
    return edge - 1.0


def in_units(value: float) -> int:
    """A double in 2^-30, to the nearest integer, ties to even; of any size."""
    significand, exponent = math.frexp(value)
    shift = exponent - 53 + UNIT_BITS
    whole = int(math.ldexp(significand, 53))
    return whole << shift if shift >= 0 else round(math.ldexp(value, UNIT_BITS))


class Entry(NamedTuple):
    """An element as bit patterns: its position, inputs, computed result and signed error."""

    position: int
    g: int
    x: int
    computed: int
    ulp: float | None


def _worse(a: Entry | None, b: Entry | None) -> Entry | None:
    # The larger error; of equals the earlier, so that the order of adding does not matter.
    if a is None or b is None:
        return a if b is None else b
    return min(a, b, key=lambda e: (-abs(e.ulp or 0.0), e.position))


def _earlier(a: Entry | None, b: Entry | None) -> Entry | None:
    if a is None or b is None:
        return a if b is None else b
    return min(a, b, key=lambda e: e.position)


@dataclass
class Counts:
    """How many elements of each kind; the kinds are those of :class:`lsbench.records.Accuracy`."""

    elements: int = 0
    measured: int = 0
    misrounded: int = 0
    nonfinite: int = 0
    nan_lost: int = 0
    zero_sign: int = 0
    flushed: int = 0
    spurious_zero: int = 0
    daz: int = 0
    undecided: int = 0
    """Elements that the fast reference passed on to mpmath."""

    def add(self, other: Counts) -> None:
        """Add another's counts to these."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass
class Tally:
    """Counts, sums, histogram and extremes of the elements judged so far."""

    counts: Counts = field(default_factory=Counts)
    signed: int = 0
    """Sum of the signed errors, in 2^-30 ulp."""
    magnitude: int = 0
    """Sum of the magnitudes, in 2^-30 ulp."""
    square: int = 0
    """Sum of the squares, in 2^-30 ulp^2."""
    histogram: Counter[int] = field(default_factory=Counter)
    worst: Entry | None = None
    worst_kept: Entry | None = None
    """The worst with subnormal results that were flushed to zero excused."""
    nonfinite: Entry | None = None
    """The first element that counts as nonfinite."""
    binades: Binades | None = None
    """Tables by binade, where they were asked for."""

    def add_error(self, error: float) -> None:
        """Add one defined error to the sums and the histogram."""
        size = abs(error)
        self.counts.measured += 1
        self.signed += in_units(error)
        self.magnitude += in_units(size)
        self.square += in_units(size * size)
        self.histogram[bin_of(size)] += 1

    def note(self, entry: Entry, *, excused: bool) -> None:
        """Let an element with a defined error stand for the worst, if it is."""
        self.worst = _worse(self.worst, entry)
        if not excused:
            self.worst_kept = _worse(self.worst_kept, entry)

    def note_nonfinite(self, entry: Entry) -> None:
        """Let a nonfinite element stand for the first, if it is."""
        self.nonfinite = _earlier(self.nonfinite, entry)

    def merge(self, other: Tally) -> None:
        """Add another tally; in any order the outcome is the same."""
        self.counts.add(other.counts)
        self.signed += other.signed
        self.magnitude += other.magnitude
        self.square += other.square
        self.histogram.update(other.histogram)
        self.worst = _worse(self.worst, other.worst)
        self.worst_kept = _worse(self.worst_kept, other.worst_kept)
        self.nonfinite = _earlier(self.nonfinite, other.nonfinite)
        if other.binades is not None:
            self.binades = self.binades or Binades()
            self.binades.merge(other.binades)

    def mean(self) -> float:
        """Mean magnitude of the errors; 0 where none was measured."""
        return _quotient(self.magnitude, self.counts.measured)

    def bias(self) -> float:
        """Mean signed error."""
        return _quotient(self.signed, self.counts.measured)

    def rms(self) -> float:
        """Root of the mean square."""
        return math.sqrt(_quotient(self.square, self.counts.measured))

    def percentile(self, per_mille: int) -> float:
        """The error that the share ``per_mille``/1000 of the measured elements do not exceed."""
        rank = -(-self.counts.measured * per_mille // 1000)
        if rank == 0 or self.worst is None:
            return 0.0
        seen = 0
        for number in sorted(self.histogram):
            seen += self.histogram[number]
            if seen >= rank:
                return min(upper_edge(number), abs(self.worst.ulp or 0.0))
        raise AssertionError("the histogram holds fewer elements than were measured")

    def to_plain(self) -> dict[str, Any]:
        """The tally as JSON takes it; sums are decimal text, for they exceed 64 bits."""
        return {
            "counts": {f.name: getattr(self.counts, f.name) for f in fields(self.counts)},
            "sums": [str(self.signed), str(self.magnitude), str(self.square)],
            "histogram": [[k, self.histogram[k]] for k in sorted(self.histogram)],
            "worst": _plain(self.worst),
            "worst_kept": _plain(self.worst_kept),
            "nonfinite": _plain(self.nonfinite),
            "binades": None if self.binades is None else self.binades.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tally:
        """Read :meth:`to_plain` back; raises ResultsError for anything else."""
        try:
            signed, magnitude, square = map(int, plain["sums"])
            return cls(
                Counts(**{f.name: int(plain["counts"][f.name]) for f in fields(Counts)}),
                signed,
                magnitude,
                square,
                Counter({int(k): int(n) for k, n in plain["histogram"]}),
                worst=_entry(plain["worst"]),
                worst_kept=_entry(plain["worst_kept"]),
                nonfinite=_entry(plain["nonfinite"]),
                binades=None if plain["binades"] is None else Binades.from_plain(plain["binades"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"damaged tally: {error}; expected what a sweep wrote") from None


def _quotient(total: int, n: int) -> float:
    return total / (n << UNIT_BITS) if n else 0.0


def _plain(entry: Entry | None) -> list[Any] | None:
    return None if entry is None else list(entry)


def _entry(plain: Any) -> Entry | None:
    if plain is None:
        return None
    position, g, x, computed, ulp = plain
    return Entry(int(position), int(g), int(x), int(computed), None if ulp is None else float(ulp))
