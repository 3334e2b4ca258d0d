"""`lsbench merge`: the parts of a sweep into one document."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from lsbench.cli.reports import Reports, conclude, report_options


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--gate", "rules", multiple=True, metavar="RULE", help="As max_ulp<=1; repeatable.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Results file.")
@click.option("-q", "--quiet", is_flag=True, help="Print the closing lines only.")
@report_options
def command(
    files: tuple[Path, ...], rules: tuple[str, ...], output: Path, quiet: bool, reports: Reports
) -> int:
    """Add the parts of a sweep, one file of `lsbench sweep --shard I/N` each, together.

    The totals are those of the sweep run in one piece. Parts that are missing, unfinished, overlap
    or belong to another sweep are refused.
    """
    from lsbench import gates, results, sweep
    from lsbench.parts import merge, parts_of
    from lsbench.report.console import console
    from lsbench.report.sweep import print_sweep
    from lsbench.settle import settle

    bounds = [gates.parse(rule) for rule in rules]
    documents = [(str(path), parts_of(results.load(path), str(path))) for path in files]
    results.check_writable(output)
    reports.check()
    run = sweep.document(merge(documents), bounds, shlex.join(["lsbench", *sys.argv[1:]]))
    run = settle(run, [bounds] * len(run.rows))
    results.save(run, output)
    print_sweep(run, console(), brief=quiet)
    click.echo(f"results: {output}")
    reports.write(run)
    return conclude(run.verdict, run.exit_code)
