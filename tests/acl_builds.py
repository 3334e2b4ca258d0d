"""The C interface built from its sources, whole or with a planted fault."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[1] / "kernels"
ACL = KERNELS / "acl"
INCLUDE = ACL / "include"
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]

needs_cpp = pytest.mark.skipif(not COMPILERS, reason="no g++ or clang++ on the path")
needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler cc on the path")

_FLAGS = ["-std=c11", "-g", "-fPIC", "-fvisibility=hidden", "-D_POSIX_C_SOURCE=200809L"]
_PLACES = [f"-I{KERNELS}", f"-I{ACL}", f"-I{INCLUDE}"]


def run(*words, **options):
    """A command that is to succeed; its output is shown where it does not."""
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


_ONE_SET = ["-DLS_ISA_plain", "-DLS_COMPUTE=ls_compute__plain", "-ffp-contract=off"]


def kernels(folder, *flags):
    """Compile the kernels, which no fault is planted in, for the least instruction set."""
    built = folder / "compute.o"
    run("cc", *_FLAGS, *flags, *_PLACES, *_ONE_SET, "-c", KERNELS / "compute.c", "-o", built)
    return built


def library(folder, *flags, compute=None, faults=None):
    """Build the library; ``faults`` maps a source to (old, new)."""
    sources = sorted(ACL.glob("*.c"))
    for name, (old, new) in (faults or {}).items():
        text = (ACL / name).read_text()
        assert old in text, f"{name} no longer has {old!r}"
        (folder / name).write_text(text.replace(old, new))
        sources = [folder / name if source.name == name else source for source in sources]
    built = folder / "liblsbench_acl.so"
    linked = [compute or kernels(folder, *flags), "-lm", "-pthread"]
    run("cc", *_FLAGS, *flags, *_PLACES, *_ONE_SET, "-shared", *sources, *linked, "-o", built)
    return built


def program(compiler, source, folder, *flags, include=INCLUDE, libraries=None):
    """Compile a C++ program and link it with a library in ``libraries`` (default: ``folder``)."""
    libraries = libraries or folder
    built = folder / source.stem
    run(compiler, *flags, f"-I{include}", source, "-o", built, f"-L{libraries}", "-llsbench_acl",
        f"-Wl,-rpath,{libraries}", "-pthread")  # fmt: skip
    return built
