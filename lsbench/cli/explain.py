"""`lsbench explain`: one pair, told to a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lsbench.cli.limits import limit_options
from lsbench.formats import FORMATS
from lsbench.rounding import DETERMINISTIC

if TYPE_CHECKING:
    from lsbench.explain import Explanation
    from lsbench.providers.isolation import Limits
    from lsbench.records import Value
    from lsbench.steps import Trace


@click.command()
@click.option(
    "--g", "g_text", required=True, help="grad_output: decimal, hex, max, inf, bits:0x..."
)
@click.option("--x", "x_text", required=True, help="self, written likewise.")
@click.option("--dtype", type=click.Choice(list(FORMATS)), default="fp32", show_default=True)
@click.option("--kernel", "--provider", "providers", multiple=True, help="Whose answer to show.")
@click.option(
    "--arithmetic",
    "arithmetics",
    multiple=True,
    type=click.Choice(list(FORMATS)),
    help="Of the traced formulas [fp32 and the dtype].",
)
@click.option(
    "--rounding", type=click.Choice([mode.value for mode in DETERMINISTIC]), default="rne"
)
@limit_options
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def command(
    g_text: str,
    x_text: str,
    dtype: str,
    providers: tuple[str, ...],
    arithmetics: tuple[str, ...],
    rounding: str,
    limits: Limits,
    form: str,
) -> None:
    """Explain one pair: the exact value, each provider's error, each formula's every step.

    \b
    lsbench explain --dtype fp16 --g 60000 --x 20.015625 --provider torch
    """
    from lsbench.codec import encode
    from lsbench.explain import explain, value_of
    from lsbench.providers.isolation import opened
    from lsbench.rounding import Rounding

    fmt = FORMATS[dtype]
    names = arithmetics or tuple(dict.fromkeys(("fp32", dtype)))
    g_bits, x_bits = value_of(fmt, g_text), value_of(fmt, x_text)
    with opened(providers or ("exact", "fast"), limits) as asked:
        told = explain(
            fmt,
            g_bits,
            x_bits,
            asked,
            mode=Rounding(rounding),
            arithmetics=[FORMATS[name] for name in names],
        )
    if form == "json":
        click.echo(json.dumps(encode(told), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(_lines(told)))


def _lines(told: Explanation) -> list[str]:
    fmt = FORMATS[told.dtype]
    g, x = (f"{fmt.to_float(int(v.hex, 16))!r} ({v.hex})" for v in (told.g, told.x))
    lines = [
        f"g = {g}, x = {x} in {told.dtype}, rounded {told.rounding}",
        "",
        f"exact    {told.exact}",
    ]
    if told.rule:
        lines.append(f"rule     {told.rule}")
    if told.below is not None and told.above is not None and told.below != told.above:
        lines.append(f"below    {_shown(told.below)}")
        lines.append(f"above    {_shown(told.above)}")
        lines.append(f"between  {told.between:.9g} of the way up")
    lines += [f"correct  {_shown(told.correct)}", ""]
    width = max((len(a.provider) for a in told.answers), default=0)
    for answer in told.answers:
        if answer.computed is None:
            lines.append(f"{answer.provider:<{width}}  no answer: {answer.note}")
            continue
        error = "no error defined" if answer.ulp is None else f"{answer.ulp:+.6g} ulp"
        word = "correct" if answer.correct else "WRONG" if _far(answer.ulp) else "misrounded"
        lines.append(
            f"{answer.provider:<{width}}  {_shown(answer.computed)}  {error}, {word}  "
            f"({answer.version})"
        )
        if answer.note:
            lines.append(f"{'':<{width}}  {answer.note}")
    for trace in told.traces:
        lines += ["", *_trace(trace)]
    return lines


def _far(ulp: float | None) -> bool:
    return ulp is None or abs(ulp) >= 1


def _trace(trace: Trace) -> list[str]:
    error = "no error defined" if trace.ulp is None else f"{trace.ulp:+.6g} ulp"
    rows = [("step", "rounded to", "computed", "exact", "brought, ulp")]
    rows += [
        (
            f"{step.name} = {step.expression}",
            step.fmt,
            f"{step.computed.decimal} ({step.computed.hex})",
            step.exact,
            "-" if step.brought is None else f"{step.brought:+.6g}",
        )
        for step in trace.steps
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [f"{trace.kernel} in {trace.arithmetic}: {_shown(trace.result)}, {error}"]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append("  " + "  ".join([*cells, row[-1].rjust(widths[-1])]))
    lines.append(f"  entered: {trace.entered}")
    if not trace.agrees:
        lines.append("  the compiled kernel differs: its exp is good to 2^-51, which decided here")
    return lines


def _shown(value: Value) -> str:
    return f"{value.decimal} ({value.hex})"
