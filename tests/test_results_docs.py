"""docs/results.md names every key that a results file has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from lsbench.records import SCHEMA, Environment, Row, Run

PAGE = (Path(__file__).parent.parent / "docs" / "results.md").read_text(encoding="utf-8")
RUN, ROW = re.findall(r"## (?:The run|A row)\n(.*?)(?=\n## )", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("record", "section"), [(Run, RUN), (Environment, RUN), (Row, ROW)], ids=["run", "env", "row"]
)
def test_every_key_is_told(record, section):
    told = set(re.findall(r"`(\w+)`", section))
    assert {f.name for f in fields(record)} <= told


def test_the_newest_schema_is_told():
    assert f"Schema {SCHEMA} " in PAGE
