"""The command line's border: help without imports, one line per error, the right exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lsbench.cli import COMMANDS, main


def run(*arguments, **options):
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lsbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_help_names_every_command_and_loads_no_numpy():
    code = (
        "import sys\nfrom lsbench.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'mpmath', 'pydantic', 'rich', 'yaml') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert all(name in shown.stdout for name in COMMANDS)
    assert shown.stdout.endswith("[]\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits_80_columns(name):
    shown = run(name, "--help", env={"COLUMNS": "80", "PATH": ""})
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_a_mistyped_command_gets_the_nearest_name(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["runn"])
    assert stop.value.code == 2
    assert "did you mean 'run'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "no-such-file.yaml"],
        ["run", "--dtype", "fp8", "x.yaml"],
        ["run", "x.yaml", "--threads", "0"],
        ["list", "nonsense"],
    ],
)
def test_usage_errors_exit_2_without_a_traceback(arguments, tmp_path):
    shown = run(*arguments, cwd=tmp_path)
    assert shown.returncode == 2
    assert shown.stderr
    assert "Traceback" not in shown.stderr
    assert not list(tmp_path.iterdir())


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m lsbench list figures | true"
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert shown.stderr == ""


CASE = """
schema: 1
cases:
  - name: two-of-them
    shape: [500]
    dtype: fp16
    providers: [textbook]
    gates: {cann-ratio: true}
"""


def test_a_second_implementation_gives_the_ratio_standard_and_its_command_repeats(tmp_path):
    (tmp_path / "a.yaml").write_text(CASE)
    shown = run("run", "a.yaml", "--no-throughput", "--second", "exact", cwd=tmp_path)
    command = next(line for line in shown.stdout.splitlines() if "lsbench run" in line)
    assert command.strip().endswith("--provider textbook --second exact")
    assert "gate cann-ratio" in shown.stdout or shown.returncode == 0
    alone = run("run", "a.yaml", "--no-throughput", cwd=tmp_path)
    assert alone.returncode == 1
    assert "not exercised" in alone.stdout + alone.stderr
    unknown = run("run", "a.yaml", "--second", "exakt", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "did you mean 'exact'" in unknown.stderr
