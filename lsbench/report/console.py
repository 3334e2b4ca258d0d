"""The tables that a person reads: one per dtype, then each row's worst element and its command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lsbench.records import Row, Run

WIDTH = 100
"""Columns that the tables are made for; a narrower terminal folds the names of the cases."""


def console(*, stderr: bool = False) -> Console:
    """A console that never exceeds the width and folds nothing in a pipe but the tables' names."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    made.width = min(made.width, WIDTH) if made.is_terminal else WIDTH
    return made


def number(value: float | None) -> str:
    """A figure in at most seven characters.

    >>> number(0.5), number(2042.66), number(16777216.0), number(None)
    ('0.5000', '2042.7', '1.7e+07', '-')
    """
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 10:
        return f"{value:.4f}"
    if 10 <= size < 1e6:
        return f"{value:.1f}" if size < 1e5 else f"{value:.0f}"
    return f"{value:.1e}"


def share(part: int, whole: int) -> str:
    """A count as a percentage that is 0 only for 0.

    >>> share(0, 9), share(1, 10**7), share(1, 3)
    ('0', '<0.01', '33.33')
    """
    if part == 0:
        return "0"
    percent = 100 * part / whole
    return f"{percent:.2f}" if percent >= 0.01 else "<0.01"


def print_run(run: Run, out: Console) -> None:
    """Print the tables of a run, the details of every row, and the summary."""
    numbered = list(enumerate(run.rows, 1))
    for dtype in dict.fromkeys(row.dtype for row in run.rows):
        chosen = [(i, row) for i, row in numbered if row.dtype == dtype]
        out.print(_table(dtype, chosen))
        out.print()
    for i, row in numbered:
        _details(i, row, out)
    print_summary(run, out)


def _table(dtype: str, rows: Sequence[tuple[int, Row]]) -> Table:
    table = Table(title=dtype, title_justify="left", box=None, pad_edge=False, title_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("case", overflow="fold", min_width=12)
    table.add_column("kernel", overflow="fold", min_width=8)
    for heading in ("max ulp", "mean", "wrong %", "nonfin", "flush", "det", "Gel/s", "roof"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=9)
    for i, row in rows:
        table.add_row(str(i), escape(row.case), escape(kernel(row)), *_figures(row), _verdict(row))
    return table


def kernel(row: Row) -> str:
    """The provider with the options that differ from the usual ones.

    Formats as ``exact``, ``ascend/fp16``, ``fast rtz``, ``exact/ftz``.
    """
    options = row.options
    name = row.provider
    if options.arithmetic != "fp32":
        name += f"/{options.arithmetic}"
    if options.ftz:
        name += "/ftz"
    return name if options.rounding == "rne" else f"{name} {options.rounding}"


def _figures(row: Row) -> list[str]:
    errors, timed = row.accuracy, row.throughput
    if errors is None:
        cells = ["-"] * 5
    else:
        cells = [
            number(errors.max_ulp),
            number(errors.mean_ulp),
            share(errors.misrounded, errors.elements),
            str(errors.nonfinite),
            str(errors.flushed),
        ]
    cells.append("-" if row.determinism is None else "yes" if row.determinism.stable else "NO")
    cells.append(number(timed.gelem_per_s) if timed else "-")
    cells.append(f"{timed.of_roof.value:.2f}" if timed and timed.of_roof else "-")
    return cells


def _verdict(row: Row) -> Text:
    failed = not row.passed
    style = "red" if failed else "green" if row.verdicts == ("pass",) else "yellow"
    return Text(" ".join(row.verdicts) + (" FAIL" if failed else ""), style=style)


def _details(i: int, row: Row, out: Console) -> None:
    head = Text(f"#{i} ", style="bold")
    head.append(f"{row.case} · {kernel(row)}")
    if row.reason:
        head.append(f": {row.reason}")
    _line(out, head)
    worst = row.accuracy.worst if row.accuracy else None
    if worst is not None:
        ulp = "undefined" if worst.ulp is None else f"{worst.ulp:+.6g} ulp"
        _line(out, f"   worst [{worst.index}]: {ulp}, exact {worst.exact}")
        for name in ("g", "x", "computed", "correct"):
            value = getattr(worst, name)
            _line(out, f"      {name:<8} {value.hex} = {value.decimal}")
    for axis in row.determinism.axes if row.determinism else ():
        if axis.difference is not None:
            d = axis.difference
            _line(
                out,
                f"   {axis.name}: [{d.index}] {d.first.hex} ({d.variants[0]}) "
                f"is {d.second.hex} ({d.variants[1]})",
            )
    for gate in row.gates:
        if not gate.passed:
            _line(out, Text(f"   gate {gate.name} {gate.rule}: found {gate.found}", style="red"))
    for note in row.notes:
        _line(out, f"   note: {note}")
    _line(out, Text(f"   {row.reproduce}", style="dim"))


def _line(out: Console, text: Text | str) -> None:
    # Details are for copying: they are never folded, in a pipe or on a narrow terminal.
    out.print(text, soft_wrap=True, markup=False)


def summary(run: Run) -> str:
    """The run in one line: how many rows passed, failed, and were not run."""
    rows = run.rows
    failed = sum(not row.passed for row in rows)
    unrun = sum(bool({"crashed", "skipped", "unsupported"} & set(row.verdicts)) for row in rows)
    judged = sum(row.accuracy.elements for row in rows if row.accuracy)
    words = [f"{len(rows)} rows, {len(rows) - failed} passed their gates, {failed} failed"]
    if unrun:
        words.append(f"{unrun} not run")
    words.append(f"{judged:,} elements judged in {run.duration:.1f} s")
    if not run.complete:
        words.append("interrupted")
    return ", ".join(words)


def audit(run: Run) -> str:
    """Who judged, how much went to mpmath, and what the audit found."""
    references = [row.accuracy.reference for row in run.rows if row.accuracy]
    names = ", ".join(dict.fromkeys(r.name for r in references))
    undecided = sum(r.undecided for r in references)
    audited, differed = (sum(getattr(r, a) for r in references) for a in ("audited", "differed"))
    return (
        f"reference: {names or 'none'}; {undecided} undecided elements went to mpmath; "
        f"audit: {audited} elements judged again by mpmath, {differed} differed"
    )


def print_summary(run: Run, out: Console) -> None:
    """Print the closing lines."""
    style = "green" if run.exit_code == 0 else "red"
    out.print(audit(run), soft_wrap=True, markup=False)
    out.print(Text(summary(run), style=style), soft_wrap=True)
