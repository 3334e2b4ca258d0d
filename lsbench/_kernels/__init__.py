"""The compiled kernels: one module per instruction set, probed before it is imported.

Importing a module that the processor cannot run ends in SIGILL, not in ImportError, so that the
processor is asked first. LSBENCH_ISA forces one instruction set.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from lsbench.errors import BuildError

BASELINE, PLAIN = "x86_64", "plain"

_V3 = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

NEEDS: dict[str, frozenset[str]] = {
    "x86_64_v4": _V4,
    "x86_64_v3": _V3,
    BASELINE: frozenset(),
    PLAIN: frozenset(),
}
"""Instruction sets, best first, and the processor flags that each needs, as Linux names them.

Linux lists a flag only where the system also saves the registers that go with it.
"""

_CPUINFO = Path("/proc/cpuinfo")


def processor_flags() -> frozenset[str] | None:
    """The flags of the processor, or None where the system does not tell."""
    try:
        with _CPUINFO.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return None


def available() -> dict[str, str | None]:
    """Every instruction set, best first → None, or why it cannot be used here."""
    build = _build_record()
    flags = processor_flags()
    return {isa: _obstacle(isa, build, flags) for isa in NEEDS}


def _obstacle(isa: str, build: ModuleType, flags: frozenset[str] | None) -> str | None:
    if isa in build.MISSING:
        return str(build.MISSING[isa])
    if isa not in build.FLAGS:
        return f"not built for {platform.machine()}"
    if not NEEDS[isa]:
        return None
    if flags is None:
        return f"this system does not list its processor's flags ({_CPUINFO})"
    lacking = sorted(NEEDS[isa] - flags)
    return f"the processor lacks {', '.join(lacking)}" if lacking else None


def _build_record() -> ModuleType:
    try:
        return import_module("lsbench._kernels._build")
    except ModuleNotFoundError:
        raise BuildError(
            f"the compiled kernels are not beside {__file__}: expected an installed lsbench; "
            "run `make build`, or `pip install .` in the source tree and leave it"
        ) from None


def flags_of(isa: str) -> tuple[str, str]:
    """(compiler, flags) that an instruction set's module was built with."""
    build = _build_record()
    return build.COMPILER, build.FLAGS[isa]


@cache
def selected() -> str:
    """The instruction set in use: LSBENCH_ISA, or the best that runs here.

    Raises BuildError where LSBENCH_ISA names one that is unknown or cannot be used.
    """
    choice = available()
    forced = os.environ.get("LSBENCH_ISA", "")
    if not forced:
        return next(isa for isa, obstacle in choice.items() if obstacle is None)
    _check(forced, choice, "LSBENCH_ISA=")
    return forced


def _check(isa: str, choice: dict[str, str | None], where: str = "instruction set ") -> None:
    usable = ", ".join(name for name, obstacle in choice.items() if obstacle is None)
    if isa not in choice:
        raise BuildError(f"{where}{isa}: unknown instruction set; usable here: {usable}")
    if choice[isa] is not None:
        raise BuildError(f"{where}{isa}: {choice[isa]}; usable here: {usable}")


def load(isa: str | None = None) -> ModuleType:
    """The module of an instruction set (default: :func:`selected`).

    Raises BuildError for one that is unknown, not built, or not of this processor.
    """
    if isa is None:
        isa = selected()
    else:
        _check(isa, available())
    return import_module(f"lsbench._kernels.blocks__{isa}")
