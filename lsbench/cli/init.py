"""`lsbench init`: a starter case file."""

from __future__ import annotations

from pathlib import Path

import click

from lsbench.errors import OutputError, UsageError


@click.command()
@click.argument("path", default="cases.yaml", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def command(path: Path, force: bool) -> None:
    """Write a commented starter case file to PATH (cases.yaml)."""
    from lsbench.cases.starter import STARTER

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(STARTER)
    except FileExistsError:
        raise UsageError(f"{path}: is there already: expected a new file, or --force") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    click.echo(f"wrote {path}; now: lsbench run {path}")
