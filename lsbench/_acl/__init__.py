"""Where the operator's C interface lies: headers, library, an example program.

The build puts them beside this file; nothing here is imported by Python but these paths.
"""

from __future__ import annotations

from pathlib import Path

from lsbench.errors import BuildError

FOLDER = Path(__file__).parent
INCLUDE = FOLDER / "include"
"""Holds acl/acl.h and aclnnop/aclnn_logsigmoid_backward.h."""
EXAMPLE = FOLDER / "example.cpp"
"""A program that uses strided, fp16 and bf16 tensors."""
LIB = FOLDER / "lib"
"""Holds the shared library."""
NAME = "lsbench_acl"
"""The library's name, as a linker's -l takes it."""


def library() -> Path:
    """The shared library; raises BuildError where the build left none."""
    for suffix in ("so", "dylib"):
        path = LIB / f"lib{NAME}.{suffix}"
        if path.exists():
            return path
    raise BuildError(
        f"the C interface is not in {LIB}: expected an installed lsbench; run `make build`"
    )
