"""What a person reads of a sweep: a run's tables, and what was found binade by binade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lsbench.binades import Binade, Binades, describe
from lsbench.formats import Format, by_name
from lsbench.parts import KEY
from lsbench.records import Row, Run
from lsbench.report.console import kernel, number, print_run, print_summary

SHOWN = 16
"""Rows of a table by binade; the results file holds them all."""


def print_sweep(run: Run, out: Console, *, brief: bool = False) -> None:
    """Print a sweep; ``brief`` leaves the tables out."""
    if brief:
        print_summary(run, out)
        return
    entries = run.extra[KEY]
    assert isinstance(entries, list)
    for row, entry in zip(run.rows, entries, strict=True):
        tables = Binades.from_plain(entry["binades"])
        for over, rows in (("x", tables.by_x), ("g", tables.by_g)):
            if row.accuracy is not None and len(rows) > 1:
                _print_binades(row, over, rows, out)
    print_run(run, out)
    for row in run.rows:
        if row.accuracy is not None:
            judged, whole = row.accuracy.elements, row.shape[0]
            words = f"{judged:,} pairs judged" + ("" if judged == whole else f" of {whole:,}")
            out.print(Text(f"{row.case} {row.dtype} {kernel(row)}: {words}"), soft_wrap=True)


def _print_binades(row: Row, over: str, rows: dict[int, Binade], out: Console) -> None:
    lines = list(_joined(by_name(row.dtype), rows))
    shown = sorted(range(len(lines)), key=lambda i: _badness(lines[i][1]), reverse=True)[:SHOWN]
    title = f"{row.case} {row.dtype} {kernel(row)}, by binade of {over}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold")
    table.add_column(over, no_wrap=True)
    for heading in ("elements", "wrong", "max ulp"):
        table.add_column(heading, justify="right", no_wrap=True)
    for i in sorted(shown):
        words, found = lines[i]
        table.add_row(words, f"{found.elements:,}", f"{found.misrounded:,}", number(found.max_ulp))
    out.print(table)
    if len(lines) > SHOWN:
        out.print(f"the worst {SHOWN} of {len(lines)} lines; the results file holds every binade")
    out.print()


def _badness(found: Binade) -> tuple[float, int]:
    return found.max_ulp, found.misrounded


def _joined(fmt: Format, rows: dict[int, Binade]) -> Iterator[tuple[str, Binade]]:
    """Binades in order; neighbours that look alike, without a wrong result, become one line."""
    run: list[int] = []
    for row in sorted(rows):
        if run and not _alike(rows, run[-1], row, fmt):
            yield _line(fmt, run, rows)
            run = []
        run.append(row)
    if run:
        yield _line(fmt, run, rows)


def _alike(rows: dict[int, Binade], a: int, b: int, fmt: Format) -> bool:
    fields = 2 * fmt.emax + 2
    same_sign = a // fields == b // fields and b % fields != fields - 1
    clean = rows[a].misrounded == rows[b].misrounded == 0
    return (
        same_sign
        and b == a + 1
        and clean
        and f"{rows[a].max_ulp:.2f}" == (f"{rows[b].max_ulp:.2f}")
    )


def _line(fmt: Format, run: Sequence[int], rows: dict[int, Binade]) -> tuple[str, Binade]:
    total = Binade()
    for row in run:
        total = total.plus(rows[row])
    first, last = describe(fmt, run[0]), describe(fmt, run[-1])
    if len(run) == 1:
        return first, total
    return f"{first.split(',')[0]},{last.split(',')[1]}", total
