"""`lsbench run`: load, select, run, save, print, exit by the gates."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lsbench.cli.limits import limit_options
from lsbench.cli.reports import Reports, Share, conclude, report_options
from lsbench.errors import SelectionError, UsageError
from lsbench.formats import FORMATS
from lsbench.rounding import Rounding

if TYPE_CHECKING:
    from lsbench.providers.base import Provider
    from lsbench.providers.isolation import Limits
    from lsbench.records import Run
    from lsbench.runner import Selection

KINDS = click.Choice(["table", "json", "markdown"])


@click.command()
@click.argument("cases", nargs=-1, required=True, metavar="CASES...")
@click.option("-k", "expression", default="", help="Cases by name: words with and, or, not.")
@click.option("--tag", "tags", multiple=True, help="Cases with this tag; repeatable.")
@click.option(
    "--kernel", "--provider", "providers", multiple=True, help="Instead of the cases' own."
)
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(FORMATS)))
@click.option("--arithmetic", type=click.Choice(list(FORMATS)), help="Of the kernels.")
@click.option(
    "--rounding",
    type=click.Choice([mode.value for mode in Rounding]),
    help="Of the stored results.",
)
@click.option("--threads", type=click.IntRange(1, 1024), help="Of the kernels.")
@click.option(
    "--repeat", type=click.IntRange(2, 1000), default=3, help="Runs whose bits are compared."
)
@click.option("--fresh-process", is_flag=True, help="Compare bits with a fresh process too.")
@click.option("--reference", type=click.Choice(["certified", "mpmath", "arb"]), default="certified")
@click.option("--second", metavar="PROVIDER", help="Compare errors with it (cann-ratio).")
@click.option("--no-throughput", is_flag=True, help="Do not time.")
@click.option("--no-determinism", is_flag=True, help="Do not vary threads, layout, position, ...")
@click.option(
    "--budget", type=click.FloatRange(0.01, 3600), default=0.25, help="Seconds to time a row."
)
@limit_options
@click.option("--traceback", is_flag=True, help="Record the traceback of a provider that raises.")
@click.option(
    "--gate", "written", multiple=True, metavar="FIGURE<=NUMBER", help="A gate more; repeatable."
)
@click.option("--allow-unused", is_flag=True, help="Pass although no row exercised a gate.")
@click.option(
    "--baseline",
    "approved",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Fail where a row is worse than in these results.",
)
@click.option("--inject-slowdown", type=Share(), default=0.0, hidden=True)
@click.option("--inject-ulp", type=float, default=0.0, hidden=True)
@click.option("--output", type=click.Path(path_type=Path), help="Results file [results/NAME.json].")
@click.option("--format", "form", type=KINDS, default="table", help="Of what is printed.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first row that fails.")
@click.option("-q", "--quiet", is_flag=True, help="Print the closing line only.")
@click.option("--dry-run", is_flag=True, help="Validate and show what would run.")
@click.option("--list", "listing", is_flag=True, help="List the selected cases, one a line.")
@report_options
def command(
    cases: tuple[str, ...],
    expression: str,
    tags: tuple[str, ...],
    providers: tuple[str, ...],
    dtypes: tuple[str, ...],
    arithmetic: str | None,
    rounding: str | None,
    threads: int | None,
    repeat: int,
    fresh_process: bool,
    reference: str,
    second: str | None,
    no_throughput: bool,
    no_determinism: bool,
    budget: float,
    limits: Limits,
    traceback: bool,
    written: tuple[str, ...],
    allow_unused: bool,
    approved: Path | None,
    inject_slowdown: float,
    inject_ulp: float,
    output: Path | None,
    form: str,
    fail_fast: bool,
    quiet: bool,
    dry_run: bool,
    listing: bool,
    reports: Reports,
) -> int:
    """Run the cases of YAML files, judge every element, and exit by the gates.

    \b
    Exit status  0 all gates pass       4 no baseline, or not comparable
                 1 a gate failed        5 nothing was selected
                 2 bad usage or input   130 interrupted: what is done is kept
                 3 a case could not be run
    """
    from lsbench import baseline, gates, inject, results, runner, settle
    from lsbench.cases import load
    from lsbench.cli.progress import Bar
    from lsbench.row import Settings
    from lsbench.selection import choose

    chosen = choose(load(cases), expression=expression, tags=tags, dtypes=dtypes)
    if not chosen:
        raise SelectionError("no case was selected: see lsbench run --list without -k and --tag")
    options = {"arithmetic": arithmetic, "rounding": rounding, "threads": threads}
    rules = tuple(gates.parse(text) for text in written)
    selections = runner.select(
        [runner.override(case, rules, **options) for case in chosen], providers
    )
    if listing or dry_run:
        _show(selections, plain=listing)
        return 0
    named = None if reference == "certified" else reference
    settings = Settings(
        reference=reference,
        determinism=not no_determinism,
        repeats=repeat,
        fresh_process=fresh_process,
        throughput=not no_throughput,
        budget=budget,
        limits=limits,
        second=None if second is None else _available(second, limits),
        words=_words({**options, "reference": named, "second": second}),
        tracebacks=traceback,
    )
    path = output or Path("results") / f"{Path(cases[0]).stem}.json"
    results.check_writable(path)
    reports.check()
    held = baseline.load(approved) if approved is not None else None
    signal.signal(signal.SIGTERM, _interrupt)
    with Bar(quiet=quiet or form != "table") as bar:
        run = runner.run(
            selections,
            settings,
            command=shlex.join(["lsbench", *sys.argv[1:]]),
            fail_fast=fail_fast,
            observer=bar,
            checkpoint=lambda document: results.save(document, path),
        )
    if settings.second is not None:
        settings.second.close()
    judged_by = [selection.case.gates for selection in selections]
    if inject_slowdown or inject_ulp:
        run = settle.judge_again(inject.plant(run, inject_slowdown, inject_ulp), judged_by)
    narrowed = bool(expression or tags or dtypes or providers)
    run = settle.settle(run, judged_by, allow_unused=allow_unused, narrowed=narrowed)
    run = baseline.apply(run, held) if held else run
    results.save(run, path)
    _print(run, form, quiet, path)
    reports.write(run)
    return conclude(run.verdict, run.exit_code)


def _available(name: str, limits: Limits) -> Provider:
    """The provider of that name; raises UsageError where it is unknown or cannot run here."""
    from lsbench.providers.isolation import open_provider

    provider = open_provider(name, limits)
    reason = provider.unavailable()
    if reason is not None:
        raise UsageError(f"--second {name}: {reason}")
    return provider


def _words(options: Mapping[str, object]) -> tuple[str, ...]:
    """The options that were given, as they are written on a command line."""
    given = {name: value for name, value in options.items() if value is not None}
    return tuple(word for name, value in given.items() for word in (f"--{name}", str(value)))


def _interrupt(number: int, frame: object) -> None:
    # A polite kill is an interruption: what is finished is recorded.
    raise KeyboardInterrupt


def _show(selections: list[Selection], *, plain: bool) -> None:
    """List the selected cases, or what would run of each."""
    if plain:
        for name in dict.fromkeys(s.case.name for s in selections):
            click.echo(name)
        return
    for selection in selections:
        case = selection.case
        shape = "x".join(map(str, case.shape)) or "()"
        click.echo(f"{case.name}  {case.dtype} {shape}  {selection.provider}  ({case.source})")
    click.echo(f"{len(selections)} rows would run")


def _print(run: Run, form: str, quiet: bool, path: Path) -> None:
    """Print the run in the form asked for; standard error gets what is no part of that form."""
    from lsbench.report.console import console, print_run, summary

    out = console()
    if quiet:
        click.echo(summary(run))
    elif form == "json":
        from lsbench import results

        click.echo(results.dumps(run))
    elif form == "markdown":
        from lsbench.report.markdown import markdown

        click.echo(markdown(run))
    else:
        print_run(run, out)
        click.echo(f"results: {path}")
