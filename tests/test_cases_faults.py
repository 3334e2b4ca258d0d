"""What is wrong with a case file is told with its place, all at once, whatever the file holds."""

from __future__ import annotations

import os
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench import cases
from lsbench.cases import document
from lsbench.cases.faults import MAX_SHOWN
from lsbench.errors import CaseFileError

HEAD = "schema: 1\ncases:\n"
PLAIN = "  - {name: a, shape: [2], dtype: fp32}\n"


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Load a text or bytes that must be refused; the message, with the file named cases.yaml."""
    monkeypatch.chdir(tmp_path)

    def message(content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / "cases.yaml").write_bytes(data)
        with pytest.raises(CaseFileError) as caught:
            cases.load("cases.yaml")
        return str(caught.value)

    return message


def places(message: str) -> list[str]:
    """The heads of the faults of a message, without excerpts."""
    return [line for line in message.split("\n") if " | " not in line]


def test_a_typo_is_told_with_place_key_meaning_line_and_caret(refused):
    text = HEAD + "  - name: a\n    shape: [2]\n    dtipe: fp32\n    dtype: fp32\n"
    assert refused(text) == (
        "cases.yaml:5:5: dtipe: unknown key 'dtipe'; did you mean 'dtype'?\n"
        "    5 |     dtipe: fp32\n"
        "      |     ^^^^^"
    )


CASE_FAULTS = {
    "dtype: fp17": "14: dtype: found the text 'fp17', expected one of fp32, fp16, bf16; did you m",
    "dtype: 16": "14: dtype: found the number 16, expected one of fp32, fp16, bf16",
    "shape: 5": "14: shape: found the number 5, expected a list",
    "shape: [2, -3]": "18: shape.1: found the number -3, expected an extent from 0",
    "shape: [2, 1.5]": "18: shape.1: found the number 1.5, expected an integer",
    "shape: [2, true]": "18: shape.1: found 'true' (true or false), expected an integer",
    "shape: [2, '3']": "18: shape.1: found the text '3', expected an integer",
    f"shape: [{10**30}]": "15: shape.0: found the number 1000000000000000000000000000000, expected",
    "shape: [4294967296, 4294967296]": "14: shape: 18446744073709551616 elements exceed the addre",
    f"shape: [{', '.join(['1'] * 40)}]": "14: shape: found a list of 40, expected at most 32 valu",
    "product: Atlas A4": "16: product: found the text 'Atlas A4', expected one of Atlas A2, Atlas",
    "providers: [fasst]": "19: providers: unknown provider 'fasst'; did you mean 'fast'?",
    "providers: fast": "18: providers: found the text 'fast', expected a list",
    "providers: []": "18: providers: found a list of 0, expected 1 values or more",
    "expect: 161003": "15: expect: found the number 161003, expected one of 0, 161001, 161002",
    "seed: -1": "13: seed: found the number -1, expected a seed from 0",
    "seed: 1e3": "13: seed: found the number 1e3, expected an integer",
    "tags: [a b]": "14: tags.0: found the text 'a b', expected letters, digits",
    "buffer: [1]": "15: buffer: found a list of 1, expected null, which passes a null pointer",
    "throughput: maybe": "19: throughput: found the text 'maybe', expected true or false or a map",
    "throughput: {state: warm}": "27: throughput.state: found the text 'warm', expected one of ho",
    "throughput: {budget: 0}": "28: throughput.budget: found the number 0, expected more than 0",
    "operator: no": "17: operator: found the text 'no', expected true or false",
    "kernel: {rounding: rnd}": "26: kernel.rounding: found the text 'rnd', expected one of rne, r",
    "kernel: {block: 0}": "23: kernel.block: found the number 0, expected a block from 1",
    "kernel: {treads: 2}": "16: kernel.treads: unknown key 'treads'; did you mean 'threads'?",
    "layout: transposed": "15: layout: found the text 'transposed', expected a mapping",
    "layout: {self: transpose}": "22: layout.self: found the text 'transpose', expected one of co",
    "layout: {slef: flipped}": "16: layout.slef: unknown key 'slef'; did you mean 'self'?",
    "layout: {self: {padded: x}}": "31: layout.self.padded: found the text 'x', expected an integ",
    "layout: {self: {padded: 1, offset: 2}}": "16: layout.self: found a mapping, expected exactly",
    "layout: {self: {padded: 1, storage: 2}}": "16: layout.self: found a mapping, expected 'strid",
    "layout: {self: {}}": "16: layout.self: found a mapping, expected exactly one of contiguous",
    "layout: {self: {slice: [2, 2]}}": "22: layout.self: 2 steps for 1 dimensions: expected",
    "layout: {self: {strides: [1], storage: 1}}": "22: layout.self: elements lie at 0..1, expected",
    "layout: {grad_input: expanded}": "28: layout.grad_input: two indices of grad_input share",
    "layout: {grad_input: {strides: [0]}}": "28: layout.grad_input: two indices of grad_input sha",
    "input: {self: nromal}": "21: input.self: found the text 'nromal', expected one of normal",
    "input: {self: {nromal: {}}}": "22: input.self.nromal: unknown key 'nromal'; did you mean 'no",
    "input: {self: {normal: {sdt: 1}}}": "31: input.self.normal.sdt: unknown key 'sdt'; did you m",
    "input: {self: {normal: {std: -1}}}": "30: input.self.normal: std is -1.0, expected 0 or more",
    "input: {self: {linspace: {start: 1}}}": "22: input.self.linspace: key 'stop' is missing",
    "input: {self: {values: [1, x]}}": "34: input.self.values.1: found the text 'x', expected a n",
    "input: {self: {values: [1, 7e99]}}": "34: input.self.values: found 7e99, expected at most 3.",
    "input: {self: {values: [1]}}": "30: input.self.values: found 1 values for 2 elements, expect",
    "input: {self: {bits: [1, 0x1ffffffff]}}": "32: input.self.bits.1: found the number 0x1ffffff",
    "input: {self: {file: no.npz}}": "28: input.self.file: no.npz: no such file, expected an .npy",
    "input: {self: {constant: 1, axis: 3}}": "41: input.self.axis: found axis 3, expected at most",
    "input: {self: {mixture: [{weight: 0, normal: }]}}": "31: input.self.mixture: found weight 0.0",
    "input: {grad_input: normal}": "15: input.grad_input: unknown key 'grad_input'; did you mean",
    "gates: {max_upl: 1}": "15: gates.max_upl: unknown figure 'max_upl'; did you mean 'max_ulp'?",
    "gates: {max_ulp: good}": "24: gates.max_ulp: found 'good': expected a finite number",
    "gates: {deterministic: 3}": "30: gates.deterministic: found 3: expected true or false",
    "gates: {max_ulp: [1]}": "24: gates.max_ulp: found a list of 1, expected a limit",
    "gates: {dtypes: {fp8: {max_ulp: 1}}}": "24: gates.dtypes.fp8: unknown dtype 'fp8'; known are",
    "gates: {providers: {fast: 1}}": "33: gates.providers.fast: found the number 1, expected a ma",
    "gates: 3": "14: gates: found the number 3, expected a mapping",
    "matrix: {dtipe: [fp32]}": "16: matrix.dtipe: unknown key 'dtipe'; did you mean 'dtype'?",
    "matrix: {name: [a]}": "16: matrix.name: unknown key 'name'",
    "matrix: {dtype: fp32}": "23: matrix.dtype: found the text 'fp32', expected a list of one",
    "matrix: {dtype: []}": "23: matrix.dtype: found a list of 0, expected a list of one value",
    "matrix: []": "15: matrix: found a list of 0, expected a mapping from keys to lists",
    "matrix: {dtype: [fp32, fp17]}": "30: dtype: found the text 'fp17', expected one of fp32, fp16",
    "matrix: {kernel.rouding: [rne]}": "16: kernel.rouding: unknown key 'rouding'; did you mean ",
    "matrix: 3": "15: matrix: found the number 3, expected a mapping from keys to lists",
    "matrix: {shape.x: [1]}": "16: matrix: 'shape' is no mapping to set 'x' in",
}


@pytest.mark.parametrize("line", CASE_FAULTS)
def test_each_kind_of_fault_is_told_at_its_place(refused, line):
    kept = {"shape": "[2]", "dtype": "fp32"}
    key = line.split(":")[0]
    others = "".join(f"    {k}: {v}\n" for k, v in kept.items() if k != key)
    message = refused(
        HEAD
        + "  -   name: a\n"
        + f"    {line}\n".replace("    ", "      ", 1)
        + others.replace("    ", "      ")
    )
    assert len(places(message)) == 1, message
    # The case is indented by two more than the table above counts.
    column, rest = CASE_FAULTS[line].split(":", 1)
    assert message.startswith(f"cases.yaml:4:{column}:{rest}")


FILE_FAULTS = {
    "": "1:1: the file is empty, expected 'schema: 1' and 'cases:'",
    "# nothing\n": "1:1: the file is empty",
    "[]": "1:1: found a list of 0, expected 'schema: 1' and 'cases:'",
    "just words": "1:1: found the text 'just words', expected",
    "schema: 2\ncases:\n" + PLAIN: "1:9: schema: found the number 2, expected 1",
    "schema: '1'\ncases:\n" + PLAIN: "1:9: schema: found the text '1', expected 1",
    "schema: true\ncases:\n" + PLAIN: "1:9: schema: found 'true' (true or false), expected 1",
    "cases:\n" + PLAIN: "1:1: schema: key 'schema' is missing, expected 'schema: 1'",
    "schema: 1\n": "1:1: cases: key 'cases' is missing, expected a list of cases",
    "schema: 1\ncases: []\n": "2:8: cases: found a list of 0, expected a list of cases",
    "schema: 1\ncases: [3]\n": "2:9: cases: found the number 3, expected a mapping",
    "schema: 1\ncase:\n" + PLAIN: "1:1: cases: key 'cases' is missing",
    "schema: 1\ndefaults: 3\ncases:\n"
    + PLAIN: "2:11: defaults: found the number 3, expected a map",
    "schema: 1\ndefaults: {name: b}\ncases:\n" + PLAIN: "2:12: name: 'name' is for a case, not for",
    "schema: 1\ndefaults: {seeed: 3}\ncases:\n"
    + PLAIN: "2:12: seeed: unknown key 'seeed'; did you",
    HEAD + "  - {shape: [2], dtype: fp32}\n": "3:5: key 'name' is missing, expected a value",
    HEAD + "  - {name: a, dtype: fp32}\n": "3:5: key 'shape' is missing in case 'a', expected",
    HEAD + "  - {name: a, shape: [2]}\n": "3:5: key 'dtype' is missing in case 'a', expected fp32",
    HEAD
    + "  - {name: a b, shape: [2], dtype: fp32}\n": "3:12: name: found the text 'a b', expected",
    HEAD
    + "  - {name: 12, shape: [2], dtype: fp32}\n": "3:12: name: found the number 12, expected text",
    HEAD + PLAIN + PLAIN: "4:12: name: case name 'a' is taken at cases.yaml:3:12, expected another",
    HEAD
    + "  - {name: a, name: b, shape: [2], dtype: fp32}\n": "3:15: name: key given twice, first in",
    "schema: 1\nschema: 1\ncases:\n" + PLAIN: "2:1: schema: key given twice, first in line 1",
    HEAD + PLAIN + "---\nschema: 1\n": "4:1: found a second document, expected one in a file",
    HEAD + "\t- name: a\n": "3:1: not YAML: found a tab, expected spaces",
    HEAD + "  - {name: a": "4:1: not YAML:",
    HEAD + "  - {name: a, shape: *x}": "3:22: alias *x has no anchor before it",
    "a: &a [*a]": "1:8: alias *a stands inside its own anchor",
    "a: !!python/object/apply:os.system [echo]": "1:4: found the tag",
    "a: !mine 3": "1:4: found the tag '!mine', expected a value without one",
    "? [a, b]\n: c": "1:3: found a collection as a key, expected a word",
    "<<: {a: 1}": "1:1: found a merge key '<<', expected 'defaults:'",
    "a: \x07": "1:4: found the control character #x07, expected text",
    "a: " + "9" * 5000: "1:4: found a number of 5000 characters: expected at most 1000",
    "a: " + "[" * 60: "1:43: nested deeper than 40, expected a flat file",
    "[" * 100_000: "1:",
    "- " * 5000: "1:81: nested deeper than 40",
    "{a: " * 5000: "1:",
}


@pytest.mark.parametrize("text", FILE_FAULTS, ids=range(len(FILE_FAULTS)))
def test_what_is_wrong_with_a_file_as_a_whole(refused, text):
    message = refused(text)
    assert message.startswith(f"cases.yaml:{FILE_FAULTS[text]}") or any(
        head.startswith(f"cases.yaml:{FILE_FAULTS[text]}") for head in places(message)
    ), message


def test_all_faults_of_a_folder_are_told(tmp_path):
    (tmp_path / "a.yaml").write_text("schema: 2\ncases:\n" + PLAIN)
    (tmp_path / "b.yml").write_text("schema: 3\ncases:\n" + PLAIN.replace("a,", "b,"))
    (tmp_path / "c.txt").write_text("no case file")
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(CaseFileError) as caught:
        cases.load(tmp_path)
    assert [head.removeprefix(f"{tmp_path}/")[:10] for head in places(str(caught.value))] == [
        "a.yaml:1:9",
        "b.yml:1:9:",
        "d.yaml: is",
    ]


def test_bytes_that_are_no_text(refused):
    assert refused(b"schema: 1\ncases: \xe4\n") == (
        "cases.yaml:2:8: found byte 0xe4, expected UTF-8 text"
    )
    assert "expected UTF-8 text" in refused("schema: 1".encode("utf-16"))


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + (HEAD + PLAIN).replace("\n", "\r\n").encode())
    assert [case.name for case in cases.load(path)] == ["a"]


def test_all_faults_of_all_files_are_told_in_order(tmp_path, refused):
    (tmp_path / "other.yaml").write_text("schema: 3\ncases:\n" + PLAIN.replace("a,", "z,"))
    refused(
        "schema: 1\n"
        "defaults: {seed: x, gates: {max_upl: 1}, providers: [fasst]}\n"
        "cases:\n"
        "  - {name: a, shape: [-1], dtype: fp33}\n"
        "  - {name: b, shape: [2], dtype: fp16, layout: {self: no},"
        " input: {self: {values: [7e9, 1]}}}\n"
    )
    with pytest.raises(CaseFileError) as caught:
        cases.load(["cases.yaml", "missing.yaml", "other.yaml"])
    heads = [line.split(": ")[0] + ": " + line.split(": ")[1] for line in places(str(caught.value))]
    assert heads == [
        "cases.yaml:2:18: seed",
        "cases.yaml:2:29: gates.max_upl",
        "cases.yaml:2:54: providers",
        "cases.yaml:4:23: shape.0",
        "cases.yaml:4:35: dtype",
        "cases.yaml:5:55: layout.self",
        "cases.yaml:5:84: input.self.values",
        "missing.yaml: no such file, expected a case file (YAML)",
        "other.yaml:1:9: schema",
    ]


def test_one_faulty_key_of_a_matrix_hides_no_other(refused):
    message = refused(HEAD + "  - {name: a, matrix: {dtype: [fp17], shap: [[1]], seed: 3}}\n")
    assert [head.split(": ")[1] for head in places(message)] == [
        "dtype",
        "matrix.shap",
        "matrix.seed",
    ]


def test_a_fault_of_a_large_matrix_is_told_once(refused):
    rows = "matrix: {seed: [" + ", ".join(map(str, range(500))) + "]}"
    message = refused(HEAD + f"  - {{name: a, shape: [2], dtype: fp17, {rows}}}\n")
    assert len(places(message)) == 1


def test_a_matrix_of_absurd_size_is_refused_at_once(refused):
    axis = "[" + ", ".join(map(str, range(1000))) + "]"
    begun = time.monotonic()
    message = refused(
        HEAD + f"  - {{name: a, shape: [2], dtype: fp32, matrix: {{seed: {axis},"
        f" kernel.seed: {axis}, kernel.block: {axis}}}}}\n"
    )
    assert "stands for 1000000000 cases, expected at most 100000" in message
    assert time.monotonic() - begun < 20


def test_many_faults_are_cut_with_their_number(refused):
    many = "".join(f"  - {{name: a{i}, shape: [2], dtype: x}}\n" for i in range(MAX_SHOWN + 7))
    assert places(refused(HEAD + many))[-1] == "and 7 more faults"


def test_a_yaml_bomb_is_refused_in_bounded_memory(refused):
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 10) + "]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refused("\n".join(lines))
    assert f"stands for more than {document.MAX_NODES} values" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.mkdir(), "a folder without .yaml files, expected case files"),
        (lambda p: None, "no such file, expected a case file"),
        (lambda p: os.mkfifo(p), "is no regular file, expected a case file"),
        (lambda p: p.write_bytes(b" " * (document.MAX_BYTES + 1)), "bytes, expected at most"),
    ],
    ids=["directory", "missing", "pipe", "huge"],
)
def test_what_is_no_case_file_is_one_line(tmp_path, make, message):
    path = tmp_path / "cases.yaml"
    make(path)
    with pytest.raises(CaseFileError, match=message) as caught:
        cases.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_one_line(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text("a")
    path.chmod(0)
    with pytest.raises(CaseFileError, match=r"cannot be read: Permission denied"):
        cases.load(path)


def test_a_name_with_a_null_character_is_one_line():
    with pytest.raises(CaseFileError, match=r"cannot be read:.*embedded null"):
        cases.load("a\0b.yaml")


TOKENS = st.lists(
    st.sampled_from(
        [*"[]{},:-?&*!|>'\"%@`#\n\t ", "\n  ", "a", "&a ", "*a", "<<", "1e3", "null", "schema: 1",
         "cases:", "name: a", "matrix:", "\x85", "\u2028", "\ufeff", "0x1p9", "---", "..."]
    ),
    max_size=40,
)  # fmt: skip


@given(st.one_of(TOKENS.map("".join), st.text(max_size=60)))
def test_no_text_ends_in_anything_but_cases_or_a_clear_error(text):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        outcome = _outcome(path)
    assert outcome is None or outcome.startswith(str(path))


def _outcome(path):
    """None for a file that loads, the text of its error for one that does not."""
    try:
        cases.load(path)
    except CaseFileError as error:
        return str(error)
    return None
