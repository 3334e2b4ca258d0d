"""Each layer imports only from layers above it; the whole package is covered by the table."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lsbench

ROOT = Path(lsbench.__file__).parent

LAYERS = {
    "numbers": "errors formats rounding exact",
    "tensors": "views layouts captured dumps distributions inputs",
    "operator": "operator",
    "records": "records codec output",
    "compiled": "_kernels _acl",
    "providers": "providers",
    "measures": "binades tally reference arb certified accuracy determinism throughput rotation"
    " statistics standards figures gates",
    "cases": "cases",
    "run": "load builds bench suite environment results verdicts row runner selection pace compare"
    " baseline inject settle exits spaces plan shards cluster parts sweep explain steps worst"
    " exchange check",
    "faces": "report cli __main__ __init__",
}
ORDER = {module: i for i, names in enumerate(LAYERS.values()) for module in names.split()}


def layer(module: str) -> int:
    """The layer of a dotted module name inside the package."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else "__init__"
    return ORDER[name]


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, at any depth of it; type-only imports aside."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "lsbench":
                found |= {f"lsbench.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "lsbench"}


FILES = sorted(path for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_layer_and_those_above(path):
    relative = path.relative_to(ROOT).with_suffix("")
    module = ".".join(("lsbench", *relative.parts)).removesuffix(".__init__")
    mine = layer(module)
    for name in imports(path) - {"lsbench"}:
        if name.removeprefix("lsbench.") in ("__version__", "load_cases", "log_sigmoid_backward"):
            continue
        assert layer(name) <= mine, f"{module} imports {name}, which is below it"


def test_a_wrong_import_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def late():\n    from lsbench.report import console\n")
    assert {layer(name) for name in imports(wrong)} == {ORDER["report"]}
    assert ORDER["report"] > ORDER["formats"]


def test_every_module_has_a_layer():
    tops = {p.stem if p.suffix else p.name for p in ROOT.iterdir() if p.suffix in (".py", "")}
    assert tops - {"__pycache__"} <= set(ORDER)


def test_modules_stay_small():
    large = {p.name: n for p in FILES if (n := len(p.read_text().splitlines())) > 450}
    assert not large
