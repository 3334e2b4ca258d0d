"""Compare recorded runs: what changed, what got worse, and whether that fails.

Rows are matched by their identity (case, dtype, shape, layout, provider, arithmetic, rounding).
Exact figures are compared exactly: the same bits give the same figure on every machine, so that any
figure that got worse is a regression unless a tolerance was given. Times are compared statistically
(:mod:`lsbench.pace`). Rows whose inputs changed are not compared, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lsbench import environment, pace
from lsbench.figures import FIGURES, Figure, Scalar, text
from lsbench.records import VERDICTS, Gate, Row, Run

EXIT_PASS, EXIT_WORSE, EXIT_NOT_COMPARABLE, EXIT_NOTHING = 0, 1, 4, 5

Outcome = Literal["worse", "better", "changed", "same", "noise", "inconclusive", "unstable", "lost"]
Category = Literal["accuracy", "determinism", "speed"]
State = Literal["matched", "inputs changed", "only in baseline", "only in new"]

FAIL_ON = ("accuracy", "determinism", "speed", "inconclusive")
"""What can be asked to fail; all but the last do by default."""
DEFAULT_FAIL_ON = frozenset(FAIL_ON[:3])

SEVERITY = (
    "computed",
    "status",
    "nonfinite",
    "nan_lost",
    "spurious_zero",
    "deterministic",
    "zero_sign",
    "flushed",
    "daz",
    "max_ulp",
    "max_ulp_ftz",
    "misrounded",
)
"""Figures whose regressions come first, gravest first."""


@dataclass(frozen=True)
class Options:
    """What counts as a regression, and which regressions fail."""

    fail_on: frozenset[str] = DEFAULT_FAIL_ON
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """Figure → how much worse it may get, in the figure's unit."""
    speed_threshold: float = 0.05
    """Share by which a time must change to count."""


@dataclass(frozen=True)
class Change:
    """One figure of one row, before and after."""

    figure: str
    category: Category
    before: Scalar | None
    after: Scalar | None
    outcome: Outcome
    note: str = ""

    def __str__(self) -> str:
        words = f"{self.figure} {text(self.before)} → {text(self.after)}"
        return f"{words} ({self.note})" if self.note else words


@dataclass(frozen=True)
class Pair:
    """A row of the baseline and its counterpart."""

    before: Row | None
    after: Row | None
    state: State
    changes: tuple[Change, ...] = ()
    """What differs, gravest first; speed also where it is the same."""

    @property
    def row(self) -> Row:
        """The newer row, or the only one."""
        row = self.after or self.before
        assert row is not None
        return row

    def failures(self, options: Options) -> tuple[Change, ...]:
        """The changes that fail under the options."""
        return tuple(change for change in self.changes if fails(change, options))


@dataclass(frozen=True)
class Column:
    """One new run against the baseline."""

    name: str
    run: Run
    pairs: tuple[Pair, ...]
    """Worst first."""
    environment: tuple[str, ...]
    """What differs between the two machines and their software."""

    def matched(self) -> list[Pair]:
        """The pairs that were compared."""
        return [pair for pair in self.pairs if pair.state == "matched"]


@dataclass(frozen=True)
class Comparison:
    """Several new runs against one baseline."""

    baseline: str
    options: Options
    columns: tuple[Column, ...]
    expired: tuple[str, ...] = ()
    """Waivers of the baseline whose date has passed, in words; each fails."""

    @property
    def exit_code(self) -> int:
        """1 something got worse, 4 nothing or not everything is comparable, 5 no row, else 0."""
        pairs = [pair for column in self.columns for pair in column.pairs]
        if not any(pair.after for pair in pairs):
            return EXIT_NOTHING
        if self.expired or any(pair.failures(self.options) for pair in pairs):
            return EXIT_WORSE
        stale = any(pair.state == "inputs changed" for pair in pairs)
        if stale or not all(column.matched() for column in self.columns):
            return EXIT_NOT_COMPARABLE
        return EXIT_PASS

    @property
    def verdict(self) -> str:
        """One line: what the exit code means here."""
        pairs = [pair for column in self.columns for pair in column.pairs]
        matched = sum(pair.state == "matched" for pair in pairs)
        worse = sum(bool(pair.failures(self.options)) for pair in pairs)
        stale = sum(pair.state == "inputs changed" for pair in pairs)
        words = [f"{matched} rows compared", f"{worse} worse" if worse else "none worse"]
        words += [f"{stale} not comparable: their inputs changed"] if stale else []
        words += [f"no row of {c.name} is in the baseline" for c in self.columns if not c.matched()]
        words += [f"expired: {line}" for line in self.expired]
        return ", ".join(words)


def fails(change: Change, options: Options) -> bool:
    """Whether a change fails under the options."""
    if change.outcome == "worse":
        return change.category in options.fail_on
    return change.outcome in ("inconclusive", "unstable") and "inconclusive" in options.fail_on


def compare(
    baseline: tuple[str, Run],
    news: Sequence[tuple[str, Run]],
    options: Options | None = None,
    *,
    expired: Sequence[str] = (),
) -> Comparison:
    """Compare every new run, given with its name, with the baseline."""
    options = options or Options()
    name, before = baseline
    columns = [
        Column(
            label,
            run,
            tuple(sorted(_pairs(before, run, options), key=_gravity)),
            environment.differences(before.environment, run.environment),
        )
        for label, run in news
    ]
    return Comparison(name, options, tuple(columns), tuple(expired))


def _pairs(before: Run, after: Run, options: Options) -> Iterable[Pair]:
    old, new = _by_identity(before.rows), _by_identity(after.rows)
    same_machine = environment.same_machine(before.environment, after.environment)
    for key in dict.fromkeys([*new, *old]):
        a, b = old.get(key), new.get(key)
        if a is None or b is None:
            yield Pair(a, b, "only in new" if a is None else "only in baseline")
        elif not _same_inputs(a, b):
            yield Pair(a, b, "inputs changed")
        else:
            yield Pair(a, b, "matched", compare_rows(a, b, options, same_machine=same_machine))


def _by_identity(rows: Iterable[Row]) -> dict[tuple[object, ...], Row]:
    """Rows by identity; of equal ones the n-th matches the n-th."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        n = 0
        while (*row.identity, n) in found:
            n += 1
        found[(*row.identity, n)] = row
    return found


def _same_inputs(a: Row, b: Row) -> bool:
    # A row that was not computed has no hash. Random rounding takes one more input, its own seed.
    if "sr" in (a.options.rounding, b.options.rounding) and a.options.seed != b.options.seed:
        return False
    if a.accuracy and b.accuracy and a.accuracy.sampled != b.accuracy.sampled:
        return False
    return a.input_hash == b.input_hash or not (a.input_hash and b.input_hash)


def compare_rows(
    before: Row, after: Row, options: Options, *, same_machine: bool
) -> tuple[Change, ...]:
    """Every difference between two rows of one identity, gravest first; speed in any case."""
    computed = _computed(before, after)
    changes = [computed] if computed else []
    if computed is None or computed.outcome == "better":
        exact = (f for f in FIGURES.values() if f.kind == "exact")
        found = (_exact(f, f.read(before), f.read(after), options) for f in exact)
        changes += [change for change in found if change]
        if before.output_hash != after.output_hash and not changes:
            changes.append(Change("bits", "accuracy", None, None, "changed", "other bits, as good"))
    speed = _speed(before, after, options, same_machine)
    return (*sorted(changes, key=_rank), *([speed] if speed else []))


def _computed(before: Row, after: Row) -> Change | None:
    """Whether there is a result where there was one; None where that did not change."""
    a, b = (row.accuracy is not None for row in (before, after))
    if a == b:
        return None
    if b:
        return Change("computed", "accuracy", a, b, "better", f"was {' '.join(before.verdicts)}")
    # A peer that is not installed here, or cannot do the case, did not get worse.
    harmless = not {"crashed", "contract"} & set(after.verdicts)
    note = f"{' '.join(after.verdicts)}: {after.reason}" if after.reason else after.verdicts[0]
    return Change("computed", "accuracy", a, b, "lost" if harmless else "worse", note)


def _exact(f: Figure, a: Scalar | None, b: Scalar | None, options: Options) -> Change | None:
    category: Category = "determinism" if f.group == "determinism" else "accuracy"
    if a is None or b is None:
        if a is None and b is None:
            return None
        outcome: Outcome = "lost" if b is None else "changed"
        note = "no longer measured" if b is None else "not measured before"
        return Change(f.name, category, a, b, outcome, note)
    if a == b or (a != a and b != b):
        return None
    if not f.worse(b, a):
        return Change(f.name, category, a, b, "better")
    tolerance = options.tolerance.get(f.name)
    if tolerance is not None and abs(b - a) <= tolerance:
        return Change(f.name, category, a, b, "changed", f"within the tolerance of {tolerance:g}")
    return Change(f.name, category, a, b, "worse")


def _speed(before: Row, after: Row, options: Options, same_machine: bool) -> Change | None:
    a, b = before.throughput, after.throughput
    if a is None or b is None:
        return None
    found = pace.compare(a, b, same_machine=same_machine, threshold=options.speed_threshold)
    outcomes: dict[str, Outcome] = {"slower": "worse", "faster": "better"}
    outcome: Outcome = outcomes.get(found.verdict, found.verdict)  # type: ignore[arg-type]
    figure = FIGURES["seconds" if same_machine else "of_roof"]
    return Change(
        figure.name, "speed", figure.read(before), figure.read(after), outcome, found.words
    )


def _rank(change: Change) -> tuple[int, int, float]:
    """Gravity of a change: worse before anything else, then by figure, then by size."""
    outcome = {"worse": 0, "lost": 1, "inconclusive": 2, "unstable": 2, "better": 4, "same": 5}
    name = change.figure.split(".")[0]
    place = SEVERITY.index(name) if name in SEVERITY else len(SEVERITY)
    return outcome.get(change.outcome, 3), place, -_size(change)


def _size(change: Change) -> float:
    if change.before is None or change.after is None:
        return 0.0
    difference = abs(float(change.after) - float(change.before))
    return difference / abs(float(change.before)) if change.before else difference


def _gravity(pair: Pair) -> tuple[int, tuple[int, int, float]]:
    states = {"inputs changed": 1, "matched": 2, "only in baseline": 3, "only in new": 4}
    first = min((_rank(change) for change in pair.changes), default=(9, 0, 0.0))
    return (0 if first[0] == 0 else states[pair.state]), first


def gates(pair: Pair, baseline: str, options: Options) -> tuple[Gate, ...]:
    """The comparison of a row as gates, one for each category that was compared."""
    rule = f"no worse than {baseline}"
    if pair.state == "inputs changed":
        found = "not comparable: the inputs changed"
        return (Gate("baseline", rule, found, False, baseline),)
    if pair.state != "matched":
        found = "not exercised: the row is not in the baseline"
        return (Gate("baseline", rule, found, True, baseline, exercised=False),)
    made = []
    for category, figures in _GATED.items():
        changes = [c for c in pair.changes if c.category == category]
        rows = [row for row in (pair.before, pair.after) if row is not None]
        measured = any(FIGURES[name].read(row) is not None for name in figures for row in rows)
        if not (changes or measured):
            continue
        failures = [c for c in changes if fails(c, options)]
        shown = failures or [c for c in changes if c.outcome != "same"]
        found = "; ".join(map(str, shown)) or "same"
        made.append(Gate(f"baseline.{category}", rule, found, not failures, baseline))
    return tuple(made)


_GATED = {
    "accuracy": ("nonfinite", "status"),
    "determinism": ("deterministic",),
    "speed": (),
}
"""Category → figures of which a row has one where it was measured; times say so by a change."""


_KIND = {"baseline.accuracy": "accuracy", "baseline.determinism": "nondeterministic"}


def held_to(row: Row, added: Sequence[Gate]) -> Row:
    """The row with these gates instead of its own, and with the kinds of fault that they found."""
    found = {_KIND[gate.name] for gate in added if not gate.passed and gate.name in _KIND}
    kinds = found | (set(row.verdicts) - {"pass"} if found else set(row.verdicts))
    verdicts = tuple(verdict for verdict in VERDICTS if verdict in kinds)
    return replace(row, gates=tuple(added), verdicts=verdicts)


def waiver_gates(expired: Iterable[str], baseline: str) -> tuple[Gate, ...]:
    """Expired waivers of a baseline as failed gates on the run as a whole."""
    rule = "not expired"
    return tuple(Gate("baseline.waiver", rule, line, False, baseline) for line in expired)


def as_run(comparison: Comparison) -> Run:
    """The comparison as a run whose gates say what got worse, which is what reports are made of."""
    rows = [
        held_to(pair.after, gates(pair, comparison.baseline, comparison.options))
        for column in comparison.columns
        for pair in column.pairs
        if pair.after is not None
    ]
    return replace(
        comparison.columns[-1].run,
        kind="compare",
        rows=tuple(rows),
        gates=waiver_gates(comparison.expired, comparison.baseline),
        exit_code=comparison.exit_code,
        verdict=comparison.verdict,
    )
