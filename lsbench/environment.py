"""Where a run happened: processor, memory, system, compiler, libraries; no name of a host or user.

Facts come from the system itself: ``/proc`` and ``/sys`` on Linux, ``sysctl`` on macOS.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from lsbench import __version__
from lsbench.errors import LsbenchError
from lsbench.records import Environment

LIBRARIES = (
    "numpy",
    "mpmath",
    "gmpy2",
    "python-flint",
    "ml_dtypes",
    "scipy",
    "torch",
    "jax",
    "jaxlib",
    "onnxruntime",
    "onnx",
    "tensorflow",
    "tensorflow-cpu",
)
"""Distributions whose versions can change a figure; those that are installed are recorded."""

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def collect() -> Environment:
    """The environment as it is now; what the system does not tell is empty or 0."""
    isa, compiler, flags = build()
    return Environment(
        cpu=cpu(),
        caches=caches(),
        cores=cores(),
        memory=memory(),
        os=system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        isa=isa,
        compiler=compiler,
        flags=flags,
        libraries=libraries(),
        fp_control=fp_control(),
    )


@cache
def cpu() -> str:
    """The processor's name, as the system knows it."""
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return _from_cpuinfo() or _from_lscpu() or platform.processor() or platform.machine()


def _from_cpuinfo() -> str:
    try:
        text = _CPUINFO.read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _from_lscpu() -> str:
    # On ARM /proc/cpuinfo has numbers only; lscpu knows their names.
    try:
        table = json.loads(_output("lscpu", "-J") or "{}").get("lscpu", [])
        return str(next(row["data"] for row in table if row["field"] == "Model name:"))
    except (ValueError, KeyError, StopIteration, AttributeError):
        return ""


@cache
def caches(folder: Path = _CACHES) -> dict[str, int]:
    """Bytes of the first core's caches by name: L1d, L1i, L2, L3."""
    if sys.platform == "darwin":
        keys = {"L1d": "hw.l1dcachesize", "L1i": "hw.l1icachesize", "L2": "hw.l2cachesize"}
        sizes = {name: _output("sysctl", "-n", key).strip() for name, key in keys.items()}
        return {name: int(size) for name, size in sizes.items() if size.isdigit()}
    found = {}
    for entry in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (entry / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        found[f"L{level}{suffix}"] = _bytes(size)
    return found


def last_level_cache() -> int:
    """Bytes of the largest cache; 0 where the system does not tell."""
    return max(caches().values(), default=0)


def _bytes(size: str) -> int:
    unit = _UNITS.get(size[-1:], 1)
    digits = size.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory that this process may use; 0 where the system does not tell."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        limit = _CGROUP.read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def system() -> str:
    """Operating system, version and machine; version numbers only, for builds are named freely."""
    version = re.match(r"[\d.]*\d", platform.release())
    words = [platform.system(), version[0] if version else "", platform.machine()]
    libc = " ".join(platform.libc_ver())
    return " ".join(filter(None, words)) + (f", {libc}" if libc.strip() else "")


def build() -> tuple[str, str, str]:
    """Instruction set in use, compiler and flags of the compiled part; empty without it."""
    try:
        from lsbench import _kernels

        isa = _kernels.selected()
        compiler, flags = _kernels.flags_of(isa)
    except (ImportError, LsbenchError):
        return "", "", ""
    return isa, compiler, flags


@cache
def package_digest() -> str:
    """What tells one build of lsbench from another: its version, and a digest of all its code."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".so", ".pyd"):
            digest.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return f"{__version__}, sha256 {digest.hexdigest()[:12]}"


def libraries() -> dict[str, str]:
    """Version by name of the installed :data:`LIBRARIES`."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def fp_control() -> str:
    """The floating-point control state of this thread: rounding direction, FTZ and DAZ.

    Found by arithmetic, so that it holds on every machine and for whatever register is behind it:
    on x86-64 this is MXCSR, on ARM FPCR.
    """
    tiny, normal = np.array([2.0**-126, 0.5], np.float32)[:, None]
    ftz = not (tiny * normal).view(np.uint32)[0]
    subnormal, large = np.array([1, 0x71800000], np.uint32).view(np.float32)[:, None]
    daz = not (subnormal * large).view(np.uint32)[0]
    states = [f"{name} {'on' if on else 'off'}" for name, on in (("FTZ", ftz), ("DAZ", daz))]
    return ", ".join([f"rounding {_direction()}", *states])


def _direction() -> str:
    one, little, most = np.array([1.0, 2.0**-60, 0.75 * 2.0**-52])[:, None]
    if (one + little)[0] > 1:
        return "up"
    if (-one - little)[0] < -1:
        return "down"
    return "to nearest" if (one + most)[0] > 1 else "toward zero"


def git_commit(paths: Sequence[str | Path] = ()) -> str:
    """The commit of the repository that holds the cases, or else of lsbench's own source.

    Says which, and whether files differ from it: ``cases 0123abc...``, ``lsbench 0123abc...
    modified``; empty where there is no repository.
    """
    for path in paths:
        found = _commit(Path(path).absolute().parent)
        if found:
            return f"cases {found}"
    own = Path(__file__).absolute()
    # An installed package lies in somebody else's repository: only a tracked file counts.
    tracked = _git(own.parent, "ls-files", "--error-unmatch", own.name)
    return f"lsbench {_commit(own.parent)}" if tracked else ""


def _commit(folder: Path) -> str:
    head = _git(folder, "rev-parse", "--verify", "HEAD").strip()
    if not head:
        return ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{head} modified" if changed.strip() else head


def _git(folder: Path, *arguments: str) -> str:
    # A repository's own configuration may name programs to run: its file monitor is left out.
    return _output("git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments)


def _output(*command: str) -> str:
    """What a command prints; empty where it fails or is missing."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=True, text=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout


def differences(before: Environment, after: Environment) -> tuple[str, ...]:
    """What differs between two environments, one line each, in the order of the record."""
    lines = []
    for name, said in _COMPARED.items():
        a, b = getattr(before, name), getattr(after, name)
        if a != b:
            lines.append(f"{said}: {_brief(a)} → {_brief(b)}")
    names = dict.fromkeys([*before.libraries, *after.libraries])
    for name in names:
        a, b = (e.libraries.get(name, "none") for e in (before, after))
        if a != b:
            lines.append(f"{name}: {a} → {b}")
    return tuple(lines)


_COMPARED = {
    "cpu": "processor",
    "caches": "caches",
    "cores": "cores",
    "memory": "memory",
    "os": "system",
    "python": "Python",
    "isa": "instruction set",
    "compiler": "compiler",
    "flags": "compiler flags",
    "fp_control": "floating-point control",
}


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v >> 10} KiB" for k, v in value.items()) or "unknown"
    return str(value) if value not in ("", 0) else "unknown"


def same_machine(before: Environment, after: Environment) -> bool:
    """Whether times of the two may be compared as they are: same processor, caches and cores."""
    names = ("cpu", "caches", "cores")
    return all(getattr(before, name) == getattr(after, name) for name in names)
