"""docs/results.md names every key of a results file; the files that ship are as it says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from lsbench import results
from lsbench.records import SCHEMA, Environment, Row, Run

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
SHIPPED = sorted(path for path in (ROOT / "results").glob("*.json") if path.name != "bench.json")
"""Every recorded document; bench.json holds the ratios of `make bench`, not rows."""
RUN, ROW = re.findall(r"## (?:The run|A row)\n(.*?)(?=\n## )", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("record", "section"), [(Run, RUN), (Environment, RUN), (Row, ROW)], ids=["run", "env", "row"]
)
def test_every_key_is_told(record, section):
    told = set(re.findall(r"`(\w+)`", section))
    assert {f.name for f in fields(record)} <= told


def test_the_newest_schema_is_told():
    assert f"Schema {SCHEMA} " in PAGE


def test_results_ship():
    assert {"baseline.json"} < {path.name for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_file_reads_and_names_no_place_of_a_machine(path):
    run = results.load(path)
    assert run.complete
    assert run.rows
    for text in (run.command, *(row.source for row in run.rows), *(r.reproduce for r in run.rows)):
        assert not any(Path(word).is_absolute() for word in text.split())
