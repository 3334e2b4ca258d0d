"""`lsbench compare`: what changed between recorded runs, and whether that fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lsbench.cli.reports import Reports, Share, conclude, report_options
from lsbench.errors import UsageError

if TYPE_CHECKING:
    from lsbench.compare import Comparison
    from lsbench.records import Run


@click.command()
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("news", nargs=-1, required=True, metavar="NEW...", type=click.Path(path_type=Path))
@click.option("-k", "expression", default="", help="Cases by name: words with and, or, not.")
@click.option(
    "--fail-on",
    default="accuracy,determinism,speed",
    show_default=True,
    help="What fails: accuracy, determinism, speed, inconclusive; none for nothing.",
)
@click.option(
    "--speed-threshold",
    type=Share(),
    default="5%",
    show_default=True,
    help="Least change of a time that counts.",
)
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    metavar="FIGURE=NUMBER",
    help="How much worse a figure may get; repeatable.",
)
@click.option("--all", "everything", is_flag=True, help="Show what got better or stayed, too.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("-q", "--quiet", is_flag=True, help="Print the closing line only.")
@click.option("--inject-slowdown", type=Share(), default=0.0, hidden=True)
@click.option("--inject-ulp", type=float, default=0.0, hidden=True)
@report_options
def command(
    baseline: Path,
    news: tuple[Path, ...],
    expression: str,
    fail_on: str,
    speed_threshold: float,
    tolerances: tuple[str, ...],
    everything: bool,
    form: str,
    quiet: bool,
    inject_slowdown: float,
    inject_ulp: float,
    reports: Reports,
) -> int:
    """Compare recorded results with a baseline, row by row.

    Accuracy and determinism are compared exactly, times by interval and noise floor. Several NEW
    files become columns.

    \b
    Exit status  0 nothing got worse    4 no baseline, or not comparable
                 1 something did        5 nothing was selected
                 2 bad usage or input
    """
    from lsbench import compare, inject, results
    from lsbench.baseline import load

    options = compare.Options(parse_fail_on(fail_on), parse_tolerances(tolerances), speed_threshold)
    reports.check()
    approved = load(baseline)
    runs = []
    for path in news:
        run = inject.plant(results.load(path), inject_slowdown, inject_ulp)
        runs.append((str(path), _chosen(run, expression)))
    comparison = compare.compare(
        (str(baseline), _chosen(approved.run, expression)),
        runs,
        options,
        expired=approved.expired(),
    )
    _tell(comparison, form, quiet, everything, reports)
    return conclude(comparison.verdict, comparison.exit_code)


def parse_fail_on(text: str) -> frozenset[str]:
    """The categories of a comma-separated list; raises UsageError for an unknown one."""
    from lsbench.compare import FAIL_ON

    names = frozenset(filter(None, (name.strip() for name in text.split(","))))
    if names == {"none"}:
        return frozenset()
    unknown = sorted(names - set(FAIL_ON))
    if unknown or not names:
        found = ", ".join(unknown) or "nothing"
        raise UsageError(f"--fail-on: found {found}: expected some of {', '.join(FAIL_ON)}")
    return names


def parse_tolerances(written: tuple[str, ...]) -> dict[str, float]:
    """Figure → tolerance of ``figure=number``; raises UsageError for what means nothing."""
    from lsbench.figures import figure

    found = {}
    for text in written:
        name, separator, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not separator or not 0 <= value < float("inf"):
            raise UsageError(f"--tolerance: found {text!r}: expected FIGURE=NUMBER")
        known = figure(name.strip())
        if known.kind != "exact" or known.better == "true":
            raise UsageError(f"--tolerance: {known.name} has none: expected a figure of accuracy")
        found[known.name] = value
    return found


def _chosen(run: Run, expression: str) -> Run:
    if not expression:
        return run
    from lsbench.selection import matcher

    matches = matcher(expression)
    return replace(run, rows=tuple(row for row in run.rows if matches(row.case)))


def _tell(
    comparison: Comparison, form: str, quiet: bool, everything: bool, reports: Reports
) -> None:
    from lsbench.compare import as_run
    from lsbench.report.changes import print_comparison, to_plain
    from lsbench.report.console import console

    text = json.dumps(to_plain(comparison), indent=1, ensure_ascii=False) + "\n"
    if form == "json":
        click.echo(text, nl=False)
    elif not quiet:
        print_comparison(comparison, console(), everything=everything)
    reports.write(as_run(comparison), json=text)
