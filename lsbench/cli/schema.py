"""`lsbench schema`: the JSON Schema that editors complete case files from."""

from __future__ import annotations

import json

import click


@click.command()
def command() -> None:
    """Print the JSON Schema (draft 7) of case files, made from the models that validate them."""
    from lsbench.cases.schema import schema

    click.echo(json.dumps(schema(), indent=2))
