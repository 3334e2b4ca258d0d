"""Each kind of fault that was seen in public is found and named; right computations pass.

A fault is run on the inputs that show it, and must fail a gate or be recorded as crashed, under a
verdict that says which kind it is.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from lsbench import cases
from lsbench.records import Row
from lsbench.row import Settings, run_row

TESTS = Path(__file__).parent
CASES = cases.load(TESTS.parent / "cases" / "faults.yaml")


def _faulty():
    spec = importlib.util.spec_from_file_location("faulty", TESTS / "faulty.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["faulty"] = module
    spec.loader.exec_module(module)
    return module


faulty = _faulty()
SETTINGS = Settings(reference="mpmath", throughput=False)
PAIRS = [
    pytest.param(fault, case, id=f"{fault.kind}: {case.name}")
    for fault in faulty.FAULTS
    for case in CASES
    if case.family == fault.case and case.dtype in fault.dtypes
]
OWN = [pytest.param(c, name, id=f"{c.name}: {name}") for c in CASES for name in c.providers]


def run(case: cases.Case, provider) -> Row:
    return run_row(case, provider, SETTINGS, lambda what, done, total: None)


@pytest.mark.parametrize(("fault", "case"), PAIRS)
def test_each_kind_is_caught_and_named(fault, case):
    row = run(case, fault.provider)
    assert set(row.verdicts) & set(fault.verdicts), (row.verdicts, row.accuracy, row.reason)
    assert not row.passed or "crashed" in row.verdicts


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_what_every_fault_begins_from_passes_all_of_them(case):
    row = run(case, faulty.RIGHT)
    assert row.verdicts == ("pass",), (row.gates, row.accuracy, row.reason)
    assert row.passed


@pytest.mark.parametrize(("case", "name"), OWN)
def test_the_projects_own_kernels_pass_all_of_them(case, name):
    from lsbench.providers.registry import resolve

    row = run(case, resolve(name))
    assert row.verdicts == ("pass",), (row.gates, row.accuracy, row.reason)
    assert row.passed


def test_every_case_shows_some_fault():
    shown = {fault.case for fault in faulty.FAULTS}
    assert {case.family for case in CASES} == shown


def test_a_crash_is_told_in_one_line_with_its_traceback_on_request():
    case = next(c for c in CASES if c.name == "repeated")
    (raising,) = (f for f in faulty.FAULTS if f.kind == "raises")
    settings = Settings(throughput=False, tracebacks=True)
    row = run_row(case, raising.provider, settings, lambda what, done, total: None)
    assert row.reason == "IndexError: index 9 is out of bounds"
    assert "in raising" in row.notes[-1]
