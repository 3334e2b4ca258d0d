"""Gates of `lsbench run` on the command line: what fails, what is refused, and what is written."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

from lsbench import results
from lsbench.cli import main

CASES = """\
schema: 1
defaults:
  seed: 11
  throughput: false
  gates: {max_ulp: 1.0, deterministic: true, providers: {exact: {misrounded: 0}}}
cases:
  - name: usual
    dtype: fp32
    shape: [200]
    providers: [fast, exact]
    input: {self: {normal: {std: 4}}, grad_output: normal}
  - {name: null-buffer, shape: [2], dtype: fp32, providers: [exact], buffer: null, expect: 161001}
"""


@pytest.fixture
def lsbench(tmp_path, monkeypatch, capsys):
    """Call `lsbench run cases.yaml ...` in a fresh folder; returns status, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.yaml").write_text(CASES)

    def call(*arguments, command=("run", "cases.yaml", "--output", "out.json", "-q")):
        with pytest.raises(SystemExit) as stopped:
            main([*command, *arguments])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


@pytest.mark.parametrize(
    ("arguments", "code", "last"),
    [
        ((), 0, "lsbench: passed: 3 rows, none failed (exit 0)"),
        (("--gate", "max_ulp<=0.5001"), 1, "lsbench: FAILED: 1 of 3 rows failed (exit 1)"),
        (("--gate", "misrounded=0"), 1, "1 of 3 rows failed (exit 1)"),
        (("--gate", "deterministic.threads"), 0, "none failed (exit 0)"),
        (("--gate", "torch"), 0, "none failed (exit 0)"),
        (("--gate", "exact"), 1, "1 of 3 rows failed (exit 1)"),
        (("--gate", "faithful", "--gate", "rms_ulp<1"), 0, "none failed (exit 0)"),
        (("--inject-ulp", "1"), 1, "2 of 3 rows failed (exit 1)"),
    ],
)
def test_a_gate_of_the_command_line_decides(lsbench, arguments, code, last):
    found, _, err = lsbench(*arguments)
    assert (found, err.splitlines()[-1][-len(last) :]) == (code, last)


def test_the_command_line_is_nearer_than_the_file(lsbench):
    assert lsbench("--gate", "max_ulp<=0.4")[0] == 1
    rows = results.load("out.json").rows
    rules = {(g.rule, g.source) for row in rows for g in row.gates if g.name == "max_ulp"}
    assert rules == {("<= 0.4", "--gate")}


@pytest.mark.parametrize("figure", ["of_roof>=0.01", "cann-ratio"])
def test_a_gate_that_nothing_exercised_fails_unless_that_is_allowed(lsbench, figure):
    code, _, err = lsbench("--gate", figure)
    assert code == 1
    assert re.search(r"gate \S+ .* not exercised", err.splitlines()[-1])
    assert lsbench("--gate", figure, "--allow-unused")[0] == 0


def test_a_gate_on_an_axis_that_is_tried_on_request_has_it_tried(lsbench):
    assert lsbench("--gate", "deterministic.process")[0] == 0


def test_a_gate_of_the_file_that_nothing_exercised_fails(lsbench, tmp_path):
    text = CASES.replace("max_ulp: 1.0,", "max_ulp: 1.0, of_roof: 0.1,")
    (tmp_path / "cases.yaml").write_text(text)
    code, _, err = lsbench()
    assert code == 1
    assert "gate of_roof >= 0.1 not exercised" in err
    (gate,) = results.load("out.json").gates
    assert gate.source.startswith("cases.yaml:")


def test_a_part_of_a_file_is_not_held_to_the_rest_of_its_gates(lsbench):
    assert lsbench("-k", "null-buffer")[0] == 0
    assert lsbench("--provider", "fast")[0] == 0


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("max_upl<=1", "--gate: unknown figure 'max_upl'; did you mean 'max_ulp'?"),
        ("max_ulp", "--gate: gate max_ulp: found true: expected a number"),
        ("torch<=1", "--gate: gate torch: found"),
        ("max_ulp<=", "--gate: cannot read gate 'max_ulp<='"),
    ],
)
def test_a_gate_that_means_nothing_is_refused_before_anything_runs(
    lsbench, tmp_path, written, said
):
    code, _, err = lsbench("--gate", written)
    assert code == 2
    assert said in err.splitlines()[-1]
    assert not (tmp_path / "out.json").exists()


def test_a_missing_baseline_is_told_before_anything_runs(lsbench, tmp_path):
    code, _, err = lsbench("--baseline", "none.json")
    assert code == 4
    assert "no baseline none.json" in err.splitlines()[-1]
    assert not (tmp_path / "out.json").exists()


def test_a_run_is_held_to_its_baseline(lsbench):
    assert lsbench()[0] == 0
    assert lsbench("update", "base.json", "out.json", command=("baseline",))[0] == 0
    assert lsbench("--baseline", "base.json")[0] == 0
    code, _, err = lsbench("--baseline", "base.json", "--gate", "max_ulp<=9", "--inject-ulp", "1")
    assert code == 1
    assert err.splitlines()[-1].endswith("3 rows compared, 2 worse (exit 1)")
    gates = [g for row in results.load("out.json").rows for g in row.gates if not g.passed]
    assert {g.name for g in gates} == {"baseline.accuracy", "misrounded"}
    assert lsbench("--baseline", "base.json", "--rounding", "rtz", "--allow-unused")[0] != 0


def test_the_verdict_and_its_code_stand_in_the_json(lsbench):
    code, _, err = lsbench("--gate", "max_ulp<=0.4", "--json", "again.json")
    for name in ("out.json", "again.json"):
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
        assert document["exit_code"] == code == 1
        assert f"{document['verdict']} (exit 1)" in err.splitlines()[-1]


def test_reports_are_written_and_point_at_the_case(lsbench, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    kinds = {"junit": "j.xml", "markdown": "m.md", "sarif": "s.json", "csv": "c.csv"}
    words = [word for kind, path in kinds.items() for word in (f"--{kind}", path)]
    code, _, err = lsbench("--gate", "max_ulp<=0.4", "--github", *words)
    assert code == 1
    assert "::error file=cases.yaml,line=7,title=lsbench max_ulp::usual · " in err
    assert "FAILED" in (tmp_path / "summary.md").read_text()
    assert ET.parse("j.xml").getroot().get("failures") == "2"
    assert all((tmp_path / path).stat().st_size for path in kinds.values())


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(lsbench, tmp_path):
    code, _, err = lsbench("--sarif", ".")
    assert code == 3
    assert "cannot write .: Is a directory" in err.splitlines()[-1]
    assert not (tmp_path / "out.json").exists()
