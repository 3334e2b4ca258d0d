"""What commands share that run other people's code: a child process for it, and its limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --isolate, --timeout and --memory to a command, which gets them as ``limits``."""

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        from lsbench.providers.isolation import Limits

        isolate, timeout, memory = (options.pop(n) for n in ("isolate", "timeout", "memory"))
        limits = Limits(isolate, timeout, None if memory is None else memory << 20)
        return function(*args, limits=limits, **options)

    made: Callable[..., Any] = wrapped
    for option in (
        click.option(
            "--memory",
            type=click.IntRange(16),
            metavar="MIB",
            help="Of an isolated provider [4/5 of free].",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(0.1),
            default=60.0,
            help="Of an isolated call, in s.",
        ),
        click.option("--isolate/--no-isolate", default=None, help="Providers in a child process."),
    ):
        made = option(made)
    return made
