"""What the commands that end in a verdict share: report files, and the closing line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lsbench.records import Run

if TYPE_CHECKING:
    _Number = click.ParamType[float]
else:
    _Number = click.ParamType  # click 8.1 knows no type arguments

FILES = {
    "junit": "JUnit XML, a test case per case × provider × gate.",
    "markdown": "A page that fits a pull request's comment.",
    "sarif": "SARIF 2.1.0, for code scanning.",
    "csv": "A line per row, a column per figure.",
    "json": "The results once more.",
}
"""Kind of report → help of its option."""


@dataclass(frozen=True)
class Reports:
    """The reports asked for."""

    files: dict[str, Path] = field(default_factory=dict)
    github: bool = False

    def check(self) -> None:
        """Find out before the work whether every file can be written; raises OutputError."""
        from lsbench import output

        for path in self.files.values():
            output.check_writable(path)

    def write(self, run: Run, **texts: str) -> None:
        """Write them all; ``texts`` holds reports that were made elsewhere, by kind.

        Annotations go to standard error, so that standard output stays what was asked for.
        """
        from lsbench import output, report

        for kind, path in self.files.items():
            output.write(path, texts[kind] if kind in texts else report.render(run, kind))
        if self.github:
            from lsbench.report.github import write_summary

            click.echo(report.render(run, "github"), nl=False, err=True)
            write_summary(run)


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --junit, --markdown, ... to a command, which gets them as ``reports``."""

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        found = {kind: options.pop(f"report_{kind}") for kind in FILES}
        files = {kind: path for kind, path in found.items() if path is not None}
        reports = Reports(files, options.pop("report_github"))
        return function(*args, reports=reports, **options)

    made: Callable[..., Any] = wrapped
    text = "Annotations at the lines of the case files, and the step's summary."
    made = click.option("--github", "report_github", is_flag=True, help=text)(made)
    for kind, text in reversed(FILES.items()):
        path = click.Path(path_type=Path)
        made = click.option(f"--{kind}", f"report_{kind}", type=path, metavar="FILE", help=text)(
            made
        )
    return made


class Share(_Number):
    """A share, written as 5% or 0.05."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share as a number from 0 on."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = -1.0
        # A bare 5 is refused: it may be meant as 5 % or as five times.
        if not 0 <= number < (float("inf") if text.endswith("%") else 1):
            self.fail(f"found {value!r}: expected a share such as 5% or 0.05", param, ctx)
        return number / 100 if text.endswith("%") else number


def conclude(verdict: str, code: int) -> int:
    """Say the verdict and the exit code on the last line of standard error; returns the code."""
    word = {0: "passed", 1: "FAILED"}.get(code, "NOT PASSED")
    click.echo(f"lsbench: {word}: {verdict} (exit {code})", err=True)
    return code
