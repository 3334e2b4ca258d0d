"""From a case file to cases: defaults, matrix, gates, and the issue's own example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lsbench import cases
from lsbench.cases.models import KEYS
from lsbench.cases.starter import STARTER
from lsbench.distributions import DISTRIBUTIONS
from lsbench.errors import CaseFileError
from lsbench.gates import GateRule
from lsbench.inputs import Drawn, Explicit, Mixture
from lsbench.layouts import LAYOUTS
from lsbench.records import Options
from lsbench.views import View

SHIPPED = sorted((Path(__file__).parent.parent / "cases").glob("*.yaml"))

EXAMPLE = """\
schema: 1
defaults: {seed: 7, providers: [fast, exact], gates: {max_ulp: 1.0, nonfinite: 0}}
cases:
  - name: transposed
    matrix: {dtype: [fp32, fp16, bf16], shape: [[64, 48], [1024, 768]]}
    layout:
      self: transposed
      grad_output: {slice: [null, 2]}
      grad_input: {strides: [1, 1024], offset: 3}
    input: {self: {normal: {mean: 0, std: 4}}, grad_output: {uniform: {low: -1, high: 1}}}
  - name: one-pair
    shape: [1]
    dtype: fp16
    input: {self: {values: [20.015625]}, grad_output: {values: [6e4]}}
    providers: [textbook, ascend]
    kernel: {arithmetic: fp16, rounding: rtz, block: 4096, threads: 2}
    gates: {spurious_zero: 0}
  - name: null-buffer
    shape: [2, 2]
    dtype: fp32
    buffer: null
    expect: 161001
"""


@pytest.fixture
def load(tmp_path):
    """Write a file and load its cases, by name."""

    def loaded(text: str, name: str = "cases.yaml") -> dict[str, cases.Case]:
        path = tmp_path / name
        path.write_text(text)
        return {case.name: case for case in cases.load(path)}

    return loaded


def one(load, **keys: str) -> cases.Case:
    """One case with the given keys over a small plain one."""
    keys = {"name": "one", "dtype": "fp32", "shape": "[2, 3]"} | keys
    lines = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    (case,) = load("schema: 1\ncases:\n  -\n" + lines).values()
    return case


def test_the_example_is_read_as_it_is_meant(load, tmp_path):
    made = load(EXAMPLE)
    assert list(made)[:2] == [
        "transposed[dtype=fp32,shape=64x48]",
        "transposed[dtype=fp32,shape=1024x768]",
    ]
    assert len(made) == 3 * 2 + 2
    case = made["transposed[dtype=bf16,shape=1024x768]"]
    assert (case.family, case.dtype, case.shape, case.seed) == (
        "transposed",
        "bf16",
        (1024, 768),
        7,
    )
    assert case.views["self"] == View((1024, 768), (1, 1024), 0, 1024 * 768)
    assert case.views["grad_output"] == View((1024, 768), (1536, 2), 0, 1024 * 1536)
    assert case.views["grad_input"] == View((1024, 768), (1, 1024), 3, 3 + 1024 * 768)
    assert case.layout["grad_output"] == "slice([null, 2])"
    assert case.inputs["self"].spec == Drawn("normal", (("mean", 0.0), ("std", 4.0)))
    pair = made["one-pair"]
    assert pair.providers == ("textbook", "ascend")
    assert pair.options == Options("fp16", "rtz", False, 4096, 2, seed=7)
    assert pair.inputs["self"].spec == Explicit((0x4D01,))
    assert pair.inputs["grad_output"].spec == Explicit((0x7B53,))
    path = tmp_path / "cases.yaml"
    assert pair.gates == (
        GateRule("max_ulp", 1.0, source=f"{path}:2"),
        GateRule("nonfinite", 0, source=f"{path}:2"),
        GateRule("spurious_zero", 0, source=f"{path}:17"),
    )
    assert pair.source == f"{path}:11"
    null = made["null-buffer"]
    assert null.views["buffer"] is None
    assert (null.expect, null.gates) == (161001, ())
    assert cases.first_phase(null).status == 161001


def test_all_keys_but_three_have_defaults(load):
    case = one(load)
    assert case.providers == ("fast", "exact")
    assert case.options == Options()
    assert case.inputs["self"].spec == Drawn("normal", (("std", 4.0),))
    assert all(view == View.contiguous((2, 3)) for view in case.views.values())
    assert (case.product, case.expect, case.gates, case.tags) == ("Atlas A2", None, (), ())
    assert case.throughput
    assert case.operator


def test_defaults_merge_by_key_and_tensor_and_are_replaced_below(load):
    made = load(
        """\
schema: 1
defaults:
  dtype: fp16
  shape: [4]
  tags: [a, b]
  kernel: {block: 64, threads: 2}
  layout: {self: flipped, grad_output: {padded: 3}}
  input: {self: {normal: {std: 9}}, grad_output: {constant: 2}}
  gates: {max_ulp: 1, misrounded: 5, providers: {exact: {misrounded: 0, max_ulp: 0.5}}}
cases:
  - name: a
  - name: b
    tags: [c]
    kernel: {threads: 3}
    layout: {self: contiguous}
    input: {self: normal}
    gates: {misrounded: null, providers: {exact: {max_ulp: 0.6}}}
  - name: c
    gates: null
"""
    )
    a, b = made["a"], made["b"]
    assert (a.dtype, a.shape, a.tags) == ("fp16", (4,), ("a", "b"))
    assert b.tags == ("c",)
    assert (b.options.block, b.options.threads) == (64, 3)
    assert b.layout == {
        "self": "contiguous",
        "grad_output": "padded(3)",
        "grad_input": "contiguous",
    }
    assert b.inputs["self"].spec == Drawn("normal")
    assert b.inputs["grad_output"].spec == Explicit((0x4000,), repeat=True)
    assert [(g.name, g.provider, g.value) for g in b.gates] == [
        ("max_ulp", None, 1),
        ("misrounded", "exact", 0),
        ("max_ulp", "exact", 0.6),
    ]
    assert made["c"].gates == ()


def test_gates_nest_by_provider_and_dtype_in_either_order(load):
    case = one(
        load,
        gates="{providers: {fast: {dtypes: {fp32: {max_ulp: 1}}, deterministic: true}},"
        " dtypes: {fp16: {max_ulp: '<= 2', providers: {exact: {torch: true}}}}}",
    )
    found = [(g.name, g.value, g.provider, g.dtype) for g in case.gates]
    assert found == [
        ("max_ulp", 1, "fast", "fp32"),
        ("deterministic", True, "fast", None),
        ("max_ulp", "<= 2", None, "fp16"),
        ("torch", True, "exact", "fp16"),
    ]


def test_a_matrix_reaches_inside_and_names_what_it_set(load):
    made = load(
        """\
schema: 1
cases:
  - name: m
    dtype: fp16
    matrix:
      shape: [[], [3], [2, 2]]
      kernel.rounding: [rne, rtz]
      layout.self: [contiguous, {sliced: 3}, {strides: [7]}]
    operator: false
""".replace("[[], [3], [2, 2]]", "[[3], [5]]")
    )
    assert list(made)[:3] == [
        "m[shape=3,rounding=rne,self=contiguous]",
        "m[shape=3,rounding=rne,self=sliced(3)]",
        "m[shape=3,rounding=rne,self=strides(7)]",
    ]
    last = made["m[shape=5,rounding=rtz,self=strides(7)]"]
    assert last.views["self"] == View((5,), (7,), 0, 29)
    assert last.options.rounding == "rtz"


def test_names_of_a_matrix_are_unique_whatever_its_values(load):
    long = "{normal: {mean: 1.0000000000000001, std: 3.000000000000001}}"
    made = load(
        f"""\
schema: 1
cases:
  - name: m
    shape: [2]
    dtype: fp32
    matrix:
      input.self: [normal, normal, {long}]
      kernel.seed: [1, 2]
      seed: [1, 2]
"""
    )
    assert len(made) == 12
    assert list(made)[-1] == "m[self=2,kernel.seed=2,seed=2]"


def test_all_cases_of_a_matrix_share_their_inputs_and_a_case_alone_has_them_too(load):
    text = "schema: 1\ncases:\n  - {name: m, dtype: fp32, shape: [50], matrix: {M}}\n"
    many = load(text.replace("{M}", "{kernel.rounding: [rne, rtz], kernel.block: [8, 16]}"))
    (alone,) = load(text.replace(", matrix: {M}", "")).values()
    expected = cases.tensors(alone).self.tobytes()
    assert {cases.tensors(case).self.tobytes() for case in many.values()} == {expected}


def test_numbers_patterns_and_words_of_explicit_values(load):
    case = one(
        load,
        dtype="fp16",
        shape="[8]",
        input="{self: {values: [1e0, 0x1.8p-3, inf, -inf, -0, -max, 0b0111110000000001,"
        " {bits: 0x7c02}]}, grad_output: {bits: [0x3c00, 0b1], repeat: true}}",
    )
    assert case.inputs["self"].spec == Explicit(
        (0x3C00, 0x3200, 0x7C00, 0xFC00, 0x8000, 0xFBFF, 0x7C01, 0x7C02)
    )
    assert case.inputs["grad_output"].spec == Explicit((0x3C00, 1), repeat=True)


def test_a_mixture_and_an_axis(load):
    case = one(
        load,
        input="{self: {mixture: [{weight: 3, normal: {std: 2}}, {specials: }], axis: 1}}",
    )
    source = case.inputs["self"]
    assert source.axis == 1
    assert source.spec == Mixture(
        ((3.0, Drawn("normal", (("std", 2.0),))), (1.0, Drawn("specials")))
    )


def test_single_tensors_differ_in_negative_cases(load):
    case = one(load, dtypes="{grad_input: fp16}", shapes="{self: [3, 2]}", expect="161002")
    phase = cases.first_phase(case)
    assert phase.status == 161002
    assert "gradInput is FLOAT16" in phase.message
    shapes = one(load, shapes="{self: [3, 2]}", expect="161002")
    assert "self has shape [3, 2]" in cases.first_phase(shapes).message


@pytest.mark.parametrize(
    "key", ["grad_output", "self", "buffer", "grad_input", "workspace_size", "executor"]
)
def test_each_argument_can_be_null(load, key):
    case = one(load, **{key: "null", "expect": "161001"})
    assert case.null == (key,)
    assert cases.first_phase(case).status == 161001


def test_a_buffer_that_differs_is_accepted_with_a_note(load):
    case = one(load, dtypes="{buffer: bf16}", shapes="{buffer: [7]}")
    phase = cases.first_phase(case)
    assert phase.status == 0
    assert len(phase.notes) == 2
    assert cases.tensors(case).buffer.shape == (7,)


def test_a_tensor_of_0_dimensions_goes_past_the_operator_where_asked(load):
    assert cases.first_phase(one(load, shape="[]")).status == 161002
    past = one(load, shape="[]", operator="false", input="{self: {values: [1]}}")
    assert cases.first_phase(past).status == 0
    assert cases.tensors(past).self.shape == ()


def test_several_files_are_one_list_and_names_are_unique_over_them(load, tmp_path):
    load(EXAMPLE)
    (tmp_path / "b.yaml").write_text("schema: 1\ncases: [{name: b, shape: [1], dtype: fp32}]\n")
    files = [tmp_path / "cases.yaml", str(tmp_path / "b.yaml")]
    assert [c.name for c in cases.load(files)][-2:] == ["null-buffer", "b"]
    with pytest.raises(CaseFileError, match=r"case name 'b' is taken at .*b\.yaml:2:16"):
        cases.load([*files, files[1]])


def test_a_folder_stands_for_its_files(load, tmp_path):
    load(EXAMPLE, "b.yaml")
    load("schema: 1\ncases: [{name: first, shape: [1], dtype: fp32}]\n", "a.yml")
    assert [c.name for c in cases.load(tmp_path)][:2] == [
        "first",
        "transposed[dtype=fp32,shape=64x48]",
    ]


def test_anchors_and_aliases_may_be_used(load):
    made = load(
        """\
schema: 1
defaults: {dtype: fp32, shape: &small [2]}
cases:
  - {name: a, input: &same {self: {constant: 1}}}
  - {name: b, input: *same, matrix: {shape: [*small, [3]]}}
"""
    )
    assert made["b[shape=3]"].inputs == made["a"].inputs


def test_the_starter_file_loads(load):
    made = load(STARTER)
    assert {case.family for case in made.values()} == {"plain", "strided", "pairs", "null-buffer"}


def test_the_shipped_files_load_together():
    made = cases.load(SHIPPED)
    assert len({case.name for case in made}) == len(made)
    for case in made:
        if case.expect is None and None not in case.views.values():
            assert cases.first_phase(case).status == 0, case.name
        elif case.expect is not None:
            assert cases.first_phase(case).status == case.expect, case.name


def test_the_examples_of_the_documentation_load(load):
    text = (Path(__file__).parent.parent / "docs" / "cases.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert all(load(block) for block in blocks)


def test_the_documentation_names_every_key_layout_and_distribution():
    text = (Path(__file__).parent.parent / "docs" / "cases.md").read_text()
    for name in [*KEYS, "matrix", *LAYOUTS, *DISTRIBUTIONS]:
        assert re.search(rf"[`{{]{name}\b", text), name
