"""The certified reference: whole arrays judged in compiled code, doubt passed on to mpmath.

Its error bound and the proof of it stand in kernels/reference.h: errors within 2^-20 ulp, and every
element that it decides is decided rightly. It shares nothing with the kernels under test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench import _kernels
from lsbench.binades import Binade, Binades
from lsbench.formats import Bits
from lsbench.reference import Declared, Judge, MpmathOracle, Truth, count
from lsbench.tally import Counts, Entry, Tally


def module(isa: str | None = None) -> ModuleType:
    """The compiled reference of an instruction set; raises BuildError where it cannot run."""
    _kernels.load(isa)  # refuses what this processor cannot run, with the reason
    return import_module(f"lsbench._kernels.reference__{isa or _kernels.selected()}")


class CertifiedJudge(Judge):
    """Counts in compiled code without the GIL; one thread at a time may use one judge."""

    name = "certified"

    def __init__(
        self, declared: Declared, *, binades: bool = False, compiled: ModuleType | None = None
    ) -> None:
        super().__init__(declared)
        self._oracle = MpmathOracle(declared)
        self._undecided = np.zeros(0, np.uint32)
        if binades:
            self.tally.binades = Binades()
        compiled = compiled or module()
        self._account = compiled.Account(
            compiled.FORMATS.index(declared.fmt.name),
            compiled.ROUNDINGS.index(str(declared.mode)),
            declared.ftz,
            declared.seed & (1 << 64) - 1,
            binades,
        )

    def add(self, position: int, g: Bits, x: Bits, computed: Bits) -> None:
        """See :class:`Judge`; with a period, an addition may not cross its border."""
        if self._undecided.size < g.size:
            self._undecided = np.zeros(g.size, np.uint32)
        index = self.declared.index(position)
        left = self._account.add(g, x, computed, position, index, self._undecided)
        for k in self._undecided[:left].tolist():
            entry = Entry(position + k, int(g[k]), int(x[k]), int(computed[k]), None)
            count(self.tally, self.declared, self._oracle, entry)
        self.tally.counts.undecided += left

    def truths(self, positions: Iterable[int], g: Bits, x: Bits, computed: Bits) -> list[Truth]:
        """See :class:`Judge`; undecided elements are mpmath's."""
        found = []
        for i, k in enumerate(positions):
            index = self.declared.index(k)
            correct, error, decided = self.judge(index, *(a[i : i + 1] for a in (g, x, computed)))
            if decided[0]:
                known = None if math.isnan(error[0]) else float(error[0])
                found.append(Truth(int(correct[0]), known))
            else:
                bits = int(g[i]), int(x[i]), int(computed[i])
                found.append(self._oracle.truth(*bits, self.declared.draw(k)))
        return found

    def judge(
        self, index: int, g: Bits, x: Bits, computed: Bits
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """(correct patterns, signed errors, decided) of contiguous arrays; nothing is counted.

        ``index`` is the position that stochastic rounding counts for the first element. Errors
        are NaN where none is defined; patterns are those before a declared flush.
        """
        correct, decided = np.zeros(g.size, np.uint32), np.zeros(g.size, np.uint32)
        error = np.zeros(g.size, np.float64)
        self._account.judge(g, x, computed, index, correct, error, decided)
        return correct, error, decided.astype(np.bool_)

    def correct(self, position: int, g: Bits, x: Bits) -> Bits:
        """The results as stored by a kernel that rounds correctly, in the format's bit patterns."""
        declared = self.declared
        correct, _, decided = self.judge(declared.index(position), g, x, np.zeros_like(g))
        for k in np.flatnonzero(~decided).tolist():
            draw = declared.draw(position + k)
            correct[k] = self._oracle.truth(int(g[k]), int(x[k]), 0, draw).correct
        bits = correct.astype(declared.fmt.bits_dtype)
        if declared.ftz:
            sign = declared.fmt.bits_dtype.type(declared.fmt.sign_bit)
            tiny = (bits & ~sign) < declared.fmt.bits_dtype.type(1 << (declared.fmt.p - 1))
            bits[tiny] &= sign
        return bits

    def finish(self) -> Tally:
        """See :class:`Judge`."""
        total = Tally()
        total.merge(self.tally)
        total.merge(tally_of(self._account.export(), self.tally.binades is not None))
        return total


def tally_of(exported: Mapping[str, Any], binades: bool) -> Tally:
    """What compiled code counted, as a tally."""
    signed, magnitude, square = exported["sums"]
    names = ("worst", "worst_kept", "nonfinite")
    worst, kept, nonfinite = (Entry(*e) if (e := exported[k]) else None for k in names)
    tables = [{row: Binade(*rest) for row, *rest in exported[k]} for k in ("by_x", "by_g")]
    return Tally(
        Counts(**exported["counts"]),
        signed,
        magnitude,
        square,
        Counter(exported["histogram"]),
        worst,
        kept,
        nonfinite,
        Binades(*tables) if binades else None,
    )
