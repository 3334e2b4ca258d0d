"""A comparison in words: worst regressions first, several new runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lsbench.codec import encode
from lsbench.compare import Change, Column, Comparison, Pair, fails
from lsbench.figures import Scalar, text
from lsbench.report.console import number
from lsbench.report.failures import one_line, title

QUIET = ("better", "changed", "same")
"""Outcomes that are shown on request only."""
NAMED = 8
"""Rows that a list of names shows before it counts the rest."""

STYLE = {"worse": "red", "lost": "yellow", "better": "green"}


def print_comparison(comparison: Comparison, out: Console, *, everything: bool = False) -> None:
    """Print what changed; with ``everything`` also what got better and what stayed."""
    for column in comparison.columns:
        for line in _about(comparison, column):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
    lines = list(_lines(comparison, everything))
    if lines:
        out.print(_table(comparison, lines))
    for line in (*comparison.expired, *_one_sided(comparison)):
        out.print(line, soft_wrap=True, markup=False, highlight=False)
    hidden = sum(
        change.outcome in QUIET
        for column in comparison.columns
        for pair in column.pairs
        for change in pair.changes
    )
    if hidden and not everything:
        out.print(f"{hidden} more changes that are no regression: --all shows them", markup=False)


def _about(comparison: Comparison, column: Column) -> Iterator[str]:
    """Which two runs these are, and what differs around them."""
    yield f"{one_line(comparison.baseline)} → {one_line(column.name)}"
    if not column.run.complete:
        yield "  the new run was interrupted: it holds what was finished"
    for line in column.environment:
        yield f"  {one_line(line)}"


Line = tuple[Pair, str, dict[int, Change]]
"""A row, a figure, and its change by the number of the new run."""


def _lines(comparison: Comparison, everything: bool) -> Iterator[Line]:
    """The lines of the table: pairs in the order of the gravest run, figures by gravity."""
    by_row: dict[tuple[object, ...], tuple[Pair, dict[str, dict[int, Change]]]] = {}
    pairs = [(i, pair) for i, column in enumerate(comparison.columns) for pair in column.pairs]
    failing = [(i, pair) for i, pair in pairs if pair.failures(comparison.options)]
    rest = [(i, pair) for i, pair in pairs if not pair.failures(comparison.options)]
    for i, pair in [*failing, *rest]:
        _, figures = by_row.setdefault(pair.row.identity, (pair, {}))
        for change in pair.changes:
            figures.setdefault(change.figure, {})[i] = change
    for pair, figures in by_row.values():
        for figure, changes in figures.items():
            if everything or any(c.outcome not in QUIET for c in changes.values()):
                yield pair, figure, changes


def _table(comparison: Comparison, lines: Sequence[Line]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("case · kernel", overflow="fold", ratio=2, min_width=12)
    table.add_column("figure", overflow="fold", min_width=8)
    table.add_column("baseline", justify="right", overflow="fold")
    for column in comparison.columns:
        table.add_column(one_line(column.name), justify="right", overflow="fold")
    table.add_column("", overflow="fold", ratio=1)
    shown = ""
    for pair, figure, changes in lines:
        name = title(pair.row)
        first = next(iter(changes.values()))
        cells = [_after(changes.get(i), first, comparison) for i in range(len(comparison.columns))]
        table.add_row(
            Text("" if name == shown else name),
            figure,
            _value(first.before, first.after),
            *cells,
            Text(_why(changes.values()), style="dim"),
        )
        shown = name
    return table


def _after(change: Change | None, first: Change, comparison: Comparison) -> Text:
    if change is None:
        return Text(_value(first.before, None), style="dim")
    mark = " !" if fails(change, comparison.options) else ""
    value = _value(change.after, change.before)
    return Text(value + mark, style=STYLE.get(change.outcome, ""))


def _value(value: Scalar | None, beside: Scalar | None) -> str:
    """A figure briefly, or in full where the one beside it would look the same."""
    if not isinstance(value, float):
        return text(value)
    brief = _brief(value)
    alike = isinstance(beside, float) and beside != value and _brief(beside) == brief
    return text(value) if alike else brief


def _brief(value: float) -> str:
    return number(value) if value == 0 or abs(value) >= 1e-3 else f"{value:.3g}"


def _why(changes: Iterable[Change]) -> str:
    words = [c.note or c.outcome for c in changes]
    return one_line("; ".join(dict.fromkeys(words)))


def _one_sided(comparison: Comparison) -> Iterator[str]:
    """The rows that could not be compared, by the reason."""
    for column in comparison.columns:
        for state, words in (
            ("inputs changed", "not compared, the inputs changed"),
            ("only in baseline", f"not in {one_line(column.name)}"),
            ("only in new", f"new in {one_line(column.name)}"),
        ):
            names = [title(pair.row) for pair in column.pairs if pair.state == state]
            if names:
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                yield f"{words}: {', '.join(names[:NAMED])}{more}"


def to_plain(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON takes it: verdict, exit code, and every change by row."""
    return {
        "kind": "compare",
        "baseline": comparison.baseline,
        "verdict": comparison.verdict,
        "exit_code": comparison.exit_code,
        "fail_on": sorted(comparison.options.fail_on),
        "speed_threshold": comparison.options.speed_threshold,
        "tolerance": dict(comparison.options.tolerance),
        "expired": list(comparison.expired),
        "columns": [
            {
                "name": column.name,
                "environment": list(column.environment),
                "rows": [_plain(pair, comparison) for pair in column.pairs],
            }
            for column in comparison.columns
        ],
    }


def _plain(pair: Pair, comparison: Comparison) -> dict[str, Any]:
    row = pair.row
    return {
        "case": row.case,
        "dtype": row.dtype,
        "shape": list(row.shape),
        "layout": row.layout,
        "provider": row.provider,
        "options": encode(row.options),
        "state": pair.state,
        "failed": bool(pair.failures(comparison.options)),
        "changes": [encode(change) for change in pair.changes],
    }
