"""What failed in a run, worst first, in the words that every report for machines shares."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from lsbench import figures
from lsbench.records import VERDICTS, Gate, Row, Run
from lsbench.report.console import kernel


@dataclass(frozen=True)
class Failure:
    """One failed gate, or a row that could not be run."""

    row: Row | None
    """None for a gate on the run as a whole."""
    gate: Gate | None
    """None for a row that crashed before its gates."""

    @property
    def rule(self) -> str:
        """The figure that failed; "crashed" for a row without one."""
        return self.gate.name if self.gate else "crashed"

    @property
    def source(self) -> str:
        """The line that a reader should look at: the case's, or the rule's own."""
        return self.row.source if self.row else self.gate.source if self.gate else ""

    @property
    def title(self) -> str:
        """Case and provider."""
        return title(self.row) if self.row else "the run"

    @property
    def message(self) -> str:
        """What was found and what was expected, in one line."""
        if self.gate is None:
            return one_line(self.row.reason if self.row else "") or "no result"
        return one_line(f"{self.gate.name} {self.gate.rule}: found {self.gate.found}")


def failures(run: Run) -> list[Failure]:
    """Every failed gate and crashed row, worst row first; a comparison's rows are in that order."""
    found = [Failure(None, gate) for gate in run.gates if not gate.passed]
    for row in run.rows if run.kind == "compare" else sorted(run.rows, key=gravity):
        failed = [Failure(row, gate) for gate in row.gates if not gate.passed]
        found += failed or ([Failure(row, None)] if "crashed" in row.verdicts else [])
    return found


def gravity(row: Row) -> tuple[int, float]:
    """Order of rows: by the worst verdict, then by the largest error."""
    worst = min((VERDICTS.index(verdict) for verdict in row.verdicts), default=len(VERDICTS))
    return worst, -(row.accuracy.max_ulp if row.accuracy else 0.0)


def title(row: Row) -> str:
    """Case and provider with its options."""
    return one_line(f"{row.case} · {kernel(row)}")


def figures_text(row: Row) -> list[str]:
    """The figures of a row, its worst element and the command that runs it again; a line each."""
    known = {name: value for name, value in figures.of_row(row).items() if value is not None}
    lines = [f"{name} = {figures.text(value)}" for name, value in known.items()]
    worst = row.accuracy.worst if row.accuracy else None
    if worst is not None:
        parts = [f"{n} {v.hex} = {v.decimal}" for n, v in (("g", worst.g), ("x", worst.x))]
        lines.append(f"worst element [{worst.index}]: {', '.join(parts)}")
        lines.append(f"  computed {worst.computed.hex} = {worst.computed.decimal}")
        lines.append(f"  correct  {worst.correct.hex} = {worst.correct.decimal}")
    if row.reason:
        lines.append(f"reason: {one_line(row.reason)}")
    lines += [f"note: {one_line(note)}" for note in row.notes]
    return [*lines, f"again: {one_line(row.reproduce)}"]


def place(source: str) -> tuple[str, int]:
    """File and line of a source; line 1 where it names none.

    >>> place("cases/a.yaml:12"), place("cases/a.yaml"), place("--gate")
    (('cases/a.yaml', 12), ('cases/a.yaml', 1), ('--gate', 1))
    """
    path, _, line = source.rpartition(":")
    return (path, max(int(line), 1)) if path and line.isdigit() else (source, 1)


def one_line(text: str) -> str:
    """Text without line breaks and control characters, which no report may pass on.

    >>> one_line("a\\nb\\x1b[31m")
    'a b\\\\x1b[31m'
    """
    text = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _harmless(c) else ascii(c)[1:-1] for c in text)


def _harmless(c: str) -> bool:
    # Cc: control; Cf: invisible, bidirectional overrides among them; Cs: half of a surrogate pair.
    return unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn")
