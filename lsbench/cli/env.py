"""`lsbench env`: the machine as a run records it."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Show the processor, its instruction sets, the compiler and the library versions."""
    from dataclasses import asdict

    from lsbench import _kernels, environment

    found = environment.collect()
    sets = _kernels.available()
    if as_json:
        import json

        click.echo(json.dumps({**asdict(found), "instruction_sets": sets}, indent=2))
        return
    for name, value in asdict(found).items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        click.echo(f"{name:<12} {value}")
    for isa, reason in sets.items():
        chosen = " (selected)" if isa == found.isa else ""
        click.echo(f"{'set':<12} {isa}: {reason or 'usable' + chosen}")
