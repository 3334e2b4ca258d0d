"""`lsbench baseline`: what was approved, and approving anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lsbench.errors import UsageError

if TYPE_CHECKING:
    from lsbench.baseline import Baseline, Update, Waiver
    from lsbench.records import Run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Keep an approved baseline, which `lsbench run --baseline FILE` may not fall behind."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("new", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@click.option("--prune", is_flag=True, help="Drop rows that the new results do not have.")
@click.option("--waiver", metavar="NAME", help="Take in nonfinite results and moving bits.")
@click.option("--reason", default="", help="Why the waiver is given.")
@click.option("--expires", default="", metavar="DATE", help="The waiver's last day: 2026-12-31.")
@click.option("--all", "everything", is_flag=True, help="Show what got better or stayed, too.")
def update(
    file: Path,
    new: Path | None,
    dry_run: bool,
    prune: bool,
    waiver: str | None,
    reason: str,
    expires: str,
    everything: bool,
) -> int:
    """Rewrite the baseline FILE with the rows of NEW, after showing what changes.

    Without NEW the case files that the baseline's rows came from are run again. Times are not kept.
    Nonfinite results and determinism breaks are refused without a waiver, which has a name, a
    reason and a last day.

    \b
    Exit status  0 written    1 refused: a row needs a waiver    4 no baseline and no NEW
    """
    from lsbench import baseline, output, results

    given = _waiver(waiver, reason, expires)
    output.check_writable(file)
    old = baseline.load(file) if os.path.exists(file) or new is None else None
    run = results.load(new) if new is not None else _again(old)
    found = baseline.update(old, run, str(file), waive=given, prune=prune)
    _show(found, everything=everything)
    if found.refused:
        click.echo(f"lsbench: refused: {len(found.refused)} need a waiver (exit 1)", err=True)
        return 1
    rows = len(found.baseline.run.rows)
    if dry_run:
        click.echo(f"lsbench: {file} would hold {rows} rows; nothing was written", err=True)
        return 0
    baseline.save(found.baseline, file)
    click.echo(f"lsbench: {file} holds {rows} rows", err=True)
    return 0


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> int:
    """Show what FILE holds: rows by provider, and waivers; exit 1 where one has expired."""
    from lsbench import baseline

    held = baseline.load(file)
    run = held.run
    click.echo(f"{file}: {len(run.rows)} rows, lsbench {run.lsbench}, {run.started}")
    for provider in dict.fromkeys(row.provider for row in run.rows):
        count = sum(row.provider == provider for row in run.rows)
        click.echo(f"  {provider}: {count} rows")
    expired = held.expired()
    for waiver in held.waivers:
        click.echo(f"  {waiver}{' (EXPIRED)' if str(waiver) in expired else ''}")
    return 1 if expired else 0


def _waiver(name: str | None, reason: str, expires: str) -> Waiver | None:
    """The waiver of the command line; what it is about is filled in where it is needed."""
    from lsbench.baseline import Waiver, check

    if name is None:
        if reason or expires:
            raise UsageError("--reason and --expires describe a waiver: expected --waiver NAME")
        return None
    given = Waiver(name, "", "", "nonfinite", reason, expires)
    check(given)
    return given


def _again(old: Baseline | None) -> Run:
    """Run the case files that the baseline's rows came from, without timing."""
    from lsbench import runner
    from lsbench.cases import load
    from lsbench.cli.progress import Bar
    from lsbench.report.failures import place
    from lsbench.row import Settings

    assert old is not None
    files = dict.fromkeys(place(row.source)[0] for row in old.run.rows)
    selections = runner.select(load(list(files)))
    with Bar() as bar:
        return replace(
            runner.run(selections, Settings(throughput=False), observer=bar),
            command=old.run.command,
        )


def _show(found: Update, *, everything: bool) -> None:
    from lsbench.report.changes import print_comparison
    from lsbench.report.console import console

    print_comparison(found.comparison, console(), everything=everything)
    for line in found.refused:
        click.echo(f"refused: {line}")
    for waiver in found.baseline.waivers:
        click.echo(f"held: {waiver}")
    for waiver in found.dropped:
        click.echo(f"dropped, for nothing needs it: {waiver}")
