"""`lsbench export`: the inputs of cases as files, for a machine without lsbench."""

from __future__ import annotations

from pathlib import Path

import click

from lsbench.errors import SelectionError
from lsbench.formats import FORMATS

FORMS = ("npy", "bin", "npz", "safetensors", "pt")


@click.command()
@click.argument("cases", nargs=-1, required=True, metavar="CASES... DIR")
@click.option("-k", "expression", default="", help="Cases by name: words with and, or, not.")
@click.option("--tag", "tags", multiple=True, help="Cases with this tag; repeatable.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(FORMATS)))
@click.option("--form", type=click.Choice(FORMS), default="npy", show_default=True)
@click.option("--strided", is_flag=True, help="Tensors with strides as their whole storage.")
def command(
    cases: tuple[str, ...],
    expression: str,
    tags: tuple[str, ...],
    dtypes: tuple[str, ...],
    form: str,
    strided: bool,
) -> None:
    """Write the inputs of cases and a manifest into a new folder.

    Compute each gradInput where you like, put it where the manifest says, and judge it with
    lsbench check DIR. bf16 has no type in .npy, .npz and .bin: it is written as its bit patterns in
    uint16, and so it may come back.
    """
    from lsbench import exchange
    from lsbench.cases import load
    from lsbench.selection import choose

    if len(cases) < 2:
        raise click.UsageError("expected one case file or more, and the folder to write")
    chosen = choose(load(cases[:-1]), expression=expression, tags=tags, dtypes=dtypes)
    if not chosen:
        raise SelectionError("no case was selected: see lsbench run --list without -k and --tag")
    folder = Path(cases[-1])
    manifest = exchange.export(chosen, folder, form=form, strided=strided)
    left = len(chosen) - len(manifest.cases)
    note = f", {left} without a computation left out" if left else ""
    click.echo(f"{len(manifest.cases)} cases in {folder / exchange.MANIFEST}{note}")
