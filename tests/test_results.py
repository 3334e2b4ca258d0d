"""Results on disk: lossless, and deaf to hostile documents."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import ACCURACY, STANDARDS, accuracy, row, run, skipped

from lsbench import results
from lsbench.errors import OutputError, ResultsError
from lsbench.gates import GateRule, evaluate
from lsbench.records import SCHEMA, VERDICTS, Run, Standard

FULL = run(
    row(gates=evaluate([GateRule("max_ulp", 1.0), GateRule("of_roof", 0.9)], row())),
    skipped("other", shape=(), notes=("a note", "ünïcode  \x1b[31m")),
    row("nonfinite", standards=(Standard("cann-mere-mare", False, {"mere": math.inf}),)),
    extra={"binades": [{"floor": -3, "max": 0.5}]},
    verdict="1 gate failed",
)


def test_a_document_comes_back_equal(tmp_path):
    path = tmp_path / "results" / "run.json"
    results.save(FULL, path)
    assert results.load(path) == FULL
    assert results.loads(results.dumps(FULL)) == FULL


COUNT = st.integers(0, 10**12)
ERROR = st.floats(0, allow_nan=False, allow_infinity=False)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_figures_come_back_equal(data):
    elements = data.draw(COUNT)
    some = st.integers(0, elements)
    names = ("max_ulp", "mean_ulp", "rms_ulp", "p50_ulp", "p99_ulp", "p999_ulp", "max_ulp_ftz")
    counts = ("measured", "misrounded", "nonfinite", "nan_lost", "zero_sign", "flushed", "daz")
    judged = replace(
        ACCURACY,
        elements=elements,
        spurious_zero=0,
        bias_ulp=-data.draw(ERROR),
        **{name: data.draw(ERROR) for name in names},
        **{name: data.draw(some) for name in counts},
    )
    made = row(
        data.draw(st.text()),
        accuracy=judged,
        verdicts=tuple(data.draw(st.lists(st.sampled_from(VERDICTS)))),
        tags=tuple(data.draw(st.lists(st.text()))),
        layout=data.draw(st.dictionaries(st.text(), st.text())),
        standards=(Standard("torch", True, {"x": data.draw(st.floats(allow_nan=False))}),),
    )
    assert results.loads(results.dumps(run(made))) == run(made)


def test_one_row_takes_one_line():
    lines = results.dumps(FULL).splitlines()
    assert sum('"case"' in line for line in lines) == len(FULL.rows)
    assert json.loads(results.dumps(FULL))["schema"] == SCHEMA


def test_a_run_without_rows():
    assert results.loads(results.dumps(run())) == run()


def broken(**changes):
    """The document of one row as plain values, changed by path: ``rows.0.case``."""
    plain = json.loads(results.dumps(run(row())))
    for path, value in changes.items():
        *parents, last = path.split(".")
        holder = plain
        for key in parents:
            holder = holder[int(key) if key.isdigit() else key]
        holder[last] = value
    return json.dumps(plain)


GOOD = results.dumps(run(row()))
DEEP = "[" * 100_000 + "]" * 100_000

HOSTILE = {
    "empty": ("", "not JSON"),
    "truncated": (GOOD[: len(GOOD) // 2], "not JSON"),
    "one brace less": (GOOD.rstrip()[:-1], "not JSON"),
    "not JSON": ("hello", "not JSON: .* at line 1 column 1"),
    "YAML": ("cases:\n  - a", "not JSON"),
    "a list": ("[]", "found a list: expected an object"),
    "a number": ("1", "found 1: expected an object"),
    "null": ("null", "found null: expected an object"),
    "deep": (DEEP, "nested too deeply"),
    "deep inside": (GOOD.replace('"extra": {}', f'"extra": {{"a": {DEEP}}}'), "nested too deeply"),
    "deep objects": ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
    "NaN": (GOOD.replace('"max_ulp": 0.75', '"max_ulp": NaN'), "found NaN, which is not JSON"),
    "-Infinity": (GOOD.replace('"duration": 1.5', '"duration": -Infinity'), "found -Infinity"),
    "huge number": (GOOD.replace('"duration": 1.5', '"duration": 1e999'), "beyond the range"),
    "huge integer": (GOOD.replace('"seed": 7', '"seed": ' + "9" * 30), "beyond 64 bits"),
    "endless integer": (GOOD.replace('"seed": 7', '"seed": ' + "9" * 9999), "beyond 64 bits"),
    "twice": (GOOD.replace('"seed": 7', '"seed": 7, "seed": 8', 1), "'seed' stands twice"),
    "no schema": (broken().replace('"schema"', '"scheme"'), "schema: found none"),
    "schema 0": (broken(schema=0), "schema: found 0: expected a number from 1"),
    "schema true": (broken(schema=True), "schema: found true"),
    "schema text": (broken(schema="1"), "schema: found '1'"),
    "schema 1.0": (broken(schema=1.0), "schema: found 1.0"),
    "newer": (broken(schema=SCHEMA + 1), rf"schema: {SCHEMA + 1} is newer than {SCHEMA}"),
    "far newer": (broken(schema=10**30), "beyond 64 bits is newer than"),
    "other tool": ('{"version": "2.1.0", "runs": []}', "schema: found none"),
    "schema only": ('{"schema": 2}', "the key 'kind' is missing"),
    "rows object": (broken(rows={}), "rows: found an object: expected a list"),
    "row text": (broken(rows=["x"]), r"rows\[0\]: found 'x': expected an object"),
    "case number": (broken(**{"rows.0.case": 5}), r"rows\[0\]\.case: found 5: expected text"),
    "unknown key": (broken(**{"rows.0.cases": 5}), r"rows\[0\]: unknown key 'cases'.*'case'"),
    "shape": (broken(**{"rows.0.shape": [-1]}), r"rows\[0\]\.shape: found a negative length"),
    "verdict": (broken(**{"rows.0.verdicts": ["fine"]}), "unknown verdict 'fine'"),
    "hash": (broken(**{"rows.0.input_hash": "abc"}), r"rows\[0\]\.input_hash: found 'abc'"),
    "counts": (broken(**{"rows.0.accuracy.misrounded": 1001}), "found 1001 of 1000 elements"),
    "negative": (broken(**{"rows.0.accuracy.nonfinite": -1}), "accuracy.nonfinite: found -1"),
    "negative error": (broken(**{"rows.0.accuracy.max_ulp": -0.5}), "accuracy.max_ulp: found -0.5"),
    "no arms": (broken(**{"rows.0.throughput.arms": []}), "throughput.arms: found none"),
    "time": (
        broken(
            **{"rows.0.throughput.arms.0.seconds": [-1.0], "rows.0.throughput.arms.0.blocks": [0]}
        ),
        r"arms\[0\]\.seconds: expected positive times",
    ),
    "blocks": (broken(**{"rows.0.throughput.arms.1.blocks": []}), r"4 samples in 0 blocks"),
    "exit code": (broken(exit_code=256), "exit_code: found 256"),
    "surrogate": (GOOD.replace("quick", r"\ud800"), "half of a surrogate pair"),
    "long text": (broken(seed="x" * 10**6), r"seed: found 'xxx.{1,60}: expected an integer$"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_document_gets_one_line_that_names_the_file_and_the_place(tmp_path, text, said):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=rf"bad\.json: .*{said}") as caught:
        results.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert caught.value.exit_code == 2


def refusal(text):
    """What reading says; only an error of its own kind is caught."""
    try:
        return "" if isinstance(results.loads(text), Run) else "no run\n"
    except ResultsError as error:
        return str(error)


@pytest.mark.parametrize("step", [1, 17, 101])
def test_no_cut_and_no_flipped_byte_leads_to_anything_but_one_line(step):
    short = results.dumps(run(row(throughput=None, standards=STANDARDS)))
    for i in range(0, len(short), step * 7):
        for text in (short[:i], short[:i] + "\x00" + short[i + 1 :], short[:i] + short[i + 1 :]):
            assert "\n" not in refusal(text)


def places(node, path=()):
    """The path of every value in a document."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


PLACES = [p for p in places(json.loads(GOOD)) if p]
FOREIGN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), FOREIGN, st.booleans())
def test_a_foreign_value_anywhere_is_read_or_refused_in_one_line(place, value, removed):
    document = json.loads(GOOD)
    *parents, last = place
    holder = document
    for key in parents:
        holder = holder[key]
    if removed:
        del holder[last]
    else:
        holder[last] = value
    text = json.dumps(document)
    assert "\n" not in refusal(text)


def test_unreadable_files(tmp_path):
    with pytest.raises(ResultsError, match="No such file"):
        results.load(tmp_path / "missing.json")
    with pytest.raises(ResultsError, match="Is a directory"):
        results.load(tmp_path)
    with pytest.raises(ResultsError, match="cannot read"):
        results.load("nul\0byte")
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(ResultsError, match="byte 0 is not UTF-8"):
        results.load(wrong)
    wrong.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert results.load(wrong) == run(row())


def test_an_endless_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "LIMIT", 1 << 20)
    path = tmp_path / "zeros.json"
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(ResultsError, match="larger than 1 MiB"):
        results.load(path)


FIRST = """{"kind": "run", "lsbench": "0.1.0", "git_commit": "0123abcd", "command": "lsbench run a",
"seed": 7, "started": "2026-01-02T03:04:05+00:00", "duration": 1.5, "environment": {"cpu": "Some",
"caches": {"L2": 1048576}, "cores": 2, "memory": 8589934592, "os": "Linux", "python": "3.12.1",
"isa": "x86_64_v3", "compiler": "gcc", "flags": "-O3", "libraries": {}, "fp_control": ""},
"rows": [{"case": "c", "dtype": "fp32", "shape": [2], "layout": {}, "product": "atlas-a2",
"tags": [], "source": "a.yaml:1", "seed": 7, "provider": "fast", "provider_version": "0.1.0",
"options": {"arithmetic": "fp32", "rounding": "rne", "ftz": false, "block": null, "threads": null,
"seed": 0}, "input_hash": "", "output_hash": "", "verdicts": ["skipped"], "reason": "why",
"notes": [], "status": null, "expected_status": null, "accuracy": null, "standards": [],
"determinism": null, "throughput": null, "gates": [{"name": "max_ulp", "rule": "<= 1.0",
"found": "0.5", "passed": true, "source": "a.yaml:1"}], "reproduce": ""}],
"complete": true, "exit_code": 3, "schema": 1, "extra": {}}"""
"""A document as schema 1 wrote it."""


def test_an_older_schema_is_upgraded_in_memory(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(FIRST)
    loaded = results.load(path)
    assert loaded.schema == SCHEMA
    assert loaded.rows[0].gates[0].exercised
    assert loaded.gates == ()
    assert loaded.verdict == ""
    assert path.read_text() == FIRST
    with pytest.raises(ResultsError, match="is missing"):
        results.loads(FIRST.replace('"schema": 1', f'"schema": {SCHEMA}'))


def test_an_unwritable_place_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match="Is a directory"):
        results.save(FULL, tmp_path)
    with pytest.raises(OutputError):
        results.check_writable(tmp_path)


def test_a_reader_never_sees_half_a_document(tmp_path):
    """A writer that is killed at any moment leaves the old document or the new one."""
    path = tmp_path / "run.json"
    results.save(FULL, path)
    code = (
        "import os, sys; from lsbench import output; real = os.fsync\n"
        "os.fsync = lambda d: os._exit(9)\n"
        f"output.write({str(path)!r}, 'half')"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert results.load(path) == FULL
    assert stat.S_ISREG(os.stat(path).st_mode)


def test_impossible_records_cannot_hide_behind_an_upgrade():
    with pytest.raises(ResultsError, match=r"accuracy\.misrounded: found 2000"):
        results.loads(results.dumps(run(row(accuracy=accuracy(misrounded=2000)))))
