"""`lsbench bench A B`: is B faster than A; `lsbench bench --suite`: the project's own goals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lsbench.cli.limits import limit_options
from lsbench.errors import UsageError
from lsbench.formats import FORMATS
from lsbench.rounding import Rounding

if TYPE_CHECKING:
    from lsbench.bench import Contest, NotRun
    from lsbench.load import Load
    from lsbench.providers.isolation import Limits

    _Extents = click.ParamType[tuple[int, ...]]
else:
    _Extents = click.ParamType  # click 8.1 knows no type arguments

MODES = [mode.value for mode in Rounding]


class Shape(_Extents):
    """A shape: extents with an x between them."""

    name = "shape"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The extents; fails for anything but positive whole numbers."""
        if isinstance(value, tuple):
            return value
        words = str(value).split("x")
        if len(words) > 8 or not all(w.isdecimal() and 0 < int(w) < 1 << 31 for w in words):
            self.fail(f"found {value!r}, expected up to 8 extents such as 1048576 or 4096x4096")
        return tuple(int(word) for word in words)


@click.command()
@click.argument("contestants", nargs=-1, metavar="[A B...]")
@click.option("--suite", is_flag=True, help="Measure the project's own goals instead.")
@click.option("--build", metavar="PYTHON", help="A is the A of the lsbench this Python has.")
@click.option("--case", "cases", multiple=True, metavar="FILE", help="Tensors of these cases.")
@click.option("-k", "expression", default="", help="Cases by name: words with and, or, not.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(FORMATS)))
@click.option("--shape", "shapes", multiple=True, type=Shape(), help="[1048576]")
@click.option("--threads", "counts", multiple=True, type=click.IntRange(1, 1024), help="[1]")
@click.option("--rounding", type=click.Choice(MODES), help="[rne]")
@click.option("--cold", is_flag=True, help="Other tensors every run: none in a cache.")
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
@limit_options
@click.option("--output", type=click.Path(path_type=Path), help="Write JSON; of --suite too.")
def command(
    contestants: tuple[str, ...],
    suite: bool,
    build: str | None,
    cases: tuple[str, ...],
    expression: str,
    dtypes: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    counts: tuple[int, ...],
    rounding: str | None,
    cold: bool,
    budget: float,
    tolerance: float,
    seed: int,
    no_confirm: bool,
    limits: Limits,
    output: Path | None,
) -> int:
    """Tell whether provider B is faster than provider A, measured interleaved in one run.

    A and B are provider names; NAME@PYTHON is the provider NAME of the lsbench that another Python
    interpreter has installed, to compare two builds: `bench fast --build PYTHON` asks whether fast
    is faster here than there. Tensors: x ~ N(0, 4^2), g ~ N(0, 1), or those of cases. Options that
    can be given more than once are crossed.

    \b
    Exit status  0 measured     2 bad usage     3 a contestant failed
    """
    from lsbench.cli.progress import Meter
    from lsbench.throughput import Plan

    if output is not None:
        from lsbench.output import check_writable

        check_writable(output)
    if suite:
        from lsbench.suite import run_suite

        with Meter() as meter:
            run_suite(meter.say, Plan(budget=budget, seed=seed, tell=meter.tell), output=output)
        return 0
    names = [f"{contestants[0]}@{build}", *contestants] if build and contestants else contestants
    if len(names) < 2:
        raise UsageError(f"found {len(names)} contestants, expected two: lsbench bench A B")
    from lsbench.bench import NotRun, contest
    from lsbench.errors import ProviderError
    from lsbench.exits import EXIT_NOT_RUN, EXIT_PASS
    from lsbench.output import write_json

    if cases and (shapes or rounding):
        raise UsageError("--case brings shape and rounding along: expected no --shape, --rounding")
    if expression and not cases:
        raise UsageError("-k chooses among cases: expected --case FILE")
    if cases:
        loads = list(_of_cases(cases, expression, dtypes, counts, cold))
    else:
        loads = list(_drawn(dtypes, shapes, counts, rounding or "rne", seed, cold))
    # What drifts over the run must not look like an effect of the order.
    random.Random(seed).shuffle(loads)
    found: list[Contest | NotRun] = []
    with Meter() as meter:
        plan = Plan(budget=budget, seed=seed, tell=meter.tell)
        for load in loads:
            title = load.title()
            meter.name(title)
            try:
                done = contest(
                    names,
                    load,
                    plan,
                    tolerance=tolerance,
                    confirm=not no_confirm,
                    limits=limits,
                )
                found.append(done)
                meter.say("\n".join(_lines(done)))
            except ProviderError as error:
                found.append(NotRun(title, tuple(names), error.verdict, str(error)))
                meter.say(f"{title}\nnot measured: {error}")
            if output is not None:
                write_json(output, found)
    return EXIT_NOT_RUN if any(isinstance(one, NotRun) for one in found) else EXIT_PASS


def _drawn(
    dtypes: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    counts: tuple[int, ...],
    rounding: str,
    seed: int,
    cold: bool,
) -> Iterator[Load]:
    from itertools import product

    from lsbench.load import Load

    for dtype, shape, threads in product(
        dtypes or ("fp32",), shapes or ((1 << 20,),), counts or (1,)
    ):
        yield Load(dtype, shape, threads, rounding, seed, cold)


def _of_cases(
    paths: tuple[str, ...],
    expression: str,
    dtypes: tuple[str, ...],
    counts: tuple[int | None, ...],
    cold: bool,
) -> Iterator[Load]:
    from lsbench import cases
    from lsbench.errors import SelectionError
    from lsbench.load import Load
    from lsbench.selection import choose

    chosen = choose(cases.load(paths), expression=expression, tags=(), dtypes=dtypes)
    computed = [case for case in chosen if not case.expect]
    if not computed:
        raise SelectionError("no case was selected that computes anything")
    for case in computed:
        for threads in counts or (None,):
            path = case.source.rpartition(":")[0]
            yield Load(threads=threads, cold=cold, case=path, name=case.name)


def _lines(found: Contest) -> Iterator[str]:
    import numpy as np

    from lsbench.bench import answer, labels
    from lsbench.report.labels import cut
    from lsbench.statistics import paired

    measured = found.measured
    yield found.title
    head = f"{'':<24} {'median':>10} {'iqr %':>6} {'Gel/s':>7} {'GB/s':>7} {'roof':>5} {'n':>5}"
    yield head
    arms = dict(zip(labels(found.names), measured.arms, strict=True))
    columns = cut(arms, 24)
    for label, arm in arms.items():
        gelem, gb = (n / arm.median * 1e-9 for n in (found.elements, measured.bytes_per_call))
        share = np.median(paired(measured.arms[-1], arm))
        median, iqr = f"{arm.median * 1e6:.1f} us", 100 * arm.iqr / arm.median
        yield (
            f"{columns[label]:<24} {median:>10} {iqr:6.1f} {gelem:7.3f} {gb:7.2f} "
            f"{share:5.2f} {len(arm.seconds):5}"
        )
    floor = f"A/A floor {100 * found.floor:.1f} %, stopped by {measured.stopped}"
    yield ", ".join([floor, *measured.flags])
    for rival in found.rivals:
        yield answer(found, rival)
