"""CSV: a line per row of the run, a column per figure; for spreadsheets and data frames."""

from __future__ import annotations

import csv as stdlib
import io

from lsbench import figures
from lsbench.records import Row, Run
from lsbench.report.failures import one_line

HEAD = (
    "case",
    "dtype",
    "shape",
    "layout",
    "provider",
    "provider_version",
    "arithmetic",
    "rounding",
    "ftz",
    "passed",
    "verdicts",
    "reason",
)
TAIL = ("elements", "input_hash", "output_hash", "source", "reproduce")
COLUMNS = (*HEAD, *figures.FIGURES, *TAIL)


def csv(run: Run) -> str:
    """The table of a run. Numbers are in full, truth is true or false, what is absent is empty."""
    text = io.StringIO()
    writer = stdlib.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_cells(row) for row in run.rows)
    return text.getvalue()


def _cells(row: Row) -> list[str]:
    options = row.options
    head = [
        row.case,
        row.dtype,
        "x".join(map(str, row.shape)),
        ",".join(f"{k}={v}" for k, v in row.layout.items()),
        row.provider,
        row.provider_version,
        options.arithmetic,
        options.rounding,
        figures.text(options.ftz),
        figures.text(row.passed),
        " ".join(row.verdicts),
        row.reason,
    ]
    read = figures.of_row(row).values()
    found = ["" if value is None else figures.text(value) for value in read]
    elements = str(row.accuracy.elements) if row.accuracy else ""
    tail = [elements, row.input_hash, row.output_hash, row.source, row.reproduce]
    return [*map(_text, head), *found, *map(_text, tail)]


def _text(cell: str) -> str:
    # A spreadsheet takes a cell that begins like this for a formula and computes it.
    cell = one_line(cell)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell
