"""Counts by binade: a row per sign and exponent field of x, and of g."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lsbench.errors import ResultsError
from lsbench.formats import Format


class Binade(NamedTuple):
    """What was found in one binade."""

    elements: int = 0
    misrounded: int = 0
    max_ulp: float = 0.0
    """The largest defined error, good to the reference's bound."""

    def plus(self, other: Binade) -> Binade:
        """Both together."""
        return Binade(
            self.elements + other.elements,
            self.misrounded + other.misrounded,
            max(self.max_ulp, other.max_ulp),
        )


Rows = dict[int, Binade]
"""Sign and exponent field, the pattern without its fraction → what was found there."""


@dataclass
class Binades:
    """Tables over x and over g."""

    by_x: Rows = field(default_factory=dict)
    by_g: Rows = field(default_factory=dict)

    def add(self, fmt: Format, g: int, x: int, misrounded: bool, error: float | None) -> None:
        """Count one element."""
        one = Binade(1, int(misrounded), abs(error or 0.0))
        _put(self.by_x, x >> (fmt.p - 1), one)
        _put(self.by_g, g >> (fmt.p - 1), one)

    def merge(self, other: Binades) -> None:
        """Add another's rows."""
        for mine, theirs in ((self.by_x, other.by_x), (self.by_g, other.by_g)):
            for row, found in theirs.items():
                _put(mine, row, found)

    def to_plain(self) -> dict[str, Any]:
        """The tables as JSON takes them: [row, elements, misrounded, max_ulp], in order."""
        return {
            name: [[row, *rows[row]] for row in sorted(rows)]
            for name, rows in (("by_x", self.by_x), ("by_g", self.by_g))
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Binades:
        """Read :meth:`to_plain` back; raises ResultsError for anything else."""
        try:
            return cls(*(_rows(plain[name]) for name in ("by_x", "by_g")))
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"damaged binades: {error}; expected a sweep's tables") from None


def _rows(plain: Any) -> Rows:
    return {int(r): Binade(int(n), int(wrong), float(ulp)) for r, n, wrong, ulp in plain}


def _put(rows: Rows, row: int, found: Binade) -> None:
    rows[row] = rows.get(row, Binade()).plus(found)


def describe(fmt: Format, row: int) -> str:
    """A row in words: the sign and the range of magnitudes that share it.

    >>> from lsbench.formats import FP16
    >>> describe(FP16, 15), describe(FP16, 0), describe(FP16, 63)
    ('+[2^0, 2^1)', '+[0, 2^-14)', '-inf, nan')
    """
    fields = 2 * fmt.emax + 2
    sign, exponent = "-" if row >= fields else "+", row % fields
    if exponent == fields - 1:
        return f"{sign}inf, nan"
    if exponent == 0:
        return f"{sign}[0, 2^{fmt.emin})"
    return f"{sign}[2^{exponent - fmt.emax}, 2^{exponent - fmt.emax + 1})"
