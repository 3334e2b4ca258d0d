"""`lsbench list`: what can be named in a case file or on the command line."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "what",
    default="kernels",
    type=click.Choice(["kernels", "providers", "figures", "layouts", "inputs"]),
)
def command(what: str) -> None:
    """List kernels, providers, figures (for gates), layouts or inputs, a line each."""
    rows = {
        "kernels": _kernels,
        "providers": _providers,
        "figures": _figures,
        "layouts": _layouts,
        "inputs": _inputs,
    }[what]()
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        click.echo(f"{name:<{width}}  {text}")


def _kernels() -> list[tuple[str, str]]:
    from lsbench.providers.kernels import KERNELS

    return [(kernel.name, kernel.summary) for kernel in KERNELS.values()]


def _providers() -> list[tuple[str, str]]:
    from lsbench.providers.registry import names, resolve

    rows = []
    for name in names():
        if name.endswith(":"):
            rows.append((name, "takes an argument"))
        else:
            reason = resolve(name).unavailable()
            rows.append((name, reason or "available"))
    return rows


def _figures() -> list[tuple[str, str]]:
    from lsbench.figures import FIGURES

    return [(figure.name, figure.doc) for figure in FIGURES.values()]


def _layouts() -> list[tuple[str, str]]:
    from lsbench.layouts import LAYOUTS

    return [(name, _first_line(layout)) for name, layout in LAYOUTS.items()]


def _inputs() -> list[tuple[str, str]]:
    from lsbench.inputs import DISTRIBUTIONS

    return [(name, _first_line(made)) for name, made in DISTRIBUTIONS.items()]


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]
