"""`lsbench check`: judge tensors that were computed elsewhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lsbench.cli.reports import Reports, conclude, report_options
from lsbench.errors import SelectionError, UsageError
from lsbench.formats import FORMATS
from lsbench.rounding import Rounding

if TYPE_CHECKING:
    from lsbench.check import Dump
    from lsbench.gates import GateRule
    from lsbench.records import Run

TENSORS = ("grad_output", "self", "grad_input")
Integers = dict[str, tuple[int, ...]]


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--grad-output", help="File, or FILE:KEY of a file with several tensors.")
@click.option("--self", "self_", help="Likewise.")
@click.option("--grad-input", help="Likewise: what is judged.")
@click.option("--dtype", type=click.Choice(list(FORMATS)), help="Of raw files and bit patterns.")
@click.option("--shape", help="As 4,1024; of raw files.")
@click.option(
    "--strides", multiple=True, metavar="[TENSOR=]N,N", help="In elements; repeatable a tensor."
)
@click.option("--offset", multiple=True, metavar="[TENSOR=]N", help="In elements, likewise.")
@click.option("--provider", default="dump", show_default=True, help="Who computed, for the table.")
@click.option(
    "--rounding",
    type=click.Choice([mode.value for mode in Rounding]),
    default="rne",
    help="That gradInput claims.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=0, help="Of sr.")
@click.option("--ftz", is_flag=True, help="Subnormal results are flushed, and declared so.")
@click.option("--reference", type=click.Choice(["certified", "mpmath", "arb"]), default="certified")
@click.option(
    "--gates", "cases", type=click.Path(path_type=Path), help="A case file, for its gates."
)
@click.option("--gate", "written", multiple=True, metavar="RULE", help="As max_ulp<=1; repeatable.")
@click.option("--output", type=click.Path(path_type=Path), help="Results file.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("-q", "--quiet", is_flag=True, help="Print the closing line only.")
@report_options
def command(
    folder: Path | None,
    grad_output: str | None,
    self_: str | None,
    grad_input: str | None,
    dtype: str | None,
    shape: str | None,
    strides: tuple[str, ...],
    offset: tuple[str, ...],
    provider: str,
    rounding: str,
    seed: int,
    ftz: bool,
    reference: str,
    cases: Path | None,
    written: tuple[str, ...],
    output: Path | None,
    form: str,
    quiet: bool,
    reports: Reports,
) -> int:
    """Judge a gradInput from elsewhere, or what came back to an exported folder.

    \b
    lsbench check DIR
    lsbench check --grad-output g.npy --self x.npy --grad-input y.npy
    lsbench check --grad-output g.bin --self x.bin --grad-input y.bin
                  --dtype bf16 --shape 4,1024

    Files are .npy, .npz, .safetensors, .pt (weights only), or raw .bin, .raw, .dat, little endian.
    """
    from lsbench import gates, results, settle
    from lsbench.check import Clock, check, check_folder
    from lsbench.records import Options

    files = {"grad_output": grad_output, "self": self_, "grad_input": grad_input}
    given = {name: path for name, path in files.items() if path is not None}
    if (folder is None) == (len(given) < 3) or (folder is not None and given):
        raise UsageError("expected a folder, or --grad-output, --self and --grad-input")
    rules = [*_gates_of(cases), *(gates.parse(text) for text in written)]
    if output is not None:
        results.check_writable(output)
    reports.check()
    clock = Clock()
    if folder is not None:
        rows, held = check_folder(folder, provider=provider, rules=rules, reference=reference)
        if not rows:
            raise SelectionError(f"{folder} holds no case")
    else:
        options = Options(rounding=rounding, seed=seed, ftz=ftz)
        dump = _dump(given, dtype, _integers(shape, "--shape"), _per(strides), _per(offset))
        dump = _with(dump, provider, options)
        rows, held = [check(dump, rules, reference=reference)], [tuple(rules)]
    run = clock.run(rows, shlex.join(["lsbench", *sys.argv[1:]]))
    # What came back may be a part: the cases' own gates need not be exercised, the others must.
    run = settle.settle(run, held, narrowed=folder is not None)
    if output is not None:
        results.save(run, output)
    _print(run, form, quiet)
    reports.write(run)
    return conclude(run.verdict, run.exit_code)


def _gates_of(cases: Path | None) -> list[GateRule]:
    """Every gate of a case file, each once."""
    if cases is None:
        return []
    from lsbench.cases import load

    return list(dict.fromkeys(rule for case in load([str(cases)]) for rule in case.gates))


def _with(dump: Dump, provider: str, options: Any) -> Dump:
    from dataclasses import replace

    return replace(dump, provider=provider, options=options)


def _dump(
    files: dict[str, str],
    dtype: str | None,
    shape: tuple[int, ...] | None,
    strides: Integers,
    offset: Integers,
) -> Dump:
    from lsbench import dumps
    from lsbench.check import Dump
    from lsbench.formats import by_dtype, by_name

    fmt = None if dtype is None else by_name(dtype)
    arrays = {}
    for name in TENSORS:
        arrays[name] = dumps.read(
            files[name],
            fmt=fmt,
            shape=shape,
            strides=strides.get(name),
            offset=offset.get(name, (0,))[0],
            name=name,
        )
        if fmt is None:
            fmt = by_dtype(arrays[name].dtype)
    assert fmt is not None
    source = files["grad_input"]
    return Dump(fmt, arrays["grad_output"], arrays["self"], arrays["grad_input"], source=source)


def _integers(text: str | None, option: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise UsageError(f"{option} {text}: expected integers, as 4,1024") from None


def _per(words: tuple[str, ...]) -> Integers:
    """``[TENSOR=]N,N`` → tensor → integers; without a tensor for all of them."""
    found: Integers = {}
    for word in words:
        tensor, equals, numbers = word.rpartition("=")
        tensor = tensor.replace("-", "_")
        if equals and tensor not in TENSORS:
            raise UsageError(f"{word}: expected one of {', '.join(TENSORS)} before =")
        integers = _integers(numbers, word) or ()
        found |= dict.fromkeys([tensor] if equals else TENSORS, integers)
    return found


def _print(run: Run, form: str, quiet: bool) -> None:
    from lsbench import results
    from lsbench.report.console import console, print_run, summary

    if quiet:
        click.echo(summary(run))
    elif form == "json":
        click.echo(results.dumps(run))
    else:
        print_run(run, console())
