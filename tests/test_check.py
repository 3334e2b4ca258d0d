"""Dumps judged: the figures of a run, files that went out and came back, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from calls import drawn
from click.testing import CliRunner

from lsbench import dumps, exchange, results
from lsbench.cases import load
from lsbench.check import Dump, check, check_folder
from lsbench.cli import group
from lsbench.errors import OutputError, ResultsError, TensorError, UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32, by_name
from lsbench.gates import parse
from lsbench.providers.kernels import log_sigmoid_backward

CASES = """
schema: 1
defaults:
  gates: {max_ulp: 1.0, nonfinite: 0}
cases:
  - name: plain
    matrix: {dtype: [fp32, fp16, bf16]}
    shape: [7, 5]
  - name: lying
    dtype: bf16
    shape: [6, 4]
    layout: {self: transposed, grad_output: {slice: [null, 2]}, grad_input: {padded: 3}}
  - name: flipped
    dtype: fp32
    shape: [9]
    layout: {self: flipped, grad_output: {expanded: 0}}
  - name: empty
    dtype: fp32
    shape: [3, 0]
  - name: refused
    dtype: bf16
    shape: [2]
    product: Atlas inference
    expect: 161002
"""


@pytest.fixture
def cases(tmp_path):
    """The path of a case file."""
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    return path


def invoke(*words):
    return CliRunner().invoke(group, [str(word) for word in words], standalone_mode=False)


def fill(folder, manifest, change=lambda entry, y: y, *, strided=False):
    """Compute every case as a device would: from the files alone."""
    for entry in manifest.cases:
        fmt = by_name(entry.dtype)
        g, x = (exchange.read(folder, entry, name) for name in ("grad_output", "self"))
        y = change(entry, log_sigmoid_backward(g, x))
        if y is None:
            continue
        lying = entry.lying.get("grad_input")
        if lying is not None:
            storage = np.zeros(lying.storage, fmt.dtype)
            steps = tuple(s * fmt.itemsize for s in lying.strides)
            np.lib.stride_tricks.as_strided(storage[lying.offset :], y.shape, steps)[...] = y
            y = storage
        dumps.write(folder / entry.files["grad_input"], fmt, {"grad_input": y})


@pytest.mark.parametrize("form", dumps.FORMS)
@pytest.mark.parametrize("strided", [False, True])
def test_what_goes_out_comes_back_and_is_judged(cases, tmp_path, form, strided):
    package = {"pt": "torch", "safetensors": "safetensors"}.get(form)
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    folder = tmp_path / "out"
    manifest = exchange.export(load([str(cases)]), folder, form=form, strided=strided)
    assert [entry.case for entry in manifest.cases if "refused" in entry.case] == []
    assert exchange.load(folder) == manifest
    fill(folder, manifest)
    rows, rules = check_folder(folder, provider="mine")
    assert [row.verdicts for row in rows] == [("pass",)] * 6
    assert all(row.passed and row.provider == "mine" for row in rows)
    assert {gate.name for row in rows for gate in row.gates} == {"max_ulp", "nonfinite"}
    assert all(rules)


def test_a_strided_export_holds_storages(cases, tmp_path):
    manifest = exchange.export(load([str(cases)]), tmp_path / "o", form="bin", strided=True)
    entry = next(e for e in manifest.cases if e.case == "lying")
    assert entry.lying["self"].strides == (1, 6)
    assert entry.lying["grad_output"].strides == (8, 2)
    assert entry.lying["grad_input"].storage == 5 * 7 + 4
    flipped = next(e for e in manifest.cases if e.case == "flipped")
    assert (flipped.lying["self"].strides, flipped.lying["self"].offset) == ((-1,), 8)
    assert flipped.lying["grad_output"].storage == 1


def test_each_fault_of_what_came_back_is_its_rows_own(cases, tmp_path):
    def change(entry, y):
        if entry.dtype == "fp16":
            return None
        if entry.case == "lying":
            return y[:3]
        if entry.case.startswith("plain") and entry.dtype == "fp32":
            y[0, 0] = np.nan
        return y

    folder = tmp_path / "out"
    fill(folder, exchange.export(load([str(cases)]), folder), change)
    rows = {row.case: row for row in check_folder(folder)[0]}
    assert rows["plain[dtype=fp16]"].verdicts == ("skipped",)
    assert "no gradInput came back" in rows["plain[dtype=fp16]"].reason
    assert rows["lying"].verdicts == ("contract",)
    assert "found shape [3, 4], expected [6, 4]" in rows["lying"].reason
    assert rows["plain[dtype=fp32]"].verdicts == ("nonfinite",)
    assert not rows["plain[dtype=fp32]"].passed
    assert rows["flipped"].verdicts == ("pass",)


def test_changed_inputs_are_noticed(cases, tmp_path):
    folder = tmp_path / "out"
    manifest = exchange.export(load([str(cases)]), folder)
    fill(folder, manifest)
    path = folder / manifest.cases[0].files["self"]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(TensorError, match=r"inputs of plain.* have SHA-256 .*: the files were"):
        check_folder(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update(schema=9), "found schema 9, expected 1"),
        (lambda m: m["cases"][0].pop("files"), "files"),
        (lambda m: m["cases"][0]["files"].pop("self"), "found no file for self"),
        (lambda m: m["cases"][0]["files"].update(self="../../x.npy"), "lies outside the folder"),
        (lambda m: m["cases"][0].update(shape="x"), r"cases\[0\].shape"),
    ],
)
def test_a_damaged_manifest_is_one_line(cases, tmp_path, change, said):
    folder = tmp_path / "out"
    exchange.export(load([str(cases)]), folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ResultsError, match=said) as caught:
        exchange.load(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    with pytest.raises(ResultsError, match=r"cannot read .*manifest.json"):
        check_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ResultsError, match="not JSON"):
        check_folder(tmp_path)


def test_a_folder_that_holds_something_is_not_written_into(cases, tmp_path):
    with pytest.raises(OutputError, match="exists and is not empty"):
        exchange.export(load([str(cases)]), tmp_path)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_a_dump_has_the_figures_of_a_run(fmt):
    made = drawn(fmt, (200,))
    y = log_sigmoid_backward(made.grad_output, made.self, kernel="exact")
    row = check(Dump(fmt, made.grad_output, made.self, y), [parse("misrounded<=0")])
    assert row.passed
    assert row.verdicts == ("pass",)
    bits = fmt.pattern(y)
    bits[3] += 1
    row = check(Dump(fmt, made.grad_output, made.self, y), [parse("misrounded<=0")])
    assert not row.passed
    assert row.verdicts == ("accuracy",)
    assert row.accuracy.misrounded == 1
    assert row.accuracy.worst.index == 3


def test_flushed_results_and_zeroed_subnormal_inputs_are_told_apart():
    tiny = np.float32([1e-40, 1e-40, 1])
    x = np.float32([-20, -20, 0])
    daz = np.float32([0, 0, 0.5])
    assert check(Dump(FP32, tiny, x, daz)).verdicts == ("daz",)
    g, x = np.float32([1, 1]), np.float32([88, 0])
    assert check(Dump(FP32, g, x, np.float32([0, 0.5]))).verdicts == ("ftz",)


def test_shapes_that_differ_are_refused():
    a, b = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(TensorError, match=r"grad_output has shape \[4\], expected \[3\]"):
        check(Dump(FP32, b, a, a))


def test_the_command_judges_raw_files_with_strides(tmp_path):
    made = drawn(BF16, (4, 6))
    y = log_sigmoid_backward(made.grad_output, made.self)
    storage = np.zeros(4 * 6, BF16.dtype)
    storage.reshape(6, 4)[...] = made.self.T
    dumps.write(tmp_path / "g.bin", BF16, {"g": made.grad_output})
    dumps.write(tmp_path / "x.bin", BF16, {"x": storage})
    dumps.write(tmp_path / "y.bin", BF16, {"y": y})
    files = ["--grad-output", tmp_path / "g.bin", "--self", tmp_path / "x.bin"]
    files += ["--grad-input", tmp_path / "y.bin", "--dtype", "bf16", "--shape", "4,6"]
    told = invoke("check", *files, "--strides", "self=1,4", "--output", tmp_path / "r.json")
    assert told.exit_code == 0, told.output
    assert told.return_value == 0
    run = results.load(tmp_path / "r.json")
    assert run.kind == "check"
    assert run.rows[0].accuracy.misrounded == 0
    wrong = invoke("check", *files, "--gate", "max_ulp<=1", "-q")
    assert wrong.return_value == 1
    bad = invoke("check", *files, "--strides", "x=1,4")
    assert isinstance(bad.exception, UsageError)
    assert "expected one of grad_output, self, grad_input before =" in str(bad.exception)


def test_the_command_takes_the_gates_of_a_case_file(cases, tmp_path):
    a = np.ones(3, np.float16)
    np.savez(tmp_path / "t.npz", grad_output=a, self=a * 0, grad_input=a / 2)
    names = ("--grad-output", "--self", "--grad-input")
    files = [word for name in names for word in (name, tmp_path / "t.npz")]
    told = invoke("check", *files, "--gates", cases)
    assert told.return_value == 0
    np.savez(tmp_path / "t.npz", grad_output=a, self=a * 0, grad_input=a)
    told = invoke("check", *files, "--gates", cases)
    assert told.return_value == 1
    assert "max_ulp <= 1.0: found" in told.output


def test_the_commands_go_out_and_back(cases, tmp_path):
    folder = tmp_path / "out"
    told = invoke("export", cases, folder, "-k", "plain")
    assert told.exit_code == 0
    assert "3 cases in" in told.output
    told = invoke("check", folder)
    assert told.return_value == 3
    fill(folder, exchange.load(folder))
    told = invoke("check", folder, "--gate", "misrounded_share<=0.5")
    assert told.return_value == 0
    assert FP16.name in told.output


@pytest.mark.parametrize(
    "words", [(), ("--self", "x.npy"), ("somewhere", "--self", "x.npy"), ("--grad-input", "y.npy")]
)
def test_half_a_question_is_refused(words):
    told = invoke("check", *words)
    assert isinstance(told.exception, UsageError)
    assert "expected a folder, or --grad-output, --self and --grad-input" in str(told.exception)
