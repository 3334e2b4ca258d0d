"""The recorded sweeps: what they must show, and that the page shows them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lsbench import results
from lsbench.formats import by_name
from lsbench.parts import KEY
from lsbench.records import Options
from lsbench.reference import Declared, MpmathOracle
from lsbench.rounding import DETERMINISTIC, Rounding

ROOT = Path(__file__).parents[1]
RECORDED = sorted((ROOT / "results").glob("sweep-*.json"))


def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_recorded_sweeps():
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert tables().filled(page) == page
    assert page.count("4,294,967,296") > 30


def rows(name):
    return results.load(ROOT / "results" / f"sweep-{name}.json").rows


def test_exact_is_right_on_every_pair_of_16_bit_values_in_every_deterministic_mode():
    found = {(row.dtype, row.options.rounding): row.accuracy for row in rows("exact-pairs")}
    assert set(found) == {(d, str(m)) for d in ("fp16", "bf16") for m in DETERMINISTIC}
    for errors in found.values():
        assert (errors.elements, errors.misrounded) == (1 << 32, 0)
        assert errors.max_ulp < 1


def test_exact_is_right_on_every_x_of_fp32():
    found = rows("exact-unary")
    assert [row.case for row in found] == [
        f"unary g={g}" for g in ("1", "1.5", "3.1415927", "3.4028235e+38", "1e-45")
    ]
    for row in found:
        assert (row.accuracy.elements, row.accuracy.misrounded) == (1 << 32, 0)


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_a_recorded_sweep_was_audited_and_its_largest_errors_are_what_mpmath_says(path):
    run = results.load(path)
    assert (run.kind, run.complete, run.exit_code) == ("sweep", True, 0)
    for row, entry in zip(run.rows, run.extra[KEY], strict=True):
        reference = row.accuracy.reference
        assert reference.differed == 0 < reference.audited
        bits = [int(entry["largest"][name]["hex"], 16) for name in ("g", "x", "computed")]
        assert row.options == Options(**entry["plan"]["options"])
        declared = Declared(by_name(row.dtype), Rounding(row.options.rounding))
        assert abs(MpmathOracle(declared).truth(*bits, 0).error) == pytest.approx(
            row.accuracy.max_ulp, rel=2.0**-50
        )
