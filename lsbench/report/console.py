"""The tables that a person reads: one per dtype, then each row's worst element and its command."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lsbench.records import Difference, Row, Run, Value
from lsbench.report.labels import cut

WIDTH = 100
"""Columns that the tables are made for; a narrower terminal folds the names of the cases."""
NAME = 18
"""Columns of a provider's name."""


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
    """Print the tables of a run, every row with its worst element and command, and the summary."""
    numbered = list(enumerate(run.rows, 1))
    labels = cut((kernel(row) for row in run.rows), NAME)
    wide = out.width >= WIDTH
    for dtype in dict.fromkeys(row.dtype for row in run.rows):
        _line(out, Text(f"{dtype:<24}{_heading(wide)}", style="bold"))
        case = ""
        for i, row in numbered:
            if row.dtype != dtype:
                continue
            if row.case != case:
                case = row.case
                _line(out, case)
            _row(i, labels[kernel(row)], row, out, wide)
        out.print()
    print_summary(run, out)


COLUMNS = (
    ("max ulp", 8, True),
    ("mean", 7, False),
    ("wrong %", 7, True),
    ("nonfin", 6, True),
    ("flush", 6, True),
    ("det", 3, True),
    ("Gel/s", 6, False),
    ("roof", 5, True),
    ("passes", 6, True),
)
"""Heading, width, and whether a terminal narrower than :data:`WIDTH` shows the column too."""


def _heading(wide: bool) -> str:
    return " ".join(f"{name:>{width}}" for name, width, narrow in COLUMNS if wide or narrow)


def _row(i: int, label: str, row: Row, out: Console, wide: bool) -> None:
    figures = zip(COLUMNS, _figures(row), strict=True)
    cells = " ".join(f"{cell:>{c[1]}}" for c, cell in figures if wide or c[2])
    line = Text(f"{i:>4} {label:<{NAME}} {cells}  ")
    _line(out, line.append(_verdict(row)))
    _details(row, out)


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
    cells.append(passes(row))
    return cells


STANDARDS = {
    "torch": "t",
    "cann-mere-mare": "m",
    "cann-mixed": "x",
    "cann-ratio": "r",
    "faithful": "f",
    "exact": "e",
}
"""The letter of each standard in the column of those that a row passes."""


def passes(row: Row) -> str:
    """The standards that a row passes, a letter each, and a dot for each that it does not."""
    letters = [STANDARDS.get(s.name, s.name[0]) if s.passed else "." for s in row.standards]
    return "".join(letters) or "-"


def legend() -> str:
    """What the letters stand for."""
    words = ", ".join(f"{letter} {name}" for name, letter in STANDARDS.items())
    return f"passes: {words}; a dot where not"


def _verdict(row: Row) -> Text:
    failed = not row.passed
    style = "red" if failed else "green" if row.verdicts == ("pass",) else "yellow"
    return Text(" ".join(row.verdicts) + (" FAIL" if failed else ""), style=style)


def _details(row: Row, out: Console) -> None:
    if row.reason:
        _line(out, f"     {row.reason}")
    worst = row.accuracy.worst if row.accuracy else None
    if worst is not None:
        ulp = "an undefined error" if worst.ulp is None else f"{worst.ulp:+.6g} ulp"
        _line(out, f"     worst [{worst.index}] {ulp}: g {_value(worst.g)} x {_value(worst.x)}")
        got, right = _value(worst.computed), _value(worst.correct)
        _line(out, f"     computed {got} correct {right} exact {worst.exact}")
    for axis in row.determinism.axes if row.determinism else ():
        if axis.difference is not None:
            d = axis.difference
            first, second = (f"{v.hex} ({name})" for v, name in _both(d))
            _line(out, f"     {axis.name}: [{d.index}] {first} is {second}")
    for gate in row.gates:
        if not gate.passed:
            _line(out, Text(f"     gate {gate.name} {gate.rule}: found {gate.found}", style="red"))
    for note in row.notes:
        _line(out, f"     note: {note}")
    _line(out, Text(f"     {row.reproduce}", style="dim"))


def _value(value: Value) -> str:
    return f"{value.hex} ({value.decimal})"


def _both(difference: Difference) -> list[tuple[Value, str]]:
    values = (difference.first, difference.second)
    return list(zip(values, difference.variants, strict=True))


def _line(out: Console, text: Text | str) -> None:
    # Details are for copying: they are never folded, in a pipe or on a narrow terminal.
    out.print(text, soft_wrap=True, markup=False)


def summary(run: Run) -> str:
    """The run in one line: how many rows passed, failed, and were not run."""
    rows = run.rows
    failed = sum(not row.passed for row in rows)
    unrun = sum(
        row.passed and bool({"crashed", "skipped", "unsupported"} & set(row.verdicts))
        for row in rows
    )
    passed = len(rows) - failed - unrun
    judged = sum(row.accuracy.elements for row in rows if row.accuracy)
    words = [
        f"{len(rows)} row{'s' * (len(rows) != 1)}, {passed} passed their gates, {failed} failed"
    ]
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
    if any(row.standards for row in run.rows):
        out.print(legend(), soft_wrap=True, markup=False)
    out.print(audit(run), soft_wrap=True, markup=False)
    out.print(Text(summary(run), style=style), soft_wrap=True)
