"""The environment: facts from the system, planted control states, and no names of people."""

from __future__ import annotations

import ctypes
import getpass
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made import ENVIRONMENT

from lsbench import environment
from lsbench.codec import encode

LINUX = sys.platform == "linux"


@pytest.mark.skipif(not LINUX, reason="reads /proc and /sys")
def test_facts_agree_with_the_system():
    found = environment.collect()
    assert found.cores == len(os.sched_getaffinity(0))
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal"))
    assert 0 < found.memory <= total * 1.01
    assert found.python == f"{platform.python_implementation()} {platform.python_version()}"
    assert found.os.startswith("Linux ")


def test_nothing_names_the_host_or_the_user():
    text = repr(encode(environment.collect()))
    for name in (socket.gethostname(), getpass.getuser(), os.path.expanduser("~")):
        if len(name) > 4:
            assert name not in text


def test_caches_are_read_by_level_and_type(tmp_path):
    rows = [
        ("1", "Data", "32K"),
        ("1", "Instruction", "64K"),
        ("2", "Unified", "1M"),
        ("3", "Unified", "odd"),
    ]
    for i, row in enumerate(rows):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), row, strict=True):
            (folder / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    expected = {"L1d": 32 << 10, "L1i": 64 << 10, "L2": 1 << 20, "L3": 0}
    if LINUX:
        assert environment.caches(tmp_path) == expected


@pytest.mark.skipif(
    not (LINUX and platform.machine() == "x86_64"), reason="sets MXCSR through glibc's fenv_t"
)
@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0x0000, "rounding to nearest, FTZ off, DAZ off"),
        (0x8000, "rounding to nearest, FTZ on, DAZ off"),
        (0x0040, "rounding to nearest, FTZ off, DAZ on"),
        (0x8040, "rounding to nearest, FTZ on, DAZ on"),
        (0x2000, "rounding down, FTZ off, DAZ off"),
        (0x4000, "rounding up, FTZ off, DAZ off"),
        (0x6000, "rounding toward zero, FTZ off, DAZ off"),
    ],
)
def test_a_planted_control_state_is_seen(bits, said):
    libm = ctypes.CDLL("libm.so.6")
    saved, changed = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    # fenv_t of glibc on x86-64: seven words of the x87, then MXCSR.
    words = (ctypes.c_uint32 * 8).from_buffer(changed)
    words[:] = (ctypes.c_uint32 * 8).from_buffer_copy(saved)
    words[7] = words[7] & ~0xE040 | bits
    libm.fesetenv(changed)
    try:
        found = environment.fp_control()
    finally:
        libm.fesetenv(saved)
    assert found == said


@pytest.fixture
def repository(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True
        )

    (tmp_path / "a.yaml").write_text("schema: 1\n")
    git("init", "-q")
    git("add", "a.yaml")
    git("commit", "-q", "-m", "first")
    return tmp_path


def test_the_commit_is_that_of_the_cases_and_says_so(repository):
    head = subprocess.run(
        ["git", "-C", repository, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert environment.git_commit([repository / "a.yaml"]) == f"cases {head}"
    (repository / "a.yaml").write_text("schema: 2\n")
    assert environment.git_commit([repository / "a.yaml"]) == f"cases {head} modified"


def test_outside_a_repository_the_commit_is_lsbench_s_or_none(tmp_path):
    found = environment.git_commit([tmp_path / "a.yaml"])
    assert found == "" or found.startswith("lsbench ")


def test_a_missing_git_is_no_error(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert environment.git_commit([repository / "a.yaml"]) == ""


def test_differences_are_told_one_by_one():
    other = replace(
        ENVIRONMENT,
        cpu="Other CPU",
        compiler="clang 17",
        libraries={"numpy": "2.2.0", "torch": "2.13"},
        caches={},
    )
    assert environment.differences(ENVIRONMENT, ENVIRONMENT) == ()
    assert environment.differences(ENVIRONMENT, other) == (
        "processor: Some CPU → Other CPU",
        "caches: L1d 32 KiB, L2 1024 KiB → unknown",
        "compiler: gcc 13.2.0 → clang 17",
        "numpy: 2.1.0 → 2.2.0",
        "torch: none → 2.13",
    )


def test_the_same_machine_may_have_another_compiler_but_no_other_processor():
    assert environment.same_machine(ENVIRONMENT, replace(ENVIRONMENT, compiler="x", os="y"))
    assert not environment.same_machine(ENVIRONMENT, replace(ENVIRONMENT, cores=64))
    assert not environment.same_machine(ENVIRONMENT, replace(ENVIRONMENT, cpu="Other CPU"))
