"""How wrong each kernel is over whole spaces: one Markdown table from recorded sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lsbench.parts import KEY
from lsbench.records import Accuracy, Row, Run
from lsbench.report.console import kernel, number, share

HEAD = (
    "| dtype | inputs | kernel | max ulp | at g, x | wrong % | non-finite | zeros lost |\n"
    "|---|---|---|---:|---|---:|---:|---:|\n"
)


def formulas(runs: Iterable[Run]) -> str:
    """A line for every judged row, in the order of the runs.

    ``max ulp`` is the largest error of a finite result where a finite one is right; an infinity in
    its place counts as 2^(emax+1). ``zeros lost`` are zeros where the right result is not zero.
    """
    lines = []
    for run in runs:
        entries = run.extra[KEY]
        assert isinstance(entries, list)
        for row, entry in zip(run.rows, entries, strict=True):
            if row.accuracy is not None:
                lines.append(_line(row, row.accuracy, entry["largest"]))
    return HEAD + "".join(lines)


def _line(row: Row, errors: Accuracy, largest: Mapping[str, Any] | None) -> str:
    at = "" if largest is None else f"{largest['g']['decimal']}, {largest['x']['decimal']}"
    cells = (
        row.dtype,
        f"{row.case}: {errors.elements:,}",
        f"`{kernel(row)}`",
        "<1" if 0.99995 <= errors.max_ulp < 1 else number(errors.max_ulp),
        at,
        share(errors.misrounded, errors.elements),
        f"{errors.nonfinite:,}",
        f"{errors.flushed:,}",
    )
    return "| " + " | ".join(cells) + " |\n"
