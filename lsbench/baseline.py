"""The approved baseline: what a run may not fall behind, and what was waived, by whom it may pass.

A baseline is a results document whose rows were approved. It keeps no times: stored times of
another job drift, accuracy does not. Rows with nonfinite results or moving bits are only taken in
under a waiver, which has a name, a reason and a last day; a waiver that has expired fails whatever
is compared with the baseline.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from lsbench import compare, results
from lsbench.codec import Misfit, decode, encode
from lsbench.errors import BaselineError, ResultsError, UsageError
from lsbench.figures import FIGURES, text
from lsbench.records import Row, Run

WAIVABLE = ("nonfinite", *(name for name in FIGURES if name.split(".")[0] == "deterministic"))
"""Figures that no row of a baseline may fail at without a waiver."""


@dataclass(frozen=True)
class Waiver:
    """Why one figure of one row may be bad, and until when."""

    name: str
    case: str
    provider: str
    figure: str
    reason: str
    expires: str
    """The last day, ISO 8601: 2026-12-31."""

    def expired(self, today: date) -> bool:
        """Whether its last day has passed."""
        return date.fromisoformat(self.expires) < today

    def __str__(self) -> str:
        where = f"{self.figure} of {self.case} · {self.provider}"
        return f"waiver {self.name!r} for {where} until {self.expires}: {self.reason}"


@dataclass(frozen=True)
class Baseline:
    """An approved run and its waivers."""

    name: str
    """The file, as reports call it."""
    run: Run
    waivers: tuple[Waiver, ...] = ()

    def expired(self, today: date | None = None) -> tuple[str, ...]:
        """The waivers whose last day has passed, in words."""
        day = today or _today()
        return tuple(str(waiver) for waiver in self.waivers if waiver.expired(day))


@dataclass(frozen=True)
class Update:
    """What an update of a baseline would do."""

    comparison: compare.Comparison
    """Of the new rows with the old."""
    baseline: Baseline
    """The baseline after it."""
    refused: tuple[str, ...]
    """Why it must not be written, one line a row and figure; empty: it may."""
    dropped: tuple[Waiver, ...]
    """Waivers that no row needs any more."""


def _today() -> date:
    return datetime.now(UTC).date()


def load(path: str | Path) -> Baseline:
    """Read a baseline.

    Raises BaselineError where there is no such file, ResultsError where it is damaged.
    """
    if not os.path.exists(path):  # unlike Path.exists it never raises
        raise BaselineError(
            f"no baseline {path}: expected approved results; make them with "
            f"`lsbench baseline update {path} RESULTS`"
        )
    run = results.load(path)
    return Baseline(str(path), run, _waivers(run, str(path)))


def _waivers(run: Run, name: str) -> tuple[Waiver, ...]:
    found = run.extra.get("waivers", [])
    if not isinstance(found, list):
        raise ResultsError(f"{name}: extra.waivers: expected a list")
    made = []
    for i, plain in enumerate(found):
        try:
            made.append(check(decode(Waiver, plain)))
        except (Misfit, UsageError) as error:
            raise ResultsError(f"{name}: extra.waivers[{i}]: {error}") from None
    return tuple(made)


def check(waiver: Waiver) -> Waiver:
    """The waiver as it is; raises UsageError for one without a name, a reason or a last day."""
    for field in ("name", "reason"):
        if not getattr(waiver, field).strip():
            raise UsageError(f"a waiver needs a {field}: found none")
    if waiver.figure not in WAIVABLE:
        raise UsageError(f"{waiver.figure!r} needs no waiver: expected {', '.join(WAIVABLE[:2])}")
    try:
        date.fromisoformat(waiver.expires)
    except ValueError:
        raise UsageError(
            f"a waiver's last day is {waiver.expires!r}: expected a date such as 2026-12-31"
        ) from None
    return waiver


def save(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline with its waivers; raises OutputError where it cannot be written."""
    extra = {**baseline.run.extra, "waivers": [encode(waiver) for waiver in baseline.waivers]}
    results.save(replace(baseline.run, extra=extra), path)


def bad_figures(row: Row) -> tuple[str, ...]:
    """The figures of a row that need a waiver: nonfinite results, and the axes that moved a bit."""
    found = []
    for name in WAIVABLE:
        value = FIGURES[name].read(row)
        if value is not None and (value > 0 if name == "nonfinite" else not value):
            found.append(name)
    # The axes say what "deterministic" sums up.
    return tuple(name for name in found if name != "deterministic")


def update(
    old: Baseline | None,
    new: Run,
    name: str,
    *,
    waive: Waiver | None = None,
    prune: bool = False,
    today: date | None = None,
) -> Update:
    """The baseline with the rows of a new run in it; nothing is written.

    Rows that the new run does not have stay, unless ``prune``. ``waive`` gives name, reason and
    last day for whatever would be refused (its case, provider and figure are filled in).
    """
    day = today or _today()
    before = old.run if old else replace(new, rows=())
    comparison = compare.compare((name, before), [("new", new)])
    kept = [] if prune else [p.before for p in comparison.columns[0].pairs if p.after is None]
    rows = [*map(_approved, new.rows), *(row for row in kept if row is not None)]
    held = {(w.case, w.provider, w.figure): w for w in (old.waivers if old else ())}
    needed: dict[tuple[str, str, str], Waiver] = {}
    refused = []
    for row in rows:
        for figure in bad_figures(row):
            key = (row.case, row.provider, figure)
            waiver = held.get(key)
            if (waiver is None or waiver.expired(day)) and waive is not None:
                waiver = check(replace(waive, case=row.case, provider=row.provider, figure=figure))
            if waiver is None or waiver.expired(day):
                refused.append(_refusal(row, figure, waiver))
            if waiver is not None:
                needed[key] = waiver
    run = replace(new, rows=tuple(rows), duration=0.0, gates=(), exit_code=0, verdict="")
    made = Baseline(name, run, tuple(needed.values()))
    dropped = tuple(waiver for key, waiver in held.items() if key not in needed)
    return Update(comparison, made, tuple(refused), dropped)


def _approved(row: Row) -> Row:
    return replace(row, throughput=None, gates=())


def _refusal(row: Row, figure: str, held: Waiver | None) -> str:
    found = f"{row.case} · {row.provider}: {figure} is {text(FIGURES[figure].read(row))}"
    return f"{found}, and {held} has expired" if held else f"{found}: it needs a named waiver"


def apply(
    run: Run,
    baseline: Baseline,
    options: compare.Options | None = None,
    *,
    today: date | None = None,
) -> Run:
    """The run with gates that say whether it is no worse than the baseline.

    Every row gets a gate for each category compared; an expired waiver is a failed gate of the
    run. The exit code becomes 1 where a gate failed, 4 where only inputs changed or no row is in
    the baseline; an interrupted or empty run keeps its own.
    """
    options = options or compare.Options()
    expired = baseline.expired(today)
    comparison = compare.compare(
        (baseline.name, baseline.run), [("this run", run)], options, expired=expired
    )
    added = {
        id(pair.after): compare.gates(pair, baseline.name, options)
        for pair in comparison.columns[0].pairs
    }
    rows = tuple(compare.held_to(row, (*row.gates, *added[id(row)])) for row in run.rows)
    held = compare.waiver_gates(expired, baseline.name)
    code = _exit_code(run, comparison)
    verdict = f"{run.verdict}; {comparison.verdict}" if run.verdict else comparison.verdict
    return replace(run, rows=rows, gates=(*run.gates, *held), exit_code=code, verdict=verdict)


def _exit_code(run: Run, comparison: compare.Comparison) -> int:
    if not run.complete or not run.rows or run.exit_code == compare.EXIT_WORSE:
        return run.exit_code
    return comparison.exit_code or run.exit_code
