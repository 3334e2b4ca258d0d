"""The jobs of docs/ci.md: every command is one that lsbench takes, and the shell script runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from lsbench import baseline
from lsbench.cli import group

PAGE = (Path(__file__).parent.parent / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SCRIPT = next(text for kind, text in BLOCKS if text.startswith("#!/bin/sh"))

CASES = """
schema: 1
defaults: {seed: 3, providers: [exact], throughput: false, gates: {max_ulp: 0.5}}
cases:
  - name: tiny
    shape: [64]
    matrix: {dtype: [fp32, bf16]}
    input: {self: normal, grad_output: normal}
"""


def commands():
    """Every lsbench command line of the page, continuation lines joined."""
    found = []
    for kind, text in BLOCKS:
        if kind == "yaml":
            for line in _scripts(yaml.safe_load(text)):
                found += [line] if line.startswith("lsbench ") else []
        else:
            joined = text.replace("\\\n", " ")
            found += re.findall(r"^\s*(lsbench .*)$", joined, re.MULTILINE)
    return found


def _scripts(node):
    if isinstance(node, dict):
        for value in node.values():
            yield from _scripts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _scripts(value)
    elif isinstance(node, str):
        yield node.strip()


def test_the_page_has_a_job_for_each_place():
    assert {kind for kind, _ in BLOCKS} == {"yaml", "sh"}
    assert len(commands()) >= 7


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_page_is_one_that_lsbench_takes(line):
    words = shlex.split(line.split("||")[0], comments=True)[1:]
    words = [word for word in words if word != "$@"]
    context = click.Context(group)
    command = group.get_command(context, words[0])
    assert command is not None
    rest = words[1:]
    if isinstance(command, click.Group):
        command = command.commands[rest[0]]
        rest = rest[1:]
    command.make_context("lsbench", rest, parent=context)


def shell(folder, command):
    """Run a command in a folder that has lsbench in its bin/."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A repository in miniature: cases, an approved baseline, the script, lsbench on the path."""
    if shutil.which("sh") is None:
        pytest.skip("there is no shell")
    folder = tmp_path_factory.mktemp("project")
    (folder / "cases").mkdir()
    (folder / "cases" / "ci.yaml").write_text(CASES)
    (folder / "ci.sh").write_text(SCRIPT)
    tool = folder / "bin" / "lsbench"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lsbench "$@"\n')
    tool.chmod(0o755)
    made = shell(
        folder,
        "lsbench run cases/ci.yaml --output build/new.json"
        " && lsbench baseline update results/baseline.json build/new.json",
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def project(recorded, tmp_path):
    """A copy of it, and a way to run commands there."""
    folder = tmp_path / "project"
    shutil.copytree(recorded, folder)
    return folder, lambda command: shell(folder, command)


def test_the_shell_script_passes_and_fails_as_the_code_does(project):
    folder, sh = project
    good = sh("sh ci.sh")
    assert good.returncode == 0, good.stderr
    assert good.stderr.splitlines()[-1].startswith("lsbench: passed: ")
    assert (folder / "report" / "junit.xml").exists()
    assert json.loads((folder / "report" / "results.json").read_text())["exit_code"] == 0

    bad = sh("sh ci.sh --inject-ulp 1")
    assert bad.returncode == 1
    assert "max_ulp" in bad.stdout
    assert "FAILED" in (folder / "report" / "comment.md").read_text()

    (folder / "results" / "baseline.json").unlink()
    missing = sh("sh ci.sh")
    assert missing.returncode == 4
    assert "no baseline results/baseline.json" in missing.stderr


def test_changed_inputs_are_not_comparable_and_an_update_mends_that(project):
    folder, sh = project
    (folder / "cases" / "ci.yaml").write_text(CASES.replace("seed: 3", "seed: 4"))
    assert sh("sh ci.sh").returncode == 4
    again = sh("lsbench baseline update results/baseline.json")
    assert again.returncode == 0, again.stderr
    assert "not compared, the inputs changed" in again.stdout
    kept = baseline.load(folder / "results" / "baseline.json").run.rows
    assert {row.seed for row in kept} == {4}
