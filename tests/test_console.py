"""The console report: figures of a fixed width, worst elements, commands that can be copied."""

from __future__ import annotations

import io
from dataclasses import replace

import made
import pytest
from rich.console import Console

from lsbench import standards
from lsbench.records import Standard
from lsbench.report.console import (
    STANDARDS,
    WIDTH,
    kernel,
    number,
    passes,
    print_run,
    share,
    summary,
)


def printed(run, width=WIDTH, **options):
    out = io.StringIO()
    print_run(run, Console(file=out, width=width, highlight=False, **options))
    return out.getvalue()


def test_numbers_fit_their_column():
    for value in (0.0, 0.5, 2.2204, 12.34, 2042.66, 16777216.0, 1e300, 1e-9, None, 99999.96):
        assert len(number(value)) <= 8


def test_a_share_is_0_only_for_0():
    assert share(0, 10) == "0"
    assert share(1, 10**9) == "<0.01"
    assert share(1, 4) == "25.00"


@pytest.mark.parametrize("width", [80, WIDTH])
def test_figures_and_commands(width):
    run = made.run(made.row(), made.skipped())
    text = printed(run, width)
    for row in run.rows:
        assert row.case in text
        assert row.reproduce in text
        worst = row.accuracy.worst if row.accuracy else None
        if worst is not None:
            assert worst.g.hex in text
            assert worst.exact in text
    assert summary(run) in text
    assert "\x1b" not in text


def test_a_kernel_is_named_with_what_differs_from_the_usual():
    row = made.run(made.row(), made.skipped()).rows[0]
    options = replace(row.options, arithmetic="fp16", rounding="rtz", ftz=True)
    assert kernel(replace(row, provider="ascend", options=options)) == "ascend/fp16/ftz rtz"


def test_the_standards_that_a_row_passes_are_letters():
    names = list(STANDARDS)
    held = tuple(Standard(name, name != "exact", {}) for name in names)
    assert passes(replace(made.row(), standards=held)) == "tmxrf."
    assert passes(made.skipped()) == "-"
    assert set(STANDARDS) == set(standards.NAMES)


def test_an_interrupted_run_says_so():
    assert "interrupted" in summary(replace(made.run(made.row(), made.skipped()), complete=False))
