"""Reports: a run in words, one module per form; a report says, and computes nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from lsbench.errors import UsageError
from lsbench.records import Run

KINDS = {
    "junit": "lsbench.report.junit:junit",
    "markdown": "lsbench.report.markdown:markdown",
    "github": "lsbench.report.github:github",
    "sarif": "lsbench.report.sarif:sarif",
    "csv": "lsbench.report.csv:csv",
    "json": "lsbench.results:dumps",
}
"""Kind → "module:function", a function from a run to text."""


def render(run: Run, kind: str) -> str:
    """The report of a run as text; raises UsageError for an unknown kind."""
    if kind not in KINDS:
        raise UsageError(f"unknown report {kind!r}: expected one of {', '.join(KINDS)}")
    module, _, function = KINDS[kind].partition(":")
    made: Callable[[Run], str] = getattr(import_module(module), function)
    return made(run)


def write(run: Run, kind: str, path: str | Path) -> None:
    """Write one report atomically; raises OutputError where it cannot be written."""
    from lsbench import output

    output.write(path, render(run, kind))
