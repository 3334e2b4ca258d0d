"""Markdown for a pull request's comment: the verdict, the failures, the details folded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsbench import figures
from lsbench.records import Row, Run
from lsbench.report.console import audit, number, summary
from lsbench.report.failures import Failure, failures, figures_text, gravity, one_line, title

COMMENT_LIMIT = 65_536
"""Most that a pull request's comment takes, in bytes here to be safe whatever is counted."""
_RESERVE = 400
"""Bytes kept for the line that says what was left out."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~@$&])")
SHOWN = ("max_ulp", "mean_ulp", "misrounded", "nonfinite", "flushed", "deterministic", "of_roof")


def markdown(run: Run, limit: int = COMMENT_LIMIT) -> str:
    """The report of a run, cut at whole entries so that it stays within ``limit`` bytes."""
    found = failures(run)
    page = _Page(limit)
    page.add(f"## lsbench: {'passed' if run.exit_code == 0 else 'FAILED'}\n\n")
    page.add(f"{escape(run.verdict or summary(run))} (exit {run.exit_code})\n\n")
    if found:
        head = "| case · kernel | gate | expected | found |\n|---|---|---|---|\n"
        page.table(head, [_failure(f) for f in found], "failures")
    page.fold("Worst rows in detail", _details(found))
    rows = sorted(run.rows, key=gravity)
    page.fold("All rows", [_all_head(), *map(_all_row, rows)], joined="")
    page.fold("Environment", [_environment(run)])
    return page.text()


class _Page:
    """Text that never outgrows its limit; what does not fit is counted."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._left = limit - _RESERVE
        self._omitted: dict[str, int] = {}

    def add(self, text: str) -> bool:
        """Add text if it fits."""
        size = len(text.encode())
        if size > self._left:
            return False
        self._parts.append(text)
        self._left -= size
        return True

    def table(self, head: str, rows: Sequence[str], what: str) -> None:
        """Add a table, as many rows as fit into half of what is left."""
        ceiling = self._left // 2
        self.add(head)
        for i, row in enumerate(rows):
            if self._left < ceiling or not self.add(row):
                self._omitted[what] = len(rows) - i
                break
        self.add("\n")

    def fold(self, heading: str, entries: Sequence[str], joined: str = "\n") -> None:
        """Add a folded section, as many entries as fit."""
        opening = f"<details><summary>{heading}</summary>\n\n"
        closing = "\n</details>\n\n"
        if not entries or len((opening + closing + entries[0]).encode()) > self._left:
            return
        self._left -= len(closing.encode())
        self.add(opening)
        for i, entry in enumerate(entries):
            if not self.add(entry + joined):
                self._omitted[f"entries of “{heading}”"] = len(entries) - i
                break
        self._parts.append(closing)

    def text(self) -> str:
        """The page, with what was left out said at its end."""
        if self._omitted:
            left = ", ".join(f"{n} more {what}" for what, n in self._omitted.items())
            self._parts.append(f"*Left out for length: {left}. The JSON holds everything.*\n")
        return "".join(self._parts)


def escape(text: str) -> str:
    """Text that Markdown, HTML and mentions leave as it is, on one line.

    >>> escape("a|b <b> @team")
    'a\\\\|b \\\\<b\\\\> \\\\@team'
    """
    return _SPECIAL.sub(r"\\\1", one_line(text))


def code(text: str) -> str:
    """Text in a code span of a table: fenced by more backticks than it holds.

    >>> code("a`b")
    '`` a`b ``'
    """
    text = one_line(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _failure(failure: Failure) -> str:
    gate = failure.gate
    name, rule = (gate.name, gate.rule) if gate else ("crashed", "a result")
    found = gate.found if gate else failure.message
    cells = (escape(failure.title), escape(name), escape(rule), escape(found))
    return f"| {' | '.join(cells)} |\n"


def _details(found: Sequence[Failure]) -> list[str]:
    rows = dict.fromkeys(id(f.row) for f in found if f.row)
    by_id = {id(f.row): f.row for f in found if f.row}
    return [_detail(by_id[key]) for key in rows]


def _detail(row: Row) -> str:
    lines = "\n".join(f"    {line}" for line in figures_text(row))
    return f"**{escape(title(row))}** ({escape(row.source)})\n\n{lines}\n"


def _all_head() -> str:
    names = ("case · kernel", "dtype", *SHOWN, "verdict")
    return f"| {' | '.join(escape(n) for n in names)} |\n|{'---|' * len(names)}\n"


def _all_row(row: Row) -> str:
    read = figures.of_row(row)
    cells = [escape(title(row)), row.dtype]
    for name in SHOWN:
        value = read[name]
        shown = number(value) if isinstance(value, float) else figures.text(value)
        cells.append(shown)
    verdict = " ".join(row.verdicts)
    cells.append(escape(verdict if row.passed else f"FAIL {verdict}"))
    return f"| {' | '.join(cells)} |\n"


def _environment(run: Run) -> str:
    env = run.environment
    lines = [
        f"lsbench {run.lsbench}, {run.git_commit or 'no commit'}, seed {run.seed}",
        f"{env.cpu}, {env.cores} cores, {env.os}, {env.python}, {env.isa}, {env.compiler}",
        env.fp_control,
        audit(run),
        run.command,
    ]
    return "".join(f"- {escape(line)}\n" for line in lines if line)
