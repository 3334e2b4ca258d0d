"""`lsbench sweep`: a provider over a whole space, every element judged."""

from __future__ import annotations

import itertools
import re
import shlex
import signal
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from lsbench.cli.limits import limit_options
from lsbench.cli.reports import Reports, conclude, report_options
from lsbench.errors import UsageError
from lsbench.formats import FORMATS
from lsbench.rounding import Rounding

if TYPE_CHECKING:
    from lsbench.gates import GateRule
    from lsbench.parts import Part
    from lsbench.plan import Plan
    from lsbench.providers.isolation import Limits
    from lsbench.records import Options, Run

    _Number = click.ParamType[int]
else:
    _Number = click.ParamType  # click 8.1 knows no type arguments

SPACES = ("pairs", "unary", "random", "hard")
TENSORS = ("grad_output", "self", "grad_input")
_PART = re.compile(r"(\d{1,6})/(\d{1,6})")


class Sweep(click.Command):
    """A command whose ``--g`` takes several values in a row: ``--g 1 1.5 -0x1p-3 pi``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat ``--g`` before each of its values."""
        spelt: list[str] = []
        after_g = False
        for word in args:
            if word.startswith("-") and not re.match(r"-(\d|\.\d|max|inf)", word):
                after_g = word == "--g"
                spelt += [] if after_g else [word]
            else:
                spelt += [f"--g={word}"] if after_g else [word]
        return super().parse_args(ctx, spelt)


class Count(_Number):
    """A number of elements as people write it: 1000000 or 1e6."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read it; anything but a whole number from 1 to 2^62 is told."""
        try:
            number = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            number = Fraction(0)
        if number.denominator != 1 or not 1 <= number <= 1 << 62:
            self.fail(f"found {value!r}: expected a whole number from 1 to 2^62", param, ctx)
        return int(number)


@click.command(cls=Sweep)
@click.option("--space", type=click.Choice(SPACES), help="What to cover.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(FORMATS)))
@click.option("--kernel", "--provider", "providers", multiple=True, help="Repeatable.")
@click.option("--g", "values", multiple=True, help="Of unary: decimal, hex, pi, max, min, bits:...")
@click.option("--count", type=Count(), help="Of random: number of elements.")
@click.option(
    "--pairs",
    "stored",
    type=click.Path(path_type=Path),
    default=Path("cases/hard.csv"),
    show_default=True,
    help="Of hard: the file of pairs.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), default=0, show_default=True)
@click.option("--arithmetic", "arithmetics", multiple=True, type=click.Choice(list(FORMATS)))
@click.option(
    "--rounding", "modes", multiple=True, type=click.Choice([mode.value for mode in Rounding])
)
@click.option("--ftz", is_flag=True, help="Subnormal results are flushed to zero.")
@click.option("--block", type=click.IntRange(1), help="Elements per block of a kernel.")
@click.option("--layout", "layouts", multiple=True, help="NAME for all tensors, or TENSOR=NAME.")
@click.option("--reference", type=click.Choice(["certified", "mpmath", "arb"]), default="certified")
@click.option("--threads", type=click.IntRange(1, 1024), help="Default: one per processor.")
@click.option("--shard", "part", default="1/1", metavar="I/N", help="Only part I of N.")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of that scheduler.")
@click.option("--resume", type=click.Path(path_type=Path), help="Continue the sweep in this file.")
@limit_options
@click.option("--gate", "rules", multiple=True, metavar="RULE", help="As max_ulp<=1; repeatable.")
@click.option("--output", type=click.Path(path_type=Path), help="Results file.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("-q", "--quiet", is_flag=True, help="Print the closing lines only.")
@report_options
def command(
    space: str | None,
    dtypes: tuple[str, ...],
    providers: tuple[str, ...],
    values: tuple[str, ...],
    count: int | None,
    stored: Path,
    seed: int,
    arithmetics: tuple[str, ...],
    modes: tuple[str, ...],
    ftz: bool,
    block: int | None,
    layouts: tuple[str, ...],
    reference: str,
    threads: int | None,
    part: str,
    dask: str | None,
    resume: Path | None,
    limits: Limits,
    rules: tuple[str, ...],
    output: Path | None,
    form: str,
    quiet: bool,
    reports: Reports,
) -> int:
    """Run providers over whole spaces and judge every element.

    \b
    pairs   all 2^32 pairs of bit patterns of fp16 or bf16
    unary   all x of a dtype for each g
    random  pairs stratified over all exponents
    hard    stored pairs closest to a border of rounding

    Several dtypes, providers, values of g, arithmetics and roundings are crossed, a row each. What
    is finished is kept after every shard: --resume FILE goes on with it, and lsbench merge adds the
    files of --shard 1/N to N/N together.
    """
    from lsbench import gates, results
    from lsbench.parts import Part, parts_of, resumable
    from lsbench.plan import Plan
    from lsbench.records import Options
    from lsbench.settle import settle

    if resume is not None:
        if space is not None or providers:
            raise UsageError(
                "--resume takes the sweep from its file: leave out --space and the rest"
            )
        held = parts_of(results.load(resume), str(resume))
        parts, path = [resumable(one, str(resume), limits) for one in held], output or resume
    else:
        if space is None or not dtypes or not providers:
            raise UsageError("expected --space, --dtype and --kernel (or --resume FILE)")
        plans = _plans(
            Plan,
            space,
            dtypes,
            providers,
            values,
            count,
            stored,
            [
                Options(arithmetic, mode, ftz, block, None, seed)
                for arithmetic in arithmetics or ("fp32",)
                for mode in modes or ("rne",)
            ],
            _layouts(layouts),
            reference,
        )
        parts = [Part.begin(plan, _part(part), limits) for plan in plans]
        path = output or _path(space, dtypes, part)
    bounds = [gates.parse(rule) for rule in rules]
    results.check_writable(path)
    reports.check()
    signal.signal(signal.SIGTERM, _interrupt)
    quietly = quiet or form != "table"
    run = _sweep(parts, threads, dask, bounds, path, limits, quiet=quietly)
    run = settle(run, [bounds] * len(run.rows))
    results.save(run, path)
    _print(run, form, quiet, path)
    reports.write(run)
    return conclude(run.verdict, run.exit_code)


def _plans(
    plan: type[Plan],
    space: str,
    dtypes: tuple[str, ...],
    providers: tuple[str, ...],
    values: tuple[str, ...],
    count: int | None,
    stored: Path,
    options: list[Options],
    layout: dict[str, str],
    reference: str,
) -> list[Plan]:
    """The cross product of what was given several times."""
    from lsbench.spaces import parse_value, read_pairs

    return [
        plan(
            space,
            dtype,
            provider,
            chosen,
            g=None if text is None else parse_value(FORMATS[dtype], text),
            count=count,
            pairs=read_pairs(stored, FORMATS[dtype]) if space == "hard" else (),
            layout=layout,
            reference=reference,
        )
        for dtype, provider, chosen, text in itertools.product(
            dtypes, providers, options, values or (None,)
        )
    ]


def _layouts(words: tuple[str, ...]) -> dict[str, str]:
    layout: dict[str, str] = {}
    for word in words:
        tensor, equals, name = word.rpartition("=")
        if equals and tensor not in TENSORS:
            raise UsageError(f"--layout {word}: expected one of {', '.join(TENSORS)} before =")
        layout |= dict.fromkeys([tensor] if equals else TENSORS, name)
    return layout


def _part(text: str) -> tuple[int, int]:
    match = _PART.fullmatch(text)
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {text}: expected I/N with 1 <= I <= N, as 2/4")
    return number, of


def _path(space: str, dtypes: tuple[str, ...], part: str) -> Path:
    suffix = "" if part == "1/1" else "-" + part.replace("/", "-of-")
    return Path("results") / f"sweep-{space}-{'-'.join(dict.fromkeys(dtypes))}{suffix}.json"


def _sweep(
    parts: list[Part],
    threads: int | None,
    dask: str | None,
    rules: list[GateRule],
    path: Path,
    limits: Limits,
    *,
    quiet: bool,
) -> Run:
    from lsbench import results, sweep
    from lsbench.cli.rate import Rate

    with Rate(quiet=quiet) as rate:
        return sweep.sweep(
            parts,
            threads=threads,
            dask=dask,
            rules=rules,
            command=shlex.join(["lsbench", *sys.argv[1:]]),
            observer=rate,
            checkpoint=lambda run: results.save(run, path),
            limits=limits,
        )


def _interrupt(number: int, frame: object) -> None:
    # A polite kill is an interruption: what is finished is recorded.
    raise KeyboardInterrupt


def _print(run: Run, form: str, quiet: bool, path: Path) -> None:
    from lsbench import results
    from lsbench.parts import KEY
    from lsbench.report.console import console
    from lsbench.report.sweep import print_sweep

    if form == "json":
        click.echo(results.dumps(run))
        return
    print_sweep(run, console(), brief=quiet)
    click.echo(f"results: {path}")
    if not run.complete:
        click.echo(f"interrupted: go on with lsbench sweep --resume {path}")
    elif any(part["lost"] for part in cast(list[dict[str, object]], run.extra[KEY])):
        click.echo(f"shards were lost: try them again with lsbench sweep --resume {path}")
