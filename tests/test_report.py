"""Reports: valid for their consumers, within their limits, and deaf to hostile names."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import junitparser
import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st
from made import accuracy, row, run, skipped

from lsbench import report, results
from lsbench.errors import OutputError, UsageError
from lsbench.figures import FIGURES
from lsbench.gates import GateRule, evaluate
from lsbench.records import Gate
from lsbench.report import github, markdown
from lsbench.report.csv import COLUMNS
from lsbench.report.failures import failures

SCHEMAS = Path(__file__).parent / "schemas"
XSD = xmlschema.XMLSchema(str(SCHEMAS / "junit.xsd"))
SARIF = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "sarif.json").read_text()))

RULES = [GateRule("max_ulp", 0.5, source="cases/made.yaml:2"), GateRule("nonfinite", 0)]


def gated(case="plain", **changes):
    made = row(case, **changes)
    return replace(made, gates=evaluate(RULES, made))


GOOD = replace(row("good"), gates=evaluate([GateRule("max_ulp", 1)], row()))
CRASHED = skipped(
    "dead", verdicts=("crashed",), reason="exit status -11", source="cases/other.yaml:9"
)
UNUSED = Gate("of_roof", ">= 0.5", "not exercised", False, "cases/made.yaml:2", exercised=False)
MIXED = run(
    GOOD,
    gated("failing", accuracy=accuracy(max_ulp=3.5)),
    gated("broken", accuracy=accuracy(nonfinite=2, max_ulp=99.0), verdicts=("nonfinite",)),
    replace(skipped("absent"), gates=evaluate(RULES, skipped())),
    CRASHED,
    gates=(UNUSED,),
    exit_code=1,
    verdict="3 of 5 rows failed",
)
HOSTILE_NAMES = (
    "]]> <b>&amp;|`x` @team %0A::error::",
    "=cmd|' /C calc'!A0",
    "line\nbreak\x00\x1b[31m\u202e\ufffe\ud800",
    "</details><script>alert(1)</script>",
)
HOSTILE = run(
    *(
        gated(name, provider=name, source=f"cases/{name}.yaml:3", reason=name, notes=(name,))
        for name in HOSTILE_NAMES
    ),
    command=HOSTILE_NAMES[2],
    git_commit=HOSTILE_NAMES[0],
    verdict=HOSTILE_NAMES[0],
)


def test_failures_come_worst_first():
    found = [(f.title.split(" · ")[0], f.rule) for f in failures(MIXED)]
    assert found == [
        ("the run", "of_roof"),
        ("broken", "max_ulp"),
        ("broken", "nonfinite"),
        ("dead", "crashed"),
        ("failing", "max_ulp"),
    ]


@pytest.mark.parametrize(
    "made", [MIXED, HOSTILE, run(), run(GOOD)], ids=["mixed", "hostile", "empty", "good"]
)
def test_junit_is_valid_for_the_common_consumers(made):
    text = report.render(made, "junit")
    XSD.validate(text)
    parsed = junitparser.JUnitXml.fromstring(text.encode())
    assert parsed.tests == sum(len(list(suite)) for suite in parsed)


def test_the_junit_schema_catches_a_planted_fault():
    text = report.render(MIXED, "junit")
    for fault in (
        text.replace(' hostname="localhost"', "", 1),
        text.replace("<testcase ", '<testcase file="a" ', 1),
        text.replace('tests="', 'tests="-', 1),
        re.sub(r'timestamp="[^"]*"', 'timestamp="today"', text),
    ):
        assert fault != text
        with pytest.raises(xmlschema.XMLSchemaValidationError):
            XSD.validate(fault)


def test_junit_holds_a_test_case_per_gate_and_counts_them():
    root = ET.fromstring(report.render(MIXED, "junit"))
    assert {k: root.get(k) for k in ("tests", "failures", "errors")} == {
        "tests": "9",
        "failures": "4",
        "errors": "1",
    }
    suites = {s.get("name"): s for s in root}
    assert list(suites) == ["cases/made.yaml", "cases/other.yaml", "run"]
    assert suites["cases/made.yaml"].get("skipped") == "2"
    failure = root.find(".//testcase[@classname='failing · fast']/failure")
    assert failure.get("message") == "max_ulp <= 0.5: found 3.5"
    for said in (
        "case: cases/made.yaml:4",
        "rule: cases/made.yaml:2",
        "max_ulp = 3.5",
        "again: lsbench run",
    ):
        assert said in failure.text


def test_the_figures_stand_in_the_body_of_a_failure():
    root = ET.fromstring(report.render(MIXED, "junit"))
    body = root.find(".//failure[@type='nonfinite']").text
    assert "misrounded = 20" in body
    assert "computed 0x3801 = 0.50048828125" in body


@pytest.mark.parametrize(
    "made", [MIXED, HOSTILE, run(), run(GOOD)], ids=["mixed", "hostile", "empty", "good"]
)
def test_sarif_is_valid(made):
    document = json.loads(report.render(made, "sarif"))
    SARIF.validate(document)
    rules = document["runs"][0]["tool"]["driver"]["rules"]
    for result in document["runs"][0]["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_the_sarif_schema_catches_planted_faults():
    for break_it in (
        lambda d: d.update(version="2.0.0"),
        lambda d: d["runs"][0].pop("tool"),
        lambda d: d["runs"][0]["results"][0].update(level="fatal"),
        lambda d: d["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["region"].update(
            startLine=0
        ),
        lambda d: d["runs"][0]["results"][0].pop("message"),
    ):
        document = json.loads(report.render(MIXED, "sarif"))
        break_it(document)
        with pytest.raises(jsonschema.ValidationError):
            SARIF.validate(document)


def test_sarif_points_at_the_line_of_the_case():
    document = json.loads(report.render(MIXED, "sarif"))
    results_ = document["runs"][0]["results"]
    place = results_[-1]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "cases/made.yaml"}, "region": {"startLine": 4}}
    assert document["runs"][0]["invocations"][0]["exitCode"] == 1


def test_a_finding_keeps_its_fingerprint_while_its_figures_change():
    def prints(worst):
        made = run(gated(accuracy=accuracy(max_ulp=worst)))
        found = json.loads(report.render(made, "sarif"))["runs"][0]["results"]
        return [r["partialFingerprints"] for r in found]

    assert prints(2.0) == prints(3.0)
    assert len(prints(2.0)) == 1


def test_markdown_says_the_verdict_then_the_failures():
    text = report.render(MIXED, "markdown")
    lines = text.splitlines()
    assert lines[0] == "## lsbench: FAILED"
    assert lines[2] == "3 of 5 rows failed (exit 1)"
    assert "| broken · fast | nonfinite | \\<= 0 | 2 |" in text
    assert text.index("broken") < text.index("failing")
    assert text.count("<details>") == text.count("</details>") == 3
    assert report.render(run(GOOD), "markdown").startswith("## lsbench: passed")


@pytest.mark.parametrize("rows", [1, 300, 3000])
def test_markdown_fits_a_comment_whatever_failed(rows):
    made = run(*(gated(f"case-{i}-" + "ü" * 20) for i in range(rows)), exit_code=1)
    text = report.render(made, "markdown")
    assert len(text.encode()) <= 65_536
    assert text.count("<details>") == text.count("</details>")
    left = re.findall(r"(\d+) more failures", text)
    shown = len(re.findall(r"^\| case.* max\\_ulp \| \\<= 0.5 \|", text, re.MULTILINE))
    assert shown + sum(map(int, left)) == rows
    assert bool(left) == (rows == 3000)


def test_a_single_endless_name_does_not_break_the_limit():
    text = report.render(run(gated("x" * 200_000)), "markdown")
    assert len(text.encode()) <= 65_536


def test_hostile_names_stay_text_in_markdown():
    text = report.render(HOSTILE, "markdown")
    assert "<script>" not in re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    assert "\x1b" not in text
    assert "\u202e" not in text
    table = [line for line in text.splitlines() if " \\<= 0.5 " in line]
    assert len(table) == len(HOSTILE_NAMES)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {5}
    assert re.search(r"(?<!\\)@team", re.sub(r"^    .*$", "", text, flags=re.MULTILINE)) is None


def test_github_annotates_the_line_of_the_case():
    lines = report.render(MIXED, "github").splitlines()
    assert lines[0].startswith(
        "::error file=cases/made.yaml,line=2,title=lsbench of_roof::the run: of_roof"
    )
    assert lines[3] == (
        "::error file=cases/other.yaml,line=9,title=lsbench crashed::dead · fast: exit status -11"
    )
    assert report.render(run(GOOD), "github") == ""


@pytest.mark.parametrize(("failed", "lines"), [(9, 9), (10, 10), (11, 10), (500, 10)])
def test_github_writes_ten_annotations_at_most(failed, lines):
    made = run(
        *(gated(f"case-{i}", accuracy=accuracy(max_ulp=float(i + 1))) for i in range(failed))
    )
    found = report.render(made, "github").splitlines()
    assert len(found) == lines
    assert f"case-{failed - 1} " in found[0]
    if failed > 10:
        assert found[-1] == f"::error title=lsbench::{failed - 9} more failed: see the summary"


def test_no_name_can_forge_a_workflow_command():
    for line in report.render(HOSTILE, "github").splitlines():
        assert line.startswith("::error file=")
        head, _, message = line.removeprefix("::").partition("::")
        assert head.count(",") == 2
        assert "\x1b" not in message


def test_paths_are_relative_to_the_workspace(monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    made = run(gated(source=f"{tmp_path}/cases/a.yaml:3"))
    assert "file=cases/a.yaml,line=3" in report.render(made, "github")


def test_the_step_summary_is_appended_and_bounded(monkeypatch, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    github.write_summary(run(*(gated(f"case-{i}") for i in range(2500)), exit_code=1))
    text = summary.read_text()
    assert text.startswith("before\n## lsbench: FAILED")
    assert 65_536 < len(text.encode()) <= 1 << 20
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    github.write_summary(MIXED)
    assert summary.read_text() == text


def test_csv_has_a_column_per_figure_and_a_line_per_row():
    rows = list(csv.DictReader(io.StringIO(report.render(MIXED, "csv"))))
    assert [r["case"] for r in rows] == ["good", "failing", "broken", "absent", "dead"]
    assert set(FIGURES) < set(COLUMNS) == set(rows[0])
    assert len(COLUMNS) == len(set(COLUMNS))
    assert (rows[1]["max_ulp"], rows[1]["deterministic"], rows[1]["passed"]) == (
        "3.5",
        "true",
        "false",
    )
    assert rows[3]["max_ulp"] == ""


def test_no_cell_of_csv_is_a_formula():
    for cells in csv.reader(io.StringIO(report.render(HOSTILE, "csv"))):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


def test_json_is_the_results_document():
    assert results.loads(report.render(MIXED, "json")) == MIXED


@settings(max_examples=30, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=())), st.sampled_from(sorted(report.KINDS))
)
def test_any_name_gives_a_report_that_can_be_written(name, kind):
    made = run(gated(name, provider=name, reason=name), verdict=name)
    text = report.render(made, kind)
    if kind == "junit":
        XSD.validate(text)
    if kind == "sarif":
        SARIF.validate(json.loads(text))
    assert text.encode("utf-8", "backslashreplace")


def test_an_unknown_kind_and_an_unwritable_file(tmp_path):
    with pytest.raises(UsageError, match="expected one of junit, markdown"):
        report.render(MIXED, "xml")
    with pytest.raises(OutputError):
        report.write(MIXED, "junit", tmp_path)
    report.write(MIXED, "junit", tmp_path / "deep" / "junit.xml")
    XSD.validate(str(tmp_path / "deep" / "junit.xml"))


def test_a_code_span_holds_any_text():
    assert markdown.code("a|b") == "`a\\|b`"
    assert markdown.code("``") == "``` `` ```"
