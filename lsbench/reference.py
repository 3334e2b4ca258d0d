"""Who judges: for every element the correctly rounded result and the error of the computed one.

An :class:`Oracle` answers for one element; mpmath's is the law (:mod:`lsbench.exact`), Arb's is a
second one that shares no arithmetic with it (:mod:`lsbench.arb`). A :class:`Judge` counts whole
arrays into a :class:`~lsbench.tally.Tally`. An :class:`Audit` asks mpmath again about a seeded
sample and about every worst element, whoever judged.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from lsbench import exact
from lsbench.errors import UsageError
from lsbench.formats import Bits, Format
from lsbench.rounding import Rounding, sr_draw
from lsbench.tally import Entry, Tally

NAMES = ("certified", "mpmath", "arb")
AUDIT_SAMPLE = 256
"""Elements that an audit judges again, worst elements aside."""
ERROR_BOUND = 2.0**-20
"""Bound of a reference's error in ulp, for errors below 2^28 ulp."""
RELATIVE_BOUND = 2.0**-48
"""Bound relative to the error itself, for larger ones."""


@dataclass(frozen=True)
class Declared:
    """What a result claims to be: the format and the way it was rounded into it."""

    fmt: Format
    mode: Rounding = Rounding.RNE
    seed: int = 0
    """Seed of stochastic rounding."""
    ftz: bool = False
    """Whether subnormal results are declared to be flushed to a zero of their sign."""
    period: int | None = None
    """Stochastic rounding counts positions modulo this: the tensor's length in a sweep."""

    def index(self, position: int) -> int:
        """What stochastic rounding counts for an element."""
        return position % self.period if self.period else position

    def draw(self, position: int) -> int:
        """The draw of stochastic rounding for an element, 0 in other modes."""
        return sr_draw(self.seed, self.index(position)) if self.mode is Rounding.SR else 0

    def stored(self, bits: int) -> int:
        """What a correctly rounded result is stored as: itself, or a zero of its sign."""
        flushed = self.ftz and self.is_subnormal(bits)
        return bits & self.fmt.sign_bit if flushed else bits

    def is_subnormal(self, bits: int) -> bool:
        """Whether the pattern is a subnormal number: neither zero nor normal."""
        return 0 < bits & ~self.fmt.sign_bit < 1 << (self.fmt.p - 1)


class Truth(NamedTuple):
    """What is true of one element."""

    correct: int
    """The correctly rounded result, before any declared flush."""
    error: float | None
    """Signed error of the computed result in ulp; None where none is defined."""


class Oracle(Protocol):
    """One element at a time, with certainty."""

    def truth(self, g: int, x: int, computed: int, draw: int) -> Truth:
        """The correctly rounded result and the error of the computed one, as bit patterns."""


class MpmathOracle:
    """The law: enclosures by mpmath, decided in integers."""

    def __init__(self, declared: Declared) -> None:
        self._fmt, self._mode = declared.fmt, declared.mode

    def truth(self, g: int, x: int, computed: int, draw: int) -> Truth:
        """See :class:`Oracle`."""
        correct = exact.correct_bits(self._fmt, g, x, self._mode, draw)
        error = exact.ulp_error(self._fmt, g, x, computed)
        return Truth(correct, None if error is None else error.ulp)


def count(tally: Tally, declared: Declared, oracle: Oracle, entry: Entry) -> None:
    """Judge one element and add it to the tally; ``entry.ulp`` is not read."""
    fmt, counts = declared.fmt, tally.counts
    draw = declared.draw(entry.position)
    computed = entry.computed
    correct, error = oracle.truth(entry.g, entry.x, computed, draw)
    entry = entry._replace(ulp=error)
    stored = declared.stored(correct)
    counts.elements += 1
    misrounded_before = counts.misrounded
    if not (fmt.is_finite(computed) and fmt.is_finite(stored)):
        _count_nonfinite(tally, fmt, entry, stored)
    else:
        is_zero = computed & ~fmt.sign_bit == 0
        lost = is_zero and stored & ~fmt.sign_bit != 0
        counts.misrounded += computed != stored
        counts.zero_sign += is_zero and (computed ^ stored) & fmt.sign_bit != 0
        counts.flushed += lost
        counts.spurious_zero += lost and not declared.is_subnormal(stored)
        if error is not None:
            tally.note(entry, excused=is_zero and declared.is_subnormal(correct))
    if error is not None:
        tally.add_error(error)
    counts.daz += _reads_subnormals_as_zero(declared, oracle, entry, stored, draw)
    if tally.binades is not None:
        wrong = counts.misrounded > misrounded_before
        tally.binades.add(fmt, entry.g, entry.x, wrong, error)


def _count_nonfinite(tally: Tally, fmt: Format, entry: Entry, stored: int) -> None:
    if entry.computed == stored or (fmt.is_nan(stored) and fmt.is_nan(entry.computed)):
        return
    tally.counts.misrounded += 1
    tally.counts.nonfinite += 1
    tally.counts.nan_lost += fmt.is_nan(stored)
    tally.note_nonfinite(entry)
    if entry.ulp is not None:
        tally.note(entry, excused=False)


def _reads_subnormals_as_zero(
    declared: Declared, oracle: Oracle, entry: Entry, stored: int, draw: int
) -> bool:
    g_tiny, x_tiny = declared.is_subnormal(entry.g), declared.is_subnormal(entry.x)
    if entry.computed == stored or not (g_tiny or x_tiny):
        return False
    sign = declared.fmt.sign_bit
    g = entry.g & sign if g_tiny else entry.g
    x = entry.x & sign if x_tiny else entry.x
    as_zero = declared.stored(oracle.truth(g, x, entry.computed, draw).correct)
    return as_zero == entry.computed


class Judge(ABC):
    """Counts arrays of elements into its tally."""

    name: str

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.tally = Tally()

    @abstractmethod
    def add(self, position: int, g: Bits, x: Bits, computed: Bits) -> None:
        """Judge elements position, position + 1, ...: contiguous 1-d arrays of bit patterns."""

    @abstractmethod
    def truths(self, positions: Iterable[int], g: Bits, x: Bits, computed: Bits) -> list[Truth]:
        """What this judge holds true of some elements, for an audit; nothing is counted."""

    def finish(self) -> Tally:
        """The tally of all that was added."""
        return self.tally


class OracleJudge(Judge):
    """Asks an oracle about every element: slow and sure."""

    def __init__(self, name: str, declared: Declared, oracle: Oracle) -> None:
        super().__init__(declared)
        self.name = name
        self._oracle = oracle

    def add(self, position: int, g: Bits, x: Bits, computed: Bits) -> None:
        """See :class:`Judge`."""
        columns = zip(g.tolist(), x.tolist(), computed.tolist(), strict=True)
        for i, (g_bits, x_bits, bits) in enumerate(columns, position):
            entry = Entry(i, g_bits, x_bits, bits, None)
            count(self.tally, self.declared, self._oracle, entry)

    def truths(self, positions: Iterable[int], g: Bits, x: Bits, computed: Bits) -> list[Truth]:
        """See :class:`Judge`."""
        columns = zip(positions, g.tolist(), x.tolist(), computed.tolist(), strict=True)
        return [
            self._oracle.truth(g_bits, x_bits, bits, self.declared.draw(i))
            for i, g_bits, x_bits, bits in columns
        ]


def make(name: str, declared: Declared) -> Judge:
    """The judge of that name; raises UsageError for an unknown one or a missing extra."""
    if name == "mpmath":
        return OracleJudge("mpmath", declared, MpmathOracle(declared))
    if name == "certified":
        from lsbench.certified import CertifiedJudge

        return CertifiedJudge(declared)
    if name == "arb":
        from lsbench.arb import ArbOracle

        return OracleJudge("arb", declared, ArbOracle(declared.fmt, str(declared.mode)))
    raise UsageError(f"unknown reference {name!r}: expected one of {', '.join(NAMES)}")


class Audit:
    """A second judgement by mpmath: a seeded sample of ``elements`` positions, and the worst.

    Positions are ``first``, ``first`` + 1, ...
    """

    def __init__(
        self,
        judge: Judge,
        elements: int,
        *,
        seed: int,
        sample: int = AUDIT_SAMPLE,
        first: int = 0,
    ) -> None:
        self._judge = judge
        self._oracle = MpmathOracle(judge.declared)
        chosen = random.Random(seed).sample(range(elements), min(sample, elements))
        self._positions = np.sort(np.array(chosen, np.int64)) + first
        self.audited = 0
        self.differed = 0

    def check(self, position: int, g: Bits, x: Bits, computed: Bits) -> None:
        """Audit those of the elements position, position + 1, ... that belong to the sample."""
        first, last = np.searchsorted(self._positions, (position, position + g.size))
        chosen = self._positions[first:last]
        if chosen.size:
            k = chosen - position
            self._compare(chosen.tolist(), g[k], x[k], computed[k])

    def check_worst(self, tally: Tally) -> None:
        """Audit every element that the tally names, and the error that it holds for it."""
        named = {e for e in (tally.worst, tally.worst_kept, tally.nonfinite) if e is not None}
        for entry in sorted(named, key=lambda e: e.position):
            dtype = self._judge.declared.fmt.bits_dtype
            g, x, computed = (np.array([b], dtype) for b in entry[1:4])
            self._compare([entry.position], g, x, computed, tallied=entry)

    def _compare(
        self, positions: list[int], g: Bits, x: Bits, computed: Bits, tallied: Entry | None = None
    ) -> None:
        judge, draw = self._judge, self._judge.declared.draw
        theirs = judge.truths(positions, g, x, computed)
        columns = zip(positions, g.tolist(), x.tolist(), computed.tolist(), theirs, strict=True)
        for i, g_bits, x_bits, bits, other in columns:
            mine = self._oracle.truth(g_bits, x_bits, bits, draw(i))
            agreed = self._same(mine.correct, other.correct) and _agree(mine.error, other.error)
            if tallied is not None:
                agreed = agreed and _agree(mine.error, tallied.ulp)
            self.audited += 1
            self.differed += not agreed

    def _same(self, a: int, b: int) -> bool:
        is_nan = self._judge.declared.fmt.is_nan
        return a == b or (is_nan(a) and is_nan(b))


def _agree(mine: float | None, other: float | None) -> bool:
    if mine is None or other is None:
        return mine is other
    return abs(mine - other) <= ERROR_BOUND + RELATIVE_BOUND * abs(mine)
