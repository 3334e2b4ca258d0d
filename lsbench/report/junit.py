"""JUnit XML: a suite per case file, a test case per case × provider × gate.

Written for the strictest of its consumers: Ant's schema wants every attribute and child of a suite
in its order, Jenkins' allows no others. So file and line stand in the text, not in attributes, and
so do the figures, for some consumers ignore properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from xml.etree import ElementTree as ET

from lsbench.records import Gate, Row, Run
from lsbench.report.failures import Failure, figures_text, one_line, place, title

UNRUN = ("skipped", "unsupported")
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run) -> str:
    """The XML document of a run."""
    root = ET.Element("testsuites", name="lsbench", time=f"{run.duration:.3f}")
    by_file: dict[str, list[Row]] = {}
    for row in run.rows:
        by_file.setdefault(place(row.source)[0], []).append(row)
    for number, (name, rows) in enumerate(by_file.items()):
        _suite(root, number, name, run, [case for row in rows for case in _row(row)])
    if run.gates:
        cases = [_case("the run", gate.name, Failure(None, gate), ()) for gate in run.gates]
        _suite(root, len(by_file), "run", run, cases)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, number: int, name: str, run: Run, cases: Iterable[ET.Element]) -> None:
    suite = ET.SubElement(root, "testsuite", name=_legal(name), package="lsbench", id=str(number))
    # Ant's schema requires a host; "localhost" is what it asks for where none is told.
    suite.set("hostname", "localhost")
    suite.set("timestamp", _timestamp(run.started))
    suite.set("time", f"{run.duration if number == 0 else 0:.3f}")
    properties = ET.SubElement(suite, "properties")
    facts = {
        "lsbench": run.lsbench,
        "git_commit": run.git_commit,
        "seed": str(run.seed),
        "cpu": run.environment.cpu,
        "isa": run.environment.isa,
        "compiler": run.environment.compiler,
    }
    for key, value in facts.items():
        ET.SubElement(properties, "property", name=key, value=_legal(value))
    suite.extend(cases)
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for count, tag in counts.items():
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    ET.SubElement(suite, "system-out").text = _legal(run.command)
    ET.SubElement(suite, "system-err").text = _legal(run.verdict)


def _row(row: Row) -> list[ET.Element]:
    """A test case per gate; one for the row itself where it has no gate or did not run."""
    lines = figures_text(row)
    name = title(row)
    cases = [_case(name, f"{g.name} {g.rule}", Failure(row, g), lines) for g in row.gates]
    if "crashed" in row.verdicts or not row.gates:
        cases.insert(0, _computed(name, row, lines))
    return cases


def _case(name: str, test: str, told: Failure, lines: Iterable[str]) -> ET.Element:
    gate = told.gate
    assert gate is not None
    case = ET.Element("testcase", classname=_legal(name), name=_legal(test), time="0.000")
    if gate.passed and not gate.exercised:
        ET.SubElement(case, "skipped", message=_legal(one_line(gate.found)))
    elif not gate.passed:
        failure = ET.SubElement(case, "failure", type=gate.name, message=_legal(told.message))
        failure.text = _body(told.message, _sources(told, gate), lines)
    return case


def _computed(name: str, row: Row, lines: Iterable[str]) -> ET.Element:
    case = ET.Element("testcase", classname=_legal(name), name="computed", time="0.000")
    reason = one_line(row.reason)
    if "crashed" in row.verdicts:
        error = ET.SubElement(case, "error", type="crashed", message=_legal(reason))
        error.text = _body(reason, f"case: {row.source}", lines)
    elif set(UNRUN) & set(row.verdicts):
        ET.SubElement(case, "skipped", message=_legal(reason))
    return case


def _sources(told: Failure, gate: Gate) -> str:
    rule = f"rule: {gate.source}"
    return f"case: {told.row.source}\n{rule}" if told.row else rule


def _body(*parts: str | Iterable[str]) -> str:
    lines = [part if isinstance(part, str) else "\n".join(part) for part in parts]
    return _legal("\n".join(lines))


def _timestamp(started: str) -> str:
    """ISO 8601 without a zone, as Ant's schema has it."""
    try:
        return datetime.fromisoformat(started).replace(tzinfo=None).isoformat(timespec="seconds")
    except ValueError:
        return "1970-01-01T00:00:00"


def _legal(text: str) -> str:
    """Text with what XML 1.0 cannot hold written as its escape."""
    return _FORBIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)
