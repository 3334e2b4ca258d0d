"""The JSON Schema accepts what the loader accepts and refuses what a schema can refuse."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from lsbench import cases
from lsbench.cases.document import Items, Leaf, Node, Table, read
from lsbench.cases.models import KEYS
from lsbench.cases.scalars import Pattern, Real
from lsbench.cases.schema import schema
from lsbench.cases.starter import STARTER
from lsbench.distributions import DISTRIBUTIONS
from lsbench.errors import CaseFileError
from lsbench.figures import FIGURES
from lsbench.layouts import LAYOUTS

SHIPPED = sorted((Path(__file__).parent.parent / "cases").glob("*.yaml"))
VALIDATOR = jsonschema.Draft7Validator(schema())


def as_an_editor_sees(node: Node) -> object:
    """The file by YAML 1.2's core schema alone: our own numbers are text there."""
    match node:
        case Items():
            return [as_an_editor_sees(n) for n in node.nodes]
        case Table():
            return {k: as_an_editor_sees(e.node) for k, e in node.entries.items()}
        case Leaf(value=Pattern()):
            return node.text
        case Leaf(value=Real()):
            ours = "x" in node.text.lower() or node.text.lower().lstrip("+-.")[:3] in ("inf", "nan")
            return node.text if ours else float(node.text)
    assert isinstance(node, Leaf)
    return node.value


def errors(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return [e.message for e in VALIDATOR.iter_errors(as_an_editor_sees(read(path).root))]


def test_it_is_a_draft_7_schema():
    made = schema()
    assert made["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(made)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_it_accepts_the_shipped_files(path):
    found = list(VALIDATOR.iter_errors(as_an_editor_sees(read(path).root)))
    assert not found, [f"{e.json_path}: {e.message}" for e in found]


def test_it_accepts_the_starter_file(tmp_path):
    assert not errors(STARTER, tmp_path)


def test_every_key_has_a_description():
    made = schema()
    case = made["definitions"]["Case"]["properties"]
    assert set(case) == {*KEYS, "matrix"}
    assert set(made["definitions"]["Defaults"]["properties"]) == set(KEYS) - {"name"}
    nulls = {"grad_output", "self", "buffer", "grad_input", "workspace_size", "executor"}
    for key in set(case) - nulls:
        assert "description" in str(case[key]), key
    for name in [*LAYOUTS, *DISTRIBUTIONS, *FIGURES]:
        assert f"'{name}'" in str(made), name


GOOD = [
    "dtype: fp16",
    "shape: []",
    "layout: {self: {strides: [1], offset: 3, storage: 11}}",
    "layout: {self: {offset: 3}, grad_output: {expanded: [0]}, buffer: offset}",
    "input: {self: {values: [0x1.8p-3, -inf, nan, max, 0b101, {bits: 0x7c01}, .inf, 1e30]}}",
    "input: {self: {normal: {std: 0x1p3}}, grad_output: specials, buffer: {normal: 3}}",
    "input: {self: {mixture: [{weight: 2, normal: }, {uniform: {low: 1}}]}}",
    "gates: {max_ulp: '<= 1', deterministic: true, providers: {x: {dtypes: {fp16: {}}}}}",
    "gates: {misrounded: null}",
    "gates: null",
    "matrix: {dtype: [fp32], kernel.rounding: [rne]}",
    "throughput: {budget: 1}",
    "throughput: {state: cold}",
    "buffer: null",
]
BAD = [
    "dtype: fp8",
    "dtyp: fp16",
    "shape: 3",
    "shape: [-1]",
    "shape: [1.5]",
    "product: Atlas A9",
    "layout: {self: {padded: 1, flipped: 0}}",
    "layout: {self: {strides: [1], padded: 1}}",
    "layout: {self: {padded: 1, storage: 3}}",
    "layout: {self: {offset: x}}",
    "layout: {self: upside-down}",
    "layout: {slef: flipped}",
    "input: {self: {normal: {mena: 1}}}",
    "input: {self: {linspace: {start: 1}}}",
    "input: {self: linspace}",
    "input: {self: {values: [abc]}}",
    "input: {self: {constant: 1, values: [1]}}",
    "input: {grad_input: normal}",
    "kernel: {rounding: up}",
    "kernel: {threads: 0}",
    "gates: {max_upl: 1}",
    "gates: {deterministic: 1.5}",
    "gates: {dtypes: {fp8: {max_ulp: 1}}}",
    "matrix: {}",
    "matrix: {dtype: []}",
    "matrix: {dtipe: [fp32]}",
    "matrix: {dtype: [fp64]}",
    "buffer: 3",
    "expect: 3",
    "tags: [3]",
    "seed: -1",
]


@pytest.mark.parametrize("line", GOOD)
def test_it_accepts_what_the_loader_accepts(tmp_path, line):
    key = line.split(":")[0]
    rest = "".join(f"    {k}\n" for k in ("shape: [8]", "dtype: fp16") if not k.startswith(key))
    text = f"schema: 1\ncases:\n  - name: a\n    {line}\n{rest}"
    assert not errors(text, tmp_path)
    if "matrix" not in line and "values" not in line:
        cases.load(tmp_path / "x.yaml")


@pytest.mark.parametrize("line", BAD)
def test_both_refuse_what_a_schema_can_refuse(tmp_path, line):
    key = line.split(":")[0]
    rest = "".join(f"    {k}\n" for k in ("shape: [1]", "dtype: fp16") if not k.startswith(key))
    assert errors(f"schema: 1\ncases:\n  - name: a\n    {line}\n{rest}", tmp_path)
    with pytest.raises(CaseFileError):
        cases.load(tmp_path / "x.yaml")
