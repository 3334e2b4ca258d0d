"""`lsbench worst`: search for the largest error of a provider, and write it down as a case."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lsbench.cli.limits import limit_options
from lsbench.formats import FORMATS
from lsbench.rounding import DETERMINISTIC

if TYPE_CHECKING:
    from lsbench.providers.isolation import Limits
    from lsbench.worst import Found

    _Seconds = click.ParamType[float]
else:
    _Seconds = click.ParamType  # click 8.1 knows no type arguments

_UNITS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600}


class Seconds(_Seconds):
    """A time, written as 30, 30s, 2min or 1h."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The time in seconds, more than 0."""
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|m|h|)\s*", str(value))
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if seconds <= 0:
            self.fail(f"found {value!r}: expected a time such as 30s or 2min", param, ctx)
        return seconds


@click.command()
@click.option("--kernel", "--provider", "name", required=True, help="Whose errors to look for.")
@click.option("--dtype", type=click.Choice(list(FORMATS)), default="fp32", show_default=True)
@click.option("--budget", type=Seconds(), default="30s", show_default=True, help="Of the search.")
@click.option("--rounds", type=click.IntRange(1), help="Exactly so many rounds: repeats a search.")
@click.option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=0, show_default=True)
@click.option("--arithmetic", type=click.Choice(list(FORMATS)), default="fp32", help="Of kernels.")
@click.option(
    "--rounding", type=click.Choice([mode.value for mode in DETERMINISTIC]), default="rne"
)
@limit_options
@click.option("--output", type=click.Path(path_type=Path), help="Case file [worst-DTYPE.yaml].")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def command(
    name: str,
    dtype: str,
    budget: float,
    rounds: int | None,
    seed: int,
    arithmetic: str,
    rounding: str,
    limits: Limits,
    output: Path | None,
    form: str,
    quiet: bool,
) -> int:
    """Search g and x for the largest error of a provider and write it as a case file.

    \b
    lsbench worst --provider torch --dtype fp32 --budget 30s

    \b
    Exit status  0 searched     2 bad usage     3 the provider failed
    """
    from lsbench import output as files
    from lsbench import worst
    from lsbench.codec import encode
    from lsbench.exits import EXIT_NOT_RUN, EXIT_PASS
    from lsbench.providers.isolation import opened
    from lsbench.records import Options

    path = output or Path(f"worst-{dtype}.yaml")
    files.check_writable(path)
    with opened([name], limits) as (provider,):
        found = worst.search(
            provider,
            FORMATS[dtype],
            budget=budget,
            rounds=rounds,
            seed=seed,
            options=Options(arithmetic=arithmetic, rounding=rounding),
            observer=None if quiet else _progress,
        )
    if not quiet:
        click.echo("\r\033[K" if _terminal() else "", err=True, nl=False)
    files.write(path, worst.case_file(found))
    if form == "json":
        click.echo(json.dumps(encode(found), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join([*_lines(found), f"case file: {path}"]))
    return EXIT_NOT_RUN if found.failure else EXIT_PASS


def _terminal() -> bool:
    return sys.stderr.isatty()


def _progress(rounds: int, pairs: int, ulp: float) -> None:
    if _terminal():
        click.echo(f"\r\033[K{pairs:,} pairs, worst {ulp:.6g} ulp", err=True, nl=False)


def _lines(found: Found) -> list[str]:
    lines = [
        f"{found.provider} ({found.version}) in {found.dtype}: {found.pairs:,} pairs in "
        f"{found.seconds:g} s",
        f"repeat with --seed {found.seed} --rounds {found.rounds}",
    ]
    if found.failure:
        lines.append(found.failure)
    if found.worst is not None and found.worst.ulp is not None:
        at = found.worst
        lines += [
            "",
            f"largest error  {at.ulp:+.9g} ulp",
            f"  g        {at.g.decimal} ({at.g.hex})",
            f"  x        {at.x.decimal} ({at.x.hex})",
            f"  computed {at.computed.decimal} ({at.computed.hex})",
            f"  correct  {at.correct.decimal} ({at.correct.hex})",
            f"  exact    {at.exact}",
        ]
    if found.nonfinite is not None:
        at = found.nonfinite
        lines += [
            "",
            f"nonfinite      g {at.g.decimal} ({at.g.hex}), x {at.x.decimal} ({at.x.hex})",
        ]
        lines.append(f"  computed {at.computed.decimal}, correct {at.correct.decimal}")
    if found.moved is not None:
        moved, two = found.moved, found.moved.difference
        lines += [
            "",
            f"bits depend on {moved.axis}: g {moved.g.decimal} ({moved.g.hex}), "
            f"x {moved.x.decimal} ({moved.x.hex})",
            f"  {two.variants[0]} {two.first.decimal} ({two.first.hex}), "
            f"{two.variants[1]} {two.second.decimal} ({two.second.hex})",
        ]
    return [*lines, ""]
