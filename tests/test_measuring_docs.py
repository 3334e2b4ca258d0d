"""The page on measuring names what there is: every axis, standard and option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lsbench import determinism, standards, throughput
from lsbench.bench import LEAST_BLOCKS
from lsbench.cli.bench import command

PAGE = (Path(__file__).parents[1] / "docs" / "measuring.md").read_text()


@pytest.mark.parametrize("name", [*determinism.AXES, *standards.NAMES])
def test_every_axis_and_standard_has_its_row(name):
    assert f"\n| `{name}` | " in PAGE


@pytest.mark.parametrize(
    "number",
    [*determinism.THREADS, *determinism.BLOCKS, *determinism.SHIFTS, determinism.BATCH],
)
def test_what_is_varied_is_told(number):
    assert str(number) in PAGE


def test_numbers_of_the_protocol_are_told():
    assert f"{determinism.POSITION_LIMIT:,} elements" in PAGE
    assert f"exceeds {100 * throughput.UNSTABLE_IQR:.0f} % of" in PAGE
    assert f"itself by more than {100 * throughput.CONTAMINATED:.0f} %" in PAGE
    assert throughput.Plan.least == 10 < LEAST_BLOCKS
    assert "at least ten blocks" in PAGE


def test_options_that_the_page_uses_exist():
    known = {name for option in command.params for name in option.opts}
    used = set(re.findall(r"--[a-z][a-z-]*", PAGE.partition("## `lsbench bench")[2]))
    assert len(used) > 5
    assert used <= known
