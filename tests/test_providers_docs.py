"""docs/providers.md: its provider is installed as a package would be; what it says holds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from calls import computed, drawn, worst_ulp
from click.testing import CliRunner

from lsbench import results
from lsbench.cli import group
from lsbench.errors import UsageError
from lsbench.formats import BF16, FP32
from lsbench.providers import registry

PAGE = Path(__file__).parent.parent / "docs" / "providers.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == language]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's provider in a folder of installed packages."""
    provider = next(text for text in blocks("python") if "TanhProvider" in text)
    (point,) = re.findall(r"^(\w+) = \"(.*)\"$", blocks("toml")[0], re.MULTILINE)
    (tmp_path / "my_provider.py").write_text(provider)
    metadata = tmp_path / "my_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-provider\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[lsbench.providers]\n{point[0]} = {point[1]}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_provider", None)


def test_the_pages_provider_is_found_by_its_entry_point(installed):
    provider = registry.resolve("tanh")
    assert "tanh" in registry.names()
    made = drawn(FP32)
    computed(provider, made)
    assert worst_ulp(made) < 1000
    assert provider.refuse(drawn(BF16)) == "has no bf16"


def test_without_the_package_the_name_is_unknown():
    with pytest.raises(UsageError, match="unknown provider 'tanh'"):
        registry.resolve("tanh")


def test_the_pages_provider_is_judged_as_the_page_says(installed, tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(
        "schema: 1\n"
        "defaults: {throughput: false, providers: [tanh]}\n"
        "cases:\n"
        "  - name: near\n"
        "    matrix: {dtype: [fp32, bf16]}\n"
        "    shape: [100]\n"
        "    input: {self: {uniform: {low: -1, high: 1}}}\n"
        "  - name: far\n"
        "    dtype: fp32\n"
        "    shape: [2]\n"
        "    input: {self: {values: [1, 25]}, grad_output: {constant: 1}}\n"
    )
    words = ["run", str(path), "-q", "--output", str(tmp_path / "r.json")]
    CliRunner().invoke(group, words, standalone_mode=False)
    rows = {(r.case, r.dtype): r for r in results.load(tmp_path / "r.json").rows}
    assert rows["near[dtype=bf16]", "bf16"].verdicts == ("unsupported",)
    assert rows["near[dtype=bf16]", "bf16"].reason == "has no bf16"
    assert "spurious_zero" in rows["far", "fp32"].verdicts


def test_the_pages_function_runs(tmp_path):
    text = next(text for text in blocks("python") if "def backward" in text)
    (tmp_path / "mine.py").write_text(text)
    made = drawn(FP32)
    computed(registry.resolve(f"python:{tmp_path}/mine.py:backward"), made)
    assert worst_ulp(made) < 5


def test_the_table_names_every_builtin_provider():
    named = set(re.findall(r"`([\w+-]+:?)(?:\.\.\.)?`", PAGE.read_text()))
    plain = {name for name in registry.BUILTIN if not name.endswith(":")}
    assert plain <= named
    prefixes = {name for name in registry.BUILTIN if name.startswith(("python", "command"))}
    assert prefixes <= named | {"python:", "command:"}


def test_the_pages_commands_are_those_of_the_command_line():
    for text in blocks("sh"):
        for line in text.splitlines():
            line = line.split("#")[0].strip()
            if not line.startswith("lsbench "):
                continue
            _, name, *rest = re.findall(r"'[^']*'|\S+", line)
            command = group.get_command(None, name)
            known = {option for param in command.params for option in param.opts}
            known |= {option for param in command.params for option in param.secondary_opts}
            assert {word for word in rest if word.startswith("-")} <= known, line
