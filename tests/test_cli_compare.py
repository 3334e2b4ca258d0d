"""`lsbench compare` and `lsbench baseline`: exit status, last line, every planted regression."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from made import DETERMINISM, ENVIRONMENT, MOVED, THROUGHPUT, accuracy, row, run

from lsbench import baseline, results
from lsbench.cli import main
from lsbench.records import Axis, Determinism

BROKEN = Determinism((*DETERMINISM.axes, Axis("layout", ("transposed",), False, "", MOVED)))


def timed(factor=1.0):
    """A row timed in many quiet blocks, slower by a factor."""
    blocks = tuple(i // 2 for i in range(24))
    own = tuple(1e-6 * factor * (1 + 0.001 * (i % 3)) for i in range(24))
    arms = (
        replace(THROUGHPUT.arms[0], seconds=own, blocks=blocks),
        replace(THROUGHPUT.arms[2], seconds=(5e-7,) * 24, blocks=blocks),
    )
    return row("timed", throughput=replace(THROUGHPUT, arms=arms))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save runs by name in a fresh working directory."""
    monkeypatch.chdir(tmp_path)

    def save(**runs):
        for name, made in runs.items():
            results.save(made, f"{name}.json")

    return save


@pytest.fixture
def lsbench(capsys):
    """Call the command line; returns exit status, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


BASE = run(row(), row("other"), timed())


@pytest.mark.parametrize(
    ("new", "code", "last"),
    [
        (BASE, 0, "lsbench: passed: 3 rows compared, none worse (exit 0)"),
        (
            run(row(accuracy=accuracy(misrounded=21)), row("other"), timed()),
            1,
            "lsbench: FAILED: 3 rows compared, 1 worse (exit 1)",
        ),
        (run(row(determinism=BROKEN), row("other")), 1, "2 rows compared, 1 worse (exit 1)"),
        (run(row(), row("other"), timed(1.2)), 1, "3 rows compared, 1 worse (exit 1)"),
        (
            run(row(input_hash="f" * 64), row("other")),
            4,
            "1 not comparable: their inputs changed (exit 4)",
        ),
        (run(row("fresh")), 4, "no row of new.json is in the baseline (exit 4)"),
        (run(), 5, "(exit 5)"),
    ],
)
def test_the_exit_status_and_the_last_line(saved, lsbench, new, code, last):
    saved(base=BASE, new=new)
    found, _, err = lsbench("compare", "base.json", "new.json")
    assert found == code
    assert err.splitlines()[-1].endswith(last)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.json", "base.json"], 4, "no baseline none.json"),
        (["base.json", "none.json"], 2, "cannot read results none.json"),
        (["base.json", "broken.json"], 2, "broken.json: not JSON"),
        (["broken.json", "base.json"], 2, "broken.json: not JSON"),
        (["base.json", "base.json", "--fail-on", "speed,luck"], 2, "found luck: expected some of"),
        (["base.json", "base.json", "--fail-on", ""], 2, "found nothing"),
        (["base.json", "base.json", "--tolerance", "max_ulp"], 2, "expected FIGURE=NUMBER"),
        (["base.json", "base.json", "--tolerance", "max_ulp=-1"], 2, "expected FIGURE=NUMBER"),
        (["base.json", "base.json", "--tolerance", "max_upl=1"], 2, "did you mean 'max_ulp'"),
        (["base.json", "base.json", "--tolerance", "torch=1"], 2, "expected a figure of accuracy"),
        (["base.json", "base.json", "--speed-threshold", "5"], 2, "such as 5% or 0.05"),
        (["base.json", "base.json", "--junit", "."], 3, "cannot write ."),
        (["base.json", "base.json", "-k", "nothing-like-it"], 5, "(exit 5)"),
    ],
)
def test_bad_input_is_one_line_and_its_status(saved, lsbench, tmp_path, arguments, code, said):
    saved(base=BASE)
    (tmp_path / "broken.json").write_text('{"schema": ')
    found, _, err = lsbench("compare", *arguments)
    assert found == code
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


def test_planted_regressions_show_that_the_gate_can_fail(saved, lsbench):
    saved(base=BASE)
    code, out, _ = lsbench("compare", "base.json", "base.json", "--inject-ulp", "1")
    assert code == 1
    assert "max_ulp" in out
    code, out, _ = lsbench("compare", "base.json", "base.json", "--inject-slowdown", "10%")
    assert code == 1
    assert "slower: +10.0 %" in out
    assert lsbench("compare", "base.json", "base.json", "--inject-slowdown", "3%")[0] == 0
    assert lsbench("compare", "--help")[1].count("inject") == 0


def test_options_decide_what_fails(saved, lsbench):
    saved(base=BASE, new=run(row(accuracy=accuracy(misrounded=21)), row("other"), timed(1.2)))
    compare = ("compare", "base.json", "new.json")
    assert lsbench(*compare, "--fail-on", "determinism")[0] == 0
    assert lsbench(*compare, "--fail-on", "none")[0] == 0
    assert lsbench(*compare, "--fail-on", "speed")[0] == 1
    assert lsbench(*compare, "--fail-on", "speed", "--speed-threshold", "30%")[0] == 0
    tolerant = ("--fail-on", "accuracy", "--tolerance", "misrounded=1")
    assert lsbench(*compare, *tolerant)[0] == 0
    assert lsbench(*compare, "-k", "other")[0] == 0


def test_the_table_puts_regressions_first_and_hides_the_rest(saved, lsbench):
    new = run(
        row(accuracy=accuracy(max_ulp=0.5)),
        row("other", accuracy=accuracy(nonfinite=1)),
        row("fresh"),
        environment=replace(ENVIRONMENT, cpu="Other CPU"),
    )
    saved(base=BASE, new=new)
    _, out, _ = lsbench("compare", "base.json", "new.json")
    assert "processor: Some CPU → Other CPU" in out
    assert "nonfinite" in out
    assert "max_ulp" not in out
    assert "not in new.json: timed · fast" in out
    assert "new in new.json: fresh · fast" in out
    assert "1 more changes that are no regression: --all shows them" in out
    _, out, _ = lsbench("compare", "base.json", "new.json", "--all")
    assert out.index("nonfinite") < out.index("max_ulp")
    assert all(len(line) <= 100 for line in out.splitlines())


def test_differences_too_small_for_the_column_are_shown_in_full(saved, lsbench):
    saved(base=BASE, new=run(row(accuracy=accuracy(max_ulp=0.75000001))))
    assert "0.75000001" in lsbench("compare", "base.json", "new.json")[1]


def test_several_new_runs_are_columns(saved, lsbench):
    saved(base=BASE, one=run(row(accuracy=accuracy(max_ulp=2.0))), two=run(row()), three=BASE)
    code, out, _ = lsbench("compare", "base.json", "two.json", "one.json", "three.json")
    assert code == 1
    (heading,) = (line for line in out.splitlines() if "figure" in line)
    assert heading.index("two.json") < heading.index("one.json") < heading.index("three.json")
    (line,) = (line for line in out.splitlines() if "max_ulp" in line)
    assert line.split()[4:8] == ["0.7500", "0.7500", "2.0000", "!"]


def test_the_verdict_and_the_changes_stand_in_the_json(saved, lsbench, tmp_path):
    saved(base=BASE, new=run(row(accuracy=accuracy(misrounded=21)), timed()))
    _, out, err = lsbench(
        "compare", "base.json", "new.json", "--format", "json", "--json", "c.json"
    )
    document = json.loads(out)
    assert document == json.loads((tmp_path / "c.json").read_text())
    assert document["exit_code"] == 1
    assert document["verdict"] in err.splitlines()[-1]
    first = document["columns"][0]["rows"][0]
    assert (first["case"], first["state"], first["failed"]) == ("plain", "matched", True)
    assert first["changes"][0] == {
        "figure": "misrounded",
        "category": "accuracy",
        "before": 20,
        "after": 21,
        "outcome": "worse",
        "note": "",
    }


def test_all_reports_at_once(saved, lsbench, tmp_path):
    saved(base=BASE, new=run(row(accuracy=accuracy(misrounded=21)), row("fresh")))
    kinds = {"junit": "j.xml", "markdown": "m.md", "sarif": "s.json", "csv": "c.csv"}
    options = [word for kind, path in kinds.items() for word in (f"--{kind}", path)]
    code, out, err = lsbench("compare", "base.json", "new.json", "-q", "--github", *options)
    assert (code, out) == (1, "")
    assert "::error file=cases/made.yaml,line=4" in err
    root = ET.parse(tmp_path / "j.xml").getroot()
    assert root.get("failures") == "1"
    assert "misrounded 20 → 21" in root.find(".//failure").get("message")
    assert root.find(".//skipped").get("message").startswith("not exercised")
    assert "FAILED" in (tmp_path / "m.md").read_text()
    assert json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"]
    assert (tmp_path / "c.csv").read_text().count("\n") == 3


def test_an_expired_waiver_fails_the_comparison(saved, lsbench):
    saved()
    bad = run(row(accuracy=accuracy(nonfinite=1)))
    old = baseline.Waiver("known", "plain", "fast", "nonfinite", "why", "2020-01-01")
    baseline.save(baseline.Baseline("base.json", bad, (old,)), "base.json")
    results.save(bad, "new.json")
    code, out, err = lsbench("compare", "base.json", "new.json")
    assert code == 1
    assert "expired: waiver 'known'" in err.splitlines()[-1]
    code, out, _ = lsbench("baseline", "show", "base.json")
    assert code == 1
    assert "(EXPIRED)" in out


def test_updating_a_baseline_shows_refuses_and_writes(saved, lsbench, tmp_path):
    saved(good=run(row()), bad=run(row(accuracy=accuracy(nonfinite=2, max_ulp=0.5))))
    assert lsbench("baseline", "update", "base.json", "good.json")[0] == 0
    before = (tmp_path / "base.json").read_text()
    code, out, err = lsbench("baseline", "update", "base.json", "bad.json")
    assert code == 1
    assert "refused: plain · fast: nonfinite is 2: it needs a named waiver" in out
    assert err.splitlines()[-1] == "lsbench: refused: 1 need a waiver (exit 1)"
    assert (tmp_path / "base.json").read_text() == before
    waiver = ("--waiver", "known", "--reason", "fault 12", "--expires", "2999-12-31")
    code, out, _ = lsbench("baseline", "update", "base.json", "bad.json", "--dry-run", *waiver)
    assert code == 0
    assert (tmp_path / "base.json").read_text() == before
    code, out, _ = lsbench("baseline", "update", "base.json", "bad.json", *waiver)
    assert code == 0
    assert "held: waiver 'known' for nonfinite of plain · fast until 2999-12-31: fault 12" in out
    assert lsbench("compare", "base.json", "bad.json")[0] == 0
    _, out, _ = lsbench("baseline", "update", "base.json", "good.json")
    assert "dropped, for nothing needs it: waiver 'known'" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["update", "none.json"], 4, "no baseline none.json"),
        (["update", "base.json", "none.json"], 2, "cannot read results"),
        (["update", ".", "good.json"], 3, "Is a directory"),
        (["update", "base.json", "good.json", "--waiver", "x"], 2, "a waiver needs a reason"),
        (
            [
                "update",
                "base.json",
                "good.json",
                "--waiver",
                "x",
                "--reason",
                "y",
                "--expires",
                "z",
            ],
            2,
            "expected a date such as 2026-12-31",
        ),
        (["update", "base.json", "good.json", "--reason", "y"], 2, "expected --waiver NAME"),
        (["show", "none.json"], 4, "no baseline none.json"),
    ],
)
def test_bad_input_of_baseline_is_one_line(saved, lsbench, arguments, code, said):
    saved(good=run(row()))
    found, _, err = lsbench("baseline", *arguments)
    assert found == code
    assert said in err.splitlines()[-1]
