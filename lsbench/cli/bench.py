"""`lsbench bench A B`: is B faster than A; `lsbench bench --suite`: the project's own goals."""

from __future__ import annotations

from pathlib import Path

import click

from lsbench.errors import UsageError
from lsbench.formats import FORMATS
from lsbench.rounding import Rounding

MODES = [mode.value for mode in Rounding]


@click.command()
@click.argument("contestants", nargs=-1, metavar="[A B]")
@click.option("--suite", is_flag=True, help="Measure the project's own goals instead.")
@click.option("--dtype", type=click.Choice(list(FORMATS)), default="fp32", show_default=True)
@click.option("--elements", type=click.IntRange(1, 1 << 30), default=1 << 20, show_default=True)
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--rounding", type=click.Choice(MODES), default="rne", show_default=True)
@click.option(
    "--budget",
    type=click.FloatRange(0.05, 3600),
    default=2.0,
    show_default=True,
    help="Seconds of a measurement.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0.001, 1.0),
    default=0.05,
    show_default=True,
    help="Relative change of time that counts.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--no-confirm", is_flag=True, help="Do not repeat a change in a fresh process.")
@click.option("--output", type=click.Path(path_type=Path), help="Write JSON; of --suite too.")
def command(
    contestants: tuple[str, ...],
    suite: bool,
    dtype: str,
    elements: int,
    threads: int,
    rounding: str,
    budget: float,
    tolerance: float,
    seed: int,
    no_confirm: bool,
    output: Path | None,
) -> int:
    """Tell whether provider B is faster than provider A, measured interleaved in one run.

    A and B are provider names; NAME@PYTHON is the provider NAME of the lsbench that another Python
    interpreter has installed, to compare two builds. Inputs: x ~ N(0, 4^2), g ~ N(0, 1).

    \b
    Exit status  0 measured     2 bad usage     3 a contestant could not be run
    """
    if suite:
        from lsbench.suite import run_suite

        run_suite(click.echo, budget=budget, output=output)
        return 0
    if len(contestants) != 2:
        raise UsageError(f"found {len(contestants)} contestants, expected two: lsbench bench A B")
    from lsbench.bench import Load, contest
    from lsbench.throughput import Plan

    first, second = contestants
    load = Load(dtype, elements, threads, rounding, seed)
    plan = Plan(budget=budget, seed=seed)
    found = contest(first, second, load, plan, tolerance=tolerance, confirm=not no_confirm)
    _print(first, second, found)
    if output is not None:
        from lsbench.suite import write_json

        write_json(output, found)
    return 0


def _print(first: str, second: str, found: object) -> None:
    from lsbench.bench import Contest, answer, contestants

    assert isinstance(found, Contest)
    load, measured = found.load, found.measured
    click.echo(f"{load.dtype}, {load.elements:,} elements, {load.threads} threads, {load.rounding}")
    click.echo(f"{'':<20} {'median':>10} {'Gel/s':>7} {'GB/s':>7} {'samples':>7}")
    labels = contestants([first, "A/A", second, "roof"])
    for label, arm in zip(labels, measured.arms, strict=True):
        gelem = load.elements / arm.median * 1e-9
        gb = measured.bytes_per_call / arm.median * 1e-9
        micro = f"{arm.median * 1e6:.1f} us"
        click.echo(f"{label[:20]:<20} {micro:>10} {gelem:7.3f} {gb:7.2f} {len(arm.seconds):7}")
    click.echo(f"A/A floor {100 * found.floor:.1f} %, stopped by {measured.stopped}")
    click.echo(answer(first, second, found))
