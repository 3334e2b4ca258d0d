"""Put the tables of the recorded sweeps into docs/sweeps.md.

Run: python docs/tables.py
"""

from __future__ import annotations

import re
from pathlib import Path

from lsbench import results
from lsbench.report.formulas import formulas

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sweeps.md"
TABLES = {
    "formulas": ("formulas-pairs", "emulated-fp16", "emulated-bf16", "formulas-unary"),
    "exact": ("exact-pairs", "exact-unary"),
}
"""Name of a table → the recorded sweeps that it shows, results/sweep-NAME.json."""


def filled(page: str) -> str:
    """The page with every table made anew from the recorded sweeps."""
    for name, sweeps in TABLES.items():
        runs = [results.load(ROOT / "results" / f"sweep-{sweep}.json") for sweep in sweeps]
        table = f"<!-- {name} -->\n{formulas(runs)}<!-- end -->"
        page = re.sub(
            f"<!-- {name} -->\n.*?<!-- end -->", lambda _, table=table: table, page, flags=re.DOTALL
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
